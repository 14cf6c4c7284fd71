package lives

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/sim/search"
)

// What is on a volume is kept on its claim; what the agent has seen of it when it looked last, on its pod.
const (
	used     = "example.com/used"
	seenUsed = "example.com/seen-used"
	seenSize = "example.com/seen-size"
)

// allowGrowth lets volumes grow by themselves.
func allowGrowth(limit string) search.Step {
	return search.Step{Name: "volumes may grow to " + limit, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse(limit), AtPercent: 80}
	})}
}

// fill puts so much onto the volume of an instance.
func fill(instance, size string) search.Step {
	key := client.ObjectKey{Namespace: space, Name: instance}
	blank := func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} }
	return search.Step{Name: size + " on the volume of " + instance,
		Do: change(key, blank, func(claim *corev1.PersistentVolumeClaim) {
			amount := resource.MustParse(size)
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, used, strconv.FormatInt(amount.Value(), 10))
		})}
}

// lookAtVolume has an agent see how full its volume is, some time after that has changed, and say so on its pod.
func lookAtVolume(v *view) (bool, error) {
	for i := range v.pods.Items {
		pod := &v.pods.Items[i]
		claim := v.claim(claimOf(pod))
		if claim == nil || !ready(pod) || claim.Annotations[used] == "" {
			continue
		}
		size := strconv.FormatInt(claim.Status.Capacity.Storage().Value(), 10)
		if pod.Annotations[seenUsed] == claim.Annotations[used] && pod.Annotations[seenSize] == size {
			continue
		}
		pod.Annotations[seenUsed], pod.Annotations[seenSize] = claim.Annotations[used], size
		delete(pod.Annotations, wire.AnnotationVolumeUse)
		if use := percentOf(pod) / wire.VolumeUseStep * wire.VolumeUseStep; use >= wire.VolumeUseFrom {
			pod.Annotations[wire.AnnotationVolumeUse] = strconv.FormatInt(use, 10)
		}
		return true, v.Update(v, pod)
	}
	return false, nil
}

func percentOf(pod *corev1.Pod) int64 {
	size, in := number(pod.Annotations[seenSize]), number(pod.Annotations[seenUsed])
	return in * 100 / max(size, 1)
}

func number(text string) int64 {
	value, _ := strconv.ParseInt(text, 10, 64) // 0 before there is one
	return value
}

// roomOf is what the agent reports of its volume.
func (a agents) roomOf(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) wire.Room {
	size := number(pod.Annotations[seenSize])
	if a.percents && size > 0 {
		size = claim.Status.Capacity.Storage().Value()
	}
	return wire.Room{Size: size, Free: size - size*percentOf(pod)/100}
}

// fills says that a volume is told to fill, and for which reason.
func fills(reason string) func(search.State) error {
	return func(state search.State) error {
		found, err := databaseOf(state)
		if err != nil {
			return err
		}
		filling := condition.Find(found.Status.Conditions, v1alpha1.ConditionFilling)
		switch {
		case filling == nil && reason == "":
			return nil
		case filling == nil || filling.Reason != reason:
			return fmt.Errorf("Filling is %+v, want %q", filling, reason)
		}
		return nil
	}
}

// growing are lives in which volumes fill.
func growing() []Life {
	allowed := func(limit string) []search.Step { return []search.Step{allowGrowth(limit), fill("cities-1", "900Mi")} }
	return []Life{
		{Name: "a volume fills", From: three, Script: allowed("9Gi"),
			End: all(served(upTo(3)...), hasSize("2Gi"), fills(""))},
		{Name: "a volume fills twice", From: three, Script: append(allowed("9Gi"), fill("cities-2", "1900Mi")),
			End: all(served(upTo(3)...), hasSize("3Gi"), fills(""))},
		{Name: "a volume fills up to its limit", From: three, Script: append(allowed("2Gi"), fill("cities-1", "1900Mi")),
			End: all(served(upTo(3)...), hasSize("2Gi"), fills("GrowthLimitReached"))},
		{Name: "a volume has filled, and an instance is added", From: three, Script: append(allowed("9Gi"), scale(4)),
			End: all(served(upTo(4)...), hasSize("2Gi"))},
	}
}
