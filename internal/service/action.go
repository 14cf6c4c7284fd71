package service

import (
	"encoding/json"
	"maps"
	"reflect"
)

// Action is one write of one object, and the state of the world that it was decided on. Step is the interface that all
// steps of a loop fulfil, one struct for each verb.
type Action[Step any] struct {
	// Do is what is done, with what that takes.
	Do   Step   `json:"-"`
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
	// UID and ResourceVersion must still be those of the object, empty for one that must not exist.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Why             string `json:"why"`
}

// Verb is the name of what is done, for people. It is also the action of an event.
func (a Action[Step]) Verb() string { return reflect.TypeOf(a.Do).Name() }

// Does says that an action does what the first type argument names.
func Does[Verb, Step any](action Action[Step]) bool {
	_, does := any(action.Do).(Verb)
	return does
}

// MarshalJSON writes the verb and what it takes beside the object.
func (a Action[Step]) MarshalJSON() ([]byte, error) {
	type object Action[Step]
	fields := map[string]json.RawMessage{}
	for _, part := range []any{a.Do, object(a), map[string]string{"verb": a.Verb()}} {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		var more map[string]json.RawMessage
		if err := json.Unmarshal(text, &more); err != nil {
			return nil, err
		}
		maps.Copy(fields, more)
	}
	return json.Marshal(fields)
}

// Outcome is what became of a plan: one result for each action, in the order of the plan.
type Outcome[Step any] struct {
	Results []Result[Step] `json:"results,omitempty"`
}

// Result is what became of one action.
type Result[Step any] struct {
	Action Action[Step] `json:"action"`
	// Done says that the world is now as the action wanted, by this write or by an earlier one that nobody remembers.
	Done bool `json:"done,omitempty"`
	// Wrote says that this pass has written.
	Wrote bool `json:"wrote,omitempty"`
	// Problem is why it was not done, empty if it was.
	Problem string `json:"problem,omitempty"`
	// Refused is why an agent will not do what it was asked, empty if it will.
	Refused string `json:"refused,omitempty"`
	// Unheld are wanted fields that the API server did not take over, although it accepted the write.
	Unheld []string `json:"unheld,omitempty"`
}
