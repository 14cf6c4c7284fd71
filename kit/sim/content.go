package sim

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// canonical returns a copy of an object in the form in which its kind is stored. Built-in kinds go through their Go
// type, so that fields which it does not have are dropped, and values have one form only, such as 1Gi for 1024Mi.
func (s *Server) canonical(kind *Kind, sent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if kind.Custom {
		sent = &unstructured.Unstructured{Object: runtime.DeepCopyJSON(sent.Object)}
	}
	return s.formed(kind, sent)
}

// formed is canonical for an object that is nobody else's, and may be changed.
func (s *Server) formed(kind *Kind, own *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	content := own.Object
	if kind.Custom {
		if err := canonicalMetadata(content); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else {
		typed, err := s.scheme.New(kind.GroupVersionKind)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(own.Object, typed); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		dropNulls(content)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(kind.GroupVersionKind)
	return object, nil
}

// received is the canonical form of what a client has sent.
func (s *Server) received(kind *Kind, at Target, sent *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !at.typed || kind.Custom {
		return s.canonical(kind, sent)
	}
	dropNulls(sent.Object)
	sent.SetGroupVersionKind(kind.GroupVersionKind)
	return sent, nil
}

// canonicalMetadata does for custom resources what their server does too: metadata always has its Go type.
func canonicalMetadata(content map[string]any) error {
	sent, ok := content["metadata"].(map[string]any)
	if !ok {
		content["metadata"] = map[string]any{}
		return nil
	}
	typed := &metav1.ObjectMeta{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(sent, typed); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	metadata, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	dropNulls(metadata)
	content["metadata"] = metadata
	return nil
}

// dropNulls removes fields without a value, such as the creationTimestamp of a template.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			if inner == nil {
				delete(value, name)
			} else {
				dropNulls(inner)
			}
		}
	case []any:
		for _, inner := range value {
			dropNulls(inner)
		}
	}
}

// valueAt returns the value at a path with dots, nil if there is none. The result is shared.
func valueAt(content map[string]any, path string) any {
	var value any = content
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "."), ".") {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = inner[name]
	}
	return value
}

// setAt sets the value at a path with dots, and makes the maps on the way.
func setAt(content map[string]any, path string, value any) {
	names := strings.Split(strings.TrimPrefix(path, "."), ".")
	for _, name := range names[:len(names)-1] {
		inner, ok := content[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			content[name] = inner
		}
		content = inner
	}
	content[names[len(names)-1]] = value
}

// setDefault sets the value at a path unless there is one.
func setDefault(content map[string]any, path string, value any) {
	if valueAt(content, path) == nil {
		setAt(content, path, value)
	}
}

func putOrDelete(content map[string]any, name string, value any) {
	if value == nil {
		delete(content, name)
		return
	}
	content[name] = value
}

// encode returns what a client sends for an object.
func (s *Server) encode(object runtime.Object) (*unstructured.Unstructured, error) {
	kind, err := apiutil.GVKForObject(object, s.scheme)
	if err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind.Kind, err)
	}
	if _, untyped := object.(runtime.Unstructured); untyped {
		content = runtime.DeepCopyJSON(content) // It is the caller's.
	}
	sent := &unstructured.Unstructured{Object: content}
	sent.SetGroupVersionKind(kind)
	return sent, nil
}

// decode writes an answer into an object of the caller. What was in it before is gone.
func (s *Server) decode(found *unstructured.Unstructured, into client.Object) error {
	if untyped, ok := into.(runtime.Unstructured); ok {
		untyped.SetUnstructuredContent(found.Object)
		return nil
	}
	value := reflect.ValueOf(into).Elem()
	value.Set(reflect.Zero(value.Type()))
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, into); err != nil {
		return fmt.Errorf("decode %s: %w", found.GetKind(), err)
	}
	if _, partial := into.(*metav1.PartialObjectMetadata); !partial {
		into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return nil
}

// forms are the Go types that a stored state was asked for in. A state never changes, so it is converted once into each
// of them, also for all servers that were forked from one, and copied from then on.
type forms struct {
	mu    sync.Mutex
	known []client.Object
}

// decodeStored is decode for what is stored.
func (s *Server) decodeStored(found state, into client.Object) error {
	if untyped, ok := into.(runtime.Unstructured); ok {
		untyped.SetUnstructuredContent(found.object.DeepCopy().Object)
		return nil
	}
	value := reflect.ValueOf(into)
	found.forms.mu.Lock()
	defer found.forms.mu.Unlock()
	for _, known := range found.forms.known {
		if same := reflect.ValueOf(known); same.Type() == value.Type() {
			value.Elem().Set(reflect.ValueOf(known.DeepCopyObject()).Elem())
			return nil
		}
	}
	if err := s.decode(found.object, into); err != nil {
		return err
	}
	found.forms.known = append(found.forms.known, into.DeepCopyObject().(client.Object))
	return nil
}

// decodeList writes answers into a list of the caller.
func (s *Server) decodeList(found []state, version uint64, into client.ObjectList) error {
	into.SetResourceVersion(strconv.FormatUint(version, 10))
	if untyped, ok := into.(*unstructured.UnstructuredList); ok {
		untyped.Items = make([]unstructured.Unstructured, 0, len(found))
		for _, each := range found {
			untyped.Items = append(untyped.Items, *each.object.DeepCopy())
		}
		return nil
	}
	items := make([]runtime.Object, 0, len(found))
	for _, each := range found {
		var item client.Object = &metav1.PartialObjectMetadata{}
		if _, partial := into.(*metav1.PartialObjectMetadataList); !partial {
			made, err := s.scheme.New(each.object.GroupVersionKind())
			if err != nil {
				return err
			}
			item = made.(client.Object)
		}
		if err := s.decodeStored(each, item); err != nil {
			return err
		}
		items = append(items, item)
	}
	return meta.SetList(into, items)
}

// query reads the options of a list.
func (s *Server) query(list client.ObjectList, options []client.ListOption) (Query, error) {
	kind, err := apiutil.GVKForObject(list, s.scheme)
	if err != nil {
		return Query{}, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	read := (&client.ListOptions{}).ApplyOptions(options)
	query := Query{Kind: kind, Namespace: read.Namespace, Labels: read.LabelSelector, Fields: read.FieldSelector}
	if read.Raw != nil && read.Raw.ResourceVersion != "" && read.Raw.ResourceVersionMatch ==
		metav1.ResourceVersionMatchExact {
		if query.At, err = strconv.ParseUint(read.Raw.ResourceVersion, 10, 64); err != nil {
			return Query{}, fmt.Errorf("parse the resourceVersion of the list: %w", err)
		}
	}
	return query, nil
}
