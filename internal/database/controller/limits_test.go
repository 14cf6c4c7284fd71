//go:build cluster

package controller_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// askForMemory changes spec.resources.memory.
func (w *world) askForMemory(memory string) {
	w.t.Helper()
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(database *v1alpha1.GeoDatabase) {
		database.Spec.Resources.Memory = new(resource.MustParse(memory))
	})
}

// refusedBecause waits until the status says that a size is refused, in these words.
func (w *world) refusedBecause(words string) {
	w.t.Helper()
	w.passUntil("the status says "+words, func() bool {
		stalled := condition.Find(w.database().Status.Conditions, v1alpha1.ConditionStalled)
		return stalled != nil && stalled.Reason == "ResizeRefused" && strings.Contains(stalled.Message, words)
	})
}

// uids are those of the pods that are there and are not being deleted.
func (w *world) uids(members []string) map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for _, name := range members {
		var pod corev1.Pod
		if w.get(name+"-0", &pod) && pod.DeletionTimestamp == nil {
			found[name] = string(pod.UID)
		}
	}
	return found
}

// have says that containers and templates of instances ask for that much memory.
func (w *world) have(memory string, members ...string) bool {
	w.t.Helper()
	wanted := resource.MustParse(memory)
	return !slices.ContainsFunc(members, func(name string) bool {
		var pod corev1.Pod
		var set appsv1.StatefulSet
		return !w.get(name+"-0", &pod) || !w.get(name, &set) ||
			pod.Spec.Containers[0].Resources.Requests.Memory().Cmp(wanted) != 0 ||
			set.Spec.Template.Spec.Containers[0].Resources.Requests.Memory().Cmp(wanted) != 0
	})
}

// TestRefusedSizeTouchesNothing raises the memory of a database beyond a LimitRange, beyond a quota, and beyond a node,
// on a real API server. The first two touch no pod, are told in the words of the API server, and go on by themselves
// when they are allowed. Only the pod whose node is too small is made anew.
func TestRefusedSizeTouchesNothing(t *testing.T) {
	w := newWorld(t)
	for name, memory := range map[string]string{"cities-1": "64Gi", "cities-2": "64Gi", "cities-3": "4Gi"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-" + name}}
		w.create(node)
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourcePods: resource.MustParse("100"),
		}
		node.Status.Capacity = node.Status.Allocatable
		if err := w.client.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	members := w.three()
	before := w.uids(members)
	stays := func(memory string) {
		t.Helper()
		for range 10 {
			w.pass()
		}
		if now := w.uids(members); !maps.Equal(now, before) || !w.have(memory, members...) {
			t.Fatalf("pods are %v, were %v; all have %s: %t", now, before, memory, w.have(memory, members...))
		}
	}

	limit := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "small"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
		}}},
	}
	w.create(limit)
	w.askForMemory("2Gi")
	w.refusedBecause("maximum memory usage per Container is 1Gi")
	stays("1Gi")
	if err := w.client.Delete(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	w.passUntil("the containers have grown", func() bool { return w.have("2Gi", members...) })
	stays("2Gi")

	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "tight"}}
	quota.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsMemory: resource.MustParse("6Gi")}
	w.create(quota)
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: quota.Spec.Hard}
	if err := w.client.Status().Update(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	w.askForMemory("3Gi")
	w.refusedBecause("exceeded quota: tight")
	stays("2Gi")
	if err := w.client.Delete(t.Context(), quota); err != nil {
		t.Fatal(err)
	}
	w.passUntil("the containers have grown again", func() bool { return w.have("3Gi", members...) })
	stays("3Gi")

	w.askForMemory("8Gi")
	w.passUntil("two containers have grown in place", func() bool { return w.have("8Gi", members[:2]...) })
	w.lead(1, members...) // They have taken the settings over.
	w.until("the set of the third is seen", func() bool {
		w.pass()
		changeStatus(w, "cities-3", &appsv1.StatefulSet{}, func(set *appsv1.StatefulSet) {
			set.Status.ObservedGeneration, set.Status.UpdateRevision = set.Generation, "r2"
		})
		w.lead(1, members...)
		return w.uids(members)["cities-3"] == ""
	})
	now := w.uids(members)
	if now["cities-1"] != before["cities-1"] || now["cities-2"] != before["cities-2"] {
		t.Errorf("pods are %v, were %v", now, before)
	}
}
