package sim

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/test/sim/law"
)

func leaseFlaws() []Flaw {
	return []Flaw{
		{Bug: "the deadline counts from the answer to a renewal", Rule: "tenure.arm-no-later-than-the-deadline",
			Modes: byClock, Kinds: []FaultKind{FaultFreeze, FaultCut, FaultCutAPI}, State: renewedByTheAnswer},
		{Bug: "a server leads again after a crash without a renewal", Rule: "tenure.lead-only-by-right", Modes: byClock,
			Usurps: true, Kinds: []FaultKind{FaultPowerOff, FaultCut, FaultCutAPI, FaultCrash}, Plan: leadAtOnce},
		{Bug: "a fence is lifted by what a watch shows", Rule: "tenure.lift-a-fence-only-by-a-read", Modes: strictly,
			Points: answerThenTake, Blind: []rule.Rule{law.Fenced, law.EnoughFenced},
			Kinds: []FaultKind{FaultFreezePod, FaultCutAPI, FaultCrash}, Snapshot: liftByAWatch, Aim: restartInThePast},
		{Bug: "a fence is lifted by any word of a holder", Rule: "tenure.lift-a-fence-only-by-a-read", Modes: strictly,
			Blind:  []rule.Rule{law.Fenced, law.EnoughFenced},
			Points: []PointKind{PointTake}, Kinds: []FaultKind{FaultCutAPI, FaultFreezePod, FaultFreeze},
			Snapshot: liftByAnyWord, Plan: tellAlways},
		{Bug: "a holder of a lower term is followed", Rule: "tenure.lift-a-fence-only-by-a-read", Modes: strictly, Nodes: 3,
			Kinds:    []FaultKind{FaultFreezePod, FaultCutAPI, FaultCrash},
			Snapshot: func(_ *sloppyLoop, s *tenure.Snapshot) { s.Stored.MaxTerm, s.Stored.Fence = 0, nil }},
		{Bug: BugStoreLast, Rule: "tenure.fence-before-answering", Modes: strictly, Points: answerThenTake,
			Blind: []rule.Rule{law.EnoughFenced}, Kinds: []FaultKind{FaultFreezePod, FaultCutAPI, FaultCrash}},
		{Bug: "an unknown outcome is taken for a failure", Rule: "tenure.forget-no-write-in-doubt", Modes: strictly, Nodes: 3,
			Points: []PointKind{PointTransfer},
			Kinds:  []FaultKind{FaultCutAPI, FaultAPIAway, FaultSwitchover, FaultWish}, Event: outcomeIs(tenure.WriteRefused)},
		{Bug: "an unknown outcome is taken for a success", Rule: "tenure.forget-no-write-in-doubt", Modes: byClock,
			Kinds: []FaultKind{FaultCutAPI, FaultAPIAway, FaultCut}, Event: outcomeIs(tenure.WriteDone)},
	}
}

func renewedByTheAnswer(l *sloppyLoop, event tenure.Event) {
	right := &l.state.Memory.Right
	if written, ok := event.(tenure.LeaseWritten); ok && written.Verdict == tenure.WriteDone && right.Term > 0 {
		right.Renewed = l.ports.Clock.Now().Add(3 * time.Second)
	}
}

func leadAtOnce(_ *sloppyLoop, s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	record := s.Stored.LastRecord
	if _, may := s.MayLead(); may || record == nil || s.Stored.HeldTerm == 0 || s.Stored.HeldTerm != s.Stored.MaxTerm ||
		s.Engine.Data != tenure.DataWhole || s.Lease.Exists && s.Lease.Term > s.Stored.HeldTerm {
		return actions
	}
	standing := tenure.Standing{
		Role: tenure.RoleLead, Term: s.Stored.HeldTerm, Timeline: record.Timeline, Initialised: true,
		SystemIdentifier: record.SystemIdentifier, Members: record.Members,
	}
	if s.Engine.Leading != nil {
		standing.OpenStart = s.Engine.Leading.Start
	}
	if s.Standing.Role == tenure.RoleLead && s.Standing.OpenStart == standing.OpenStart {
		return nil
	}
	return []tenure.Action{tenure.Arm{Until: s.Now.Add(8 * time.Second)}, tenure.Obey{Standing: standing}}
}

