package tenure

import (
	"cmp"
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/wire"
)

// Lost says why the lease is not the one that this volume has obeyed, empty if it is, or is not known.
func (s *Snapshot) Lost() string {
	known := cmp.Or(s.Stored.LeaseUID, s.Policy.LeaseUID)
	switch {
	case !s.Lease.Known:
		return ""
	case !s.Lease.Exists:
		return "it is not there"
	case known != "" && s.Lease.UID != known && !s.succeeds(known):
		return fmt.Sprintf("its UID is %s, and this database has obeyed %s", s.Lease.UID, known)
	case s.Lease.Problem != "":
		return s.Lease.Problem
	case s.Lease.Term < s.Stored.MaxTerm:
		return fmt.Sprintf("it is at term %d, and term %d was seen before", s.Lease.Term, s.Stored.MaxTerm)
	case s.goneBack():
		return "its record is older than one that was seen before"
	case s.Lease.Record != nil && s.Lease.Record.DatabaseUID != s.DatabaseUID:
		return "its record is about the database with UID " + s.Lease.Record.DatabaseUID
	}
	return ""
}

// succeeds says that the lease has taken the place of the one that this volume has obeyed (O3): its record, by a
// consistent read or an own write, is about this database, names that lease among those that were lost, and is of a
// term that is higher than any that was seen.
func (s *Snapshot) succeeds(known string) bool {
	record := s.Lease.Record
	return record != nil && record.DatabaseUID == s.DatabaseUID && slices.Contains(record.Succeeds, known) &&
		s.Lease.Term > s.Stored.MaxTerm && s.seenForSure()
}

// seenForSure says that the lease as it is known comes from a consistent read or an own write, and not from a watch.
func (s *Snapshot) seenForSure() bool {
	return s.Lease.Read > 0 || s.Right.Term > 0 && s.Right.Term == s.Lease.Term && s.Lease.Holder == s.Self()
}

// goneBack says that the lease shows an older record of the same term: somebody has put it back to what it had been, or
// a watch that has just begun shows what is past. A consistent read tells which.
func (s *Snapshot) goneBack() bool {
	last := s.Stored.LastRecord
	return s.Lease.Record != nil && last != nil && s.Lease.Record.Term == last.Term &&
		s.Lease.Record.Revision < last.Revision
}

// ToldTerm is the latest term of the lease that a peer has told of, 0 for none.
func (s *Snapshot) ToldTerm() int64 {
	var latest int64
	for _, peer := range s.Peers {
		latest = max(latest, peer.Term)
	}
	return latest
}

// Vacant says that the lease is lost and there is one to be written anew: a consistent read has shown an empty one that
// was made for the place of the one that this volume has obeyed, or the same one, put back to what it had been.
func (s *Snapshot) Vacant() bool {
	lease, last := s.Lease, s.Stored.LastRecord
	if s.Stored.LeaseUID == "" || last == nil || !last.Initialised || !lease.Exists || lease.Read == 0 ||
		lease.Problem != "" {
		return false
	}
	if lease.UID != s.Stored.LeaseUID {
		made := s.knows(lease.Succeeds) || s.LeasesMissed() > 0
		return made && lease.Record == nil && lease.Term == 0 && lease.Holder == (wire.Member{})
	}
	return lease.Term < s.Stored.MaxTerm || s.goneBack()
}

// knows says that a lease is the one that this volume has obeyed, one of those whose place that one has taken (the
// operator may not have noticed yet that it has), or one that this instance has begun to write as the holder.
func (s *Snapshot) knows(lease string) bool {
	last, anew := s.Stored.LastRecord, s.Stored.Anew
	return lease != "" && (lease == s.Stored.LeaseUID || last != nil && slices.Contains(last.Succeeds, lease) ||
		anew != nil && slices.Contains(anew.Leases, lease))
}

// LeasesMissed is how many leases have come and gone since the one that this volume has obeyed, as the operator tells
// by the lease that is there now. What was agreed on by them is not known here: so this instance is as good as any
// other member to ask and to be asked (O2), and whatever it held before is worth nothing (O1).
func (s *Snapshot) LeasesMissed() int {
	index := slices.Index(s.Lease.Before, s.Stored.LeaseUID)
	if !s.Lease.Exists || s.Lease.UID == s.Stored.LeaseUID || index < 0 || s.knows(s.Lease.Succeeds) {
		return 0
	}
	return len(s.Lease.Before) - index
}

// Testimony are the records that others must know of when the lease is lost: those that may be in force, also as a
// holder may have written them anew without having heard of it.
func (s *Snapshot) Testimony() []wire.LeaseRecord {
	records := s.Records()
	if s.Stored.Anew == nil {
		return records
	}
	for _, record := range slices.Clone(records) {
		if record.Term < s.Stored.Anew.Term {
			record.Term = s.Stored.Anew.Term
			records = append(records, record)
		}
	}
	return records
}

// HeldElsewhere says that another instance has a term that was held here: it was given once more, after the lease was
// put back to what it had been before. Whoever has it now is the one to lead by it, and this instance never is again
// (M1). What a watch shows is enough: without that right an instance only does less.
func (s *Snapshot) HeldElsewhere(term int64) bool {
	holder := s.Lease.Holder
	return term > 0 && s.Lease.Term == term && holder != (wire.Member{}) && holder.Name != s.Name
}

// Promised is the term that this instance held last, and until when so many members have promised not to answer an
// election and not to stand that none can be won without them. They were asked after the lease was seen to be lost: one
// that was asked before may have answered an election since, if its clock runs faster than the one here, and by the
// lease of before somebody else may have led.
func (s *Snapshot) Promised() (term int64, until Instant) {
	held := cmp.Or(s.Right.Term, s.Stored.HeldTerm)
	if held == 0 {
		return 0, 0
	}
	return held, s.promisedUntil(held, s.Lease.Changed)
}
