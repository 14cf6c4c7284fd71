package plan_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/invariant"
	"meridian.dev/meridian/internal/wire"
)

// Each case is a plan that some wrong rule could make. Every invariant must be among them.
func TestInvariantsBite(t *testing.T) {
	leading := func(change func(*tenure.Standing)) tenure.Action {
		snapshot, _ := begin("holder")
		standing := snapshot.Standing
		change(&standing)
		return tenure.Obey{Standing: standing}
	}
	writing := func(kind tenure.WriteKind, holder wire.Member, change func(*wire.LeaseRecord)) tenure.Action {
		snapshot, _ := begin("holder")
		record := *snapshot.Lease.Record
		record.Members = slices.Clone(record.Members)
		change(&record)
		return tenure.WriteLease{Kind: kind, Version: "700", Holder: holder, Record: record, Duration: 10 * time.Second}
	}
	keep := func(*wire.LeaseRecord) {}
	next := func(record *wire.LeaseRecord) { record.Term, record.Timeline = 4, 6 }
	anew := writing(tenure.WriteBegin, a, func(r *wire.LeaseRecord) {
		next(r)
		r.Members, r.W, r.Initialised, r.SystemIdentifier = []wire.Member{a}, 1, false, ""
	})
	cases := map[string]struct {
		from   string
		change func(*tenure.Snapshot)
		action tenure.Action
		want   string
	}{
		"the lease ends for the others before the watchdog knows of a shorter one": {
			"holder", func(s *tenure.Snapshot) { s.Right.Duration, s.Right.Renewed = 10*time.Second, s.Now.Add(-time.Second) },
			tenure.WriteLease{Kind: tenure.WriteRenew, Holder: a, Duration: 4 * time.Second},
			"tenure.shorten-the-lease-in-steps",
		},
		"the server waits for fewer than the record promises": {
			"holder", nil, leading(func(s *tenure.Standing) { s.Setting.K = 0 }), "tenure.keep-the-quorum",
		},
		"the server waits for one that is no member": {
			"holder", nil,
			leading(func(s *tenure.Standing) { s.Setting.Names = []wire.Member{{Name: "x", Incarnation: "i9"}} }),
			"tenure.keep-the-quorum",
		},
		"a member is recorded as gone before the server stops to wait for it": {
			"holder", nil, writing(tenure.WriteRecord, a, func(r *wire.LeaseRecord) { r.Members = r.Members[:2] }),
			"tenure.keep-the-quorum",
		},
		"W is raised before the server waits for more": {
			"holder", nil, writing(tenure.WriteRecord, a, func(r *wire.LeaseRecord) { r.W = 3 }), "tenure.keep-the-quorum",
		},
		"a member leaves although each write needs all that there are": {
			"holder", func(s *tenure.Snapshot) { s.Lease.Record.W = 3 },
			writing(tenure.WriteRecord, a, func(r *wire.LeaseRecord) { r.Members, r.W = r.Members[:2], 3 }),
			"tenure.add-before-removing",
		},
		"a member is replaced in one write": {
			"holder", nil, writing(tenure.WriteRecord, a, func(r *wire.LeaseRecord) {
				r.Members[2] = wire.Member{Name: "d", Incarnation: "i4"}
			}), "tenure.add-before-removing",
		},
		"a member leaves and the quorum with it": {
			"holder", nil,
			writing(tenure.WriteRecord, a, func(r *wire.LeaseRecord) { r.Members, r.W = r.Members[:2], 1 }),
			"tenure.add-before-removing",
		},
		"a ballot is begun before the lease has ended": {
			"replica", nil, tenure.Conduct{Ballot: ballot()}, "tenure.elect-only-after-the-end",
		},
		"a ballot is begun by what a watch shows": {
			"replica", func(s *tenure.Snapshot) { s.Lease.Changed = 80 * second }, tenure.Conduct{Ballot: ballot()},
			"tenure.elect-only-after-the-end",
		},
		"a ballot is begun after a read from before the end": {
			"replica", func(s *tenure.Snapshot) { s.Lease.Changed, s.Lease.Read = 80*second, 85*second },
			tenure.Conduct{Ballot: ballot()}, "tenure.elect-only-after-the-end",
		},
		"a ballot is begun as it should be": {
			"replica", func(s *tenure.Snapshot) { s.Lease.Changed, s.Lease.Read = 80*second, 99*second },
			tenure.Conduct{Ballot: ballot()}, "",
		},
		"a member is fenced by one that nobody would answer": {
			"replica", func(s *tenure.Snapshot) { s.Ballot = ballot(a) },
			tenure.Send{Request: wire.PeerRequest{Kind: wire.PeerFence, To: c}}, "tenure.fence-only-a-winnable-ballot",
		},
		"a ballot fences by the will of copies that are gone": {
			"replica", func(s *tenure.Snapshot) { s.Ballot = ballot(a) }, func() tenure.Action {
				fencing := ballot(a, wire.Member{Name: "c", Incarnation: "i9"})
				fencing.Fencing = &fencing.Begun
				return tenure.Conduct{Ballot: fencing}
			}(), "tenure.fence-only-a-winnable-ballot",
		},
		"a member would answer while the holder renews": {
			"replica", func(s *tenure.Snapshot) { s.Inbox = asked(wire.PeerAsk) },
			tenure.Reply{ID: 1, Reply: wire.PeerReply{Yes: true}}, "tenure.fence-only-a-winnable-ballot",
		},
		"the write address is closed in the name of the next primary": {
			"holder", nil, tenure.WriteRoute{Term: 4}, "tenure.route-only-for-the-own-term",
		},
		"callers are led past a server that lives": {
			"holder", func(s *tenure.Snapshot) { s.Stopping = true }, tenure.ProxyTo{To: "10.0.0.2"},
			"tenure.proxy-only-without-a-server",
		},
		"callers are led on by a pod that stays": {
			"replica", func(s *tenure.Snapshot) { s.Engine.Processes = false }, tenure.ProxyTo{To: "10.0.0.2"},
			"tenure.proxy-only-without-a-server",
		},
		"a place is told that is not known": {
			"replica", func(s *tenure.Snapshot) { s.Inbox, s.Engine.Flushed = asked(wire.PeerPlace), nil },
			tenure.Reply{ID: 1, Reply: wire.PeerReply{Yes: true, Timeline: 5, LSN: 1000}}, "tenure.tell-only-a-known-position",
		},
		"a candidate waits for a timeline that only the lease tells of": {
			"replica", voted, tenure.Obey{Standing: tenure.Standing{
				Role: tenure.RoleCatchUp, Upstream: c, Until: &tenure.Position{Timeline: 6},
			}}, "tenure.catch-up-only-to-a-ballot-answer",
		},
		"a candidate waits for one that has less": {
			"replica", voted, tenure.Obey{Standing: tenure.Standing{
				Role: tenure.RoleCatchUp, Upstream: c, Until: &tenure.Position{Timeline: 5, LSN: 990},
			}}, "tenure.catch-up-only-to-a-ballot-answer",
		},
		"a ballot is answered by a copy that was put back": {
			"replica", putBack,
			tenure.AnswerBallot{Reply: wire.PeerReply{PeerHeader: wire.PeerHeader{From: a}, Yes: true}},
			"tenure.count-only-the-own-copy",
		},
		"a ballot is answered in the name of the copy of before": {
			"replica", func(s *tenure.Snapshot) { s.Engine.Incarnation = "i9" },
			tenure.AnswerBallot{Reply: wire.PeerReply{PeerHeader: wire.PeerHeader{From: a}, Yes: true}},
			"tenure.count-only-the-own-copy",
		},
		"a copy that was put back promises": {
			"replica", putBack, tenure.Reply{Reply: wire.PeerReply{PeerHeader: wire.PeerHeader{From: a}, Yes: true}},
			"tenure.count-only-the-own-copy",
		},
		"a copy that was put back renews the lease": {
			"holder", putBack, writing(tenure.WriteRenew, a, keep), "tenure.count-only-the-own-copy",
		},
		"a copy that was put back leads": {"holder", putBack, leading(func(*tenure.Standing) {}),
			"tenure.count-only-the-own-copy"},
		"a write of another life is forgotten while it may still be done": {
			"holder", func(s *tenure.Snapshot) {
				s.Stored.NextRecord, s.Stored.NextVersion, s.Right = s.Lease.Record, s.Lease.Version, tenure.Right{}
			}, func() tenure.Action {
				snapshot, _ := begin("holder")
				return tenure.Store{Stored: snapshot.Stored}
			}(), "tenure.forget-no-write-in-doubt",
		},
		"a take-over lowers W": {
			"replica", voted, writing(tenure.WriteTake, a, func(r *wire.LeaseRecord) { next(r); r.W = 1 }),
			"tenure.carry-the-quorum-over",
		},
		"the watchdog is told a later deadline": {
			"holder", nil, tenure.Arm{Until: 108 * second}, "tenure.arm-no-later-than-the-deadline",
		},
		"leading after the deadline": {
			"holder", func(s *tenure.Snapshot) { s.Right.Renewed = 92 * second }, leading(func(*tenure.Standing) {}),
			"tenure.lead-only-by-right",
		},
		"leading at a term that the volume does not know": {
			"holder", func(s *tenure.Snapshot) { s.Stored.HeldTerm = 2 }, leading(func(*tenure.Standing) {}),
			"tenure.lead-only-by-right",
		},
		"leading behind a fence": {
			"holder", func(s *tenure.Snapshot) { s.Stored.Fence = &tenure.Fence{LeaseUID: "l1", Version: "700"} },
			leading(func(*tenure.Standing) {}), "tenure.lead-only-by-right",
		},
		"answers about another version": {
			"replica", func(s *tenure.Snapshot) { voted(s); s.Ballot.Version = "699" }, writing(tenure.WriteTake, a, next),
			"tenure.take-only-the-voted-version",
		},
		"too few answers": {
			"replica", func(s *tenure.Snapshot) { voted(s); s.Ballot.Answers = s.Ballot.Answers[:1] },
			writing(tenure.WriteTake, a, next), "tenure.take-only-with-answers",
		},
		"somebody has more": {
			"replica", func(s *tenure.Snapshot) { voted(s); s.Ballot.Answers[1].Position.LSN = 1001 },
			writing(tenure.WriteTake, a, next), "tenure.take-only-with-answers",
		},
		"an answer tells of a later record": {
			"replica", func(s *tenure.Snapshot) {
				voted(s)
				record := *s.Lease.Record
				record.Revision++
				s.Ballot.Answers[1].Records = []wire.LeaseRecord{record}
			},
			writing(tenure.WriteTake, a, next), "tenure.take-only-with-answers",
		},
		"an answer of a replaced copy": {
			"replica", func(s *tenure.Snapshot) { voted(s); s.Ballot.Answers[1].Member.Incarnation = "i9" },
			writing(tenure.WriteTake, a, next), "tenure.take-only-with-answers",
		},
		"an answer before the fence is stored": {
			"replica", nil, tenure.AnswerBallot{ID: 1, Fence: tenure.Fence{LeaseUID: "l1", Version: "700"}},
			"tenure.fence-before-answering",
		},
		"a fence is lifted by a watch": {
			"replica", func(s *tenure.Snapshot) {
				s.Stored.Fence = &tenure.Fence{LeaseUID: "l1", Version: "699"}
			}, tenure.Store{Stored: tenure.Stored{MaxTerm: 3}}, "tenure.lift-a-fence-only-by-a-read",
		},
		"following behind a fence": {
			"replica", func(s *tenure.Snapshot) { s.Stored.Fence = &tenure.Fence{LeaseUID: "l1", Version: "700"} },
			tenure.Obey{Standing: tenure.Standing{Role: tenure.RoleFollow, Term: 3, Upstream: b}},
			"tenure.follow-nobody-behind-a-fence",
		},
		"following a holder of the past": {
			"replica", nil, tenure.Obey{Standing: tenure.Standing{Role: tenure.RoleFollow, Term: 2, Upstream: b}},
			"tenure.follow-nobody-behind-a-fence",
		},
		"letting in before enough have everything": {
			"holder", func(s *tenure.Snapshot) {
				s.Standing.OpenStart = ""
				s.Engine.Leading.Recovered = 2000
			}, leading(func(*tenure.Standing) {}), "tenure.open-only-with-the-quorum",
		},
		"a promise that is not stored": {
			"replica", func(s *tenure.Snapshot) {
				s.Inbox = []tenure.Request{{ID: 1, PeerRequest: wire.PeerRequest{Kind: wire.PeerPromise, Duration: 1}}}
			}, tenure.Reply{ID: 1, Reply: wire.PeerReply{Yes: true}}, "tenure.promise-only-what-is-stored",
		},
		"a transfer while the server lives": {
			"holder", nil, writing(tenure.WriteTransfer, b, next), "tenure.transfer-only-after-the-stop",
		},
		"a take-over on a timeline that was given out": {
			"replica", voted, writing(tenure.WriteTake, a, func(r *wire.LeaseRecord) { r.Term = 4 }),
			"tenure.reserve-the-next-timeline",
		},
		"a renewal at another term": {
			"holder", nil, writing(tenure.WriteRenew, a, func(r *wire.LeaseRecord) { r.Term = 2 }),
			"tenure.reserve-the-next-timeline",
		},
		"a term is forgotten": {"replica", nil, tenure.Store{Stored: tenure.Stored{MaxTerm: 2}}, "tenure.forget-no-term"},
		"an empty copy is begun beside a full one": {
			"replica", func(s *tenure.Snapshot) { volatile(s); s.Engine.Data = tenure.DataWhole }, anew,
			"tenure.begin-only-without-a-copy",
		},
		"an empty copy is begun under a holder": {
			"replica", func(s *tenure.Snapshot) { volatile(s); s.Lease.Changed = 95 * second }, anew,
			"tenure.begin-only-without-a-copy",
		},
		"an empty copy is begun although a member has one": {
			"replica", func(s *tenure.Snapshot) {
				volatile(s)
				s.Places = []tenure.Place{{Member: c, At: 99 * second}}
			}, anew, "tenure.begin-only-without-a-copy",
		},
		"an empty copy is begun although a peer knows of a later term": {
			"replica", func(s *tenure.Snapshot) {
				volatile(s)
				s.Peers = []tenure.Peer{{Name: "c", Term: 4}}
			}, anew, "tenure.begin-only-without-a-copy",
		},
		"an empty copy is begun of data that must not be lost": {
			"replica", func(s *tenure.Snapshot) { volatile(s); s.Policy.Volatile = false }, anew,
			"tenure.reserve-the-next-timeline",
		},
		"an empty copy is begun": {"replica", volatile, anew, ""},
		"an empty copy is begun although one that is no member has one": {
			"replica", func(s *tenure.Snapshot) {
				volatile(s)
				s.Places = []tenure.Place{{Member: wire.Member{Name: "d", Incarnation: "i4"}, At: 99 * second}}
			}, anew, "tenure.begin-only-without-a-copy",
		},
		"a copy from before a flush takes the lease": {
			"replica", func(s *tenure.Snapshot) { voted(s); flushed(s, 1001) },
			writing(tenure.WriteTake, a, flushedAt(1001)), "tenure.bring-nothing-back",
		},
		"a copy of an older timeline than a flush takes the lease": {
			"replica", func(s *tenure.Snapshot) { voted(s); flushed(s, 900); s.Ballot.Answers[0].Position.Timeline = 4 },
			writing(tenure.WriteTake, a, flushedAt(900)), "tenure.bring-nothing-back",
		},
		"a copy from before a flush is given the lease": {
			"holder", func(s *tenure.Snapshot) {
				flushed(s, 1001)
				s.Engine = tenure.Engine{Known: true, Final: &tenure.Position{Timeline: 5, LSN: 1000}}
				s.Places = []tenure.Place{{Member: b, Position: tenure.Position{Timeline: 5, LSN: 1000}}}
			}, writing(tenure.WriteTransfer, b, flushedAt(1001)), "tenure.bring-nothing-back",
		},
		"a flush is forgotten": {
			"holder", func(s *tenure.Snapshot) { flushed(s, 900) }, writing(tenure.WriteRecord, a, keep),
			"tenure.bring-nothing-back",
		},
		"one that is no member takes the lease": {"replica", newcomer, writing(tenure.WriteJoin, a, joined), ""},
		"one that is no member takes the lease too early": {
			"replica", func(s *tenure.Snapshot) { newcomer(s); s.Lease.Changed = 85 * second },
			writing(tenure.WriteJoin, a, joined), "tenure.nonmember-leads-only-as-last-copy",
		},
		"one that is no member takes the lease although a member has a copy": {
			"replica", func(s *tenure.Snapshot) { newcomer(s); s.Places = []tenure.Place{{Member: c, At: 99 * second}} },
			writing(tenure.WriteJoin, a, joined), "tenure.nonmember-leads-only-as-last-copy",
		},
		"one that is no member takes the lease although a peer knows of a later term": {
			"replica", func(s *tenure.Snapshot) { newcomer(s); s.Peers = []tenure.Peer{{Name: "c", Term: 4}} },
			writing(tenure.WriteJoin, a, joined), "tenure.nonmember-leads-only-as-last-copy",
		},
		"one that is no member takes the lease without a copy": {
			"replica", func(s *tenure.Snapshot) { newcomer(s); s.Engine.Data = tenure.DataNone },
			writing(tenure.WriteJoin, a, joined), "tenure.nonmember-leads-only-as-last-copy",
		},
		"one that is no member takes the lease of data that must not be lost": {
			"replica", func(s *tenure.Snapshot) { newcomer(s); s.Policy.Volatile = false },
			writing(tenure.WriteJoin, a, joined), "tenure.nonmember-leads-only-as-last-copy",
		},
		"a lost lease is written anew without promises": {
			"holder", func(s *tenure.Snapshot) { begun(s); s.Promises = nil }, writing(tenure.WriteSucceed, a, heir),
			"tenure.succeed-only-with-promises",
		},
		"a lost lease is written anew behind a fence": {
			"holder", func(s *tenure.Snapshot) { begun(s); s.Stored.Fence = &tenure.Fence{LeaseUID: "l1", Version: "690"} },
			writing(tenure.WriteSucceed, a, heir), "tenure.succeed-only-with-promises",
		},
		"a lost lease is written anew at the same term": {
			"holder", func(s *tenure.Snapshot) { begun(s); s.Stored.Anew.Term = 3 },
			writing(tenure.WriteSucceed, a, func(r *wire.LeaseRecord) { heir(r); r.Term = 3 }),
			"tenure.succeed-only-with-promises",
		},
		"a lease that was made for another is written": {
			"holder", func(s *tenure.Snapshot) { begun(s); s.Lease.Succeeds = "l0" },
			writing(tenure.WriteSucceed, a, heir), "tenure.succeed-only-with-promises",
		},
		"a lost lease is written anew and not on the volume before": {
			"holder", orphan, writing(tenure.WriteSucceed, a, heir), "tenure.succeed-only-with-promises",
		},
		"a lost lease is written anew at another version than the volume says": {
			"holder", func(s *tenure.Snapshot) { begun(s); s.Stored.Anew.Version = "690" },
			writing(tenure.WriteSucceed, a, heir), "tenure.succeed-only-with-promises",
		},
		"a lost lease is written anew, and another was taken over since": {
			"holder", func(s *tenure.Snapshot) { begun(s); s.Lease.Succeeds, s.Lease.Before = "l9", []string{"l0", "l1"} },
			writing(tenure.WriteSucceed, a, func(r *wire.LeaseRecord) { heir(r); r.Succeeds = append(r.Succeeds, "l9") }),
			"tenure.succeed-only-with-promises",
		},
		"a lost lease is written anew without the name of the one that it was made for": {
			"holder", func(s *tenure.Snapshot) {
				begun(s)
				s.Lease.Succeeds, s.Stored.Anew.Leases = "l9", []string{"l9", s.Lease.UID}
			}, writing(tenure.WriteSucceed, a, heir), "tenure.succeed-only-with-promises",
		},
		"a lost lease is written anew": {"holder", begun, writing(tenure.WriteSucceed, a, heir), ""},
		"what was written anew is forgotten": {
			"holder", begun, tenure.Store{Stored: tenure.Stored{LeaseUID: "l1", MaxTerm: 3, HeldTerm: 3}},
			"tenure.forget-no-recovered-lease",
		},
		"one of the leases that were written anew is forgotten": {
			"holder", begun, tenure.Store{Stored: tenure.Stored{
				LeaseUID: "l1", MaxTerm: 3, Anew: &tenure.Anew{Leases: []string{"l3"}, Version: "900", Term: 5},
			}}, "tenure.forget-no-recovered-lease",
		},
		"a term of a lease that was written anew is given out again": {
			"holder", begun, tenure.Store{Stored: tenure.Stored{
				LeaseUID: "l1", MaxTerm: 3, Anew: &tenure.Anew{Leases: []string{"l2", "l3"}, Version: "900", Term: 4},
			}}, "tenure.forget-no-recovered-lease",
		},
		"an election without a lease and with two of three": {
			"replica", func(s *tenure.Snapshot) { orphan(s); s.Ballot.Answers = s.Ballot.Answers[:2] },
			writing(tenure.WriteRestore, a, restored), "tenure.restore-only-with-all-answers",
		},
		"an election without a lease, and another has more": {
			"replica", func(s *tenure.Snapshot) { orphan(s); s.Ballot.Answers[2].Position.LSN = 2000 },
			writing(tenure.WriteRestore, a, restored), "tenure.restore-only-with-all-answers",
		},
		"an election without a lease, and another knows of a later record": {
			"replica", func(s *tenure.Snapshot) {
				orphan(s)
				later := *s.Stored.LastRecord
				later.Term, later.Members = 4, []wire.Member{a, b, {Name: "d", Incarnation: "i4"}}
				s.Ballot.Answers[1].Records = []wire.LeaseRecord{later}
			}, writing(tenure.WriteRestore, a, func(r *wire.LeaseRecord) { restored(r); r.Term = 5 }),
			"tenure.restore-only-with-all-answers",
		},
		"an election without a lease on a timeline that was given out": {
			"replica", orphan, writing(tenure.WriteRestore, a, func(r *wire.LeaseRecord) { restored(r); r.Timeline = 5 }),
			"tenure.restore-only-with-all-answers",
		},
		"an election without a lease": {"replica", orphan, writing(tenure.WriteRestore, a, restored), ""},
		"an election without a lease and one that was given up": {
			"replica", func(s *tenure.Snapshot) {
				orphan(s)
				s.Ballot.Answers, s.Lease.GivenUp = s.Ballot.Answers[:2], []wire.Member{c}
			}, writing(tenure.WriteRestore, a, restored), "",
		},
		"another lease is obeyed": {
			"replica", func(s *tenure.Snapshot) { s.Lease.UID, s.Lease.Term = "l2", 9 },
			tenure.Store{Stored: tenure.Stored{LeaseUID: "l2", MaxTerm: 9}}, "tenure.obey-only-a-successor",
		},
		"a successor is obeyed at a term that was seen": {
			"replica", func(s *tenure.Snapshot) { successor(s, 3) },
			tenure.Store{Stored: tenure.Stored{LeaseUID: "l2", MaxTerm: 3}}, "tenure.obey-only-a-successor",
		},
		"a successor is obeyed by a watch": {
			"replica", func(s *tenure.Snapshot) { successor(s, 4); s.Lease.Read = 0 },
			tenure.Store{Stored: tenure.Stored{LeaseUID: "l2", MaxTerm: 4}}, "tenure.obey-only-a-successor",
		},
		"a successor is obeyed": {
			"replica", func(s *tenure.Snapshot) { successor(s, 4) },
			tenure.Store{Stored: tenure.Stored{LeaseUID: "l2", MaxTerm: 4}}, "",
		},
		"nothing is wrong": {"holder", nil, writing(tenure.WriteRenew, a, keep), ""},
	}
	seen := map[string]bool{}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			snapshot, err := begin(test.from)
			if err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				test.change(&snapshot)
			}
			var rules []string
			for _, violation := range invariant.Check(snapshot, tenure.Plan{Actions: []tenure.Action{test.action}}) {
				rules = append(rules, violation.Rule)
			}
			if test.want == "" && len(rules) > 0 || test.want != "" && !slices.Contains(rules, test.want) {
				t.Errorf("violations %v, want %q", rules, test.want)
			}
		})
		seen[test.want] = true
	}
	for _, invariant := range invariant.All() {
		if !seen[invariant.ID] {
			t.Errorf("no case breaks %s", invariant.ID)
		}
	}
}

