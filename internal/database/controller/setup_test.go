package controller_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/sim"
)

// lacking is a volume that no node can set up.
const lacking = "lacking"

// mountLacking has a user ask for it, or no longer.
func (w *town) mountLacking(mount bool) {
	w.t.Helper()
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) {
		spec.PodTemplate = nil
		if mount {
			spec.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{
				Raw: []byte(`{"volumes": [{"name": "` + lacking + `", "secret": {"secretName": "tiles"}}]}`),
			}}
		}
	})
}

// minutes lets so many pass, with a few passes in each.
func (w *town) minutes(number int) {
	w.t.Helper()
	for range number {
		w.clock.Advance(55 * time.Second)
		w.rounds(5)
	}
}

// waitsForSetup says that the status tells of the node of an instance.
func (w *town) waitsForSetup() bool {
	return strings.Contains(w.database().Status.WaitingFor, "has not set up its volumes and its network")
}

// TestVolumesThatAreNotThere makes a database with a volume that no node can set up: the status says so, no instance is
// made in the place of another, and undoing the wish is all that a user has to do.
func TestVolumesThatAreNotThere(t *testing.T) {
	w := newTown(t, -1, sim.Done)
	w.createNodes()
	w.mountLacking(true)
	w.until("all have a pod", func() bool { return len(w.births) == 3 })
	w.minutes(12)
	if !w.waitsForSetup() {
		t.Errorf("waits for %q", w.database().Status.WaitingFor)
	}
	if len(w.instances()) != 3 || len(w.made) != 3 {
		t.Errorf("the instances are %v, and were %v", w.instances(), w.made)
	}
	w.mountLacking(false)
	w.until("it is ready", w.ready)
	if len(w.made) != 3 {
		t.Errorf("there were the instances %v", w.made)
	}
}

// TestRollToAVolumeThatIsNotThere asks a database that is ready for such a volume: one replica meets it, the change
// stops, and undoing it recovers, whether that comes soon or late.
func TestRollToAVolumeThatIsNotThere(t *testing.T) {
	for name, wait := range map[string]int{"soon": 1, "late": 12} {
		t.Run(name, func(t *testing.T) {
			w := rollTown(t)
			holder := w.holder()
			w.mountLacking(true)
			w.until("a replica has met it", func() bool { return len(w.births) == 1 })
			w.minutes(wait)
			late := name == "late"
			stopped := condition.Find(w.database().Status.Conditions, v1alpha1.ConditionStalled).Reason == "RollStopped"
			if w.waitsForSetup() != late || stopped != late {
				t.Errorf("waits for %q; is the change stopped: %t", w.database().Status.WaitingFor, stopped)
			}
			if len(w.births) != 1 || w.births[holder] != 0 || w.moves != 0 || len(w.instances()) != 3 {
				t.Errorf("new pods %v; %d moves; instances %v", w.births, w.moves, w.instances())
			}
			w.mountLacking(false)
			w.until("it has recovered", w.ready)
			if len(w.births) != 1 || w.moves != 0 || len(w.instances()) != 3 {
				t.Errorf("new pods %v; %d moves; instances %v", w.births, w.moves, w.instances())
			}
		})
	}
}
