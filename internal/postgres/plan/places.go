package plan

import (
	"cmp"
	"slices"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
)

// placePatience is how long a place is kept that nobody uses, of a copy that nobody has told of: the settings may tell
// of it later, and the copy begins with a checkpoint.
const placePatience = 5 * time.Minute

// keepPlaces keeps the log for members, and for copies that are about to become one: from before such a copy begins
// until it is a member nothing that it needs is removed. How much is kept is bounded by max_slot_wal_keep_size,
// however many places there are.
func keepPlaces(s postgres.Snapshot, plan *draft) bool {
	have := s.Server.Replication
	var kept []string
	if s.Standing.Role == tenure.RoleLead {
		for _, member := range s.Standing.Members {
			if member.Name != s.Instance {
				kept = append(kept, render.Slot(member))
			}
		}
		kept = append(kept, joining(s, kept)...)
		kept = append(kept, untold(s, kept)...)
	}
	missing := slices.ContainsFunc(kept, func(name string) bool {
		lost := slices.Contains(have.Lost, name) && !slices.Contains(have.Busy, name)
		return lost || !slices.Contains(have.Slots, name)
	})
	surplus := slices.ContainsFunc(have.Slots, func(name string) bool {
		return !slices.Contains(kept, name) && !slices.Contains(have.Busy, name)
	})
	if missing || surplus {
		plan.do(postgres.KeepPlaces{
			Why: "the log is kept for members and for those that join, and for nobody else", Slots: kept,
		})
	}
	return false
}

// twinPatience leaves the first seconds of a new primary to those who have waited for it: the rest of a segment goes to
// the replicas like any other log.
const twinPatience = 10 * time.Second

// leaveASharedSegment begins another segment where the present one is there for an earlier timeline too. Each primary
// leaves one of its timeline behind, and a checkpoint removes segments by their number alone: where little is written,
// all of them have the same number, and one failover after the other would fill the volume.
func leaveASharedSegment(s postgres.Snapshot, plan *draft) bool {
	since := s.Server.Replication.Twin
	settled := s.Standing.Role == tenure.RoleLead && s.Standing.Prepare == 0 && s.Server.Open
	if settled && !s.Server.Replica && !s.Server.Full && !since.IsZero() && s.Now.Sub(since) >= twinPatience {
		plan.do(postgres.LeaveSegment{Why: "the present segment of the log is there for an earlier timeline too"})
	}
	return false
}

// untold are places of copies that the settings do not tell of, or not yet.
func untold(s postgres.Snapshot, kept []string) []string {
	settings, _ := wanted(s)
	have := s.Server.Replication
	var found []string
	for _, name := range have.Slots {
		told := slices.ContainsFunc(settings.Instances, func(instance string) bool { return render.SlotOf(name, instance) })
		young := have.Idle[name] < placePatience && !slices.Contains(have.Former, name) && !slices.Contains(have.Lost, name)
		if !told && young && !slices.Contains(kept, name) {
			found = append(found, name)
		}
	}
	return found
}

// joining are the places that copies have made for themselves, of instances that are wanted and are not there as a
// member yet. An instance may have left some of copies that came to nothing: the newest are kept, one for each
// instance.
func joining(s postgres.Snapshot, members []string) []string {
	settings, _ := wanted(s)
	var awaited, found []string
	for _, instance := range settings.Instances {
		if instance != s.Instance && !streamsAsMember(s, instance) {
			awaited = append(awaited, instance)
		}
	}
	have := s.Server.Replication
	for _, name := range have.Slots {
		fits := slices.ContainsFunc(awaited, func(instance string) bool { return render.SlotOf(name, instance) })
		if fits && !slices.Contains(members, name) && !slices.Contains(have.Lost, name) {
			found = append(found, name)
		}
	}
	slices.SortStableFunc(found, func(a, b string) int { return cmp.Compare(have.Since[b], have.Since[a]) })
	found = found[:min(len(found), len(awaited))]
	slices.Sort(found)
	return found
}

func streamsAsMember(s postgres.Snapshot, instance string) bool {
	for _, sender := range s.Server.Replication.Senders {
		member := !sender.Joining && slices.Contains(s.Standing.Members, sender.Member)
		if sender.Member.Name == instance && sender.Stream && member {
			return true
		}
	}
	return false
}
