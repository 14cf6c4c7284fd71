//go:build cluster

package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/kit/condition"
)

var running = corev1.PodStatus{
	Phase:      corev1.PodRunning,
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
	w.boot("cities-1", "r1", stuck)
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
	w.boot("cities-1", "r2", running)
	w.lead(1, "cities-1")
	w.passUntil("it is ready", w.ready)
	checkSettingsAreTold(w)

	credentials := &corev1.Secret{}
	w.get("cities-app", credentials)
	checkIdle(w)
	checkDrift(w)
	checkScale(w)
	checkGrowth(w)
	checkLostNode(w)
	checkLeftover(w)
	checkRotation(w)
	checkPolicy(w)
	checkResize(w)
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

// checkSettingsAreTold changes a parameter: the kubelet of an agent that has older settings hears of it, once.
func checkSettingsAreTold(w *world) {
	w.t.Helper()
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) {
		d.Spec.Parameters = map[string]v1alpha1.Setting{"work_mem": "8MB"}
	})
	w.passUntil("the pod is told", func() bool {
		var pod corev1.Pod
		return w.get("cities-1-0", &pod) && pod.Annotations[database.AnnotationSettings] == w.settings().Hash()
	})
	checkIdle(w)
	w.lead(1, "cities-1")
	w.passUntil("it is ready again", w.ready)
}

// checkPolicy has the network policy removed, and made again.
func checkPolicy(w *world) {
	w.t.Helper()
	for _, mode := range []v1alpha1.NetworkPolicy{v1alpha1.NetworkNone, v1alpha1.NetworkManaged} {
		change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Network.Policy = mode })
		w.passUntil("the policy is "+string(mode), func() bool {
			return w.get("cities-pods", &networkingv1.NetworkPolicy{}) == (mode == v1alpha1.NetworkManaged)
		})
	}
}

// checkResize asks for other CPU: the running pod gets it, and stays.
func checkResize(w *world) {
	w.t.Helper()
	var before, after corev1.Pod
	w.get("cities-1-0", &before)
	cpu := resource.MustParse("700m")
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("64Gi"),
	}
	for serial := range 5 {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-of-cities-%d", serial+1)}}
		w.create(node)
		node.Status.Capacity, node.Status.Allocatable = room, room
		if err := w.client.Status().Update(w.t.Context(), node); err != nil {
			w.t.Fatal(err)
		}
	}
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Resources.CPU = &cpu })
	w.passUntil("the pod has it", func() bool {
		w.get("cities-1-0", &after)
		return after.Spec.Containers[0].Resources.Requests.Cpu().Cmp(cpu) == 0
	})
	if after.UID != before.UID {
		w.t.Error("the pod is another one")
	}
}

// checkLostNode has a replica that is not ready, and whose node is not there. Its volume can be attached to another
// one, so it is waited for.
func checkLostNode(w *world) {
	w.t.Helper()
	var claim corev1.PersistentVolumeClaim
	w.get("cities-1", &claim)
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-of-cities-1"}}
	volume.Spec = corev1.PersistentVolumeSpec{
		Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes,
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "disks.example", VolumeHandle: "1"},
		},
	}
	w.create(volume)
	change(w, "cities-1", &claim, func(claim *corev1.PersistentVolumeClaim) { claim.Spec.VolumeName = volume.Name })
	ready := func(is corev1.ConditionStatus) {
		changeStatus(w, "cities-1-0", &corev1.Pod{}, func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.Now()},
			}
		})
	}
	ready(corev1.ConditionFalse)
	w.passUntil("the node is missed", func() bool {
		degraded := condition.Find(w.database().Status.Conditions, v1alpha1.ConditionDegraded)
		return degraded != nil && degraded.Reason == "NodeAway"
	})
	if instances := w.settings().Instances; len(instances) != 2 {
		w.t.Errorf("the instances are %v: it is replaced at once, although its volume can be attached elsewhere", instances)
	}
	ready(corev1.ConditionTrue)
}

func checkDrift(w *world) {
	w.t.Helper()
	change(w, "cities-ro", &corev1.Service{}, func(service *corev1.Service) {
		service.Spec.Selector["meridian.dev/read"] = "maybe"
	})
	change(w, "cities-rw", &discoveryv1.EndpointSlice{}, func(slice *discoveryv1.EndpointSlice) {
		slice.Labels["kubernetes.io/service-name"] = "another"
	})
	w.passUntil("the routes are repaired", func() bool {
		var service corev1.Service
		var slice discoveryv1.EndpointSlice
		return w.get("cities-ro", &service) && service.Spec.Selector["meridian.dev/read"] == "true" &&
			w.get("cities-rw", &slice) && slice.Labels["kubernetes.io/service-name"] == "cities-rw"
	})
	checkLabels(w)
	var slice discoveryv1.EndpointSlice
	if w.get("cities-rw", &slice); len(slice.Endpoints) != 1 || slice.Annotations["meridian.dev/term"] != "1" {
		w.t.Errorf("what the primary wrote was touched: %+v", slice)
	}
}

