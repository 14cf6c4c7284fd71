package sim

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/mistakes"
)

func leaseFlaws() []Flaw {
	return []Flaw{
		{Bug: "the deadline counts from the answer to a renewal", Rule: "tenure.arm-no-later-than-the-deadline",
			Modes: byClock, Kinds: []FaultKind{FaultFreeze, FaultCut, FaultCutAPI}, State: renewedByTheAnswer},
		{Bug: "a server leads again after a crash without a renewal", Rule: "tenure.lead-only-by-right", Modes: byClock,
			Usurps: true, Kinds: []FaultKind{FaultPowerOff, FaultCut, FaultCutAPI, FaultCrash},
			Plan: plans(mistakes.LeadAtOnce)},
		{Bug: "a fence is lifted by what a watch shows", Rule: "tenure.lift-a-fence-only-by-a-read", Modes: strictly,
			Points: answerThenTake, Blind: []rule.Rule{law.Fenced, law.EnoughFenced},
			Kinds: []FaultKind{FaultFreezePod, FaultCutAPI, FaultCrash}, Snapshot: liftByAWatch, Aim: restartInThePast},
		{Bug: "a fence is lifted by any word of a holder", Rule: "tenure.lift-a-fence-only-by-a-read", Modes: strictly,
			Blind:  []rule.Rule{law.Fenced, law.EnoughFenced},
			Points: []PointKind{PointTake}, Kinds: []FaultKind{FaultCutAPI, FaultFreezePod, FaultFreeze},
			Snapshot: liftByAnyWord, Plan: plans(mistakes.TellAlways)},
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
			Blind: []rule.Rule{law.EnoughFenced}, Kinds: kinds, Snapshot: sees(mistakes.PretendAnswer)},
		{Bug: "taken with less than another has", Rule: "tenure.take-only-with-answers", Modes: strictly, Kinds: kinds,
			Snapshot: sees(mistakes.PretendPosition)},
		{Bug: "a fence answered by whoever has promised", Rule: "sim.keep-promises", Modes: byClock,
			Kinds:    []FaultKind{FaultCutAPI, FaultAPIAway},
			Snapshot: func(_ *sloppyLoop, s *tenure.Snapshot) { s.Stored.Promise = nil }},
		{Bug: "an answer of an old incarnation counts", Rule: "tenure.count-only-the-own-copy", Modes: strictly, Nodes: 3,
			Kinds: []FaultKind{FaultVolumeLost, FaultFreezePod, FaultCutAPI, FaultPowerOff},
			Event: hears(mistakes.AnyIncarnation)},
		{Bug: "standing back for ever for who has most", Rule: "tenure.take-only-with-answers", Modes: strictly, Nodes: 3,
			Gap: 35 * time.Second, Kinds: []FaultKind{FaultCutAPI}, Plan: plans(mistakes.NeverCatchUp), Aim: standBack},
		{Bug: "behind the lease is taken for behind", Rule: "tenure.catch-up-only-to-a-ballot-answer", Modes: strictly,
			Nodes: 5, Gap: 45 * time.Second, Kinds: []FaultKind{FaultPowerOff}, Aim: takeInVain,
			Snapshot: sees(mistakes.BehindTheLease)},
	}
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
			Kinds: []FaultKind{FaultSwitchover, FaultCutAPI, FaultCutAPI}, Plan: plans(mistakes.TakeBackInDoubt),
			Snapshot: sees(mistakes.StayAfterDoubt)},
		{Bug: "the target of a switchover is chosen before the end", Rule: "tenure.transfer-only-after-the-stop",
			Modes: strictly, Nodes: 3, Blind: []rule.Rule{law.HandOverAll}, Snapshot: sees(mistakes.AnyTarget),
			Kinds: []FaultKind{FaultSwitchover, FaultTerminate, FaultCutPeers, FaultCutOneWay}},
	}
}

func orphanFlaws() []Flaw {
	return []Flaw{
		{Bug: "a lost lease is written anew without promises", Rule: "tenure.succeed-only-with-promises", Modes: strictly,
			Nodes: 3, Kinds: []FaultKind{FaultLeaseLost, FaultLeaseLost, FaultFreezePod, FaultFreeze, FaultCutAPI},
			Blind: []rule.Rule{law.RecoverAlone}, Plan: plans(mistakes.SucceedAtOnce)},
		{Bug: "a lost lease is taken with less than all answers", Rule: "tenure.restore-only-with-all-answers",
			Modes: strictly, Nodes: 3,
			Kinds: []FaultKind{FaultLeaseLost, FaultLeaseLost, FaultPowerOff, FaultCut, FaultCutPeers},
			Blind: []rule.Rule{law.RecoverByAll}, Snapshot: sees(mistakes.PretendAll)},
		{Bug: "a lease that was put back is obeyed", Rule: "tenure.obey-only-a-successor", Modes: strictly, Nodes: 3,
			Blind: []rule.Rule{law.ForgetNoTerm, law.LaterTerm, law.NotRestored},
			Kinds: []FaultKind{FaultLeaseBack, FaultLeaseBack, FaultSwitchover, FaultPowerOff}, Snapshot: obeyThePast},
		{Bug: "an answer that tells of a later record is counted", Rule: "tenure.obey-only-a-successor", Modes: strictly,
			Nodes: 5, Kinds: []FaultKind{FaultLeaseBack}, Snapshot: sees(mistakes.HearPositionsOnly), Aim: putBackWhileAway},
	}
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
