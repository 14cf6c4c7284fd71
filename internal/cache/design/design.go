package design

import (
	"slices"

	"meridian.dev/meridian/internal/cache"
)

// Of says what the children should be rendered from, given what the world has already fixed.
func Of(snapshot cache.Snapshot) cache.Design {
	design := cache.Design{
		Identity: snapshot.Identity, Spec: snapshot.Spec, Images: snapshot.Images, Family: snapshot.Route.Family,
		LeaseUID: snapshot.Stored.LeaseUID, ReplicationAlone: snapshot.ReplicationAlone(),
	}
	if design.LeaseUID == "" && snapshot.Lease.Foreign == "" || snapshot.Forgotten() && snapshot.Lease.UID != "" {
		design.LeaseUID = snapshot.Lease.UID
	}
	design.Instances = rosterOf(snapshot)
	for _, instance := range snapshot.Instances {
		if !slices.Contains(design.Instances, instance.Name) {
			design.Leaving = append(design.Leaving, instance.Name)
		}
	}
	return design
}

// rosterOf are the instances that there shall be. The primary always is one of them; beside it those with the lowest
// numbers. Numbers are used again: nothing of an instance outlives it.
func rosterOf(snapshot cache.Snapshot) []string {
	wanted := int(max(snapshot.Spec.Replicas, 1))
	if snapshot.Asleep() {
		return nil
	}
	var serials []int
	if serial, known := cache.SerialOf(snapshot.Name, snapshot.Lease.Holder); known {
		if instance, found := snapshot.Instance(snapshot.Lease.Holder); found && instance.Set != nil {
			serials = append(serials, serial)
		}
	}
	for _, instance := range snapshot.Instances {
		if instance.Set != nil && !instance.Set.Deleting && len(serials) < wanted &&
			!slices.Contains(serials, instance.Serial) {
			serials = append(serials, instance.Serial)
		}
	}
	for serial := 1; len(serials) < wanted; serial++ {
		taken := slices.ContainsFunc(snapshot.Instances, func(one cache.Instance) bool { return one.Serial == serial })
		if !taken && !slices.Contains(serials, serial) {
			serials = append(serials, serial)
		}
	}
	slices.Sort(serials)
	var names []string
	for _, serial := range serials {
		names = append(names, cache.InstanceName(snapshot.Name, serial))
	}
	return names
}