// checkLabels takes every label away from children, also from those that the caches know by a label alone.
func checkLabels(w *world) {
	w.t.Helper()
	stripped := map[string]client.Object{
		"cities-pods": &networkingv1.NetworkPolicy{}, "cities-pods ": &policyv1.PodDisruptionBudget{},
		"cities-agent": &corev1.ServiceAccount{}, "cities-agent ": &rbacv1.Role{}, "cities-agent  ": &rbacv1.RoleBinding{},
	}
	for name, object := range stripped {
		change(w, strings.TrimSpace(name), object, func(object client.Object) { object.SetLabels(nil) })
	}
	w.passUntil("the labels are back", func() bool {
		for name, object := range stripped {
			if w.get(strings.TrimSpace(name), object); object.GetLabels()[database.LabelDatabase] != "cities" {
				return false
			}
		}
		return true
	})
}

// checkScale goes from one instance to three and back to two: the names are new ones, nobody leaves whose copy is
// counted on, and the one that leaves is never the primary.
func checkScale(w *world) {
	w.t.Helper()
	scale := func(number int32) {
		change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Instances = number })
	}
	scale(3)
	w.passUntil("there are three", func() bool {
		return w.get("cities-2", &appsv1.StatefulSet{}) && w.get("cities-3", &appsv1.StatefulSet{})
	})
	w.boot("cities-2", "r1", running)
	w.boot("cities-3", "r1", running)
	// The newest is the primary by now.
	w.lead(2, "cities-3", "cities-1", "cities-2")
	w.passUntil("all three are ready", w.ready)
	if primary := w.database().Status.Primary; primary != "cities-3" {
		w.t.Errorf("the primary is %q", primary)
	}
	checkIdle(w)
	scale(2)
	w.passUntil("one is no longer wanted", func() bool { return len(w.settings().Instances) == 2 })
	if want := []string{"cities-1", "cities-3"}; !slices.Equal(w.settings().Instances, want) {
		w.t.Errorf("%v stay, want %v", w.settings().Instances, want)
	}
	for range 5 {
		w.pass()
		time.Sleep(20 * time.Millisecond)
	}
	if !w.get("cities-2", &appsv1.StatefulSet{}) {
		w.t.Fatal("an instance went whose copy is counted on")
	}
	w.lead(2, "cities-3", "cities-1")
	w.passUntil("it is gone", func() bool { return !w.get("cities-2", &appsv1.StatefulSet{}) })
	if !w.get("cities-2", &corev1.PersistentVolumeClaim{}) {
		w.t.Error("its claim was not kept")
	}
	w.lead(2, "cities-3", "cities-1")
	w.passUntil("both are ready", w.ready)
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

// checkLeftover has the Secret there that all instances had in common, and no pod mounts any more.
func checkLeftover(w *world) {
	w.t.Helper()
	shared := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "cities-tls"}}
	shared.Annotations = map[string]string{database.AnnotationOwner: string(w.database().UID)}
	w.create(shared)
	w.passUntil("it is gone", func() bool { return !w.get("cities-tls", &corev1.Secret{}) })
}

// checkRotation lets two months pass: the leaf is another, the authority the same.
func checkRotation(w *world) {
	w.t.Helper()
	var before, after corev1.Secret
	w.get("cities-cert1", &before)
	w.later = 61 * 24 * time.Hour
	w.passUntil("the leaf is replaced", func() bool {
		return w.get("cities-cert1", &after) && string(after.Data["tls.crt"]) != string(before.Data["tls.crt"])
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
	w.passUntil("it is seen", func() bool { return w.database().Status.ObservedGeneration == w.database().Generation })
	if err := w.client.Delete(w.t.Context(), w.database()); err != nil {
		w.t.Fatal(err)
	}
	w.passUntil("the database is gone", func() bool { return w.database().Name == "" })
	var claim corev1.PersistentVolumeClaim
	// The protection of claims keeps it until the pod is gone; nobody plays that controller here.
	if w.get("cities-1", &claim) && claim.DeletionTimestamp == nil {
		w.t.Error("the claim was not deleted")
	}
	var lease coordinationv1.Lease
	if w.get("cities-primary", &lease); len(lease.Finalizers) > 0 {
		w.t.Errorf("the lease keeps %v and can never go", lease.Finalizers)
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
