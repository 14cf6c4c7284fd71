//go:build cluster

package controller_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/kit/condition"
)

var running = corev1.PodStatus{
	Phase: corev1.PodRunning, PodIP: "10.0.0.9",
	Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
}

var stuck = corev1.PodStatus{
	Phase: corev1.PodPending,
	ContainerStatuses: []corev1.ContainerStatus{{Name: "database", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
	}}},
}

// TestLife takes one database through its life on a real API server, with exactly the rights of the table.
func TestLife(t *testing.T) {
	w := newWorld(t)
	small := resource.MustParse("1Gi")
	w.create(&v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "cities"},
		Spec:       v1alpha1.GeoDatabaseSpec{Instances: 1, Storage: v1alpha1.Storage{Size: small, Class: "fast"}},
	})
	w.passUntil("everything is made", func() bool {
		return w.get("cities-app", &corev1.Secret{}) && w.database().Status.WaitingFor == "cities-1 has no pod yet"
	})

	// A bad image: the pod never starts, and is replaced once its StatefulSet has another template.
	w.boot("r1", stuck)
	w.passUntil("the user is told", func() bool {
		return strings.Contains(w.database().Status.WaitingFor, "ImagePullBackOff")
	})
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Image = "postgis:new" })
	pod := &corev1.Pod{}
	w.get("cities-1-0", pod)
	w.pass()
	if w.get("cities-1-0", pod); pod.DeletionTimestamp != nil {
		t.Error("the pod was deleted before the StatefulSet controller has seen the new template")
	}

	changeStatus(w, "cities-1", &appsv1.StatefulSet{}, func(set *appsv1.StatefulSet) {
		set.Status.ObservedGeneration, set.Status.UpdateRevision = set.Generation, "r2"
	})
	w.passUntil("the pod is replaced", func() bool { return !w.get("cities-1-0", &corev1.Pod{}) })
	w.boot("r2", running)
	w.passUntil("it is ready", func() bool { w.answer(); return w.ready() })

	credentials := &corev1.Secret{}
	w.get("cities-app", credentials)
	checkIdle(w)
	checkDrift(w)
	checkGrowth(w)
	checkRotation(w)
	checkDeletion(w)

	again := &corev1.Secret{}
	if w.get("cities-app", again); !cmp.Equal(credentials.Data, again.Data) {
		t.Error("the credentials were rewritten")
	}
	checkRights(w)
}

// checkIdle runs passes over a database that is as wished: not one of them writes.
func checkIdle(w *world) {
	w.t.Helper()
	w.passUntil("the caches are current", func() bool { time.Sleep(100 * time.Millisecond); return true })
	before := w.writes.Load()
	for range 10 {
		w.pass()
	}
	// Events are sent by a goroutine of their own.
	time.Sleep(300 * time.Millisecond)
	if wrote := w.writes.Load() - before; wrote != 0 {
		w.t.Errorf("%d writes for a database that is as wished", wrote)
	}
}

func checkDrift(w *world) {
	w.t.Helper()
	change(w, "cities-rw", &corev1.Service{}, func(service *corev1.Service) {
		service.Spec.Selector["meridian.dev/instance"] = "nobody"
	})
	w.passUntil("the route is repaired", func() bool {
		var service corev1.Service
		return w.get("cities-rw", &service) &&
			service.Spec.Selector["meridian.dev/instance"] == "cities-1"
	})
}

func checkGrowth(w *world) {
	w.t.Helper()
	large := resource.MustParse("2Gi")
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Storage.Size = large })
	w.passUntil("the claim grows", func() bool {
		var claim corev1.PersistentVolumeClaim
		return w.get("cities-1", &claim) && claim.Spec.Resources.Requests.Storage().Cmp(large) == 0
	})
}

// checkRotation lets two months pass: the leaf is another, the authority the same.
func checkRotation(w *world) {
	w.t.Helper()
	var before, after corev1.Secret
	w.get("cities-tls", &before)
	w.later = 61 * 24 * time.Hour
	w.passUntil("the leaf is replaced", func() bool {
		return w.get("cities-tls", &after) && string(after.Data["tls.crt"]) != string(before.Data["tls.crt"])
	})
	if string(after.Data["ca.crt"]) != string(before.Data["ca.crt"]) {
		w.t.Error("the bundle has changed")
	}
}

// checkDeletion deletes the database after its spec has said that claims go too.
func checkDeletion(w *world) {
	w.t.Helper()
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) {
		d.Spec.Storage.Reclaim = v1alpha1.ReclaimDelete
	})
	w.passUntil("the finalizer is on", func() bool { return len(w.database().Finalizers) == 1 })
	if err := w.client.Delete(w.t.Context(), w.database()); err != nil {
		w.t.Fatal(err)
	}
	w.passUntil("the database is gone", func() bool { return w.database().Name == "" })
	var claim corev1.PersistentVolumeClaim
	// The protection of claims keeps it until the pod is gone; nobody plays that controller here.
	if w.get("cities-1", &claim) && claim.DeletionTimestamp == nil {
		w.t.Error("the claim was not deleted")
	}
}

// checkRights compares what was used with the table: enough, and nothing too much.
func checkRights(w *world) {
	w.t.Helper()
	uncovered, unused := controller.Rights().Audit(installation, w.rights.Uses())
	for _, use := range uncovered {
		w.t.Errorf("not in the table: %s", use)
	}
	for _, one := range unused {
		// A series of equal events takes longer than this test, and a list is for API servers that cannot stream one.
		if (one.Row.Resource != "events" || one.Verb != "patch") && one.Verb != "list" {
			w.t.Error(one)
		}
	}
}

// TestForeignChild finds a Service of somebody else under one of our names: nothing is made, and a human is asked.
func TestForeignChild(t *testing.T) {
	w := newWorld(t)
	w.create(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "cities-rw"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	w.create(&v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "cities"},
		Spec:       v1alpha1.GeoDatabaseSpec{Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")}},
	})
	w.passUntil("it is stalled", func() bool {
		return condition.IsTrue(w.database().Status.Conditions, condition.Stalled)
	})
	var services corev1.ServiceList
	if err := w.client.List(t.Context(), &services); err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, service := range services.Items {
		if service.Namespace == space {
			names = append(names, service.Name)
		}
	}
	if !slices.Equal(names, []string{"cities-rw"}) || services.Items[0].Spec.Ports[0].Port == 5432 {
		t.Errorf("services: %v", names)
	}
}
