package plan_test

import (
	"slices"
	"testing"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/invariant"
	"meridian.dev/meridian/internal/tenure/plan"
	"meridian.dev/meridian/internal/wire"
)

// T1: a first copy that was restored lies above the timelines of what it comes from. That is recorded with it, and no
// other one is, or the next promotion would lead to a timeline that there has been.
func TestTimelineOfTheFirstCopy(t *testing.T) {
	for name, test := range map[string]struct{ first, want int }{
		"made by initdb": {1, 1}, "of a server that tells of none": {0, 1}, "restored": {5, 5},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, err := begin("empty")
			if err != nil {
				t.Fatal(err)
			}
			record := wire.LeaseRecord{
				Version: 1, DatabaseUID: "u1", Term: 1, Timeline: 1, Members: []wire.Member{a}, W: 1,
			}
			snapshot.Stored = tenure.Stored{
				DatabaseUID: "u1", LeaseUID: "l1", Incarnation: a.Incarnation, MaxTerm: 1, HeldTerm: 1, LastRecord: &record,
			}
			snapshot.Right = tenure.Right{Term: 1, Renewed: 99 * second, Duration: 10 * second.Since(0)}
			snapshot.Lease.Holder, snapshot.Lease.Term, snapshot.Lease.Record = a, 1, &record
			snapshot.Standing = tenure.Standing{Role: tenure.RoleBegin, Term: 1, Timeline: 1, Incarnation: a.Incarnation}
			snapshot.Engine.Incarnation, snapshot.Engine.SystemIdentifier = a.Incarnation, "7401"
			snapshot.Engine.First = test.first
			decided := plan.Decide(snapshot)
			index := slices.IndexFunc(decided.Actions, func(action tenure.Action) bool {
				write, ok := action.(tenure.WriteLease)
				return ok && write.Kind == tenure.WriteRecord
			})
			if index < 0 {
				t.Fatalf("the first copy is not recorded: %s", decided)
			}
			write := decided.Actions[index].(tenure.WriteLease)
			if write.Record.Timeline != test.want || !write.Record.Initialised {
				t.Errorf("recorded is timeline %d, want %d", write.Record.Timeline, test.want)
			}
			if violations := invariant.Check(snapshot, decided); len(violations) > 0 {
				t.Errorf("refused: %v", violations)
			}
			for _, other := range []int{test.want + 1, test.want - 1} {
				write.Record.Timeline = other
				decided.Actions[index] = write
				if violations := invariant.Check(snapshot, decided); len(violations) == 0 {
					t.Errorf("timeline %d could be recorded in its place", other)
				}
			}
		})
	}
}
