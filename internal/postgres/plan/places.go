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
//
// A replica keeps the log for the other members as well: it may be the next primary, and only it can have then what a
// replica that lags needs. Between two primaries nothing is given up.
func keepPlaces(s postgres.Snapshot, plan *draft) bool {
	have := s.Server.Replication
	var kept []string
	var positions map[string]uint64
	switch {
	case s.Standing.Role == tenure.RoleLead:
		kept = others(s)
		kept = append(kept, joining(s, kept)...)
		kept = append(kept, untold(s, kept)...)
		kept, positions = keepForTheRepository(s, kept, positions)
	case s.Standing.Role == tenure.RoleFollow && follows(s) && len(s.Standing.Members) > 0:
		kept = others(s)
		kept, positions = keepForTheRepository(s, kept, passed(s, kept))
	default:
		return false
	}
	missing := slices.ContainsFunc(kept, func(name string) bool {
		lost := slices.Contains(have.Lost, name) && !slices.Contains(have.Busy, name)
		return lost || !slices.Contains(have.Slots, name)
	})
	surplus := slices.ContainsFunc(have.Slots, func(name string) bool {
		return !slices.Contains(kept, name) && !slices.Contains(have.Busy, name)
	})
	release := abandoned(s, kept)
	if missing || surplus || len(positions) > 0 || len(release) > 0 {
		plan.do(postgres.KeepPlaces{
			Why: "WAL is kept for members and for those that join, and for nobody else", Slots: kept, Positions: positions,
			Release: release,
		})
	}
	return false
}

// keepForTheRepository adds the slot behind what the repository of backups has confirmed (K4). A primary knows that
// from its shipping, a replica from the slot of the primary: whoever leads next has what the repository lacks. How much
// is kept is bounded like for any other slot: a repository that is away costs no room, and the gap is recorded.
func keepForTheRepository(
	s postgres.Snapshot, kept []string, positions map[string]uint64,
) ([]string, map[string]uint64) {
	if !s.Repository.Kept {
		return kept, positions
	}
	const slot = render.RepositorySlot
	kept = append(slices.DeleteFunc(kept, func(name string) bool { return name == slot }), slot)
	have := s.Server.Replication
	if s.Standing.Role == tenure.RoleFollow {
		for name, lsn := range passed(s, []string{slot}) {
			positions = with(positions, name, lsn)
		}
		return kept, positions
	}
	lost := !slices.Contains(have.Slots, slot) || slices.Contains(have.Lost, slot)
	if lsn := min(s.Repository.Confirmed, have.Flushed); !lost && lsn >= have.Since[slot]+segment {
		positions = with(positions, slot, lsn)
	}
	return kept, positions
}

func with(positions map[string]uint64, slot string, lsn uint64) map[string]uint64 {
	if positions == nil {
		positions = map[string]uint64{}
	}
	positions[slot] = lsn
	return positions
}

// segment is the usual size of a segment of the WAL: advancing a slot by less frees nothing.
const segment = 16 << 20

// holdPatience is how long the slot of an absent member holds rows from vacuum. The replica that comes back later may
// have to cancel a query, and vacuum goes on meanwhile.
const holdPatience = 5 * time.Minute

// abandoned are the slots that hold rows for nobody. A replica has none that is used: those of a former primary hold
// rows on the present one, by its feedback.
func abandoned(s postgres.Snapshot, kept []string) []string {
	have := s.Server.Replication
	var found []string
	for _, slot := range kept {
		used := slices.Contains(have.Busy, slot) || slices.Contains(have.Lost, slot)
		waits := s.Standing.Role == tenure.RoleLead && have.Idle[slot] < holdPatience
		if slices.Contains(have.Holding, slot) && !used && !waits {
			found = append(found, slot)
		}
	}
	return found
}

// others are the slots of the members that take the log of this server, or would if it led. The upstream of a replica
// is none of them: when it follows some day, its slot is made with its successor's promotion.
func others(s postgres.Snapshot) []string {
	var slots []string
	for _, member := range s.Standing.Members {
		upstream := s.Standing.Role == tenure.RoleFollow && member == s.Standing.Upstream
		if member.Name != s.Instance && !upstream {
			slots = append(slots, render.Slot(member))
		}
	}
	return slots
}

// passed are the positions that slots of a replica can be advanced to, because their members have come further. Each
// step is at least a segment.
func passed(s postgres.Snapshot, slots []string) map[string]uint64 {
	if s.Positions.Of != s.Standing.Upstream || s.Positions.Term != s.Standing.Term {
		return nil
	}
	have := s.Server.Replication
	var found map[string]uint64
	for _, slot := range slots {
		// A server advances a slot only as far as it has replayed itself.
		lsn := min(s.Positions.Slots[slot], have.Replayed)
		if !slices.Contains(have.Slots, slot) || slices.Contains(have.Lost, slot) || lsn < have.Since[slot]+segment {
			continue
		}
		found = with(found, slot, lsn)
	}
	return found
}

// Times between two questions about the positions of the others: while all is well, and when this copy is to be given
// up, which is decided only by an answer that is not older than positionsAge.
const (
	positionsEvery  = 10 * time.Second
	positionsSooner = time.Second
	positionsAge    = 5 * time.Second
)

// askForPositions asks the primary how far the others are.
func askForPositions(s postgres.Snapshot, plan *draft) bool {
	job := s.JobOf(postgres.JobPositions)
	if !follows(s) || s.Standing.Role != tenure.RoleFollow || job.Running ||
		len(others(s)) == 0 && !s.Process.Lost && !s.Repository.Kept {
		return false
	}
	every := positionsEvery
	var needs *tenure.Position
	why := postgres.Why("the WAL is kept that other members still need, and no more")
	if s.Process.Lost {
		every, needs = positionsSooner, s.Position()
		why = "whether the primary still has the WAL that this copy needs decides what to do"
	}
	receives := s.Server.Replica && s.Server.Replication.Receiving
	recently := s.Now.Sub(job.Ended) < every && job.For == postgres.Essence(s.Standing)
	if (receives || s.Process.Lost) && !recently {
		plan.do(postgres.AskPositions{Why: why, Source: source(s), Needs: needs})
	}
	return false
}

// spare says that the other members can acknowledge writes and elect a primary without this copy: so many of them
// stream and have nearly all that the primary has, or cannot go on either and have all that this copy has. The latter
// acknowledge nothing before they are replaced too, and neither does this one: what counts is that each write is on as
// many copies as a write quorum, and that enough can elect. Where a write needs one copy, the primary's is enough.
func spare(s postgres.Snapshot) bool {
	members := len(s.Standing.Members)
	if s.Standing.W <= 1 || !slices.Contains(s.Standing.Members, self(s)) {
		return true
	}
	told := s.Positions.Of == s.Standing.Upstream && s.Positions.Term == s.Standing.Term
	if !told || s.Now.Sub(s.Positions.At) > positionsAge {
		return false
	}
	have := 1
	for _, member := range s.Standing.Members {
		if member.Name == s.Instance || member == s.Standing.Upstream {
			continue
		}
		// One that streams has not come near yet, or has: it is waited for.
		lsn, streams := s.Positions.Slots[render.Slot(member)]
		if streams && lsn+postgres.Near >= s.Positions.LSN || !streams && s.AsFar(member) {
			have++
		}
	}
	return have >= max(s.Standing.W, members-s.Standing.W+1)
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
		plan.do(postgres.LeaveSegment{Why: "the present WAL segment is there for an earlier timeline too"})
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
