package sim

import (
	"fmt"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Query says which objects of a kind are wanted.
type Query struct {
	Kind schema.GroupVersionKind
	// Namespace is empty for all.
	Namespace string
	// Labels and Fields may be nil.
	Labels labels.Selector
	Fields fields.Selector
	// At is the version at which the objects are seen, 0 for now.
	At uint64
}

// Get returns an object as it is now.
func (s *Server) Get(at Target) (*unstructured.Unstructured, error) {
	return s.GetAt(at, 0)
}

// GetAt returns an object as it was at a version, 0 for now.
func (s *Server) GetAt(at Target, version uint64) (*unstructured.Unstructured, error) {
	found, err := s.look(at, version)
	if err != nil {
		return nil, err
	}
	return found.object.DeepCopy(), nil
}

// look is GetAt without a copy.
func (s *Server) look(at Target, version uint64) (state, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	table, key, err := s.open(at)
	if err != nil {
		return state{}, err
	}
	if version == 0 {
		version = s.version
	}
	found := table.at(key, version)
	if found.object == nil {
		return state{}, apierrors.NewNotFound(table.kind.resource(), key.Name)
	}
	return found, nil
}

// List returns the objects that a query asks for, sorted by namespace and name, and the version that they are of.
func (s *Server) List(query Query) ([]*unstructured.Unstructured, uint64, error) {
	found, version, err := s.list(query)
	if err != nil {
		return nil, 0, err
	}
	copies := make([]*unstructured.Unstructured, 0, len(found))
	for _, each := range found {
		copies = append(copies, each.object.DeepCopy())
	}
	return copies, version, nil
}

// list is List without copies.
func (s *Server) list(query Query) ([]state, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(query)
}

// find is list for whoever has the lock.
func (s *Server) find(query Query) ([]state, uint64, error) {
	table, err := s.table(query.Kind)
	if err != nil {
		return nil, 0, err
	}
	if err := table.kind.checkFields(query.Fields); err != nil {
		return nil, 0, err
	}
	version := query.At
	switch {
	case version == 0:
		version = s.version
	case version > s.version:
		return nil, 0, apierrors.NewTimeoutError(
			fmt.Sprintf("Too large resource version: %d, current: %d", version, s.version), 1)
	}
	var found []state
	for _, key := range table.keys {
		if query.Namespace != "" && key.Namespace != query.Namespace {
			continue
		}
		if each := table.at(key, version); each.object != nil && table.kind.selects(query, each.object) {
			found = append(found, each)
		}
	}
	return found, version, nil
}

func (k *Kind) selects(query Query, object *unstructured.Unstructured) bool {
	if query.Labels != nil && !query.Labels.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	return query.Fields == nil || query.Fields.Empty() || query.Fields.Matches(k.fieldsOf(object))
}

func (k *Kind) checkFields(selector fields.Selector) error {
	if selector == nil {
		return nil
	}
	for _, requirement := range selector.Requirements() {
		if !slices.Contains(k.selectable(), requirement.Field) {
			return apierrors.NewBadRequest("field label not supported: " + requirement.Field)
		}
	}
	return nil
}

func (k *Kind) selectable() []string {
	return append([]string{"metadata.name", "metadata.namespace"}, k.Fields...)
}

func (k *Kind) fieldsOf(object *unstructured.Unstructured) fields.Set {
	set := fields.Set{}
	for _, path := range k.selectable() {
		switch value := valueAt(object.Object, path).(type) {
		case nil:
			set[path] = ""
		case string:
			set[path] = value
		case bool:
			set[path] = strconv.FormatBool(value)
		default:
			set[path] = fmt.Sprint(value)
		}
	}
	return set
}
