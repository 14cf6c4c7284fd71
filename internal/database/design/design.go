package design

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// Of says what the children should be rendered from, given what the world has already fixed. Which instances
// there are is written down in the settings: only the plan changes that list, one step at a time.
func Of(snapshot database.Snapshot) database.Design {
	design := Outline(snapshot)
	for i := range design.Instances {
		design.Instances[i].Template = render.TemplateOf(design, design.Instances[i])
	}
	return design
}

// Outline is the design without the names of its templates, which take longer than all the rest.
func Outline(snapshot database.Snapshot) database.Design {
	design := database.Design{
		Identity: snapshot.Identity, Spec: snapshot.Spec, Images: snapshot.Images, Record: snapshot.Record,
		Installation: snapshot.Installation, Family: snapshot.Route.Family, Backup: snapshot.Backup,
		LeaseUID: leaseOf(snapshot),
		Restarts: slices.Clone(snapshot.Settings.Restarts), LostBefore: lostBefore(snapshot),
		Rolling: snapshot.Settings.Rolling,
		Parting: partingOf(snapshot), Classes: classesOf(snapshot), Modes: modesOf(snapshot),
	}
	design.Backup.Trials.Asked = TrialsAsked(snapshot)
	design.BackupSettings, design.Backup.BeginClaim = backupSettings(snapshot), beginClaim(snapshot)
	design.LacksSource = lacksSource(snapshot)
	roster := rosterOf(snapshot)
	design.Growth = growthOf(snapshot, roster)
	for _, name := range roster {
		serial, _ := database.SerialOf(snapshot.Name, name)
		instance, _ := snapshot.Instance(name)
		design.Instances = append(design.Instances, database.InstanceDesign{
			Serial: serial, Name: name, Size: sizeOf(snapshot.Spec, design.Growth, instance.Claim),
			LogSize: logSizeOf(snapshot, roster, instance.LogClaim),
			Restart: restartOf(snapshot.Spec.Restart, instance.Set), Stopped: stops(snapshot, name),
		})
	}
	slices.SortFunc(design.Instances, func(a, b database.InstanceDesign) int { return a.Serial - b.Serial })
	design.Memory = memoryInForce(snapshot, design)
	for _, instance := range snapshot.Instances {
		if instance.Set != nil && !design.Wants(instance.Name) {
			design.Leaving = append(design.Leaving, instance.Name)
		}
	}
	design.Shared = snapshot.Mounts(database.LeafName(snapshot.Name))
	return design
}

// memoryInForce is the least that the container of an instance has, if that is less than its size shall be: the node
// may have no room for more, or a quota may not allow it. nil means what the spec says.
func memoryInForce(snapshot database.Snapshot, design database.Design) *resource.Quantity {
	var least *resource.Quantity
	wanted := resource.NewQuantity(render.Memory(snapshot.Spec), resource.BinarySI)
	for _, name := range design.Names() {
		instance, _ := snapshot.Instance(name)
		has := memoryHeld(instance)
		if has.IsZero() {
			continue
		}
		if has.Cmp(*wanted) < 0 && has.Cmp(render.SizeOf(design, name).Memory) < 0 {
			wanted, least = &has, &has
		}
	}
	return least
}

// memoryHeld is what the container of an instance has, or will have when its pod starts again, zero if there is none.
func memoryHeld(instance database.Instance) resource.Quantity {
	pod, set := instance.Pod, instance.Set
	switch {
	case pod == nil && set != nil:
		return set.Memory
	case pod == nil:
		return resource.Quantity{}
	case !pod.Granted.IsZero() && pod.Granted.Cmp(pod.Memory) < 0:
		return pod.Granted
	}
	return pod.Memory
}

// restartOf is the wish for a restart that an instance is made for: one that is taken back leaves it as it is.
func restartOf(wanted string, set *database.Set) string {
	if wanted == "" && set != nil {
		return set.Restart
	}
	return wanted
}

// stops says that an instance shall have no pod: the primary of a hibernated database stops when all others have.
func stops(snapshot database.Snapshot, name string) bool {
	if !snapshot.Spec.Hibernated || name != snapshot.Lease.Holder {
		return snapshot.Spec.Hibernated
	}
	return !slices.ContainsFunc(snapshot.Instances, func(instance database.Instance) bool {
		return instance.Name != name && instance.Pod != nil
	})
}

