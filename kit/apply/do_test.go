package apply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/apply"
)

// decide returns the action for a ship with another image, and fails if there is none.
func decide(t *testing.T, s *server) apply.Action {
	t.Helper()
	want := ship(func(set *appsv1.StatefulSet) { main0(set).Image = "ship:2" })
	action, needed := apply.Compare(intend(t, want), s.live(want)).Action()
	if !needed {
		t.Fatal("nothing to do")
	}
	return action
}

func remove(t *testing.T, s *server) apply.Action {
	t.Helper()
	action, err := author.Remove(s.live(ship()), fleet)
	if err != nil {
		t.Fatal(err)
	}
	return action
}

// TestConflicts lets the world move between the decision and the act.
func TestConflicts(t *testing.T) {
	touch := func(set *appsv1.StatefulSet) { set.Labels["team"] = "blue" }
	recreate := func(t *testing.T, s *server) {
		key := keyIn(ship(), client.ObjectKeyFromObject(ship()))
		delete(s.objects, key)
		do(t, s, ship())
	}
	cases := map[string]struct {
		decide func(*testing.T, *server) apply.Action
		move   func(*testing.T, *server)
	}{
		"update of a modified object":  {decide, func(t *testing.T, s *server) { edit(t, s, ship(), touch) }},
		"update of a recreated object": {decide, recreate},
		"update of a deleted object":   {decide, func(_ *testing.T, s *server) { clear(s.objects) }},
		"delete of a modified object":  {remove, func(t *testing.T, s *server) { edit(t, s, ship(), touch) }},
		"delete of a recreated object": {remove, recreate},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := sea(t, defaulted)
			action := tc.decide(t, s)
			tc.move(t, s)
			s.writes = nil
			before := s.live(ship())
			var record ledger
			_, err := apply.Actor{Client: s, Live: s, Recorder: &record}.Do(t.Context(), action)
			if !apierrors.IsConflict(err) {
				t.Errorf("error = %v, want a conflict", err)
			}
			if len(s.writes) > 0 || len(record) > 0 {
				t.Errorf("writes %v, records %v, want none", s.writes, record)
			}
			if diff := cmp.Diff(before, s.live(ship())); diff != "" {
				t.Errorf("the object was touched (-before +after):\n%s", diff)
			}
		})
	}
}

// TestStaleLeader is the reason for conditional writes: two processes decide on the same state, the slower one must
// lose.
func TestStaleLeader(t *testing.T) {
	s := sea(t, defaulted)
	stale := decide(t, s)
	do(t, s, ship(func(set *appsv1.StatefulSet) { main0(set).Image = "ship:3" }))
	if _, err := (apply.Actor{Client: s, Live: s}).Do(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Errorf("error = %v, want a conflict", err)
	}
	if got := main0(s.live(ship()).(*appsv1.StatefulSet)).Image; got != "ship:3" {
		t.Errorf("image = %s, the stale decision won", got)
	}
}

func TestCreateMeetsAnExistingObject(t *testing.T) {
	cases := map[string]struct {
		there   func(*testing.T, *server)
		outcome apply.Outcome
		want    func(error) bool
		record  []string
	}{
		"ours, from a pass that nobody remembers": {
			there:   func(t *testing.T, s *server) { do(t, s, ship()) },
			outcome: apply.Existed,
			want:    func(err error) bool { return err == nil },
			record:  []string{"wrote ship at 101"},
		},
		"another owner's": {
			there: func(_ *testing.T, s *server) {
				s.store(ship(func(set *appsv1.StatefulSet) { set.OwnerReferences = controlledBy("south", "other") }), nil)
			},
			want: func(err error) bool {
				var foreign *apply.ForeignError
				return errors.Is(err, apply.ErrForeign) && errors.As(err, &foreign) && foreign.Terminal() &&
					err.Error() == "Create StatefulSet a/ship: StatefulSet a/ship belongs to Fleet south: remove or rename it"
			},
		},
		"nobody's": {
			there: func(_ *testing.T, s *server) {
				s.store(ship(func(set *appsv1.StatefulSet) { set.OwnerReferences = nil }), nil)
			},
			want: func(err error) bool { return errors.Is(err, apply.ErrForeign) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			tc.there(t, s)
			s.writes = nil
			before := s.live(ship())
			action, _ := apply.Compare(intend(t, ship()), nil).Action()
			var record ledger
			result, err := apply.Actor{Client: s, Live: s, Recorder: &record}.Do(t.Context(), action)
			if !tc.want(err) || result.Outcome != tc.outcome {
				t.Errorf("result = %s, error = %v", result.Outcome, err)
			}
			if diff := cmp.Diff(tc.record, []string(record)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, s.live(ship())); diff != "" || len(s.writes) > 0 {
				t.Errorf("the object was touched (-before +after):\n%s", diff)
			}
		})
	}
}

