package loop_test

import (
	"context"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/kit/loop"
)

// TestPlansAreConfirmed has something happen while a pass has observed and decides: another process takes over, or the
// object is another one than the plan was made for. Nothing of the plan is carried out then.
func TestPlansAreConfirmed(t *testing.T) {
	overtaken, unknown := apierrors.NewConflict(things, "leader", errors.New("another one")), errors.New("no answer")
	ended := metav1.Unix(1, 0)
	same := func(*appsv1.Deployment) {}
	cases := map[string]struct {
		leads  error
		change func(*appsv1.Deployment)
		acts   bool
	}{
		"nothing happens":       {nil, same, true},
		"another one leads":     {overtaken, same, false},
		"nobody knows who does": {unknown, same, false},
		"another status":        {nil, func(now *appsv1.Deployment) { now.Status.Replicas = 7 }, true},
		"another spec":          {nil, func(now *appsv1.Deployment) { now.Generation++ }, false},
		"another object":        {nil, func(now *appsv1.Deployment) { now.UID = "uid-two" }, false},
		"it is gone":            {nil, func(now *appsv1.Deployment) { now.Name = "two" }, false},
		"it is on its way":      {nil, func(now *appsv1.Deployment) { now.DeletionTimestamp = &ended }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			decided := false
			w.stages.Report, w.stages.Writes = hidden, func(p plan) bool { return p.Create > 0 }
			w.stages.Decide = func(s snapshot) plan {
				decided = true
				w.overtake(tc.change)
				return decide(s)
			}
			w.config.Leads = func(context.Context) error {
				if !decided {
					t.Error("asked too early")
				}
				return tc.leads
			}
			result, err := w.reconcile()
			pods, again := 0, loop.DefaultConflictDelay
			if tc.acts {
				pods, again = 3, 0
			}
			failed := errors.Is(tc.leads, unknown)
			if failed {
				again = 0
			}
			if (err != nil) != failed || w.pods() != pods || result.RequeueAfter != again {
				t.Errorf("result = %+v, %v, pods = %d", result, err, w.pods())
			}
		})
	}
}

// TestNothingToWriteIsNotConfirmed spares a pass that changes nothing the live reads.
func TestNothingToWriteIsNotConfirmed(t *testing.T) {
	w := newWorld(t)
	w.stages.Report, w.stages.Writes = hidden, func(p plan) bool { return p.Create > 0 }
	w.config.Leads = func(context.Context) error { return errors.New("asked") }
	w.stages.Decide = func(snapshot) plan {
		w.overtake(func(now *appsv1.Deployment) { now.Generation++ })
		return plan{}
	}
	if result, err := w.reconcile(); err != nil || !result.IsZero() {
		t.Errorf("result = %+v, %v", result, err)
	}
}

// hidden leaves the status as it is.
func hidden(*appsv1.Deployment, loop.Pass[snapshot, plan, outcome]) []loop.Event { return nil }

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
