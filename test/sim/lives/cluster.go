package lives

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
)

// clusterActors are the controllers that the simulated API server does not have. Each does one kind of thing at a time,
// in a slow world to one object only.
func clusterActors(slow bool) []search.Actor {
	pace := kube.AllOf
	if slow {
		pace = kube.FirstOf
	}
	return []search.Actor{
		{Name: "statefulset controller", Step: pace(kube.ObserveSet, kube.MakePod, kube.StopPod)},
		{Name: "volumes", Step: pace(kube.BindClaim)},
		{Name: "kubelet", Step: pace(
			loseNode, comeBack, endPod, kube.FailPod, runPod, kube.ResizePod, readSettings, lookAtVolume, liveTrial)},
	}
}

// loseNode has the pods of a node that is away not ready any more, and told to end.
func loseNode(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		if lost, err := v.Lost(pod); !lost || err != nil {
			if err != nil {
				return false, err
			}
			continue
		}
		if kube.Ready(pod) {
			kube.SetReady(pod, corev1.ConditionFalse)
			return true, v.Status().Update(v, pod)
		}
		if pod.DeletionTimestamp == nil {
			return true, v.Delete(v, pod)
		}
	}
	return false, nil
}

// comeBack starts the pods of a node that is back, as far as nobody has told them to end.
func comeBack(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		lost, err := v.Lost(pod)
		if err != nil {
			return false, err
		}
		if !lost && pod.Status.Phase == corev1.PodRunning && !kube.Ready(pod) && pod.DeletionTimestamp == nil {
			kube.SetReady(pod, corev1.ConditionTrue)
			return true, v.Status().Update(v, pod)
		}
	}
	return false, nil
}

// endPod takes a pod away that was told to end.
func endPod(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		lost, err := v.Lost(pod)
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
func runPod(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		if pod.Status.Phase == corev1.PodRunning || pod.DeletionTimestamp != nil || kube.CannotStart(pod) {
			continue
		}
		mounted, err := v.Mounted(pod)
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
		kube.SetReady(pod, corev1.ConditionTrue)
		return true, v.Status().Update(v, pod)
	}
	return false, nil
}

// readSettings gives an agent the settings that there are when its pod starts, and again when the pod is told. A
// kubelet also looks by itself, after a minute or so: who relies on that is found out here.
func readSettings(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		told, has := pod.Annotations[database.AnnotationSettings], pod.Annotations[taken]
		if !kube.Ready(pod) || has != "" && told == has {
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
