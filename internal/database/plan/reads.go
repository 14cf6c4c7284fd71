package plan

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// readNear is how much of the WAL a replica may lack for the primary to count it as near without doubt, and to leave
// reads to it.
const readNear = 1 << 20

// waitForReads names what keeps applications that read from reaching the replicas. A replica that lags is no reason:
// the primary is read instead for as long.
func waitForReads(d *draft.Draft) {
	holder, _ := d.Instance(d.Lease.Holder)
	if d.Spec.Hibernated || d.LeaseLost() || !d.Serves(holder) {
		return
	}
	readers := readers(d)
	if lack := d.Reads.Lack(readers, holder.Name, d.WasReady, newest(d, readers), d.Now); lack != "" {
		d.Hold(database.Progressing, draft.AtOnce, "ReadsNotRoutedYet", lack)
	}
}

// readers are the instances that the read address shall lead to now.
func readers(d *draft.Draft) []string {
	names := d.Plan.Design.Names()
	if len(names) == 1 && names[0] == d.Lease.Holder {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		instance, _ := d.Instance(name)
		pod, report := instance.Pod, instance.Report
		return name == d.Lease.Holder || pod == nil || !pod.Ready || pod.Deleting || !report.Reachable || !report.Serving ||
			!report.Streams || report.LagBytes > readNear
	})
}

// newest is when the last of the readers became ready, now if that is not known.
func newest(d *draft.Draft, readers []string) time.Time {
	var last time.Time
	for _, name := range readers {
		instance, _ := d.Instance(name)
		if instance.Pod == nil || instance.Pod.ReadySince.IsZero() {
			return d.Now
		}
		if instance.Pod.ReadySince.After(last) {
			last = instance.Pod.ReadySince
		}
	}
	return last
}
