package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// server is as much of an API server as the package meets: names, versions, UIDs, JSON patches, preconditions,
// defaulting, admission and validation. A write that changes nothing makes no new version.
type server struct {
	client.Client // nil: any other call is a mistake of the package.

	objects map[string]client.Object
	version int
	// admit is defaulting and webhooks, validate may refuse. Both may be nil.
	admit    func(obj client.Object)
	validate func(before, after client.Object) error
	// encode edits the JSON of an object before a patch is applied to it, nil for no edit.
	encode func(document map[string]any)
	// fail is asked before each write, lose after it: an error of lose is what a caller sees of a write that was done.
	fail, lose func(verb string) error
	// writes are the requests that reached validation; managers are their field managers.
	writes   []string
	managers []string
}

func newServer() *server { return &server{objects: map[string]client.Object{}, version: 100} }

var things = schema.GroupResource{Resource: "things"}

func keyIn(obj client.Object, key client.ObjectKey) string {
	kind, err := apiutil.GVKForObject(obj, scheme.Scheme)
	if err != nil {
		panic(err)
	}
	return kind.Kind + " " + key.String()
}

func (s *server) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	found, ok := s.objects[keyIn(into, key)]
	if !ok {
		return apierrors.NewNotFound(things, key.Name)
	}
	fill(into, found)
	return nil
}

func (s *server) Create(_ context.Context, obj client.Object, opts ...client.CreateOption) error {
	options := (&client.CreateOptions{}).ApplyOptions(opts)
	s.managers = append(s.managers, options.FieldManager)
	if s.fail != nil {
		if err := s.fail("create"); err != nil {
			return err
		}
	}
	key := keyIn(obj, client.ObjectKeyFromObject(obj))
	if _, ok := s.objects[key]; ok {
		return apierrors.NewAlreadyExists(things, obj.GetName())
	}
	if obj.GetResourceVersion() != "" || obj.GetUID() != "" {
		return errors.New("resourceVersion and uid should not be set on objects to be created")
	}
	obj.SetUID(types.UID(fmt.Sprint("uid-", s.version+1)))
	s.store(obj, nil)
	return s.after("create", key)
}

func (s *server) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	options := (&client.PatchOptions{}).ApplyOptions(opts)
	s.managers = append(s.managers, options.FieldManager)
	if s.fail != nil {
		if err := s.fail("patch"); err != nil {
			return err
		}
	}
	key := keyIn(obj, client.ObjectKeyFromObject(obj))
	before, ok := s.objects[key]
	if !ok {
		return apierrors.NewNotFound(things, obj.GetName())
	}
	after, err := s.patched(before, patch)
	if err != nil {
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", things, "", err.Error(), 0, false)
	}
	if s.validate != nil {
		if err := s.validate(before, after); err != nil {
			return err
		}
	}
	s.store(after, before)
	fill(obj, s.objects[key])
	return s.after("patch", key)
}

func (s *server) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	if s.fail != nil {
		if err := s.fail("delete"); err != nil {
			return err
		}
	}
	key := keyIn(obj, client.ObjectKeyFromObject(obj))
	found, ok := s.objects[key]
	if !ok {
		return apierrors.NewNotFound(things, obj.GetName())
	}
	if options.Preconditions == nil || options.Preconditions.UID == nil || options.Preconditions.ResourceVersion == nil {
		return errors.New("a delete without preconditions")
	}
	if *options.Preconditions.UID != found.GetUID() ||
		*options.Preconditions.ResourceVersion != found.GetResourceVersion() {
		return apierrors.NewConflict(things, obj.GetName(), errors.New("the precondition does not hold"))
	}
	delete(s.objects, key)
	return s.after("delete", key)
}

func (s *server) after(verb, key string) error {
	s.writes = append(s.writes, verb+" "+key)
	if s.lose != nil {
		return s.lose(verb)
	}
	return nil
}

// store admits the object and keeps it. Its caller sees the result, as the caller of an API server does.
func (s *server) store(obj, before client.Object) {
	if s.admit != nil {
		s.admit(obj)
	}
	if before != nil && equality.Semantic.DeepEqual(before, obj) {
		return
	}
	s.version++
	obj.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[keyIn(obj, client.ObjectKeyFromObject(obj))] = obj.DeepCopyObject().(client.Object)
}

// edit is a write by somebody else.
func edit[T client.Object](t *testing.T, s *server, like T, change func(T)) {
	t.Helper()
	key := keyIn(like, client.ObjectKeyFromObject(like))
	found, ok := s.objects[key]
	if !ok {
		t.Fatalf("there is no %s to edit", key)
	}
	after := found.DeepCopyObject().(T)
	change(after)
	s.store(after, found)
}

func (s *server) patched(before client.Object, patch client.Patch) (client.Object, error) {
	if patch.Type() != types.JSONPatchType {
		return nil, fmt.Errorf("unexpected patch type %s", patch.Type())
	}
	operations, err := patch.Data(before)
	if err != nil {
		return nil, err
	}
	decoded, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return nil, err
	}
	document, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	if s.encode != nil {
		var fields map[string]any
		if err := json.Unmarshal(document, &fields); err != nil {
			return nil, err
		}
		s.encode(fields)
		if document, err = json.Marshal(fields); err != nil {
			return nil, err
		}
	}
	result, err := decoded.Apply(document)
	if err != nil {
		return nil, err
	}
	after := reflect.New(reflect.TypeOf(before).Elem()).Interface().(client.Object)
	return after, json.Unmarshal(result, after)
}

// fill does what a client does with a response.
func fill(into, from client.Object) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
}

// ledger is a recorder that a test reads.
type ledger []string

func (l *ledger) Wrote(obj client.Object) {
	*l = append(*l, fmt.Sprintf("wrote %s at %s", obj.GetName(), obj.GetResourceVersion()))
}

func (l *ledger) Deleted(obj client.Object) {
	*l = append(*l, fmt.Sprintf("deleted %s %s at %s", obj.GetName(), obj.GetUID(), obj.GetResourceVersion()))
}

func (l *ledger) Doubt(why string) { *l = append(*l, "doubt: "+why) }

func controlledBy(name, uid string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{
		APIVersion: "example.com/v1", Kind: "Fleet", Name: name, UID: types.UID(uid), Controller: &yes,
	}}
}