func liftByAWatch(l *sloppyLoop, s *tenure.Snapshot) {
	if s.Stored.Fence != nil && s.Lease.Exists && s.Lease.Version != s.Stored.Fence.Version && s.Ballot == nil {
		s.Stored.Fence = nil
		l.state.Stored.Fence = nil
	}
}

// liftByAnyWord takes a message of the holder for news whatever version it tells of.
func liftByAnyWord(l *sloppyLoop, s *tenure.Snapshot) {
	for _, request := range s.Inbox {
		// Whoever conducts a ballot stays behind its own fence: otherwise it would get what it is to lack.
		if request.Kind == wire.PeerTell && request.Record != nil && request.Term >= s.Stored.MaxTerm && s.Ballot == nil {
			s.Stored.Fence, l.state.Stored.Fence = nil, nil
		}
	}
}

// tellAlways lets a holder tell of its lease more often than it must.
func tellAlways(_ *sloppyLoop, s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	if s.Engine.Leading == nil || s.Lease.Record == nil || s.Lease.Holder != s.Self() {
		return actions
	}
	for _, member := range s.Lease.Record.Members {
		if member != s.Self() {
			actions = append(actions, tenure.Send{Request: wire.PeerRequest{
				PeerHeader: wire.PeerHeader{
					DatabaseUID: s.DatabaseUID, LeaseUID: s.Lease.UID, Term: s.Lease.Term, From: s.Self(), Address: s.Address,
				},
				Kind: wire.PeerTell, To: member, LeaseVersion: s.Lease.Version, Record: s.Lease.Record,
			}})
		}
	}
	return actions
}

func outcomeIs(verdict tenure.Verdict) func(*sloppyLoop, tenure.Event) tenure.Event {
	return func(l *sloppyLoop, event tenure.Event) tenure.Event {
		written, ok := event.(tenure.LeaseWritten)
		if !ok || written.Verdict != tenure.WriteUnknown || l.state.Memory.Write == nil {
			return event
		}
		written.Verdict = verdict
		if write := l.state.Memory.Write; verdict == tenure.WriteDone {
			lease := l.state.Memory.Lease
			record := write.Record
			written.View = tenure.View{
				UID: lease.UID, Version: lease.Version, Holder: write.Holder, Term: record.Term, Record: &record,
			}
			lease.Holder, lease.Term, lease.Record = write.Holder, record.Term, &record
			l.state.Memory.Lease = lease
		}
		return written
	}
}

func electionFlaws() []Flaw {
	kinds := []FaultKind{FaultPowerOff, FaultCut, FaultFreezePod, FaultCutAPI, FaultFreeze}
	return []Flaw{
		{Bug: "answers to another version count", Rule: "tenure.take-only-the-voted-version", Modes: strictly,
			Blind: []rule.Rule{law.EnoughFenced}, Kinds: kinds,
			Snapshot: func(l *sloppyLoop, s *tenure.Snapshot) {
				if s.Ballot != nil && s.Ballot.Version != s.Lease.Version {
					ballot := *s.Ballot
					ballot.Version = s.Lease.Version
					s.Ballot, l.state.Memory.Ballot = &ballot, &ballot
				}
			}},
		{Bug: "taken with one answer too few", Rule: "tenure.take-only-with-answers", Modes: strictly,
			Blind: []rule.Rule{law.EnoughFenced}, Kinds: kinds, Snapshot: pretendAnswer},
		{Bug: "taken with less than another has", Rule: "tenure.take-only-with-answers", Modes: strictly, Kinds: kinds,
			Snapshot: pretendPosition},
		{Bug: "a fence answered by whoever has promised", Rule: "sim.keep-promises", Modes: byClock,
			Kinds:    []FaultKind{FaultCutAPI, FaultAPIAway},
			Snapshot: func(_ *sloppyLoop, s *tenure.Snapshot) { s.Stored.Promise = nil }},
		{Bug: "an answer of an old incarnation counts", Rule: "tenure.count-only-the-own-copy", Modes: strictly, Nodes: 3,
			Kinds: []FaultKind{FaultVolumeLost, FaultFreezePod, FaultCutAPI, FaultPowerOff}, Event: anyIncarnation},
		{Bug: "standing back for ever for who has most", Rule: "tenure.take-only-with-answers", Modes: strictly, Nodes: 3,
			Gap: 35 * time.Second, Kinds: []FaultKind{FaultCutAPI}, Plan: neverCatchUp, Aim: standBack},
		{Bug: "behind the lease is taken for behind", Rule: "tenure.catch-up-only-to-a-ballot-answer", Modes: strictly,
			Nodes: 5, Gap: 45 * time.Second, Kinds: []FaultKind{FaultPowerOff}, Snapshot: behindTheLease, Aim: takeInVain},
	}
}