func TestCreateRacesWithADelete(t *testing.T) {
	s := newServer()
	s.fail = func(string) error { return apierrors.NewAlreadyExists(things, "ship") }
	action, _ := apply.Compare(intend(t, ship()), nil).Action()
	if _, err := (apply.Actor{Client: s, Live: s}).Do(t.Context(), action); !apierrors.IsConflict(err) {
		t.Errorf("error = %v, want a conflict", err)
	}
}

// TestRecords follows what the next pass is told to expect of each kind of end.
func TestRecords(t *testing.T) {
	create := func(t *testing.T, s *server) apply.Action {
		clear(s.objects)
		action, _ := apply.Compare(intend(t, ship()), nil).Action()
		return action
	}
	timeout := apierrors.NewTimeoutError("slow", 1)
	doubt := func(action string) []string {
		return []string{"doubt: " + action + " may or may not have been carried out"}
	}
	doubtfulCreate, doubtfulUpdate := doubt("Create StatefulSet a/ship"), doubt("Update StatefulSet a/ship at 101")
	doubtfulDelete := doubt("Delete StatefulSet a/ship at 101")
	wrote, deleted := []string{"wrote ship at 102"}, []string{"deleted ship uid-101 at 101"}
	stumbled := apierrors.NewInternalError(errors.New("etcd"))
	cancelled := fmt.Errorf("post: %w", context.Canceled)
	cases := map[string]struct {
		decide     func(*testing.T, *server) apply.Action
		fail, lose error
		want       []string
	}{
		"create":                      {decide: create, want: wrote},
		"update":                      {decide: decide, want: wrote},
		"delete":                      {decide: remove, want: deleted},
		"delete of what is gone":      {decide: remove, fail: apierrors.NewNotFound(things, "ship"), want: deleted},
		"create refused":              {decide: create, fail: apierrors.NewForbidden(things, "ship", errors.New("quota"))},
		"update refused":              {decide: decide, fail: apierrors.NewTooManyRequests("later", 1)},
		"create, the answer lost":     {decide: create, lose: errors.New("connection reset"), want: doubtfulCreate},
		"update, the answer lost":     {decide: decide, lose: timeout, want: doubtfulUpdate},
		"delete, the answer lost":     {decide: remove, lose: context.DeadlineExceeded, want: doubtfulDelete},
		"update, the server stumbled": {decide: decide, fail: stumbled, want: doubtfulUpdate},
		"create, cancelled":           {decide: create, fail: cancelled, want: doubtfulCreate},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := sea(t, defaulted)
			action := tc.decide(t, s)
			s.fail, s.lose = func(string) error { return tc.fail }, func(string) error { return tc.lose }
			var record ledger
			_, err := apply.Actor{Client: s, Live: s, Recorder: &record}.Do(t.Context(), action)
			failed := tc.fail != nil && !apierrors.IsNotFound(tc.fail) || tc.lose != nil
			if (err != nil) != failed {
				t.Errorf("error = %v", err)
			}
			if diff := cmp.Diff(tc.want, []string(record)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLostAnswerHeals shows that a create whose answer was lost is neither repeated nor taken for foreign.
func TestLostAnswerHeals(t *testing.T) {
	s := newServer()
	s.lose = func(string) error { return errors.New("connection reset") }
	action, _ := apply.Compare(intend(t, ship()), nil).Action()
	actor := apply.Actor{Client: s, Live: s}
	if _, err := actor.Do(t.Context(), action); err == nil {
		t.Fatal("the answer was not lost")
	}
	result, err := actor.Do(t.Context(), action)
	if err != nil || result.Outcome != apply.Existed {
		t.Errorf("result = %s, error = %v, want that it existed", result.Outcome, err)
	}
	if got := do(t, s, ship()); got.State != apply.Same {
		t.Errorf("state = %s, want the same", got.State)
	}
}

func TestRefusals(t *testing.T) {
	kind := schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	invalid := func(list ...*field.Error) error { return apierrors.NewInvalid(kind, "ship", list) }
	spec := field.NewPath("spec")
	cases := map[string]struct {
		refuse error
		field  string
		detail string
	}{
		"immutable by name": {
			refuse: invalid(field.Invalid(spec.Child("clusterIP"), "10.0.0.1", "field is immutable")),
			field:  "spec.clusterIP", detail: "field is immutable",
		},
		"forbidden update": {
			refuse: invalid(field.Forbidden(spec, "updates to statefulset spec for fields other than 'replicas' are forbidden")),
			field:  "spec", detail: "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
		},
		"another field wrong too": {
			refuse: invalid(field.Required(spec.Child("x"), ""), field.Invalid(spec.Child("y"), 1, "may not be changed")),
			field:  "spec.y", detail: "may not be changed",
		},
		"plainly invalid": {refuse: invalid(field.Invalid(spec.Child("replicas"), -1, "must be positive"))},
		"denied by a webhook without causes": {
			refuse: apierrors.NewGenericServerResponse(422, "patch", things, "ship", "no ships on Sunday", 0, false),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := sea(t, defaulted)
			s.validate = func(_, _ client.Object) error { return tc.refuse }
			var record ledger
			_, err := apply.Actor{Client: s, Live: s, Recorder: &record}.Do(t.Context(), decide(t, s))
			if apierrors.IsConflict(err) || !apierrors.IsInvalid(err) || len(record) > 0 {
				t.Errorf("error = %v, records = %v", err, record)
			}
			var found *apply.ImmutableError
			if errors.As(err, &found) != (tc.field != "") || errors.Is(err, apply.ErrImmutable) != (tc.field != "") {
				t.Fatalf("error = %v", err)
			}
			if found != nil && (found.Field != tc.field || found.Detail != tc.detail || !found.Terminal()) {
				t.Errorf("found %q %q, want %q %q", found.Field, found.Detail, tc.field, tc.detail)
			}
			if found != nil && (tc.field == "spec") != strings.HasSuffix(err.Error(),
				`; wanted spec.template.spec.containers[name=main].image: "ship:1" → "ship:2"`) {
				t.Errorf("error = %v", err)
			}
		})
	}
}

// TestUnheld has a server that drops one field and a webhook that changes another back. The passes after that send a
// patch each, but make no new version and so wake nobody.
func TestUnheld(t *testing.T) {
	s := sea(t, func(obj client.Object) {
		defaulted(obj)
		main := main0(obj.(*appsv1.StatefulSet))
		main.Image, main.StdinOnce = "ship:1", false
	})
	want := ship(func(set *appsv1.StatefulSet) { main0(set).Image, main0(set).StdinOnce = "ship:2", true })
	var version string
	for i := range 3 {
		action, needed := apply.Compare(intend(t, want), s.live(want)).Action()
		if !needed {
			t.Fatal("nothing to do")
		}
		result, err := apply.Actor{Client: s, Live: s}.Do(t.Context(), action)
		if err != nil {
			t.Fatal(err)
		}
		lines := []string{
			`spec.template.spec.containers[name=main].image: "ship:1" → "ship:2"`,
			"spec.template.spec.containers[name=main].stdinOnce: absent → true",
		}
		if diff := cmp.Diff(lines, words(result.Unheld)); diff != "" {
			t.Errorf("unheld (-want +got):\n%s", diff)
		}
		if i > 0 && result.Object.GetResourceVersion() != version {
			t.Error("a write that changes nothing made a new version")
		}
		version = result.Object.GetResourceVersion()
	}
}

// TestServerOmitsWhatTheClientShows has an API server whose types leave out an empty structure that the client's types
// write as {}. An operation inside the structure would fail there.
func TestServerOmitsWhatTheClientShows(t *testing.T) {
	s := newServer()
	idle := ship(func(set *appsv1.StatefulSet) { main0(set).Resources.Requests = nil })
	do(t, s, idle)
	s.encode = func(document map[string]any) {
		template := document["spec"].(map[string]any)["template"].(map[string]any)
		main := template["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		if resources, ok := main["resources"].(map[string]any); ok && len(resources) == 0 {
			delete(main, "resources")
		}
	}
	do(t, s, ship())
	if got := main0(s.live(ship()).(*appsv1.StatefulSet)).Resources.Requests; len(got) != 1 {
		t.Errorf("requests = %v", got)
	}
	// Somebody empties it, and we want nothing of it any more: there is nothing to remove.
	edit(t, s, ship(), func(set *appsv1.StatefulSet) { main0(set).Resources.Requests = nil })
	do(t, s, idle)
	if got := do(t, s, idle); got.State != apply.Same {
		t.Errorf("state = %s %v", got.State, got.Changes)
	}
}

func TestUnconditionalActionsAreRefused(t *testing.T) {
	s := sea(t, defaulted)
	update, deletion := decide(t, s), remove(t, s)
	update.ResourceVersion, deletion.UID = "", ""
	for _, action := range []apply.Action{update, deletion, {}} {
		if _, err := (apply.Actor{Client: s, Live: s}).Do(t.Context(), action); err == nil ||
			!strings.Contains(err.Error(), "refused") {
			t.Errorf("%s: error = %v, want a refusal", action, err)
		}
	}
	if len(s.writes) > 0 {
		t.Errorf("writes = %v", s.writes)
	}
}

func TestRemove(t *testing.T) {
	s := sea(t, defaulted)
	_, err := author.Remove(s.live(ship()), "somebody")
	if !errors.Is(err, apply.ErrForeign) {
		t.Errorf("error = %v, want foreign", err)
	}
	if _, err = author.Remove(&metav1.PartialObjectMetadata{}, fleet); err == nil {
		t.Error("an object of unknown kind can be removed")
	}
	action, err := author.Remove(s.live(ship()), fleet, client.GracePeriodSeconds(0),
		client.Preconditions{}) // An attempt to take the preconditions away.
	if err != nil {
		t.Fatal(err)
	}
	result, err := apply.Actor{Client: s, Live: s}.Do(t.Context(), action)
	if err != nil || result.Outcome != apply.Done || len(s.objects) > 0 {
		t.Errorf("result = %+v, error = %v", result, err)
	}
	result, err = apply.Actor{Client: s, Live: s}.Do(t.Context(), action)
	if err != nil || result.Outcome != apply.Gone {
		t.Errorf("again: result = %+v, error = %v", result, err)
	}
}

func TestFieldManager(t *testing.T) {
	s := sea(t, defaulted)
	do(t, s, ship(func(set *appsv1.StatefulSet) { main0(set).Image = "ship:2" }))
	if diff := cmp.Diff([]string{"fleet-controller", "fleet-controller"}, s.managers); diff != "" {
		t.Errorf("field managers (-want +got):\n%s", diff)
	}
}

func TestCreateFailsToReadWhatExists(t *testing.T) {
	s := newServer()
	do(t, s, ship())
	action, _ := apply.Compare(intend(t, ship()), nil).Action()
	_, err := apply.Actor{Client: s, Live: deaf{}}.Do(t.Context(), action)
	if err == nil || !strings.Contains(err.Error(), "read the existing object") {
		t.Errorf("error = %v", err)
	}
	// An update that was refused for some reason stays refused for that reason.
	update := decide(t, s)
	s.validate = func(_, _ client.Object) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Ship"}, "ship", field.ErrorList{})
	}
	_, err = apply.Actor{Client: s, Live: deaf{}}.Do(t.Context(), update)
	if !apierrors.IsInvalid(err) {
		t.Errorf("error = %v, want invalid", err)
	}
}

// deaf is a live reader that fails.
type deaf struct{ client.Reader }

func (deaf) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("no route")
}
