package controller_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/sim"
)

// readyTown is a town whose three instances are well, and in which nothing fails.
func readyTown(t *testing.T) *town {
	t.Helper()
	w := newTown(t, -1, sim.Done)
	w.until("it is ready", w.ready)
	return w
}

// TestOrphans deletes the database with the word that its children stay: no claim goes, although the spec says Delete,
// and the lease is free, so that whoever comes later can delete it.
func TestOrphans(t *testing.T) {
	w := readyTown(t)
	w.must(w.admin.Delete(t.Context(), w.database(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	w.until("the database is gone", func() bool { return w.database().UID == "" })
	var claims corev1.PersistentVolumeClaimList
	w.must(w.admin.List(t.Context(), &claims))
	for _, claim := range claims.Items {
		if claim.DeletionTimestamp != nil {
			t.Errorf("the claim %s was deleted", claim.Name)
		}
	}
	var lease coordinationv1.Lease
	there := w.get(database.LeaseName(towns.Name), &lease)
	if len(claims.Items) != 3 || len(w.instances()) != 3 || !there || len(lease.Finalizers) != 0 {
		t.Errorf("%d claims, instances %v, lease %t with %v", len(claims.Items), w.instances(), there, lease.Finalizers)
	}
}

// TestOtherInstallation gives the database to another installation: nothing is written any more, not even a status,
// whatever the user wishes.
func TestOtherInstallation(t *testing.T) {
	w := readyTown(t)
	if stamp := w.database().Annotations[database.AnnotationInstallation]; stamp != "home/operator" {
		t.Fatalf("the stamp is %q", stamp)
	}
	w.change(&v1alpha1.GeoDatabase{}, towns.Name, func(object client.Object) {
		object.GetAnnotations()[database.AnnotationInstallation] = "elsewhere/operator"
		object.(*v1alpha1.GeoDatabase).Spec.Instances = 5
	})
	before, round := w.writes, 0
	w.until("twenty passes are over", func() bool { round++; return round > 20 })
	if w.writes != before {
		t.Errorf("%d writes for a database of somebody else", w.writes-before)
	}
}

// TestRequest asks for another primary. The agent of the holder hears of it with the same id until it has it; when it
// says no, the request is taken away; when another one leads, too.
func TestRequest(t *testing.T) {
	w := readyTown(t)
	ask := func() {
		w.change(&v1alpha1.GeoDatabase{}, towns.Name, func(object client.Object) {
			object.GetAnnotations()[database.AnnotationSwitchover] = "towns-2"
		})
	}
	answered := func() bool {
		marks := w.database().Annotations
		return marks[database.AnnotationSwitchover]+marks[database.AnnotationRequest] == ""
	}
	w.refusal = "not now"
	ask()
	w.until("the agent was asked, and its no was heard", answered)
	if len(w.told) != 1 || w.told[0].Target != "towns-2" || w.told[0].ID == "" {
		t.Errorf("the agent was asked %+v", w.told)
	}
	w.refusal = ""
	ask()
	w.until("the agent was asked again and again", func() bool { return len(w.told) > 3 })
	if ids := w.told[1:]; slices.ContainsFunc(ids, func(one wire.Switchover) bool { return one != ids[0] }) {
		t.Errorf("one request has several ids: %+v", ids)
	}
	w.hand(2, "towns-2")
	w.until("the request is over", answered)
	if primary := w.database().Status.Primary; primary != "towns-2" {
		w.until("the status says so", func() bool { return w.database().Status.Primary == "towns-2" })
	}
}

// TestActorLooksAgain has an actor carry out plans that were right once. It looks live, and leaves everything alone.
func TestActorLooksAgain(t *testing.T) {
	w := readyTown(t)
	var set appsv1.StatefulSet
	var pod corev1.Pod
	var claim corev1.PersistentVolumeClaim
	w.get("towns-3", &set)
	w.get("towns-3-0", &pod)
	w.get("towns-3", &claim)
	tests := map[string]struct {
		action database.Action
		object client.Object
		why    string
	}{
		"an instance that is wanted again": {
			database.Action{Do: database.DeleteSet{}, Kind: database.KindSet}, &set, "the settings name it",
		},
		"a claim that is wanted again": {
			database.Action{Do: database.DeleteClaim{}, Kind: database.KindClaim}, &claim, "the settings name it",
		},
		"a pod that is not being deleted": {
			database.Action{Do: database.RemovePod{}, Kind: database.KindPod}, &pod, "it is not being deleted",
		},
		"a second lease": {
			database.Action{Do: database.FreeLease{}, Kind: database.KindLease}, &coordinationv1.Lease{},
			"the database is not being deleted",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			action := test.action
			action.Name, action.UID = test.object.GetName(), string(test.object.GetUID())
			action.ResourceVersion = test.object.GetResourceVersion()
			actor := act.Actor{Client: w.admin, Live: w.admin, Now: time.Now}
			_, err := actor.Act(t.Context(), expect.Ledger{}, w.database(), decided(action))
			if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), test.why) {
				t.Errorf("the actor says %v, want a conflict: %s", err, test.why)
			}
		})
	}
	w.checkRemoval(&pod)
}

