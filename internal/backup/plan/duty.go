package plan

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/backup"
)

// Situation is what an agent knows when it decides what to do for backups.
type Situation struct {
	Now      time.Time
	Instance string
	// Wanted says that there are settings of backups, Wish is the base backup that they ask for, nil if none.
	Wanted bool
	Wish   *Wish
	// Foreign says that the repository belongs to another database, or to another branch of this one: nothing of it is
	// touched, deletions included.
	Foreign bool
	// Fills says that this instance, which does not lead, may have something to fill in below a fork.
	Fills bool
	// Known says that the copy here has an identity and a position. Leads says that it is the primary of the term, by the
	// lease, and Running that its server answers.
	Known, Leads, Running bool
	Term                  int64
	// Flushed is how far its log is safe, Confirmed up to where the repository has it, as far as is known here.
	Flushed, Confirmed backup.LSN
	// Ship, Read and Base are the parts of the work.
	Ship, Read, Base Work
	// Stored is what the last reading of the repository said; nil if it was not read in this term.
	Stored *Stored
}

// Wish is a base backup that is asked for.
type Wish struct{ ID, Instance string }

// Work is a part of the work: at most one of each goes on at a time, and none holds up another.
type Work struct {
	Running bool
	// For is what it was begun for: a term, or the ID of a wish.
	For string
	// Ended is when it last did, Failures how often in a row without success.
	Ended    time.Time
	Failures int
}

// Stored is what is decided on of a repository.
type Stored struct {
	// Done are the IDs of the wishes that have a backup.
	Done []string
	// Broken is why no backup leads to the present, empty if one does, and Since since when that was seen.
	Broken string
	Since  time.Time
	// Stale says that something has changed that the reading does not know.
	Stale bool
}

// Duty is one thing to begin or to give up.
type Duty interface{ Duty() string }

// The duties.
type (
	// ShipLog ships the log once.
	ShipLog struct{ For string }
	// ReadRepository reads the catalogue, tells what it says, and removes what is not needed any more.
	ReadRepository struct{ For string }
	// MakeBase makes a base backup.
	MakeBase struct{ For string }
	// GiveUp ends a part of the work that is not wanted any more.
	GiveUp struct{ Ship, Read, Base bool }
)

// Duty implements Duty.
func (d ShipLog) Duty() string { return "ship the log of " + d.For }

// Duty implements Duty.
func (d ReadRepository) Duty() string { return "read the repository in " + d.For }

// Duty implements Duty.
func (d MakeBase) Duty() string { return "make the base backup " + d.For }

// Duty implements Duty.
func (d GiveUp) Duty() string { return fmt.Sprintf("give up %+v", struct{ Ship, Read, Base bool }(d)) }

// Times of the work.
const (
	// shipEvery is between two passes of a primary that has something to ship, littleEvery of one that has so little that
	// it may be the trace of our own probe, and idleEvery of one that has nothing. An idle database must not write an
	// object each second for ever, and a commit may be that little too: it waits for seconds, whatever it is.
	shipEvery   = time.Second
	littleEvery = 3 * time.Second
	idleEvery   = 15 * time.Second
	// fillEvery is between two looks of others for what is missing below a fork.
	fillEvery = 30 * time.Second
	// fillSooner is the same while there is something.
	fillSooner = 3 * time.Second
	// readEvery is between two readings of the repository.
	readEvery = 2 * time.Minute
	// wishEvery is the same while a base backup is waited for, which another instance may make.
	wishEvery = 10 * time.Second
	// gapPatience is how long others have time to fill a gap before a new base backup makes up for it.
	gapPatience = 2 * time.Minute
)

// little is how many bytes of the log are little. The probe writes some hundred in a second.
const little = 2 << 10

// Decide tells what to begin and to give up now.
func Decide(s Situation) []Duty {
	var duties []Duty
	office := Office(s.Leads, s.Term)
	give := givenUp(s, office)
	if give != (GiveUp{}) {
		duties = append(duties, give)
	}
	if !s.Wanted || !s.Known {
		return duties
	}
	// Of another office it has not been done yet.
	if s.Ship.For != office && !s.Ship.Running || s.Ship.due(s.Now, shipPause(s), 30*time.Second) {
		duties = append(duties, ShipLog{office})
	}
	if s.Foreign {
		return duties
	}
	if s.Leads && shipped(s) && s.Read.due(s.Now, readPause(s), 5*time.Minute) {
		duties = append(duties, ReadRepository{office})
	}
	if wish := wishOf(s); wish != "" && s.Running && shipped(s) && s.Base.due(s.Now, 0, 10*time.Minute) {
		duties = append(duties, MakeBase{wish})
	}
	return duties
}

