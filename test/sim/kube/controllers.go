package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/test/sim/lives/trial"
)

// Away marks a node that has lost its power. The kubelet on it does and says nothing.
const Away = "example.com/away"

// View is what an actor sees, read once for each step.
type View struct {
	context.Context
	client.Client
	Sets   appsv1.StatefulSetList
	Pods   corev1.PodList
	Claims corev1.PersistentVolumeClaimList
}

// Look reads it all, but for the pods of restores on trial: no StatefulSet makes those.
func Look(ctx context.Context, cluster client.Client) (*View, error) {
	seen := &View{Context: ctx, Client: cluster}
	for _, list := range []client.ObjectList{&seen.Sets, &seen.Pods, &seen.Claims} {
		if err := cluster.List(ctx, list, client.InNamespace(Space)); err != nil {
			return nil, err
		}
	}
	trial.Apart(&seen.Pods)
	return seen, nil
}

// Thing is what an actor does to the first object to which it is to be done.
type Thing = func(*View) (bool, error)

// FirstOf does the first thing that there is to do.
func FirstOf(things ...Thing) func(context.Context, client.Client) (bool, error) {
	return func(ctx context.Context, cluster client.Client) (bool, error) {
		seen, err := Look(ctx, cluster)
		if err != nil {
			return false, err
		}
		for _, do := range things {
			if acted, err := do(seen); acted || err != nil {
				return acted, err
			}
		}
		return false, nil
	}
}

// AllOf does the first kind of thing that there is to do, to all objects.
func AllOf(things ...Thing) func(context.Context, client.Client) (bool, error) {
	return func(ctx context.Context, cluster client.Client) (bool, error) {
		seen, err := Look(ctx, cluster)
		if err != nil {
			return false, err
		}
		for _, do := range things {
			acted, err := do(seen)
			for more := acted; more && err == nil; {
				if seen, err = Look(ctx, cluster); err == nil {
					more, err = do(seen)
				}
			}
			if acted || err != nil {
				return acted, err
			}
		}
		return false, nil
	}
}

// Pod is the pod of that name, nil if there is none.
func (v *View) Pod(name string) *corev1.Pod {
	for i := range v.Pods.Items {
		if v.Pods.Items[i].Name == name {
			return &v.Pods.Items[i]
		}
	}
	return nil
}

// Claim is the claim of that name, nil if there is none.
func (v *View) Claim(name string) *corev1.PersistentVolumeClaim {
	for i := range v.Claims.Items {
		if v.Claims.Items[i].Name == name {
			return &v.Claims.Items[i]
		}
	}
	return nil
}

// ObserveSet says which revision a template is.
func ObserveSet(v *View) (bool, error) {
	for i := range v.Sets.Items {
		set := &v.Sets.Items[i]
		if set.Status.ObservedGeneration == set.Generation || set.DeletionTimestamp != nil {
			continue
		}
		set.Status.ObservedGeneration, set.Status.UpdateRevision = set.Generation, revisionOf(set)
		return true, v.Status().Update(v, set)
	}
	return false, nil
}

func revisionOf(set *appsv1.StatefulSet) string {
	text, err := json.Marshal(set.Spec.Template)
	if err != nil {
		panic(err) // It came as JSON.
	}
	sum := fnv.New32a()
	_, _ = sum.Write(text)
	return fmt.Sprintf("%s-%x", set.Name, sum.Sum32())
}

// MakePod makes the one pod of a set, from the template that it has now. Without its claim a pod would not be placed,
// which is left out here.
func MakePod(v *View) (bool, error) {
	for i := range v.Sets.Items {
		set := &v.Sets.Items[i]
		name := set.Name + "-0"
		if set.DeletionTimestamp != nil || v.Pod(name) != nil || set.Status.ObservedGeneration != set.Generation ||
			set.Spec.Replicas != nil && *set.Spec.Replicas == 0 {
			continue
		}
		pod := &corev1.Pod{
			ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy(),
		}
		if slices.ContainsFunc(ClaimsOf(pod), func(claim string) bool {
			found := v.Claim(claim)
			return found == nil || found.DeletionTimestamp != nil
		}) {
			continue
		}
		node, err := v.Place(set.Name)
		if node == "" || err != nil {
			return false, err
		}
		pod.Namespace, pod.Name, pod.Spec.NodeName = Space, name, node
		pod.Labels[appsv1.StatefulSetRevisionLabel] = set.Status.UpdateRevision
		pod.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
		}
		return true, v.Create(v, pod)
	}
	return false, nil
}

