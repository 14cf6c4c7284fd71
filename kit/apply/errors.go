package apply

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrForeign is matched by every ForeignError.
var ErrForeign = errors.New("the name is taken by an object of another owner")

// ErrImmutable is matched by every ImmutableError.
var ErrImmutable = errors.New("the field cannot be changed")

// ForeignError says that an object under a child's name belongs to somebody else. It was not touched.
type ForeignError struct {
	Kind schema.GroupVersionKind
	Key  types.NamespacedName
	// Controller is who controls the object, "Kind name", empty if nobody does.
	Controller string
}

func (e *ForeignError) Error() string {
	if e.Controller == "" {
		return fmt.Sprintf("%s %s exists and has no owner: remove or rename it", e.Kind.Kind, e.Key)
	}
	return fmt.Sprintf("%s %s belongs to %s: remove or rename it", e.Kind.Kind, e.Key, e.Controller)
}

// Is makes errors.Is(err, ErrForeign) work.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// Terminal says that a retry does not help.
func (e *ForeignError) Terminal() bool { return true }

// ImmutableError says that the API server refuses to change a field of an existing object. Nothing of the update was
// carried out.
type ImmutableError struct {
	Kind schema.GroupVersionKind
	Key  types.NamespacedName
	// Field is the path that the API server named.
	Field string
	// Detail is what the API server said, without the value.
	Detail string
	// Changes are those of the update at that field or below it: the API server often names a whole specification.
	Changes []Change
	cause   error
}

func (e *ImmutableError) Error() string {
	text := fmt.Sprintf("%s %s: %s cannot be changed: %s", e.Kind.Kind, e.Key, e.Field, e.Detail)
	for _, change := range e.Changes {
		text += "; wanted " + change.String()
	}
	return text
}

// Is makes errors.Is(err, ErrImmutable) work.
func (e *ImmutableError) Is(target error) bool { return target == ErrImmutable }

// Unwrap gives access to the status of the API server.
func (e *ImmutableError) Unwrap() error { return e.cause }

// Terminal says that a retry does not help.
func (e *ImmutableError) Terminal() bool { return true }

func foreign(kind schema.GroupVersionKind, live client.Object) *ForeignError {
	found := &ForeignError{Kind: kind, Key: client.ObjectKeyFromObject(live)}
	if controller := metav1.GetControllerOfNoCopy(live); controller != nil {
		found.Controller = controller.Kind + " " + controller.Name
	}
	return found
}

// moved is the conflict that the API server would have returned, for cases in which it says something else.
func moved(action Action, why string) error {
	resource := schema.GroupResource{Group: action.Kind.Group, Resource: strings.ToLower(action.Kind.Kind)}
	return apierrors.NewConflict(resource, action.Key.Name, errors.New(why))
}

// immutable finds the field that may not change in a refusal of an update, nil if the refusal is about something else.
// The API has no code for it: built-in types say that a field is immutable or that updates to it are forbidden.
func immutable(action Action, err error) *ImmutableError {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, cause := range status.Status().Details.Causes {
		forbidden := cause.Type == metav1.CauseTypeForbidden
		said := strings.ToLower(cause.Message)
		if forbidden || strings.Contains(said, "immutable") || strings.Contains(said, "may not be changed") {
			return &ImmutableError{
				Kind: action.Kind, Key: action.Key, Field: cause.Field, Detail: withoutValue(cause.Message),
				Changes: below(cause.Field, action.Changes), cause: err,
			}
		}
	}
	return nil
}

func below(field string, changes []Change) (found []Change) {
	for _, change := range changes {
		rest, ok := strings.CutPrefix(change.Path, field)
		if ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			found = append(found, change)
		}
	}
	return found
}

// withoutValue cuts the offending value out of messages of the form `Invalid value: …: field is immutable`.
func withoutValue(message string) string {
	if strings.HasPrefix(message, "Invalid value: ") {
		if end := strings.LastIndex(message, ": "); end >= 0 {
			return message[end+2:]
		}
	}
	return message
}
