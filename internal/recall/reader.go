package recall

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// reader reads with the rights of a person. What they may not read is noted, and looks as if it were not there. A
// Secret is never asked for.
type reader struct {
	client.Reader

	lock   sync.Mutex
	kinds  []string
	unread []string
}

// Get reads one object.
func (r *reader) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	kind := kindOf(into)
	if _, secret := into.(*corev1.Secret); secret {
		return missing(kind, key.Name)
	}
	err := r.Reader.Get(ctx, key, into, options...)
	if !apierrors.IsForbidden(err) {
		return err
	}
	r.forbid(kind)
	switch into.(type) {
	case *corev1.Node, *storagev1.StorageClass:
		// The operator itself can do without.
		return err
	}
	return missing(kind, key.Name)
}

// List reads several objects.
func (r *reader) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	err := r.Reader.List(ctx, into, options...)
	if !apierrors.IsForbidden(err) {
		return err
	}
	r.forbid(strings.TrimSuffix(kindOf(into), "List"))
	if _, classes := into.(*storagev1.StorageClassList); classes {
		return err
	}
	return nil
}

func missing(kind, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: kind}, name)
}

// kindOf is the name of the type, which is that of the kind.
func kindOf(object runtime.Object) string { return reflect.TypeOf(object).Elem().Name() }

func (r *reader) forbid(kind string) {
	r.lock.Lock()
	known := slices.Contains(r.kinds, kind)
	r.kinds = append(r.kinds, kind)
	r.lock.Unlock()
	if !known {
		r.note("objects of the kind " + kind + ": you may not read them")
	}
}

func (r *reader) note(sentence string) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if !slices.Contains(r.unread, sentence) {
		r.unread = append(r.unread, sentence)
	}
}

// blind says that objects of a kind could not be read.
func (r *reader) blind(kind string) bool {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Contains(r.kinds, kind)
}

// list is what could not be read, sorted: agents are asked at the same time.
func (r *reader) list() []string {
	r.lock.Lock()
	defer r.lock.Unlock()
	return slices.Sorted(slices.Values(r.unread))
}
