package lives

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

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/lives/trial"
)

// away marks a node that has lost its power. The kubelet on it does and says nothing.
const away = "example.com/away"

// clusterActors are the controllers that the simulated API server does not have. Each does one kind of thing at a time,
// in a slow world to one object only.
func clusterActors(slow bool) []search.Actor {
	pace := allOf
	if slow {
		pace = firstOf
	}
	return []search.Actor{
		{Name: "statefulset controller", Step: pace(observeSet, makePod, stopPod)},
		{Name: "volumes", Step: pace(bindClaim)},
		{Name: "kubelet", Step: pace(loseNode, comeBack, endPod, failPod, runPod, resizePod, readSettings, lookAtVolume,
			liveTrial)},
	}
}

// view is what an actor sees, read once for each step.
type view struct {
	context.Context
	client.Client
	sets   appsv1.StatefulSetList
	pods   corev1.PodList
	claims corev1.PersistentVolumeClaimList
}

func look(ctx context.Context, cluster client.Client) (*view, error) {
	seen := &view{Context: ctx, Client: cluster}
	for _, list := range []client.ObjectList{&seen.sets, &seen.pods, &seen.claims} {
		if err := cluster.List(ctx, list, client.InNamespace(space)); err != nil {
			return nil, err
		}
	}
	trial.Apart(&seen.pods)
	return seen, nil
}

// thing is what an actor does to the first object to which it is to be done.
type thing = func(*view) (bool, error)

