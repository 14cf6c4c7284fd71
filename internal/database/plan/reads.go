package plan

import (
	"slices"

	"meridian.dev/meridian/internal/database"
)

// readNear is how much of the WAL a replica may lack for the primary to count it as near without doubt, and to leave
// reads to it.
const readNear = 1 << 20

// waitForReads names what keeps applications that read from reaching the replicas. A replica that lags is no reason:
// the primary is read instead for as long.
func waitForReads(d *draft) {
	holder, _ := d.Instance(d.Lease.Holder)
	if d.Spec.Hibernated || d.LeaseLost() || !d.serves(holder) {
		return
	}
	if lack := d.Reads.Lack(d.readers(), holder.Name, d.WasReady, d.Now); lack != "" {
		d.hold(database.Progressing, atOnce, "ReadsNotRoutedYet", lack)
	}
}

// readers are the instances that the read address shall lead to now.
func (d *draft) readers() []string {
	names := d.plan.Design.Names()
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
