package loop_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/kit/loop"
)

// hidden leaves the status as it is.
func hidden(*appsv1.Deployment, loop.Pass[snapshot, plan, outcome]) []loop.Event { return nil }

// TestWhoWasOvertakenGivesUp changes the object while a pass has observed and decides, as a user does while one
// process is stopped and a second one takes over: nothing of the plan is carried out.
func TestWhoWasOvertakenGivesUp(t *testing.T) {
	ended := metav1.Unix(1, 0)
	cases := map[string]struct {
		change func(*appsv1.Deployment)
		acts   bool
	}{
		"nothing happens":  {func(*appsv1.Deployment) {}, true},
		"another status":   {func(now *appsv1.Deployment) { now.Status.Replicas = 7 }, true},
		"another spec":     {func(now *appsv1.Deployment) { now.Generation++ }, false},
		"another object":   {func(now *appsv1.Deployment) { now.UID = types.UID("uid-two") }, false},
		"it is gone":       {func(now *appsv1.Deployment) { now.Name = "two" }, false},
		"it is on its way": {func(now *appsv1.Deployment) { now.DeletionTimestamp = &ended }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.stages.Report, w.stages.Writes = hidden, func(p plan) bool { return p.Create > 0 }
			w.stages.Decide = func(s snapshot) plan {
				w.overtake(tc.change)
				return decide(s)
			}
			result, err := w.reconcile()
			want, again := 0, loop.DefaultConflictDelay
			if tc.acts {
				want, again = 3, 0
			}
			if err != nil || w.pods() != want || result.RequeueAfter != again {
				t.Errorf("result = %+v, %v, pods = %d", result, err, w.pods())
			}
		})
	}
}

// TestNothingToWriteIsNotConfirmed spares a pass that changes nothing the live read.
func TestNothingToWriteIsNotConfirmed(t *testing.T) {
	w := newWorld(t)
	w.stages.Report, w.stages.Writes = hidden, func(p plan) bool { return p.Create > 0 }
	w.stages.Decide = func(snapshot) plan {
		w.overtake(func(now *appsv1.Deployment) { now.Generation++ })
		return plan{}
	}
	if result, err := w.reconcile(); err != nil || !result.IsZero() {
		t.Errorf("result = %+v, %v", result, err)
	}
}

// overtake puts a changed object in the place of the one that is there.
func (w *world) overtake(change func(*appsv1.Deployment)) {
	for place, object := range w.server.shelf {
		if before, ok := object.(*appsv1.Deployment); ok {
			after := before.DeepCopy()
			change(after)
			delete(w.server.shelf, place)
			w.server.store(after)
			return
		}
	}
}
