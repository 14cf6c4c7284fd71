package plan

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/cache"
)

// makeLease makes the lease of a new cache. One that is lost is not made again as long as an instance knows of it: the
// agents obey no other, and go on without it as long as all of them agree. When none does, there is nothing that
// another one could do harm to, and the cache begins anew.
func makeLease(d *draft) {
	lease, name := d.Lease, cache.LeaseName(d.Name)
	switch {
	case lease.Foreign != "":
		// stopAtForeign has spoken.
	case d.Forgotten():
		d.Hold(cache.Progressing, soon, "LeaseLost", fmt.Sprintf(
			"the Lease %s is lost and no instance has obeyed it, so the cache begins anew with another one", name))
		if lease.UID == "" {
			d.Change(cache.Action{
				Do: cache.CreateLease{}, Kind: cache.KindLease, Name: name,
				Why: "the one that was made is lost, and no instance has obeyed it",
			})
		}
	case d.LeaseLost():
		d.Hold(cache.Stalled, 0, "LeaseLost", fmt.Sprintf(
			"the Lease %s by which the agents agree on the primary is not the one that was made, and nobody is elected "+
				"without it; delete the pods of the cache, which empties it, and it begins anew with another one", name))
	case lease.UID == "":
		d.Change(cache.Action{
			Do: cache.CreateLease{}, Kind: cache.KindLease, Name: name, Why: "the agents agree on the primary by it",
		})
	case lease.Problem != "":
		d.Hold(cache.Stalled, 0, "RecordUnclear", fmt.Sprintf(
			"the record on the Lease %s cannot be read: %s; if a newer version of Meridian has written it, bring the "+
				"operator to that version; else delete the cache and make it again, empty", name, lease.Problem))
	}
}

// followDatabase has the garbage collector delete the cache with its database, or no longer.
func followDatabase(d *draft) {
	wanted := ""
	if d.Spec.FollowDatabase {
		wanted = d.Database.UID
	}
	// One that has followed another database of the same name goes with that: what it keeps is about another world.
	follows := d.Follows != "" && d.Spec.FollowDatabase
	if d.Follows == wanted || follows || d.Spec.FollowDatabase && !d.Database.Exists {
		return
	}
	d.Change(cache.Action{
		Do: cache.FollowDatabase{Database: wanted}, Name: d.Name,
		Why: fmt.Sprintf("spec.followDatabase is %t", d.Spec.FollowDatabase),
	})
}

// endWithDatabase deletes a cache whose database is gone. Most of the time the garbage collector is faster. But the
// database may go before the cache has been bound to it.
func endWithDatabase(d *draft) {
	if !d.Spec.FollowDatabase || d.Database.Exists || !d.Built() {
		return
	}
	d.Change(cache.Action{
		Do: cache.DeleteCache{Database: d.Spec.DatabaseRef.Name}, Name: d.Name, UID: d.UID,
		Why: "its database is gone, and spec.followDatabase is true",
	})
	d.Ended = !d.Stopped && !d.Invalid
}

// tellPods has the kubelets of agents that have older settings look for the new ones. An agent that has them already,
// or is not up yet, needs no word.
func tellPods(d *draft) {
	child, found := d.Child(cache.KindSettings, cache.SettingsName(d.Name))
	if !found || child.State != cache.Same || d.Stopped {
		return
	}
	told, why := d.Stored.Hash, "its agent has not got the latest settings yet"
	if d.Rotation.UnderWay() {
		why = "its agent has not got the latest settings or the next password yet"
		told += fmt.Sprintf("-%d", d.Rotation.Number)
	}
	for _, instance := range d.Instances {
		pod, report := instance.Pod, instance.Report
		has := report.SettingsHash == d.Stored.Hash && (!d.Rotation.UnderWay() || report.Rotation == d.Rotation.Number)
		if pod == nil || pod.Deleting || !report.Reachable || has || pod.Settings == told ||
			d.Writes(cache.KindPod, cache.PodName(instance.Name)) {
			continue
		}
		d.Do(cache.Action{
			Do: cache.TellPod{Hash: told}, Kind: cache.KindPod, Name: cache.PodName(instance.Name), UID: pod.UID,
			ResourceVersion: pod.ResourceVersion, Why: why,
		})
	}
}