// behindTheLease lets nobody stand that lacks a timeline which was given out.
func behindTheLease(_ *sloppyLoop, s *tenure.Snapshot) {
	if place := s.Engine.Flushed; place != nil && s.Lease.Record != nil && place.Timeline < s.Lease.Record.Timeline &&
		s.Lease.Holder != s.Self() {
		s.Engine.CannotLead = "the lease tells of a later timeline"
	}
}

func pretendAnswer(_ *sloppyLoop, s *tenure.Snapshot) {
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

func pretendPosition(_ *sloppyLoop, s *tenure.Snapshot) {
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

func anyIncarnation(_ *sloppyLoop, event tenure.Event) tenure.Event {
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

func neverCatchUp(_ *sloppyLoop, _ tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	return edit(actions, func(action tenure.Action) []tenure.Action {
		if obey, ok := action.(tenure.Obey); ok && obey.Standing.Role == tenure.RoleCatchUp {
			return nil
		}
		return []tenure.Action{action}
	})
}

func promiseFlaws() []Flaw {
	kinds := []FaultKind{FaultCutAPI, FaultAPIAway, FaultCut}
	return []Flaw{
		{Bug: "the holder stays without promises", Rule: "tenure.lead-only-by-right", Modes: byClock, Kinds: kinds,
			Snapshot: func(_ *sloppyLoop, s *tenure.Snapshot) {
				for _, record := range s.Records() {
					for _, member := range record.Members {
						s.Promises = append(slices.Clone(s.Promises), tenure.Promised{
							Member: member, Term: max(s.Right.Term, s.Stored.HeldTerm), Sent: s.Now,
							Duration: s.Policy.Duration,
						})
					}
				}
			}},
	}
}

func yieldFlaws() []Flaw {
	return []Flaw{
		{Bug: "a place taken back after a transfer in doubt", Rule: "tenure.hand-over", Modes: strictly, Nodes: 3,
			Usurps: true, Points: []PointKind{PointTransfer},
			Kinds: []FaultKind{FaultSwitchover, FaultCutAPI, FaultCutAPI}, Plan: takeBackInDoubt, Snapshot: stayAfterDoubt},
		{Bug: "the target of a switchover is chosen before the end", Rule: "tenure.transfer-only-after-the-stop",
			Modes: strictly, Nodes: 3, Blind: []rule.Rule{law.HandOverAll}, Snapshot: anyTarget,
			Kinds: []FaultKind{FaultSwitchover, FaultTerminate, FaultCutPeers, FaultCutOneWay}},
	}
}

// stayAfterDoubt lets the holder believe that its transfer was not done.
func stayAfterDoubt(_ *sloppyLoop, s *tenure.Snapshot) {
	for _, doubt := range s.Doubts {
		if doubt.Kind == tenure.WriteTransfer {
			s.Right = tenure.Right{Term: s.Stored.HeldTerm, Renewed: s.Now}
		}
	}
}

func takeBackInDoubt(_ *sloppyLoop, s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	record := s.Lease.Record
	for _, doubt := range s.Doubts {
		if doubt.Kind != tenure.WriteTransfer || record == nil || s.Lease.Holder != s.Self() {
			continue
		}
		standing := tenure.Standing{
			Role: tenure.RoleLead, Term: s.Lease.Term, Timeline: record.Timeline, Initialised: true,
			SystemIdentifier: record.SystemIdentifier, Members: record.Members,
			Setting: tenure.Setting{K: record.W - 1, Names: slices.Clone(record.Members)},
		}
		standing.Setting.Names = slices.DeleteFunc(standing.Setting.Names, func(m wire.Member) bool { return m == s.Self() })
		if leading := s.Engine.Leading; leading != nil {
			has := func(r tenure.Replica) bool { return r.Flushed >= leading.Recovered }
			if slices.ContainsFunc(leading.Replicas, has) {
				standing.OpenStart = leading.Start
			}
		}
		if s.Standing.Role == tenure.RoleLead && s.Standing.OpenStart == standing.OpenStart {
			return nil
		}
		return []tenure.Action{tenure.Arm{Until: s.Now.Add(8 * time.Second)}, tenure.Obey{Standing: standing}}
	}
	return actions
}

func anyTarget(_ *sloppyLoop, s *tenure.Snapshot) {
	if s.Engine.Final == nil {
		return
	}
	s.Places = slices.Clone(s.Places)
	for index := range s.Places {
		s.Places[index].Position = *s.Engine.Final
	}
}

func orphanFlaws() []Flaw {
	return []Flaw{
		{Bug: "a lost lease is written anew without promises", Rule: "tenure.succeed-only-with-promises", Modes: strictly,
			Nodes: 3, Kinds: []FaultKind{FaultLeaseLost, FaultLeaseLost, FaultFreezePod, FaultFreeze, FaultCutAPI},
			Blind: []rule.Rule{law.RecoverAlone}, Plan: succeedAtOnce},
		{Bug: "a lost lease is taken with less than all answers", Rule: "tenure.restore-only-with-all-answers",
			Modes: strictly, Nodes: 3,
			Kinds: []FaultKind{FaultLeaseLost, FaultLeaseLost, FaultPowerOff, FaultCut, FaultCutPeers},
			Blind: []rule.Rule{law.RecoverByAll}, Snapshot: pretendAll},
		{Bug: "a lease that was put back is obeyed", Rule: "tenure.obey-only-a-successor", Modes: strictly, Nodes: 3,
			Blind: []rule.Rule{law.ForgetNoTerm, law.LaterTerm, law.NotRestored},
			Kinds: []FaultKind{FaultLeaseBack, FaultLeaseBack, FaultSwitchover, FaultPowerOff}, Snapshot: obeyThePast},
		{Bug: "an answer that tells of a later record is counted", Rule: "tenure.obey-only-a-successor", Modes: strictly,
			Nodes: 5, Kinds: []FaultKind{FaultLeaseBack}, Snapshot: hearPositionsOnly, Aim: putBackWhileAway},
	}
}

// hearPositionsOnly lets an ordinary candidate hear nothing of an answer but how far the member has come.
func hearPositionsOnly(_ *sloppyLoop, s *tenure.Snapshot) {
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

func succeedAtOnce(_ *sloppyLoop, s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	record := s.Stored.LastRecord
	if !s.Vacant() || s.Write != nil || record == nil || s.Stored.HeldTerm == 0 || !record.Has(s.Self()) {
		return actions
	}
	heir := *record
	heir.Term, heir.Succeeds = s.Stored.HeldTerm+1, append(slices.Clone(record.Succeeds), s.Stored.LeaseUID)
	return append(actions, tenure.WriteLease{
		Kind: tenure.WriteSucceed, Version: s.Lease.Version, Holder: s.Self(), Record: heir, Duration: s.Policy.Duration,
	})
}

// pretendAll lets a candidate believe that whoever is silent has answered, without anything.
func pretendAll(_ *sloppyLoop, s *tenure.Snapshot) {
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

// obeyThePast believes whatever the lease shows.
func obeyThePast(l *sloppyLoop, s *tenure.Snapshot) {
	if s.Lost() == "" || s.Lease.UID != s.Stored.LeaseUID || s.Lease.Record == nil {
		return
	}
	stored := s.Stored
	stored.MaxTerm, stored.HeldTerm = s.Lease.Term, min(stored.HeldTerm, s.Lease.Term)
	stored.LastRecord, stored.NextRecord = s.Lease.Record, nil
	s.Stored, l.state.Stored = stored, stored
}
