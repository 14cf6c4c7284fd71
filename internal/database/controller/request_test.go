package controller_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/sim"
)

// TestRequestBySpec asks for another primary by a text of the spec: one that is new moves it once, or is refused once,
// and stays in the spec.
func TestRequestBySpec(t *testing.T) {
	w := readyTown(t)
	wish := func(text string) {
		t.Helper()
		w.change(&v1alpha1.GeoDatabase{}, towns.Name, func(object client.Object) {
			object.(*v1alpha1.GeoDatabase).Spec.Switchover = text
		})
	}
	done := func(text string) func() bool {
		return func() bool {
			marks := w.database().Annotations
			return marks[database.AnnotationSwitched] == text && marks[database.AnnotationRequest] == ""
		}
	}
	rest := func() {
		t.Helper()
		before, round := len(w.told), 0
		w.until("twenty passes are over", func() bool { round++; return round > 20 })
		if len(w.told) != before || w.database().Spec.Switchover == "" {
			t.Errorf("the agent was asked %d times more, for %q", len(w.told)-before, w.database().Spec.Switchover)
		}
	}
	wish("one")
	w.until("the agent was asked again and again", func() bool { return len(w.told) > 3 })
	if w.told[0].ID == "" || w.told[0] != w.told[3] || w.told[0].Target != "" {
		t.Errorf("the agent was asked %+v", w.told)
	}
	w.hand(2, "towns-2")
	w.until("the text is done with", done("one"))
	rest()
	w.refusal = "not now"
	wish("two")
	w.until("the text was refused", done("two"))
	rest()
	wish("one")
	w.refusal = ""
	w.until("an earlier text counts again after another one", func() bool { return len(w.told) > 8 })
}

// TestRequestFromTheBeginning makes a database whose spec has such a text already: nothing is moved for it.
func TestRequestFromTheBeginning(t *testing.T) {
	w := newTown(t, -1, sim.Done, func(made *v1alpha1.GeoDatabase) { made.Spec.Switchover = "from Git" })
	w.until("it is ready", w.ready)
	if len(w.told) > 0 || w.database().Annotations[database.AnnotationSwitched] != "from Git" {
		t.Errorf("the agent was asked %+v; annotations %v", w.told, w.database().Annotations)
	}
}
