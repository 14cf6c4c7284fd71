package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/invariant"
	"meridian.dev/meridian/internal/tenure/plan"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/scenario"
)

// TestStories plays the stories. Each is about the instance a of the members a, b and c, of which two have each write,
// at the second 100 after the boot.
//
//   - from.txt is how it begins: "holder" (a leads at term 3), "replica" (b leads, a follows) or "empty" (nobody has
//     had data).
//   - change.yaml is laid over that: what is different in this story.
//   - want/plan.txt is the decision.
func TestStories(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		snapshot, err := begin(strings.TrimSpace(in.Text("from.txt")))
		if err != nil {
			in.Fail(err)
			return out
		}
		in.YAML("change.yaml", &snapshot)
		decided := plan.Decide(snapshot)
		for _, violation := range invariant.Check(snapshot, decided) {
			in.Fail(fmt.Errorf("the plan breaks %s: %s", violation.Rule, violation.Detail))
		}
		out.SetText("plan.txt", decided.String())
		return out
	})
}

var (
	a = wire.Member{Name: "a", Incarnation: "i1"}
	b = wire.Member{Name: "b", Incarnation: "i2"}
	c = wire.Member{Name: "c", Incarnation: "i3"}
)

const second = tenure.Instant(time.Second)

func begin(from string) (tenure.Snapshot, error) {
	record := wire.LeaseRecord{
		Version: 1, DatabaseUID: "u1", Term: 3, Timeline: 5, Members: []wire.Member{a, b, c}, W: 2, Initialised: true,
		SystemIdentifier: "7401",
	}
	snapshot := tenure.Snapshot{
		Now: 100 * second, Boot: "boot", Name: "a", Address: "10.0.0.1", DatabaseUID: "u1", Fresh: "fresh",
		Policy: tenure.Policy{
			Known: true, LeaseUID: "l1", Durability: tenure.Strict, Instances: []string{"a", "b", "c"},
			Duration: 10 * time.Second, Renew: 2 * time.Second, Margin: 2 * time.Second,
		},
		Guard: tenure.Guard{Alive: true},
	}
	snapshot.Lease = tenure.Lease{Known: true, Exists: true, UID: "l1", Version: "700", Changed: 99 * second}
	snapshot.Labels = tenure.Labels{Known: true, Role: "replica", Read: true}
	switch from {
	case "empty":
		snapshot.Lease.Read = 99 * second
		snapshot.Engine = tenure.Engine{Known: true, Data: tenure.DataNone}
		snapshot.Labels.Read = false
		return snapshot, nil
	case "holder":
		lead(&snapshot, record)
		return snapshot, nil
	case "replica":
		follow(&snapshot, record)
		return snapshot, nil
	}
	return snapshot, fmt.Errorf("from.txt: %q is unknown", from)
}

func lead(snapshot *tenure.Snapshot, record wire.LeaseRecord) {
	last := record
	snapshot.Lease.Holder, snapshot.Lease.Term, snapshot.Lease.Record = a, 3, &record
	snapshot.Right = tenure.Right{Term: 3, Renewed: 99 * second, Duration: 10 * time.Second}
	snapshot.Guard.Until = 107 * second
	snapshot.Stored = tenure.Stored{
		Version: 1, DatabaseUID: "u1", LeaseUID: "l1", MaxTerm: 3, HeldTerm: 3, LastRecord: &last,
	}
	setting := tenure.Setting{Names: []wire.Member{b, c}, K: 1}
	snapshot.Standing = tenure.Standing{
		Serial: 8, Role: tenure.RoleLead, Term: 3, Timeline: 5, Initialised: true, SystemIdentifier: "7401",
		Members: record.Members, Setting: setting, OpenStart: "s1",
	}
	snapshot.Engine = tenure.Engine{
		Known: true, Obeyed: 8, Data: tenure.DataWhole, Incarnation: "i1", SystemIdentifier: "7401", Processes: true,
		Leading: &tenure.Leading{
			Term: 3, Timeline: 5, Start: "s1", Recovered: 900, Flushed: 1000, Setting: &setting, Barrier: 950, Open: true,
			Replicas: []tenure.Replica{{Member: b, Flushed: 1000, Near: true}, {Member: c, Flushed: 1000, Near: true}},
		},
	}
	snapshot.Route = tenure.Route{Known: true, Address: "10.0.0.1", Term: 3, Seen: 95 * second}
	snapshot.Labels = tenure.Labels{Known: true, Role: "primary"}
	snapshot.Peers = []tenure.Peer{
		{Name: "b", Address: "10.0.0.2", Told: 3}, {Name: "c", Address: "10.0.0.3", Told: 3},
	}
}

func follow(snapshot *tenure.Snapshot, record wire.LeaseRecord) {
	last := record
	snapshot.Lease.Holder, snapshot.Lease.Term, snapshot.Lease.Record = b, 3, &record
	snapshot.Stored = tenure.Stored{Version: 1, DatabaseUID: "u1", LeaseUID: "l1", MaxTerm: 3, LastRecord: &last}
	snapshot.Standing = tenure.Standing{
		Serial: 4, Role: tenure.RoleFollow, Term: 3, Timeline: 5, Initialised: true, SystemIdentifier: "7401",
		Members: record.Members, W: record.W, Upstream: b, UpstreamAddress: "10.0.0.2", OpenReads: true,
	}
	snapshot.Engine = tenure.Engine{
		Known: true, Obeyed: 4, Data: tenure.DataWhole, Incarnation: "i1", SystemIdentifier: "7401", Processes: true,
		Streams: true, Flushed: &tenure.Position{Timeline: 5, LSN: 1000},
	}
	snapshot.Route = tenure.Route{Known: true, Address: "10.0.0.2", Term: 3}
	snapshot.Peers = []tenure.Peer{{Name: "b", Address: "10.0.0.2"}, {Name: "c", Address: "10.0.0.3"}}
}
