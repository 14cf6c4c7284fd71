package mistakes

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// BehindTheLease lets nobody stand that lacks a timeline which was given out.
func BehindTheLease(s *tenure.Snapshot) {
	if place := s.Engine.Flushed; place != nil && s.Lease.Record != nil && place.Timeline < s.Lease.Record.Timeline &&
		s.Lease.Holder != s.Self() {
		s.Engine.CannotLead = "the lease tells of a later timeline"
	}
}

// PretendAnswer counts one member as having answered that has not.
func PretendAnswer(s *tenure.Snapshot) {
	if s.Ballot == nil || s.Lease.Record == nil {
		return
	}
	ballot := *s.Ballot
	for _, member := range s.Lease.Record.Members {
		known := slices.ContainsFunc(ballot.Answers, func(a tenure.Answer) bool { return a.Member == member })
		if member != s.Self() && !known {
			ballot.Willing = append(slices.Clone(ballot.Willing), member)
			ballot.Answers = append(slices.Clone(ballot.Answers), tenure.Answer{Member: member})
			break
		}
	}
	s.Ballot = &ballot
}

// PretendPosition takes the answers of others for empty copies.
func PretendPosition(s *tenure.Snapshot) {
	if s.Ballot == nil {
		return
	}
	ballot := *s.Ballot
	ballot.Answers = slices.Clone(ballot.Answers)
	for index := range ballot.Answers {
		if ballot.Answers[index].Member != s.Self() {
			ballot.Answers[index].Position = tenure.Position{}
		}
	}
	s.Ballot = &ballot
}

// StayAfterDoubt lets the holder believe that its transfer was not done.
func StayAfterDoubt(s *tenure.Snapshot) {
	for _, doubt := range s.Doubts {
		if doubt.Kind == tenure.WriteTransfer {
			s.Right = tenure.Right{Term: s.Stored.HeldTerm, Renewed: s.Now}
		}
	}
}

// EndedAlready takes a server that was told to yield for one that has ended where it was seen last.
func EndedAlready(s *tenure.Snapshot) {
	if leading := s.Engine.Leading; s.Yielding != nil && leading != nil {
		s.Engine.Final = &tenure.Position{Timeline: leading.Timeline, LSN: leading.Flushed}
		s.Engine.Leading, s.Engine.Processes = nil, false
	}
}

// AnyTarget takes every member for one that has everything.
func AnyTarget(s *tenure.Snapshot) {
	if s.Engine.Final == nil {
		return
	}
	s.Places = slices.Clone(s.Places)
	for index := range s.Places {
		s.Places[index].Position = *s.Engine.Final
	}
}

// HearPositionsOnly lets an ordinary candidate hear nothing of an answer but how far the member has come.
func HearPositionsOnly(s *tenure.Snapshot) {
	if s.Ballot == nil || s.Lost() != "" {
		return
	}
	ballot := *s.Ballot
	ballot.Answers = slices.Clone(ballot.Answers)
	for index := range ballot.Answers {
		ballot.Answers[index].Records = nil
	}
	s.Ballot = &ballot
}

// PretendAll lets a candidate believe that whoever is silent has answered, without anything.
func PretendAll(s *tenure.Snapshot) {
	if s.Ballot == nil || !s.Vacant() || s.Stored.LastRecord == nil {
		return
	}
	ballot := *s.Ballot
	ballot.Willing, ballot.Answers = slices.Clone(ballot.Willing), slices.Clone(ballot.Answers)
	for _, member := range s.Stored.LastRecord.Members {
		if member != s.Self() && !slices.Contains(ballot.Willing, member) {
			ballot.Willing = append(ballot.Willing, member)
		}
		known := slices.ContainsFunc(ballot.Answers, func(a tenure.Answer) bool { return a.Member == member })
		if member != s.Self() && !known && s.Now.Since(ballot.Begun) > time.Second {
			ballot.Answers = append(ballot.Answers, tenure.Answer{Member: member})
		}
	}
	s.Ballot = &ballot
}

// AnyIncarnation takes every copy of an instance for the one that is meant.
func AnyIncarnation(event tenure.Event) tenure.Event {
	switch event := event.(type) {
	case tenure.PeerAsked:
		event.Request.To.Incarnation = ""
		return event
	case tenure.PeerReplied:
		event.Reply.From = event.Request.To
		return event
	}
	return event
}

// CountFromTheReply counts a promise from when it was heard of.
func CountFromTheReply(memory *tenure.Memory, event tenure.Event, now tenure.Instant) {
	reply, ok := event.(tenure.PeerReplied)
	if !ok || reply.Request.Kind != wire.PeerPromise {
		return
	}
	memory.Promises = slices.Clone(memory.Promises)
	for index := range memory.Promises {
		if memory.Promises[index].Member == reply.Reply.From {
			memory.Promises[index].Sent = now
		}
	}
}

// BeginAlone is for an empty instance that does not look who else is there.
func BeginAlone(s *tenure.Snapshot) {
	if s.Engine.Data != tenure.DataNone || s.Lease.Record == nil || !s.Lease.Record.Initialised {
		return
	}
	record := *s.Lease.Record
	record.Members = slices.DeleteFunc(slices.Clone(record.Members), func(m wire.Member) bool { return m.Name != s.Name })
	s.Lease.Record, s.Places = &record, nil
	s.Policy.Instances = slices.DeleteFunc(slices.Clone(s.Policy.Instances), func(n string) bool { return n != s.Name })
}

// ForgetTheFlush is for an instance that does not look whether its copy has heard of the last flush. The record itself
// goes on as it is.
func ForgetTheFlush(s *tenure.Snapshot) {
	if record := s.Lease.Record; record != nil && record.Emptied != nil && s.Engine.Flushed != nil {
		s.Engine.Flushed = &tenure.Position{
			Timeline: max(s.Engine.Flushed.Timeline, record.Emptied.Timeline),
			LSN:      max(s.Engine.Flushed.LSN, record.Emptied.Offset),
		}
	}
}

// CountOnePromiseForAll takes what one member has promised for the word of all.
func CountOnePromiseForAll(s *tenure.Snapshot) {
	if s.Lease.Record == nil || len(s.Promises) == 0 {
		return
	}
	given := s.Promises[0]
	s.Promises = nil
	for _, member := range s.Lease.Record.Members {
		promise := given
		promise.Member = member
		s.Promises = append(s.Promises, promise)
	}
}