// classesOf are the classes of claims that are in another class than the spec names, because they were adopted or
// restored. The class of a claim cannot be changed: the API server refuses a write that tries, also one that grows it.
func classesOf(snapshot database.Snapshot) map[string]string {
	named := snapshot.Spec.Storage.Class
	classes := map[string]string{}
	for _, instance := range snapshot.Instances {
		for _, claim := range snapshot.Claims(instance) {
			known := claim.Claim != nil && (claim.Class != "" || claim.Classless)
			if known && claim.Class != named && (named != "" || snapshot.Origin != "") {
				classes[claim.Name] = claim.Class
			}
		}
	}
	return classes
}

// modesOf are the access modes of claims that have others than the spec asks for. They cannot be changed either.
func modesOf(snapshot database.Snapshot) map[string][]corev1.PersistentVolumeAccessMode {
	modes := map[string][]corev1.PersistentVolumeAccessMode{}
	for _, instance := range snapshot.Instances {
		for _, claim := range snapshot.Claims(instance) {
			switch {
			case claim.Claim == nil:
			case len(claim.Modes) > 0:
				modes[claim.Name] = claim.Modes
			case database.AccessMode(snapshot.Spec.Storage) != corev1.ReadWriteOncePod:
				modes[claim.Name] = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
			}
		}
	}
	return modes
}

// leaseOf is the lease that the settings name, for good; before that, the one that was made.
func leaseOf(snapshot database.Snapshot) string {
	if snapshot.Settings.LeaseUID != "" {
		return snapshot.Settings.LeaseUID
	}
	if parting := partingOf(snapshot); parting != nil {
		return parting.LeaseUID
	}
	if snapshot.Lease.Foreign != "" {
		return ""
	}
	return snapshot.Lease.UID
}

// partingOf is what a deleted database has left on the claims that this one has taken over. It counts until there are
// settings, which say the same from then on.
func partingOf(snapshot database.Snapshot) *database.Parting {
	leased := snapshot.Lease.UID != "" && snapshot.Lease.Foreign == ""
	if snapshot.Settings.UID != "" || leased || snapshot.Deleting {
		return nil
	}
	for _, instance := range snapshot.Instances {
		for _, claim := range snapshot.Claims(instance) {
			if claim.Claim != nil && claim.Parting != nil {
				return claim.Parting
			}
		}
	}
	return nil
}

// lostBefore are the leases before the one that the settings name: as they say, and as the agents say by its record.
// What an operator did not live to note, or did not know to note, comes from them.
func lostBefore(snapshot database.Snapshot) []string {
	named, lease := leaseOf(snapshot), snapshot.Lease
	if parting := partingOf(snapshot); parting != nil {
		return parting.LostBefore
	}
	if lease.UID != named || lease.Foreign != "" || lease.Problem != "" {
		return snapshot.Settings.LostBefore
	}
	return wire.LostBefore(named, snapshot.Settings.LostBefore, lease.Before)
}

// rosterOf are the instances that shall have a copy: as the settings say; or, if there are none, those that have had
// one; or, for a new database, as many as the spec asks for.
func rosterOf(snapshot database.Snapshot) []string {
	if len(snapshot.Settings.Instances) > 0 {
		return slices.Clone(snapshot.Settings.Instances)
	}
	if parting := partingOf(snapshot); parting != nil {
		return slices.Clone(parting.Instances)
	}
	if snapshot.Record.Initialised {
		if names := survivors(snapshot); len(names) > 0 {
			return names
		}
	}
	var names []string
	for serial := 1; serial <= max(int(snapshot.Spec.Instances), 1); serial++ {
		names = append(names, database.InstanceName(snapshot.Name, serial))
	}
	return names
}

func survivors(snapshot database.Snapshot) []string {
	var names []string
	add := func(name string) {
		if _, known := database.SerialOf(snapshot.Name, name); known && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, member := range snapshot.Lease.Members {
		add(member.Name)
	}
	for _, instance := range snapshot.Instances {
		if instance.Set != nil {
			add(instance.Name)
		}
	}
	if len(names) > 0 {
		return names
	}
	for _, instance := range snapshot.Instances {
		if instance.Claim != nil {
			add(instance.Name)
		}
	}
	return names
}
