//go:build cluster

package controller_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	"meridian.dev/meridian/kit/expect"
)

// besideACrash is a pod whose database works beside a container of the user's that does not.
var besideACrash = corev1.PodStatus{
	Phase: corev1.PodRunning,
	ContainerStatuses: []corev1.ContainerStatus{
		{Name: "database", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		{Name: "exporter", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off"},
		}},
	},
}

// TestPodIsKept gives the pod of an instance another template, and each time another reason not to be deleted. The loop
// leaves it alone, and so does an actor whose plan was made by somebody who did not know.
func TestPodIsKept(t *testing.T) {
	w := newWorld(t)
	makeCities(w)
	w.boot("cities-1", "r1", besideACrash)
	changeStatus(w, "cities-1", &appsv1.StatefulSet{}, func(set *appsv1.StatefulSet) { set.Status.UpdateRevision = "r2" })
	checkKept(w, "its database runs")
	if waiting := w.database().Status.WaitingFor; strings.Contains(waiting, "exporter") {
		t.Errorf("a container of the user's makes the database stuck: %s", waiting)
	}

	claim := &corev1.PersistentVolumeClaim{}
	w.get("cities-1", claim)
	if err := w.client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	changeStatus(w, "cities-1-0", &corev1.Pod{}, func(pod *corev1.Pod) { pod.Status = stuck })
	checkKept(w, "is being deleted")

	change(w, "cities-1", claim, func(claim *corev1.PersistentVolumeClaim) { claim.Finalizers = nil })
	checkRefused(w, "is gone")
}

// makeCities makes a database that waits for its first pod.
func makeCities(w *world) {
	w.t.Helper()
	w.create(&v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "cities"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: 1, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi"), Class: "fast"},
		},
	})
	w.passUntil("everything is made", func() bool {
		return w.get("cities-app", &corev1.Secret{}) && w.database().Status.WaitingFor == "cities-1 has no pod yet"
	})
}

func checkKept(w *world, why string) {
	w.t.Helper()
	checkRefused(w, why)
	for range 5 {
		w.pass()
		time.Sleep(50 * time.Millisecond)
	}
	pod := &corev1.Pod{}
	if !w.get("cities-1-0", pod) || pod.DeletionTimestamp != nil {
		w.t.Fatalf("the pod was deleted: %s", why)
	}
}

// checkRefused has an actor delete the pod by a plan that was made without looking.
func checkRefused(w *world, why string) {
	w.t.Helper()
	pod := &corev1.Pod{}
	w.get("cities-1-0", pod)
	actor := act.Actor{Client: w.client, Live: w.client, Now: time.Now}
	_, err := actor.Act(w.t.Context(), expect.Ledger{}, w.database(), decided(database.Action{
		Do: database.DeletePod{}, Kind: database.KindPod, Name: pod.Name,
		UID: string(pod.UID), ResourceVersion: pod.ResourceVersion,
	}))
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), why) {
		w.t.Errorf("the actor says %v, want a conflict: %s", err, why)
	}
}

// TestRecordWhilePaused has the first instance come up after the user has paused the database and changed a parameter:
// the record is stored, on the claim too, and the parameter waits. Then somebody changes one copy: both stay as they
// are.
func TestRecordWhilePaused(t *testing.T) {
	w := newWorld(t)
	makeCities(w)
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) {
		d.Spec.Paused, d.Spec.Parameters = true, map[string]v1alpha1.Setting{"work_mem": "77MB"}
	})
	w.boot("cities-1", "r1", running)
	w.lead(1, "cities-1")
	settings, claim := &corev1.ConfigMap{}, &corev1.PersistentVolumeClaim{}
	w.passUntil("the record is stored", func() bool {
		w.get("cities-settings", settings)
		w.get("cities-1", claim)
		return strings.Contains(settings.Data["settings.json"], "7001") &&
			claim.Annotations[database.AnnotationSystemIdentifier] == "7001"
	})
	if strings.Contains(settings.Data["settings.json"], "77MB") {
		t.Errorf("the parameter did not wait: %s", settings.Data["settings.json"])
	}
	checkIdle(w)
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) {
		d.Spec.Paused, d.Spec.Storage.Size = false, resource.MustParse("2Gi")
	})
	change(w, "cities-1", claim, func(claim *corev1.PersistentVolumeClaim) {
		claim.Annotations[database.AnnotationSystemIdentifier] = "9009"
	})
	w.passUntil("a human is asked, and the claim grows", func() bool {
		w.get("cities-1", claim)
		return strings.Contains(w.database().Status.WaitingFor, "9009") &&
			claim.Spec.Resources.Requests.Storage().String() == "2Gi"
	})
	w.get("cities-settings", settings)
	if claim.Annotations[database.AnnotationSystemIdentifier] != "9009" ||
		!strings.Contains(settings.Data["settings.json"], "7001") {
		t.Errorf("a copy was rewritten: %v, %v", claim.Annotations, settings.Data)
	}
}

// TestAuthorityIsGone deletes the Secret of the authority while a leaf of it is in use: no other one is made, by the
// loop or by an actor whose plan says so.
func TestAuthorityIsGone(t *testing.T) {
	w := newWorld(t)
	makeCities(w)
	authority := &corev1.Secret{}
	w.get("cities-ca", authority)
	if err := w.client.Delete(t.Context(), authority); err != nil {
		t.Fatal(err)
	}
	w.passUntil("a human is asked", func() bool {
		return strings.Contains(w.database().Status.WaitingFor, "cities-ca has no authority any more")
	})
	actor := act.Actor{Client: w.client, Live: w.client, Now: time.Now}
	_, err := actor.Act(t.Context(), expect.Ledger{}, w.database(), database.Plan{
		Decided: decided(database.Action{
			Do: database.StoreCertificates{}, Kind: database.KindSecret, Name: authority.Name,
		}).Decided,
		Design: database.Design{
			Identity:  database.Identity{Namespace: space, Name: "cities"},
			Instances: []database.InstanceDesign{{Serial: 1, Name: "cities-1"}},
		},
	})
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "authority that is trusted is gone") {
		t.Errorf("the actor says %v, want a conflict", err)
	}
	if w.get("cities-ca", authority) {
		t.Error("another authority was made")
	}
}