// firstOf does the first thing that there is to do.
func firstOf(things ...thing) func(context.Context, client.Client) (bool, error) {
	return func(ctx context.Context, cluster client.Client) (bool, error) {
		seen, err := look(ctx, cluster)
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

// allOf does the first kind of thing that there is to do, to all objects.
func allOf(things ...thing) func(context.Context, client.Client) (bool, error) {
	return func(ctx context.Context, cluster client.Client) (bool, error) {
		seen, err := look(ctx, cluster)
		if err != nil {
			return false, err
		}
		for _, do := range things {
			acted, err := do(seen)
			for more := acted; more && err == nil; {
				if seen, err = look(ctx, cluster); err == nil {
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

func (v *view) pod(name string) *corev1.Pod {
	for i := range v.pods.Items {
		if v.pods.Items[i].Name == name {
			return &v.pods.Items[i]
		}
	}
	return nil
}

func (v *view) claim(name string) *corev1.PersistentVolumeClaim {
	for i := range v.claims.Items {
		if v.claims.Items[i].Name == name {
			return &v.claims.Items[i]
		}
	}
	return nil
}

// observeSet says which revision a template is.
func observeSet(v *view) (bool, error) {
	for i := range v.sets.Items {
		set := &v.sets.Items[i]
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

// makePod makes the one pod of a set, from the template that it has now. Without its claim a pod would not be placed,
// which is left out here.
func makePod(v *view) (bool, error) {
	for i := range v.sets.Items {
		set := &v.sets.Items[i]
		name := set.Name + "-0"
		if set.DeletionTimestamp != nil || v.pod(name) != nil || set.Status.ObservedGeneration != set.Generation ||
			set.Spec.Replicas != nil && *set.Spec.Replicas == 0 {
			continue
		}
		pod := &corev1.Pod{
			ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy(),
		}
		if slices.ContainsFunc(claimsOf(pod), func(claim string) bool {
			found := v.claim(claim)
			return found == nil || found.DeletionTimestamp != nil
		}) {
			continue
		}
		node, err := v.place(set.Name)
		if node == "" || err != nil {
			return false, err
		}
		pod.Namespace, pod.Name, pod.Spec.NodeName = space, name, node
		pod.Labels[appsv1.StatefulSetRevisionLabel] = set.Status.UpdateRevision
		pod.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")),
		}
		return true, v.Create(v, pod)
	}
	return false, nil
}

// stopPod ends the pod of a set that shall have none.
func stopPod(v *view) (bool, error) {
	for i := range v.sets.Items {
		set := &v.sets.Items[i]
		pod := v.pod(set.Name + "-0")
		if set.Spec.Replicas != nil && *set.Spec.Replicas == 0 && pod != nil && pod.DeletionTimestamp == nil {
			return true, v.Delete(v, pod)
		}
	}
	return false, nil
}

// missing is in the name of an image that there is not.
const missing = "missing"

func cannotStart(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(container corev1.Container) bool {
		return strings.Contains(container.Image, missing)
	})
}

// failPod says of a pod that its image cannot be had.
func failPod(v *view) (bool, error) {
	for i := range v.pods.Items {
		pod := &v.pods.Items[i]
		if !cannotStart(pod) || len(pod.Status.ContainerStatuses) > 0 || pod.DeletionTimestamp != nil {
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

// claimsOf are the claims of a pod, that of the data first.
func claimsOf(pod *corev1.Pod) []string {
	var names []string
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			names = append(names, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return names
}

// place is the node of the same number, as volumes are bound to theirs; empty while that is away.
func (v *view) place(set string) (string, error) {
	name := "node" + set[strings.LastIndex(set, "-")+1:]
	var node corev1.Node
	err := v.Get(v, client.ObjectKey{Name: name}, &node)
	if err != nil || node.Annotations[away] != "" {
		return "", client.IgnoreNotFound(err)
	}
	return name, nil
}

// bindClaim makes a volume for a claim that a pod waits for, and grows those that ask for more.
func bindClaim(v *view) (bool, error) {
	for i := range v.claims.Items {
		claim := &v.claims.Items[i]
		wanted := claim.Spec.Resources.Requests
		used := slices.ContainsFunc(v.pods.Items, func(pod corev1.Pod) bool {
			return slices.Contains(claimsOf(&pod), claim.Name)
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

// loseNode has the pods of a node that is away not ready any more, and told to end.
func loseNode(v *view) (bool, error) {
	for i := range v.pods.Items {
		pod := &v.pods.Items[i]
		if lost, err := v.lost(pod); !lost || err != nil {
			if err != nil {
				return false, err
			}
			continue
		}
		if ready(pod) {
			setReady(pod, corev1.ConditionFalse)
			return true, v.Status().Update(v, pod)
		}
		if pod.DeletionTimestamp == nil {
			return true, v.Delete(v, pod)
		}
	}
	return false, nil
}

// comeBack starts the pods of a node that is back, as far as nobody has told them to end.
func comeBack(v *view) (bool, error) {
	for i := range v.pods.Items {
		pod := &v.pods.Items[i]
		lost, err := v.lost(pod)
		if err != nil {
			return false, err
		}
		if !lost && pod.Status.Phase == corev1.PodRunning && !ready(pod) && pod.DeletionTimestamp == nil {
			setReady(pod, corev1.ConditionTrue)
			return true, v.Status().Update(v, pod)
		}
	}
	return false, nil
}

func (v *view) lost(pod *corev1.Pod) (bool, error) { return isLost(v, v, pod.Spec.NodeName) }

func isLost(ctx context.Context, cluster client.Reader, name string) (bool, error) {
	var node corev1.Node
	err := cluster.Get(ctx, client.ObjectKey{Name: name}, &node)
	return err != nil || node.Annotations[away] != "", client.IgnoreNotFound(err)
}

// endPod takes a pod away that was told to end.
func endPod(v *view) (bool, error) {
	for i := range v.pods.Items {
		pod := &v.pods.Items[i]
		lost, err := v.lost(pod)
		if err != nil {
			return false, err
		}
		if pod.DeletionTimestamp != nil && !lost {
			return true, v.Delete(v, pod, client.GracePeriodSeconds(0))
		}
	}
	return false, nil
}

// runPod runs a pod whose volumes are all there. Its address is never used again.
func runPod(v *view) (bool, error) {
	for i := range v.pods.Items {
		pod := &v.pods.Items[i]
		if pod.Status.Phase == corev1.PodRunning || pod.DeletionTimestamp != nil || cannotStart(pod) {
			continue
		}
		mounted, err := v.mounted(pod)
		if err != nil {
			return false, err
		}
		if !mounted {
			continue
		}
		uid := string(pod.UID)
		pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "10.1."+uid[len(uid)-4:]
		pod.Status.ContainerStatuses = nil
		for _, container := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, Resources: &container.Resources, Ready: true,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
		setReady(pod, corev1.ConditionTrue)
		return true, v.Status().Update(v, pod)
	}
	return false, nil
}

func (v *view) mounted(pod *corev1.Pod) (bool, error) {
	for _, volume := range pod.Spec.Volumes {
		found, err := true, error(nil)
		switch {
		case volume.ConfigMap != nil:
			found, err = get(v, v, volume.ConfigMap.Name, &corev1.ConfigMap{})
		case volume.Secret != nil:
			found, err = get(v, v, volume.Secret.SecretName, &corev1.Secret{})
			found = found || volume.Secret.Optional != nil && *volume.Secret.Optional // The kubelet does not wait for it.
		case volume.PersistentVolumeClaim != nil:
			claim := v.claim(volume.PersistentVolumeClaim.ClaimName)
			found = claim != nil && claim.Status.Phase == corev1.ClaimBound
		}
		if !found || err != nil {
			return false, err
		}
	}
	return true, nil
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

func setReady(pod *corev1.Pod, status corev1.ConditionStatus) {
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
}

// resizePod carries out what was changed in the resources of a running pod.
func resizePod(v *view) (bool, error) {
	for i := range v.pods.Items {
		pod := &v.pods.Items[i]
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

// readSettings gives an agent the settings that there are when its pod starts, and again when the pod is told. A
// kubelet also looks by itself, after a minute or so: who relies on that is found out here.
func readSettings(v *view) (bool, error) {
	for i := range v.pods.Items {
		pod := &v.pods.Items[i]
		told, has := pod.Annotations[database.AnnotationSettings], pod.Annotations[taken]
		if !ready(pod) || has != "" && told == has {
			continue
		}
		settings := settingsOf(v, v)
		hash := settings.Hash()
		if pod.Labels[cache.LabelCache] == Tiles.Name {
			kept, _, err := cacheSettings(v, v)
			if err != nil {
				return false, err
			}
			hash = kept.Hash()
		}
		if hash == has || has != "" && told != hash {
			continue
		}
		pod.Annotations[taken] = hash
		pod.Annotations[wants], pod.Annotations[token] = startersOf(settings), settings.RestartOf(instanceOf(pod))
		if has == "" {
			pod.Annotations[runsWith], pod.Annotations[started] = pod.Annotations[wants], pod.Annotations[token]
		}
		return true, v.Update(v, pod)
	}
	return false, nil
}