// givenUp is what was begun in another office, or is wanted of another instance now.
func givenUp(s Situation, office string) GiveUp {
	return GiveUp{
		Ship: s.Ship.Running && (!s.Wanted || s.Ship.For != office),
		Read: s.Read.Running && (!s.Wanted || s.Foreign || s.Read.For != office),
		Base: s.Base.Running && (!s.Wanted || s.Foreign ||
			s.Wish != nil && s.Wish.ID == s.Base.For && s.Wish.Instance != s.Instance),
	}
}

// shipPause is how long after a pass of shipping the next one begins.
func shipPause(s Situation) time.Duration {
	switch {
	case s.Fills:
		return fillSooner
	case s.Leads && s.Flushed > s.Confirmed && s.Flushed-s.Confirmed <= little:
		return littleEvery
	case s.Leads && s.Flushed > s.Confirmed:
		return shipEvery
	case s.Leads:
		return idleEvery
	}
	return fillEvery
}

// readPause is how long after the repository was read it is read again.
func readPause(s Situation) time.Duration {
	switch {
	case s.Stored == nil || s.Stored.Stale:
		return shipEvery
	case s.Wish != nil && !slices.Contains(s.Stored.Done, s.Wish.ID):
		return wishEvery
	}
	return readEvery
}

// Office tells works of one time in office from those of another.
func Office(leads bool, term int64) string {
	if leads {
		return fmt.Sprintf("term %d", term)
	}
	return fmt.Sprintf("another's term %d", term)
}

// shipped says that the repository takes what is shipped.
func shipped(s Situation) bool { return s.Ship.Failures == 0 && !s.Ship.Ended.IsZero() }

// wishOf is the base backup that this instance has to make, empty if none. A primary makes one by itself where nothing
// leads to the present any more: whoever waits for the schedule has no backup until then.
func wishOf(s Situation) string {
	done := func(id string) bool { return s.Stored != nil && slices.Contains(s.Stored.Done, id) }
	if s.Wish != nil && s.Wish.Instance == s.Instance && !done(s.Wish.ID) && (s.Base.For != s.Wish.ID || s.Base.undone()) {
		return s.Wish.ID
	}
	if s.Leads && s.Stored != nil && s.Stored.Broken != "" && s.Now.Sub(s.Stored.Since) >= gapPatience &&
		!done(s.Stored.Broken) && (s.Base.For != s.Stored.Broken || s.Base.undone()) {
		return s.Stored.Broken
	}
	return ""
}

// undone says that the last try has failed, or that there was none.
func (w Work) undone() bool { return w.Failures > 0 || w.Ended.IsZero() }

// due says whether it is time again: after failures the pauses grow up to the longest.
func (w Work) due(now time.Time, every, longest time.Duration) bool {
	if w.Running {
		return false
	}
	if w.Failures > 0 {
		every = min(max(every, time.Second)<<min(w.Failures-1, 20), longest)
	}
	return now.Sub(w.Ended) >= every
}

// Broken says why no backup leads to the end of the log that is there, as the ID of the base backup that makes up for
// it; empty if one does, or if there is no backup at all, which the schedule is to make.
func Broken(catalogue *backup.Catalogue) string {
	history, size := Newest(catalogue), catalogue.Owner.SegmentSize
	if len(catalogue.Backups) == 0 || len(history) == 0 {
		return ""
	}
	log := catalogue.Log(history.Timeline())
	var last uint64
	for index := len(log.Segments) - 1; index >= 0; index-- {
		last = max(last, log.Segments[index].Number)
	}
	for _, tail := range log.Tails {
		last = max(last, tail.Number)
	}
	if last == 0 {
		return "" // A timeline that has just begun.
	}
	for _, window := range Windows(catalogue) {
		if uint64(window.Until) >= last*size {
			return ""
		}
	}
	var gap uint64
	for _, found := range catalogue.Logs {
		for _, recorded := range found.Gaps {
			gap = max(gap, recorded.Last)
		}
	}
	return fmt.Sprintf("gap-%d-%X", history.Timeline(), gap)
}
