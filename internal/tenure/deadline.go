package tenure

import (
	"cmp"
	"slices"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Self is this instance with its copy, or, before there is one, with the copy that it is to make as the first. A copy
// that was put back is nobody's: what is stored beside it was put back with it (I1).
func (s *Snapshot) Self() wire.Member {
	if s.Engine.Data == DataPutBack {
		return wire.Member{Name: s.Name}
	}
	return wire.Member{Name: s.Name, Incarnation: cmp.Or(s.Engine.Incarnation, s.Stored.Incarnation)}
}

// Records are those that may be the record of the lease: the one that was acted upon last, one that this instance has
// begun to write, and, if the lease is what this volume obeys, the one that it shows. What needs members must have them
// under each.
func (s *Snapshot) Records() []wire.LeaseRecord {
	var records []wire.LeaseRecord
	for _, record := range []*wire.LeaseRecord{s.Stored.LastRecord, s.Stored.NextRecord} {
		if record != nil {
			records = append(records, *record)
		}
	}
	for _, doubt := range s.Doubts {
		if doubt.Kind != WriteSucceed {
			records = append(records, doubt.Record)
		}
	}
	// One that writes a lost lease anew changes neither members nor quorum, nor the holder.
	if s.Write != nil && s.Write.Kind != WriteSucceed {
		records = append(records, s.Write.Record)
	}
	return records
}

// Deadline is for which term this instance may lead, and until when: from then on no server of it may acknowledge
// anything. The term is 0 if it may not lead at all.
//
// The right comes from the lease, counted from the begin of the last successful write (C1). While the API server is
// away or the lease is lost it comes from promises, counted from when they were asked for: W of them, the own included,
// under each record that may be in force.
func (s *Snapshot) Deadline() (term int64, until Instant) {
	if s.Right.Term > 0 {
		lasts := s.Right.Duration - s.Policy.below(s.Right.Duration) - s.Jumps.Since(s.Right.Renewed)
		term, until = s.Right.Term, max(0, s.Right.Renewed.Add(lasts))
	}
	if s.Lease.Failing == nil && s.Lost() == "" {
		return term, until
	}
	held := cmp.Or(s.Right.Term, s.Stored.HeldTerm)
	if promised := s.promisedUntil(held, 0); held > 0 && promised > until {
		return held, promised
	}
	return term, until
}

// promisedUntil is how long the promises hold that were asked for at a moment or later.
func (s *Snapshot) promisedUntil(term int64, since Instant) Instant {
	records := s.Records()
	// The own promise counts only if nothing speaks against it: no election was answered, no later term was seen, no
	// lease was taken over and lost meanwhile.
	if len(records) == 0 || s.Stored.Fence != nil || s.Stored.MaxTerm > term || s.LeasesMissed() > 0 {
		return 0
	}
	until := s.Now.Add(s.Policy.Duration - s.Policy.Margin)
	for _, record := range records {
		// The lease may have been given away by a write that nobody knows the outcome of.
		if record.Term > term {
			return 0
		}
		until = min(until, s.promisedUnder(record, term, since))
	}
	return until
}

func (s *Snapshot) promisedUnder(record wire.LeaseRecord, term int64, since Instant) Instant {
	needed := record.W - 1
	if record.W == 1 {
		// One answer may do for an election in the mode Async, and another agent may know of that mode already: so all
		// must promise.
		needed = len(record.Members) - 1
	}
	// Where an empty copy may be begun, whoever could begin one must promise, and only members can.
	if !record.Has(s.Self()) || s.Policy.Volatile && needed < len(s.Policy.Instances)-1 {
		return 0
	}
	var ends []Instant
	for _, promise := range s.Promises {
		if promise.Term == term && promise.Sent >= since && promise.Member != s.Self() && record.Has(promise.Member) {
			lasts := promise.Duration - s.Policy.Margin - s.Jumps.Since(promise.Sent)
			ends = append(ends, promise.Sent.Add(lasts))
		}
	}
	if len(ends) < needed {
		return 0
	}
	if needed == 0 {
		return s.Now.Add(s.Policy.Duration - s.Policy.Margin)
	}
	slices.Sort(ends)
	return ends[len(ends)-needed]
}

// MayLead says whether the right to lead holds now, for which term.
func (s *Snapshot) MayLead() (term int64, may bool) {
	term, until := s.Deadline()
	return term, term > 0 && s.Now < until
}

// Jump is the wall clock jumping forward: seen at a moment of the clock of deadlines, by so much against that clock.
type Jump struct {
	At Instant       `json:"at"`
	By time.Duration `json:"by"`
}

// Jumps are jumps of the wall clock, oldest first.
type Jumps []Jump

// Since is how far the wall clock has jumped at the moment or later. The machine may have stood still for as long
// without counting it, so it is taken off every right and every promise that counts from that moment (C1). It is never
// taken off what this instance has promised to others: who waits longer than needed breaks no promise.
func (j Jumps) Since(moment Instant) time.Duration {
	var lost time.Duration
	for _, jump := range j {
		if jump.At >= moment {
			lost += jump.By
		}
	}
	return lost
}
