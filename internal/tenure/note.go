package tenure

import (
	"cmp"
	"slices"
)

// Note puts into the memory what is under way, or is kept in mind, when an action is carried out. It is the one place
// that says so: the loop notes what it does, and a plan in the making notes what it is going to do, so that a later
// rule of the same pass sees it.
func (m *Memory) Note(action Action, now Instant) {
	switch action := action.(type) {
	case ReadLease:
		m.ReadBegun(now)
	case WriteLease:
		m.WriteBegun(Write{
			Kind: action.Kind, Version: action.Version, Holder: action.Holder, Record: action.Record,
			Duration: action.Duration, Started: now,
		})
	case Send:
		m.SentTo(action.Request, now)
	case Conduct:
		m.Ballot = action.Ballot
	case Rest:
		m.Rest = action.Until
		if action.Retreat {
			m.Retreats, m.Retreated = m.Retreats+1, now
		}
	case NoteQuorumLost:
		m.Lacking, m.LackVersion, m.Cuts = action.Since, m.Lease.Version, nil
	case NoteStreamLost:
		m.Missed = action.Since
	case ReadCuts:
		m.CutsTried = now
	default:
		m.noteHandover(action, now)
		m.noteShown(action, now)
	}
}

// noteHandover is about giving the place to another instance.
func (m *Memory) noteHandover(action Action, now Instant) {
	switch action := action.(type) {
	case Decide:
		if wish := action.Caller.Switchover; action.Reply.Accepted {
			m.Asked = &wish
		}
	case Forget:
		m.Asked = nil
	case Prepare:
		m.Preparing = action.Since
	case Yield:
		m.Yielding, m.Yielded = nil, now
		if !action.Stop {
			m.Yielding, m.Yielded = &now, 0
		}
	}
}

// noteShown is about what tells others where this instance is.
func (m *Memory) noteShown(action Action, now Instant) {
	switch action := action.(type) {
	case ReadRoute, WriteRoute:
		m.Route.Begin(now)
	case ProxyTo:
		m.Ushered = Ushered{To: action.To, Since: cmp.Or(m.Ushered.Since, now)}
	case WriteLabels:
		m.Labels.Writing, m.Labels.Tried = true, now
	}
}

// After is the snapshot as it is when an action was carried out, as far as that is known before. What only facts can
// tell is unknown then: where a server stands that was killed, or is told to lead no more (I3).
func (s Snapshot) After(action Action) Snapshot {
	s.Note(action, s.Now)
	switch action := action.(type) {
	case Store:
		s.Stored = action.Stored
	case Arm:
		s.Guard.Until = action.Until
	case Kill:
		s.Engine.Leading, s.Engine.Flushed = nil, nil
	case Obey:
		if s.Standing.leads() && !action.Standing.leads() {
			s.Engine.Leading, s.Engine.Flushed = nil, nil
		}
		s.Standing = action.Standing
	case Reply:
		s.answered(action.ID)
	case AnswerBallot:
		s.answered(action.ID)
	case Decide:
		s.Callers = slices.DeleteFunc(slices.Clone(s.Callers), func(c Caller) bool { return c.ID == action.Caller.ID })
	}
	return s
}

func (s *Snapshot) answered(id uint64) {
	s.Inbox = slices.DeleteFunc(slices.Clone(s.Inbox), func(r Request) bool { return r.ID == id })
}

// leads says that a server which is told this leads, or still has to end.
func (s Standing) leads() bool { return s.Role == RoleLead || s.Role == RoleYield }