// removeLeaving takes away instances that are no longer wanted, when the agents do not count on them any more. With a
// database that hibernates all of them go.
func removeLeaving(d *draft) {
	for _, name := range d.Plan.Design.Leaving {
		instance, _ := d.Instance(name)
		asleep := d.Asleep()
		holder, _ := d.Instance(d.Lease.Holder)
		switch {
		case instance.Set == nil || instance.Set.Deleting:
			d.Hold(cache.Progressing, 0, "InstanceLeaving", name+" is being deleted")
		case asleep && name == d.Lease.Holder && len(d.Instances) > 1:
			// The others first: the primary has nobody to hand over to then.
			d.Hold(cache.Progressing, soon, "InstanceLeaving", name+" goes last")
		case !asleep && !d.Serves(holder):
			d.Hold(cache.Progressing, soon, "PrimaryUnclear", "no primary serves, so no instance is taken away")
		case !asleep && slices.Contains(d.Lease.Members, name):
			d.Hold(cache.Progressing, soon, "MemberLeaving", name+" is no longer wanted, and could still become the primary")
		default:
			d.Change(cache.Action{
				Do: cache.DeleteSet{}, Kind: cache.KindSet, Name: name, UID: instance.Set.UID,
				ResourceVersion: instance.Set.ResourceVersion, Why: "it is no longer wanted",
			})
		}
	}
}

// waitForPrimary names what stands between the lease and an accepted write.
func waitForPrimary(d *draft) {
	holder, _ := d.Instance(d.Lease.Holder)
	switch {
	case d.Lease.Term == 0 || d.LeaseLost() || d.Lease.Problem != "" || d.Asleep() || len(d.Plan.Design.Instances) == 0:
		// The instances, or a human, are waited for.
	case d.Lease.Holder == "":
		d.Hold(cache.Progressing, soon, "NoPrimary", "nobody holds the lease, and the agents agree on a primary")
	case d.Lease.Expired && !d.Serves(holder):
		d.Hold(cache.Progressing, soon, "NoPrimary", d.Lease.Holder+
			" has not renewed the lease for its whole duration, and the agents agree on another primary")
	case !d.Serves(holder):
		d.Hold(cache.Progressing, soon, "NotOpenYet", d.Lease.Holder+" holds the lease and does not accept writes yet")
	case d.Route.Target != d.Lease.Holder || d.Route.Term != d.Lease.Term:
		d.Hold(cache.Progressing, soon, "NotRoutedYet", "the write address does not lead to "+d.Lease.Holder+" yet")
	}
}

// waitForReads names what keeps applications that read from reaching the replicas.
func waitForReads(d *draft) {
	holder, _ := d.Instance(d.Lease.Holder)
	if d.LeaseLost() || d.Asleep() || !d.Serves(holder) {
		return
	}
	readers := d.readers()
	if lack := d.Reads.Lack(readers, holder.Name, d.WasReady, d.newest(readers), d.Now); lack != "" {
		d.Hold(cache.Progressing, soon, "ReadsNotRoutedYet", lack)
	}
}

// newest is when the last of the readers became ready, now if that is not known.
func (d *draft) newest(readers []string) time.Time {
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

// readers are the instances that the read address shall lead to now.
func (d *draft) readers() []string {
	names := slices.Clone(d.Plan.Design.Instances)
	if len(names) == 1 && names[0] == d.Lease.Holder {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool {
		instance, _ := d.Instance(name)
		report := instance.Report
		return name == d.Lease.Holder || !instance.Up() || !report.Reachable || !report.Serving || !report.Streams
	})
}

// carryOutFlush hands a user's request to the agent of the primary, and takes it away when that says that it was done.
func carryOutFlush(d *draft) {
	holder, _ := d.Instance(d.Lease.Holder)
	switch {
	case d.Flush == "":
	case holder.Report.Flushed == d.Flush && d.Serves(holder):
		d.Do(cache.Action{
			Do: cache.EndFlush{Request: d.Flush}, Name: d.Name, Why: holder.Name + " has emptied the cache",
		})
	case !d.Serves(holder) || holder.Pod == nil:
		d.Hold(cache.Progressing, soon, "FlushWaiting", "the cache is emptied as soon as it has a primary")
	default:
		d.Hold(cache.Progressing, time.Second, "Flushing", "the cache is being emptied")
		d.Change(cache.Action{
			Do: cache.AskFlush{Request: d.Flush}, Name: holder.Name, UID: holder.Pod.UID,
			Why: "a user asks for an empty cache",
		})
	}
}
