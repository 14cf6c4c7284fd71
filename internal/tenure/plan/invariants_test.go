package plan_test

import (
	"slices"
	"testing"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/plan"
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
		return tenure.WriteLease{Kind: kind, Version: "700", Holder: holder, Record: record}
	}
	keep := func(*wire.LeaseRecord) {}
	next := func(record *wire.LeaseRecord) { record.Term, record.Timeline = 4, 6 }
	cases := map[string]struct {
		from   string
		change func(*tenure.Snapshot)
		action tenure.Action
		want   string
	}{
		"the server waits for fewer than the record promises": {
			"holder", nil, leading(func(s *tenure.Standing) { s.Setting.K = 0 }), "Q1",
		},
		"the server waits for one that is no member": {
			"holder", nil,
			leading(func(s *tenure.Standing) { s.Setting.Names = []wire.Member{{Name: "x", Incarnation: "i9"}} }), "Q1",
		},
		"a member is recorded as gone before the server stops to wait for it": {
			"holder", nil, writing(tenure.WriteRecord, a, func(r *wire.LeaseRecord) { r.Members = r.Members[:2] }), "Q1",
		},
		"W is raised before the server waits for more": {
			"holder", nil, writing(tenure.WriteRecord, a, func(r *wire.LeaseRecord) { r.W = 3 }), "Q1",
		},
		"a take-over lowers W": {
			"replica", voted, writing(tenure.WriteTake, a, func(r *wire.LeaseRecord) { next(r); r.W = 1 }), "Q2",
		},
		"the watchdog is told a later deadline": {
			"holder", nil, tenure.Arm{Until: 108 * second}, "C1",
		},
		"leading after the deadline": {
			"holder", func(s *tenure.Snapshot) { s.Right.Renewed = 92 * second }, leading(func(*tenure.Standing) {}), "C3",
		},
		"leading at a term that the volume does not know": {
			"holder", func(s *tenure.Snapshot) { s.Stored.HeldTerm = 2 }, leading(func(*tenure.Standing) {}), "C3",
		},
		"leading behind a fence": {
			"holder", func(s *tenure.Snapshot) { s.Stored.Fence = &tenure.Fence{LeaseUID: "l1", Version: "700"} },
			leading(func(*tenure.Standing) {}), "C3",
		},
		"answers about another version": {
			"replica", func(s *tenure.Snapshot) { voted(s); s.Ballot.Version = "699" }, writing(tenure.WriteTake, a, next), "E1",
		},
		"too few answers": {
			"replica", func(s *tenure.Snapshot) { voted(s); s.Ballot.Answers = s.Ballot.Answers[:1] },
			writing(tenure.WriteTake, a, next), "E4",
		},
		"somebody has more": {
			"replica", func(s *tenure.Snapshot) { voted(s); s.Ballot.Answers[1].Position.LSN = 1001 },
			writing(tenure.WriteTake, a, next), "E4",
		},
		"an answer of a replaced copy": {
			"replica", func(s *tenure.Snapshot) { voted(s); s.Ballot.Answers[1].Member.Incarnation = "i9" },
			writing(tenure.WriteTake, a, next), "E4",
		},
		"an answer before the fence is stored": {
			"replica", nil, tenure.AnswerBallot{ID: 1, Fence: tenure.Fence{LeaseUID: "l1", Version: "700"}}, "F1",
		},
		"a fence is lifted by a watch": {
			"replica", func(s *tenure.Snapshot) {
				s.Stored.Fence = &tenure.Fence{LeaseUID: "l1", Version: "699"}
			}, tenure.Store{Stored: tenure.Stored{MaxTerm: 3}}, "F2",
		},
		"following behind a fence": {
			"replica", func(s *tenure.Snapshot) { s.Stored.Fence = &tenure.Fence{LeaseUID: "l1", Version: "700"} },
			tenure.Obey{Standing: tenure.Standing{Role: tenure.RoleFollow, Term: 3, Upstream: b}}, "F3",
		},
		"following a holder of the past": {
			"replica", nil, tenure.Obey{Standing: tenure.Standing{Role: tenure.RoleFollow, Term: 2, Upstream: b}}, "F3",
		},
		"letting in before enough have everything": {
			"holder", func(s *tenure.Snapshot) {
				s.Standing.OpenStart = ""
				s.Engine.Leading.Recovered = 2000
			}, leading(func(*tenure.Standing) {}), "G1",
		},
		"a promise that is not stored": {
			"replica", func(s *tenure.Snapshot) {
				s.Inbox = []tenure.Request{{ID: 1, PeerRequest: wire.PeerRequest{Kind: wire.PeerPromise, Duration: 1}}}
			}, tenure.Reply{ID: 1, Reply: wire.PeerReply{Yes: true}}, "P1",
		},
		"a transfer while the server lives": {"holder", nil, writing(tenure.WriteTransfer, b, next), "S1"},
		"a take-over on a timeline that was given out": {
			"replica", voted, writing(tenure.WriteTake, a, func(r *wire.LeaseRecord) { r.Term = 4 }), "T1",
		},
		"a renewal at another term": {
			"holder", nil, writing(tenure.WriteRenew, a, func(r *wire.LeaseRecord) { r.Term = 2 }), "T1",
		},
		"a term is forgotten": {"replica", nil, tenure.Store{Stored: tenure.Stored{MaxTerm: 2}}, "M1"},
		"nothing is wrong":    {"holder", nil, writing(tenure.WriteRenew, a, keep), ""},
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
			for _, violation := range plan.Check(snapshot, tenure.Plan{Actions: []tenure.Action{test.action}}) {
				rules = append(rules, violation.Rule)
			}
			if test.want == "" && len(rules) > 0 || test.want != "" && !slices.Contains(rules, test.want) {
				t.Errorf("violations %v, want %q", rules, test.want)
			}
		})
		seen[test.want] = true
	}
	for _, id := range plan.Invariants() {
		if !seen[id] {
			t.Errorf("no case breaks %s", id)
		}
	}
}

// voted gives a replica a ballot that it has won.
func voted(s *tenure.Snapshot) {
	s.Lease.Changed = 89 * second
	s.Ballot = &tenure.Ballot{LeaseUID: "l1", Version: "700", Answers: []tenure.Answer{
		{Member: a, Position: tenure.Position{Timeline: 5, LSN: 1000}},
		{Member: c, Position: tenure.Position{Timeline: 5, LSN: 990}},
	}}
}
