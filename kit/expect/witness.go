package expect

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Witness is a reader that remembers which version of which object was read through it. Put one around the live reader
// of a pass that was told to ReadLive, and hand what it Saw to Tracker.Confirm. It is safe for concurrent use.
type Witness struct {
	reader client.Reader
	scheme *runtime.Scheme

	mu   sync.Mutex
	seen []client.Object
}

var _ client.Reader = (*Witness)(nil)

// NewWitness returns a Witness of reads through reader.
func NewWitness(reader client.Reader, scheme *runtime.Scheme) *Witness {
	return &Witness{reader: reader, scheme: scheme}
}

// Saw returns the identity and version of each object that was read, as metadata.
func (w *Witness) Saw() []client.Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]client.Object(nil), w.seen...)
}

// Get implements client.Reader.
func (w *Witness) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := w.reader.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	return w.note(obj)
}

// List implements client.Reader.
func (w *Witness) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := w.reader.List(ctx, list, opts...); err != nil {
		return err
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("note a listed %T: it is not an object", item)
		}
		return w.note(obj)
	})
}

func (w *Witness) note(obj client.Object) error {
	kind, err := apiutil.GVKForObject(obj, w.scheme)
	if err != nil {
		return fmt.Errorf("find the kind of %T: %w", obj, err)
	}
	seen := &metav1.PartialObjectMetadata{}
	seen.SetGroupVersionKind(kind)
	seen.SetNamespace(obj.GetNamespace())
	seen.SetName(obj.GetName())
	seen.SetUID(obj.GetUID())
	seen.SetResourceVersion(obj.GetResourceVersion())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, seen)
	return nil
}
