//go:build cluster

package controller_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/api/v1alpha1"
)

// TestOvertaken stops a process of the operator when it has read the database and nothing else yet. Meanwhile a user
// asks for another instance, and a second process begins with that. The first goes on with what it knows of the wish,
// and with versions of everything else as the second one has left them: it must not take the instance back.
func TestOvertaken(t *testing.T) {
	w := newWorld(t)
	w.three()

	successor, stopped := w.loop, w.another()
	var once sync.Once
	asked := 0
	w.reads = func(path string) {
		if !strings.HasSuffix(path, "/persistentvolumeclaims/cities-1") {
			return
		}
		once.Do(func() {
			change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Instances = 4 })
			w.loop = successor
			w.passUntil("another instance is begun", func() bool {
				return slices.Contains(w.settings().Instances, "cities-4") && w.get("cities-4", &appsv1.StatefulSet{})
			})
			w.leads = func() error {
				asked++
				return apierrors.NewConflict(schema.GroupResource{}, "leader", errors.New("another process leads"))
			}
		})
	}
	if _, err := stopped.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Error(err)
	}
	if asked != 1 {
		t.Errorf("it has asked %d times whether it leads", asked)
	}
	if have := w.settings().Instances; !slices.Contains(have, "cities-4") {
		t.Errorf("who was overtaken has taken the instance back: %v", have)
	}
	if !w.get("cities-4", &corev1.PersistentVolumeClaim{}) {
		t.Error("the claim of the new instance is gone")
	}
}