// Two standings differ if any field does: one that is forgotten would never be told to the server.
func TestSameStanding(t *testing.T) {
	one := []wire.Member{a}
	values := map[string]any{
		"Serial": uint64(1), "Role": tenure.RoleLead, "Term": int64(1), "Timeline": 1, "Upstream": a, "UpstreamAddress": "x",
		"Until": &tenure.Position{LSN: 1}, "Incarnation": "x", "Initialised": true, "SystemIdentifier": "x", "Members": one,
		"Setting": tenure.Setting{Names: one}, "OpenStart": "x", "OpenReads": true,
		"Down": true, "Prepare": tenure.Instant(1), "Emptied": "x", "W": 2,
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[tenure.Standing]()) {
		value, known := values[field.Name]
		if !known {
			t.Errorf("the field %s is new: does the comparison know it?", field.Name)
			continue
		}
		var standing tenure.Standing
		reflect.ValueOf(&standing).Elem().FieldByIndex(field.Index).Set(reflect.ValueOf(value))
		if draft.Same(standing, tenure.Standing{}) || !draft.Same(standing, standing) {
			t.Errorf("the field %s is not compared", field.Name)
		}
	}
}

// volatile is an instance without a copy, long after the end of a lease of data that may be lost.
func volatile(s *tenure.Snapshot) {
	s.Policy.Volatile, s.Policy.Durability = true, tenure.Async
	s.Lease.Changed, s.Lease.Duration = 70*second, 10*time.Second
	s.Engine = tenure.Engine{Known: true, Data: tenure.DataNone}
}

