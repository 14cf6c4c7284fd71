package route

import (
	"slices"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/isolation"
	"meridian.dev/meridian/internal/wire"
)

// useSlack is by how much less must be in use than a step says before the pod says less: what the file system sets
// aside for files that grow comes and goes by several percent, and would otherwise be a write each time. A volume that
// grows by a sixth or more is beyond it.
const useSlack = 9

// LabelThePod lets the read address find this instance, and finds out whether the write address still leads here.
func LabelThePod(d *draft.Draft) bool {
	if d.Lease.Failing != nil || d.Stopping {
		return false
	}
	lookAtTheRoute(d)
	if routeComesFirst(d) {
		return false
	}
	role, read := labels(d)
	cut, use := isolation.Cut(d), use(d)
	right := d.Labels.Role == role && d.Labels.Read == read && d.Labels.Cut == cut && d.Labels.Use == use
	if d.Labels.Writing || d.Labels.Known && right ||
		!d.Labels.Known && d.Recently(d.Labels.Tried, d.Policy.Renew/4) {
		return false
	}
	d.Do(tenure.WriteLabels{
		Why: "others find instances by what their pods say", Role: role, Read: read, Cut: cut, Use: use,
	})
	return false
}

// use is how full the volume is, in the steps that the pod tells.
func use(d *draft.Draft) int {
	now, told := d.Engine.Use, d.Labels.Use
	if !d.Engine.Known || now == 0 {
		return told
	}
	step := now / wire.VolumeUseStep * wire.VolumeUseStep
	switch {
	case step < told && told < 100 && now >= told-useSlack:
		return told
	case step < wire.VolumeUseFrom:
		return 0
	}
	return step
}

// routeComesFirst says that the labels wait for the write address. Each of them changes the read address, and nodes
// take over such changes together and no more than once in a second or so: applications that write would wait for those
// that read.
func routeComesFirst(d *draft.Draft) bool {
	if d.Standing.Role != tenure.RoleLead {
		return false
	}
	routed := d.Route.Known && d.Route.Address == d.Address && d.Route.Term == d.Standing.Term
	long := d.Lacking != nil && !d.Recently(*d.Lacking, d.Policy.Renew)
	return !routed && !long
}

// lookAtTheRoute is for a replica: it lets applications in only when the write address leads elsewhere.
func lookAtTheRoute(d *draft.Draft) {
	if d.Leads() || d.Holder() || !d.Lease.Exists || d.Route.Writing {
		return
	}
	here := d.Route.Address == d.Address && d.Address != ""
	if d.Route.Known && !here || d.Recently(d.Route.Tried, d.Policy.Renew/4) {
		return
	}
	d.Do(tenure.ReadRoute{Why: "a replica lets applications in only when the write address leads elsewhere"})
	d.Again(d.Policy.Renew / 4)
}

// labels are what the pod shall say of itself. The primary is read only if there is no replica for that.
func labels(d *draft.Draft) (role string, read bool) {
	leading := d.Engine.Leading
	if d.Standing.Role != tenure.RoleLead || leading == nil {
		// One that waits for the outcome of an election goes on being read.
		return "replica", d.Standing.OpenReads && (d.Standing.Role == tenure.RoleFollow || d.Labels.Read)
	}
	near := func(replica tenure.Replica) bool { return replica.Near }
	return "primary", !slices.ContainsFunc(leading.Replicas, near)
}
