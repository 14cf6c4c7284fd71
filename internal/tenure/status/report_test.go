package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/status"
	"meridian.dev/meridian/internal/wire"
)

func TestComplete(t *testing.T) {
	primary := wire.Report{Role: wire.RolePrimary, Serving: true}
	leads := tenure.Snapshot{Address: "10.0.0.1", Memory: tenure.Memory{
		Lease:    tenure.Lease{Term: 3, Holder: wire.Member{Name: "a", Incarnation: "i"}},
		Standing: tenure.Standing{Role: tenure.RoleLead, Term: 3},
		Route:    tenure.Route{Known: true, Address: "10.0.0.1", Term: 3},
	}}
	told := wire.Report{Role: wire.RolePrimary, Serving: true, Term: 3, Holder: "a", Standing: "Lead"}
	for name, test := range map[string]struct {
		change func(*wire.Report, *tenure.Snapshot, *tenure.Plan)
		want   func(*wire.Report)
	}{
		"a primary that applications find": {nil, nil},
		"the write address leads elsewhere": {
			func(_ *wire.Report, s *tenure.Snapshot, _ *tenure.Plan) { s.Route.Address = "10.0.0.2" },
			func(r *wire.Report) { r.Serving = false },
		},
		"the write address is of an earlier term": {
			func(_ *wire.Report, s *tenure.Snapshot, _ *tenure.Plan) { s.Route.Term = 2 },
			func(r *wire.Report) { r.Serving = false },
		},
		"a replica needs no write address": {
			func(r *wire.Report, s *tenure.Snapshot, _ *tenure.Plan) {
				r.Role, s.Route = wire.RoleReplica, tenure.Route{}
			},
			func(r *wire.Report) { r.Role = wire.RoleReplica },
		},
		"a fenced one that has seen a later term": {
			func(_ *wire.Report, s *tenure.Snapshot, _ *tenure.Plan) {
				s.Stored = tenure.Stored{MaxTerm: 5, Fence: &tenure.Fence{}}
			},
			func(r *wire.Report) { r.Term, r.Fenced = 5, true },
		},
		"a hold fills a gap": {
			func(_ *wire.Report, _ *tenure.Snapshot, p *tenure.Plan) {
				p.Holds = []tenure.Hold{{Reason: wire.ReasonElection, Detail: "d"}}
			},
			func(r *wire.Report) { r.Reason, r.Message = wire.ReasonElection, "d" },
		},
		"what the server says comes first": {
			func(r *wire.Report, _ *tenure.Snapshot, p *tenure.Plan) {
				r.Reason = wire.ReasonServerFailing
				p.Holds = []tenure.Hold{{Reason: wire.ReasonElection, Detail: "d"}}
			},
			func(r *wire.Report) { r.Reason = wire.ReasonServerFailing },
		},
		"unless a human is needed": {
			func(r *wire.Report, _ *tenure.Snapshot, p *tenure.Plan) {
				r.Reason = wire.ReasonServerFailing
				p.Holds = []tenure.Hold{{Reason: wire.ReasonElection}, {Reason: wire.ReasonLeaseLost, Detail: "l", Stalled: true}}
			},
			func(r *wire.Report) { r.Reason, r.Message = wire.ReasonLeaseLost, "l" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			report, snapshot, plan, want := primary, leads, tenure.Plan{}, told
			if test.change != nil {
				test.change(&report, &snapshot, &plan)
				test.want(&want)
			}
			if diff := cmp.Diff(want, status.Complete(report, snapshot, plan)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
