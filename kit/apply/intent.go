package apply

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// recordVersion is the version of the canonical form and of the annotation. Raising it costs one metadata write
// per child, so it is raised only when the form changes.
const recordVersion = 1

// Author is the name under which children are written. One controller has one, for good: another prefix would
// not recognise the children of before.
type Author struct {
	// Scheme names the kinds of typed objects.
	Scheme *runtime.Scheme
	// Prefix is the domain of the annotations, "example.com" for "example.com/intent".
	Prefix string
	// Manager is the field manager of all writes, as shown in managedFields.
	Manager string
	// Memo spares work that was done before. It may be nil.
	Memo *Memo
}

// Intent is what one child should be. It is immutable, and may be kept as long as the specification that it was
// rendered from does not change.
type Intent struct {
	kind    schema.GroupVersionKind
	key     types.NamespacedName
	owner   types.UID
	author  Author
	tree    map[string]any
	record  record
	encoded string
	object  client.Object
	memo    *rendered // nil if it is not remembered
}

// record is the content of the annotation.
type record struct {
	Version int     `json:"v"`
	Hash    string  `json:"sha256"`
	Fields  *fields `json:"fields"`
}

// Intent renders what obj says into its canonical form. The object is not changed and not kept. Every field that it has
// is meant; fields of Go's zero value that JSON would omit, and zero structs, say nothing. Status is ignored.
func (a Author) Intent(obj client.Object, owner types.UID) (Intent, error) {
	kind, err := apiutil.GVKForObject(obj, a.Scheme)
	if err != nil {
		return Intent{}, fmt.Errorf("find the kind of %T: %w", obj, err)
	}
	want := Intent{kind: kind, key: client.ObjectKeyFromObject(obj), owner: owner, author: a}
	if err := want.check(obj); err != nil {
		return Intent{}, fmt.Errorf("read the intent of %s %s: %w", kind.Kind, want.key, err)
	}
	if known, found := a.Memo.find(want, obj); found {
		return known, nil
	}
	if err := want.render(obj); err != nil {
		return Intent{}, fmt.Errorf("read the intent of %s %s: %w", kind.Kind, want.key, err)
	}
	return a.Memo.keep(want, obj), nil
}

// render fills in what follows from the object.
func (w *Intent) render(obj client.Object) (err error) {
	if w.tree, err = treeOf(obj); err != nil {
		return err
	}
	if reference := reflectable(obj); reference.IsValid() {
		pruneZeroStructs(reference, w.tree)
	}
	if w.secret() {
		foldStringData(w.tree)
	}
	trim(w.tree)
	annotations := mapIn(mapIn(w.tree, "metadata"), "annotations")
	annotations[w.author.ownerKey()] = string(w.owner)
	delete(annotations, w.author.intentKey())

	w.record = record{Version: recordVersion, Hash: w.hash(), Fields: fieldsOf(w.tree)}
	encoded, err := json.Marshal(w.record)
	if err != nil {
		return fmt.Errorf("encode it: %w", err)
	}
	w.encoded = string(encoded)
	w.object = w.mark(obj)
	return nil
}

// Kind returns the kind of the child.
func (w Intent) Kind() schema.GroupVersionKind { return w.kind }

// Key returns the name of the child.
func (w Intent) Key() types.NamespacedName { return w.key }

// Hash returns the sha256 of the canonical intent in hexadecimal. It is stable across releases as long as the
// intent is: a test pins it.
func (w Intent) Hash() string { return w.record.Hash }

func (w Intent) String() string { return fmt.Sprintf("%s %s %.12s", w.kind.Kind, w.key, w.record.Hash) }

// GoString keeps values of Secrets out of prints.
func (w Intent) GoString() string { return w.String() }

func (w Intent) secret() bool { return w.kind.Group == "" && w.kind.Kind == "Secret" }

func (w Intent) check(obj client.Object) error {
	controller := metav1.GetControllerOfNoCopy(obj)
	switch {
	case w.key.Name == "":
		return errors.New("it has no name: children are recognised by theirs, so it cannot be generated")
	case w.owner == "":
		return errors.New("it has no owner")
	case controller != nil && controller.UID != w.owner:
		return fmt.Errorf("its controller reference names %s, not the owner %s", controller.UID, w.owner)
	}
	return nil
}

// hash is taken over the group, version and kind too, because field names belong to a version.
func (w Intent) hash() string {
	canonical, err := json.Marshal(map[string]any{
		"v": recordVersion, "apiVersion": w.kind.GroupVersion().String(), "kind": w.kind.Kind, "object": w.tree,
	})
	if err != nil {
		// The tree came out of JSON conversion, so it goes back in.
		panic(fmt.Sprintf("encode a canonical tree: %v", err))
	}
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

// mark returns a copy of obj that is ready to be created.
func (w Intent) mark(obj client.Object) client.Object {
	marked := obj.DeepCopyObject().(client.Object)
	annotations := marked.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[w.author.ownerKey()] = string(w.owner)
	annotations[w.author.intentKey()] = w.encoded
	marked.SetAnnotations(annotations)
	marked.SetResourceVersion("")
	marked.SetUID("")
	return marked
}

func (a Author) intentKey() string { return a.Prefix + "/intent" }

func (a Author) ownerKey() string { return a.Prefix + "/owner" }

// owns reports whether the live object belongs to the owner: its controller is the owner, or it has no controller
// and bears the owner's UID. The second holds for children that outlive their owner on purpose, and for one that
// somebody took the reference from.
func (a Author) owns(live client.Object, owner types.UID) bool {
	if controller := metav1.GetControllerOfNoCopy(live); controller != nil {
		return controller.UID == owner
	}
	return owner != "" && live.GetAnnotations()[a.ownerKey()] == string(owner)
}

// foldStringData does what the API server does with the write-only field of Secrets, so that it can be compared.
func foldStringData(tree map[string]any) {
	plain, ok := tree["stringData"].(map[string]any)
	delete(tree, "stringData")
	if !ok {
		return
	}
	data := mapIn(tree, "data")
	for name, value := range plain {
		if text, ok := value.(string); ok {
			data[name] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
}
