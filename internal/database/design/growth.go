package design

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
)

// Volumes that fill grow by themselves (DB31). What is written down about it are the claims, and nothing else: the
// largest is what all of them shall have, so that a step that was begun for one is done for all; and the next step
// begins only when the one before has arrived at the volume that fills. Each claim is written in the version that was
// seen, so that whoever looks into the past writes nothing.

// A step is a fifth of the size, at least leastStep, and ends at a whole number of these.
const leastStep = 1 << 30

// growthOf says how large the volumes shall be.
func growthOf(snapshot database.Snapshot, roster []string) database.Growth {
	growth := database.Growth{Size: snapshot.Spec.Storage.Size}
	for _, name := range roster {
		instance, _ := snapshot.Instance(name)
		if claim := instance.Claim; claim != nil && !claim.Deleting && claim.Requested.Cmp(growth.Size) > 0 {
			growth.Size = claim.Requested
		}
	}
	auto := snapshot.Spec.Storage.AutoGrow
	growth.Moving = growing(snapshot, roster)
	if auto == nil || growth.Moving {
		return growth
	}
	for _, name := range roster {
		instance, _ := snapshot.Instance(name)
		if !fills(instance, int(auto.AtPercent)) || instance.Claim.Requested.Cmp(growth.Size) < 0 {
			continue
		}
		next := step(growth.Size, auto.Limit)
		if next.Cmp(growth.Size) <= 0 {
			growth.Limited = true
			return growth
		}
		growth.Size = next
		growth.Why = fmt.Sprintf("the volume of %s is %d%% full", name, Use(instance))
		return growth
	}
	return growth
}

// growing says that a volume whose agent answers has not become yet what was asked for. One that cannot grow now,
// because nothing runs there, or because its storage has no room or fails again and again, does not keep the others
// from growing.
func growing(snapshot database.Snapshot, roster []string) bool {
	for _, name := range roster {
		instance, _ := snapshot.Instance(name)
		claim := instance.Claim
		if claim == nil || !instance.Report.Reachable || claim.Deleting || claim.Message != "" {
			continue
		}
		if claim.Resize == database.ResizeRunning || claim.Resize == database.ResizeFileSystem {
			return true
		}
	}
	return false
}

// fills says that a volume is as full as the user lets it be, by figures that were taken on the volume as it is now. A
// report may be older than the claim: a file system that is much smaller than the claim is one from before the last
// step, which was at least a sixth of what there is now. One that is much larger is not bounded by the claim.
func fills(instance database.Instance, atPercent int) bool {
	claim, report := instance.Claim, instance.Report
	if claim == nil || claim.Deleting || !claim.Bound || !report.Reachable || report.VolumeSize <= 0 {
		return false
	}
	asked, size := claim.Requested.Value(), report.VolumeSize
	arrived := claim.Capacity.Cmp(claim.Requested) >= 0 && size >= asked/100*85 && size <= asked/100*115
	return arrived && usedPercent(report) >= int64(max(atPercent, v1alpha1.LeastAtPercent))
}

func usedPercent(report database.Report) int64 {
	return (report.VolumeSize - report.VolumeFree) / max(report.VolumeSize/100, 1)
}

// Use is how full the volume of an instance is, in percent, as its pod tells it; or, if its agent is too old for that,
// as its report does.
func Use(instance database.Instance) int {
	switch {
	case instance.Pod == nil || !instance.Report.Reachable:
		return 0
	case instance.Report.LogSize > 0 && !(instance.Report.Full && instance.Report.VolumeFree <= instance.Report.LogFree):
		// What the pod tells is that of the fuller one of two volumes.
		return int(usedPercent(instance.Report)) / 5 * 5
	case instance.Pod.Use > 0:
		return instance.Pod.Use
	case instance.Report.Full:
		return 100
	}
	return int(usedPercent(instance.Report)) / 5 * 5
}

// LogUse is how full the volume of the log is, in percent, in steps of 5; 0 if the log has none of its own, or that is
// not known. It is 100 when it is what the agent calls full.
func LogUse(instance database.Instance) int {
	report := instance.Report
	switch {
	case instance.Pod == nil || !report.Reachable || report.LogSize <= 0:
		return 0
	case report.Full && report.LogFree < report.VolumeFree:
		return 100
	}
	return int((report.LogSize-report.LogFree)/max(report.LogSize/100, 1)) / 5 * 5
}

// step is the next size, never beyond the limit.
func step(size, limit resource.Quantity) resource.Quantity {
	bytes := size.Value() + max(size.Value()/5, leastStep)
	bytes = (bytes + leastStep - 1) / leastStep * leastStep
	next := *resource.NewQuantity(bytes, resource.BinarySI)
	if next.Cmp(limit) > 0 {
		return limit
	}
	return next
}