// newcomer is a replica that has everything and is no member, long after the end of a lease of data that may be lost.
func newcomer(s *tenure.Snapshot) {
	s.Policy.Volatile, s.Policy.Durability = true, tenure.Async
	s.Lease.Changed, s.Lease.Read, s.Lease.Duration = 70*second, 99*second, 10*time.Second
	s.Lease.Record.Members, s.Lease.Record.W = []wire.Member{b, c}, 1
}

func joined(r *wire.LeaseRecord) { r.Term, r.Timeline, r.Members, r.W = 4, 6, []wire.Member{a}, 1 }

// flushed is a cache that was emptied, and flushedAt the record of the next primary.
func flushed(s *tenure.Snapshot, offset uint64) {
	s.Lease.Record.Emptied = &wire.Emptied{ID: "f1", Timeline: 5, Offset: offset}
}

func flushedAt(offset uint64) func(*wire.LeaseRecord) {
	return func(r *wire.LeaseRecord) {
		r.Term, r.Timeline, r.Emptied = 4, 6, &wire.Emptied{ID: "f1", Timeline: 5, Offset: offset}
	}
}

// ballot is one that these members would answer.
func ballot(willing ...wire.Member) *tenure.Ballot {
	return &tenure.Ballot{LeaseUID: "l1", Version: "700", Begun: 100 * second, Willing: willing}
}