// StopPod ends the pod of a set that shall have none.
func StopPod(v *View) (bool, error) {
	for i := range v.Sets.Items {
		set := &v.Sets.Items[i]
		pod := v.Pod(set.Name + "-0")
		if set.Spec.Replicas != nil && *set.Spec.Replicas == 0 && pod != nil && pod.DeletionTimestamp == nil {
			return true, v.Delete(v, pod)
		}
	}
	return false, nil
}

// Missing is in the name of an image that there is not.
const Missing = "missing"

// CannotStart says that the image of a pod cannot be had.
func CannotStart(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return strings.Contains(container.Image, Missing)
	})
}

// FailPod says of a pod that its image cannot be had.
func FailPod(v *View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		if !CannotStart(pod) || len(pod.Status.ContainerStatuses) > 0 || pod.DeletionTimestamp != nil {
			continue
		}
		for _, container := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "there is no " + container.Image},
				},
			})
		}
		return true, v.Status().Update(v, pod)
	}
	return false, nil
}

// ClaimsOf are the claims of a pod, that of the data first.
func ClaimsOf(pod *corev1.Pod) []string {
	var names []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// Place is the node of the same number, as volumes are bound to theirs; empty while that is away.
func (v *View) Place(set string) (string, error) {
	name := "node" + set[strings.LastIndex(set, "-")+1:]
	var node corev1.Node
	err := v.Get(v, client.ObjectKey{Name: name}, &node)
	if err != nil || node.Annotations[Away] != "" {
		return "", client.IgnoreNotFound(err)
	}
	return name, nil
}

// BindClaim makes a volume for a claim that a pod waits for, and grows those that ask for more.
func BindClaim(v *View) (bool, error) {
	for i := range v.Claims.Items {
		claim := &v.Claims.Items[i]
		wanted := claim.Spec.Resources.Requests
		used := slices.ContainsFunc(v.Pods.Items, func(pod corev1.Pod) bool {
			return slices.Contains(ClaimsOf(&pod), claim.Name)
		})
		capacity := claim.Status.Capacity[corev1.ResourceStorage]
		if !used || claim.Status.Phase == corev1.ClaimBound && capacity.Cmp(*wanted.Storage()) >= 0 {
			continue
		}
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, wanted
		return true, v.Status().Update(v, claim)
	}
	return false, nil
}

// Lost says that the node of a pod is away.
func (v *View) Lost(pod *corev1.Pod) (bool, error) { return IsLost(v, v, pod.Spec.NodeName) }

// IsLost says that the node of that name is away.
func IsLost(ctx context.Context, cluster client.Reader, name string) (bool, error) {
	var node corev1.Node
	err := cluster.Get(ctx, client.ObjectKey{Name: name}, &node)
	return err != nil || node.Annotations[Away] != "", client.IgnoreNotFound(err)
}

// Mounted says that all is there that a pod mounts.
func (v *View) Mounted(pod *corev1.Pod) (bool, error) {
	for _, volume := range pod.Spec.Volumes {
		found, err := true, error(nil)
		switch {
		case volume.ConfigMap != nil:
			found, err = Get(v, v, volume.ConfigMap.Name, &corev1.ConfigMap{})
		case volume.Secret != nil:
			found, err = Get(v, v, volume.Secret.SecretName, &corev1.Secret{})
			found = found || volume.Secret.Optional != nil && *volume.Secret.Optional // The kubelet does not wait for it.
		case volume.PersistentVolumeClaim != nil:
			claim := v.Claim(volume.PersistentVolumeClaim.ClaimName)
			found = claim != nil && claim.Status.Phase == corev1.ClaimBound
		}
		if !found || err != nil {
			return false, err
		}
	}
	return true, nil
}

// Ready says that a pod is said to be ready.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// SetReady says so.
func SetReady(pod *corev1.Pod, status corev1.ConditionStatus) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

// ResizePod carries out what was changed in the resources of a running pod.
func ResizePod(v *View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		changed := false
		for j := range pod.Status.ContainerStatuses {
			status, wanted := &pod.Status.ContainerStatuses[j], pod.Spec.Containers[j].Resources
			if status.Resources != nil && !status.Resources.Limits.Memory().Equal(*wanted.Limits.Memory()) {
				status.Resources, changed = &wanted, true
			}
		}
		if changed {
			return true, v.Status().Update(v, pod)
		}
	}
	return false, nil
}