// checkRemoval deletes a pod while its node is there, and then vouches for the node.
func (w *town) checkRemoval(pod *corev1.Pod) {
	w.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node3"}}
	w.create(node)
	w.must(w.admin.Delete(context.Background(), pod))
	w.get(pod.Name, pod)
	remove := func() error {
		actor := act.Actor{Client: w.admin, Live: w.admin, Now: time.Now}
		_, err := actor.Act(context.Background(), expect.Ledger{}, w.database(), decided(database.Action{
			Do: database.RemovePod{}, Kind: database.KindPod, Name: pod.Name, UID: string(pod.UID),
			ResourceVersion: pod.ResourceVersion,
		}))
		return err
	}
	if err := remove(); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "nobody vouches") {
		w.t.Errorf("the actor says %v about a pod whose node is there", err)
	}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	w.update(node)
	if err := remove(); err != nil || w.get(pod.Name, &corev1.Pod{}) {
		w.t.Errorf("the pod on a node that somebody vouches for is still there: %v", err)
	}
}

// TestLostNode takes the node of a replica away. Nothing happens for five minutes; then another instance is made, and
// when it has a copy the lost one goes. Its pod stays until somebody vouches that nothing runs on the node.
func TestLostNode(t *testing.T) {
	w := readyTown(t)
	w.dead = "towns-2"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node2"}}
	w.create(node)
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastTransitionTime: metav1.NewTime(w.clock.Now()),
	}}
	w.must(w.admin.Status().Update(t.Context(), node))
	w.change(&corev1.Pod{}, "towns-2-0", func(object client.Object) {
		object.(*corev1.Pod).Status.Conditions[0].Status = corev1.ConditionFalse
		w.must(w.admin.Status().Update(t.Context(), object))
	})
	begun := w.clock.Now()
	w.until("four minutes have passed", func() bool { return w.clock.Now().Sub(begun) > 4*time.Minute })
	if got := w.instances(); !slices.Equal(got, story[0].want) {
		t.Fatalf("instances after four minutes: %v", got)
	}
	w.until("another instance has its place", func() bool {
		return slices.Equal(w.instances(), []string{"towns-1", "towns-3", "towns-4"}) && w.ready()
	})
	if waited := w.clock.Now().Sub(begun); waited < 5*time.Minute {
		t.Errorf("it was replaced after %v", waited)
	}
	if !w.get("towns-2-0", &corev1.Pod{}) {
		t.Fatal("the pod was removed although its node may run it still")
	}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
	w.update(node)
	w.until("the pod is removed", func() bool { return !w.get("towns-2-0", &corev1.Pod{}) })
}

// decided is a plan of these actions.
func decided(actions ...database.Action) database.Plan {
	return database.Plan{Decided: database.Decided{Actions: actions}}
}