// asked is a request of c.
func asked(kind wire.PeerKind) []tenure.Request {
	return []tenure.Request{{ID: 1, PeerRequest: wire.PeerRequest{Kind: kind, To: a, LeaseVersion: "700"}}}
}

// putBack makes the copy one that may be an older state.
func putBack(s *tenure.Snapshot) {
	s.Engine = tenure.Engine{Known: true, Data: tenure.DataPutBack, SystemIdentifier: "7401"}
}

// voted gives a replica a ballot that it has won.
func voted(s *tenure.Snapshot) {
	s.Lease.Changed = 89 * second
	s.Ballot = &tenure.Ballot{LeaseUID: "l1", Version: "700", Answers: []tenure.Answer{
		{Member: a, Position: tenure.Position{Timeline: 5, LSN: 1000}},
		{Member: c, Position: tenure.Position{Timeline: 5, LSN: 990}},
	}}
}

// orphan takes the lease away and puts an empty one in its place; the holder has promises, and a replica all answers.
func orphan(s *tenure.Snapshot) {
	s.Lease = tenure.Lease{
		Known: true, Exists: true, UID: "l2", Version: "700", Succeeds: "l1", Changed: 80 * second, Read: 99 * second,
	}
	s.Promises = []tenure.Promised{{Member: b, Term: 3, Sent: 99 * second, Duration: 10 * time.Second}}
	s.Ballot = &tenure.Ballot{LeaseUID: "l2", Version: "700"}
	for _, member := range []wire.Member{a, b, c} {
		s.Ballot.Answers = append(s.Ballot.Answers, tenure.Answer{
			Member: member, Position: tenure.Position{Timeline: 5, LSN: 1000}, Term: 3,
			Records: []wire.LeaseRecord{*s.Stored.LastRecord},
		})
	}
}

// begun is a holder that is about to write its lost lease anew.
func begun(s *tenure.Snapshot) {
	orphan(s)
	s.Stored.Anew = &tenure.Anew{Leases: []string{s.Lease.UID}, Version: s.Lease.Version, Term: 4}
}

// heir is the record of a holder that goes on, restored that of a new one.
func heir(record *wire.LeaseRecord) { record.Term, record.Succeeds = 4, []string{"l1"} }

func restored(record *wire.LeaseRecord) {
	heir(record)
	record.Timeline = 6
}

func successor(s *tenure.Snapshot, term int64) {
	record := *s.Lease.Record
	record.Term, record.Succeeds = term, []string{"l1"}
	s.Lease.UID, s.Lease.Term, s.Lease.Record, s.Lease.Read = "l2", term, &record, 99*second
}
