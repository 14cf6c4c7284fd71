package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/kit/rule"
)

const size = 1 << 20

var noon = time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC)

// catalogue has whole segments of timeline 1, one a minute from noon on, and a backup at each given segment.
func catalogue(segments, backups []uint64) *backup.Catalogue {
	result := &backup.Catalogue{Owner: backup.Owner{SegmentSize: size}}
	log := backup.Log{Timeline: 1, History: postgres.History{{Timeline: 1}}}
	add := func(name string, at time.Time) {
		result.Objects = append(result.Objects, backup.Object{Name: name, At: at, Key: backup.ParseKey(name, size)})
	}
	for _, number := range segments {
		at, name := minute(number), backup.WALName(1, number, size, ".zst")
		log.Segments = append(log.Segments, backup.Segment{Number: number, At: at, Name: name})
		result.Now = at
		add(name, at)
	}
	for _, number := range backups {
		base := backup.Backup{
			ID: fmt.Sprintf("b%02d", number), Timeline: 1, At: minute(number).Add(30 * time.Second),
			Start: backup.LSN(number*size + 40), Stop: backup.LSN(number*size + 400),
		}
		result.Backups = append(result.Backups, base)
		add(backup.BaseName(base.ID), base.At)
		add(backup.PartName(base.ID, 1, ".zst"), base.At)
	}
	result.Logs = []backup.Log{log}
	return result
}

func minute(number uint64) time.Time { return noon.Add(time.Duration(number) * time.Minute) }

func row(from, to uint64) []uint64 {
	var numbers []uint64
	for number := from; number <= to; number++ {
		numbers = append(numbers, number)
	}
	return numbers
}

func TestRecoverTakesTheNewestBackupBeforeTheTarget(t *testing.T) {
	stored := catalogue(row(1, 20), []uint64{2, 10})
	for name, c := range map[string]struct {
		target plan.Target
		want   string
	}{
		"latest":                     {want: "b10"},
		"a time after both":          {target: plan.Target{Time: minute(15)}, want: "b10"},
		"a time before the second":   {target: plan.Target{Time: minute(10)}, want: "b02"},
		"a place before the second":  {target: plan.Target{LSN: 10 * size}, want: "b02"},
		"the last place":             {target: plan.Target{LSN: 21 * size}, want: "b10"},
		"a place after the last":     {target: plan.Target{LSN: 21*size + 1}},
		"a time before all backups":  {target: plan.Target{Time: minute(2)}},
		"a time after the last log":  {target: plan.Target{Time: minute(21)}},
		"a place before all backups": {target: plan.Target{LSN: 2 * size}},
	} {
		recovery, err := plan.Recover(stored, c.target)
		if recovery.Backup.ID != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", name, recovery.Backup.ID, err)
		}
	}
}

// A whole segment may have waited before it was shipped. The piece of one that is being written tells that all was
// shipped which was flushed then; that of a timeline that was left tells nothing of what came after.
func TestOnlyTheOpenSegmentTellsThatNothingIsMissing(t *testing.T) {
	tail := backup.Tail{Number: 21, To: 500, At: minute(21)}
	for name, c := range map[string]struct {
		change func(*backup.Catalogue)
		want   time.Time
	}{
		"a whole segment": {func(*backup.Catalogue) {}, time.Time{}},
		"a piece": {func(stored *backup.Catalogue) {
			stored.Logs[0].Tails = []backup.Tail{tail}
		}, minute(21)},
		"a piece of a timeline that was left": {func(stored *backup.Catalogue) {
			stored.Logs[0].Tails = []backup.Tail{tail}
			stored.Logs = append(stored.Logs, backup.Log{
				Timeline: 2, History: postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 21*size + 400}},
			})
		}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			stored := catalogue(row(1, 20), []uint64{10})
			c.change(stored)
			recovery, err := plan.Recover(stored, plan.Target{})
			if err != nil || !recovery.Sure.Equal(c.want) {
				t.Errorf("nothing is missing until %s, want %s; %v", recovery.Sure, c.want, err)
			}
		})
	}
}

func TestATargetOutsideIsRefusedWithTheWindows(t *testing.T) {
	// The log has a hole at 8, behind which only the second backup leads.
	stored := catalogue(append(row(1, 7), row(9, 20)...), []uint64{2, 10})
	_, err := plan.Recover(stored, plan.Target{Time: minute(9)})
	want := "cannot restore to 2026-11-18T12:09:00Z: choose a target from 2026-11-18T12:02:30Z to 2026-11-18T12:07:00Z " +
		"(LSN 0/200190 to 0/800000), or 2026-11-18T12:10:30Z to 2026-11-18T12:20:00Z (LSN 0/A00190 to 0/1500000)"
	var outside *plan.OutsideError
	if !errors.As(err, &outside) || err.Error() != want {
		t.Errorf("%v", cmp.Diff(want, fmt.Sprint(err)))
	}
	summary := plan.Summarize(stored)
	if !summary.From.Equal(minute(10).Add(30*time.Second)) || !summary.Until.Equal(minute(20)) || len(summary.Gaps) != 1 {
		t.Errorf("%+v", summary)
	}
	if _, err := plan.Recover(catalogue(row(1, 5), nil), plan.Target{}); err == nil ||
		!strings.Contains(err.Error(), "no complete base backup") {
		t.Errorf("without a backup: %v", err)
	}
}

func TestABackupIsCompleteOnlyWithItsLog(t *testing.T) {
	history := postgres.History{{Timeline: 1}}
	base := backup.Backup{Timeline: 1, Start: 3*size + 1, Stop: 5*size + 1}
	for want, segments := range map[bool][]uint64{true: row(1, 5), false: row(1, 4)} {
		if got := plan.MayComplete(catalogue(segments, nil), history, base); got != want {
			t.Errorf("with the segments %v: %t", segments, got)
		}
	}
	if plan.MayComplete(catalogue([]uint64{3, 5}, nil), history, base) {
		t.Error("with a hole in its log")
	}
	left := postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 4 * size}}
	if plan.MayComplete(catalogue(row(1, 6), nil), left, base) {
		t.Error("behind the fork of a timeline that was left")
	}
}

func TestRetention(t *testing.T) {
	policy := plan.Policy{Window: 10 * time.Minute, AtLeast: 1}
	for name, c := range map[string]struct {
		stored *backup.Catalogue
		policy plan.Policy
		kept   string
		oldest uint64 // The oldest segment that is left.
	}{
		"the backup before the window is kept, and the log of all that are still listed": {
			stored: catalogue(row(1, 30), []uint64{2, 10, 25}), policy: policy, kept: "b10 b25", oldest: 2,
		},
		"once the old one is gone its log goes": {
			stored: catalogue(row(1, 30), []uint64{10, 25}), policy: policy, kept: "b10 b25", oldest: 10,
		},
		"as many as asked for, however old": {
			stored: catalogue(row(1, 30), []uint64{2, 5, 10, 12}), policy: plan.Policy{Window: time.Minute, AtLeast: 3},
			kept: "b05 b10 b12", oldest: 2,
		},
		"without a backup nothing is deleted": {stored: catalogue(row(1, 30), nil), policy: policy, oldest: 1},
		"a backup whose log has a hole does not count": {
			stored: catalogue(append(row(1, 10), row(12, 30)...), []uint64{2, 11}), policy: policy, kept: "b02", oldest: 2,
		},
	} {
		deleted := plan.Retain(c.stored, c.policy)
		after := plan.Without(c.stored, deleted)
		var kept []string
		for _, base := range after.Backups {
			kept = append(kept, base.ID)
		}
		if got := strings.Join(kept, " "); got != c.kept || after.Logs[0].Segments[0].Number != c.oldest {
			t.Errorf("%s: kept %q, and the log from %d", name, got, after.Logs[0].Segments[0].Number)
		}
		if found := plan.CheckDeletes(c.stored, c.policy, deleted); len(found) > 0 {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestTheNewestVerifiedBackupIsKept(t *testing.T) {
	stored := catalogue(row(1, 30), []uint64{2, 10, 25})
	stored.Verified = []backup.Verified{{Backup: "b02"}}
	policy := plan.Policy{Window: time.Minute, AtLeast: 1}
	if kept := plan.Keep(stored, policy); !slices.Equal(kept, []string{"b02", "b25"}) {
		t.Errorf("kept %v", kept)
	}
	if found := plan.CheckDeletes(stored, policy, []string{backup.BaseName("b02")}); len(found) == 0 {
		t.Error("its deletion was not found")
	}
}

func TestDraftsGoWhenTheyAreOld(t *testing.T) {
	stored := catalogue(row(1, 30), []uint64{10})
	name := backup.PartName("draft", 1, ".zst")
	stored.Objects = append(stored.Objects, backup.Object{Name: name, Key: backup.ParseKey(name, size)})
	for want, at := range map[bool]time.Time{true: stored.Now.Add(-25 * time.Hour), false: stored.Now.Add(-time.Hour)} {
		stored.Drafts = []backup.Draft{{ID: "draft", At: at}}
		if got := slices.Contains(plan.Retain(stored, plan.Policy{Window: time.Hour}), name); got != want {
			t.Errorf("last written %s: deleted %t", at, got)
		}
	}
}

func TestAnEarlyEndOfRecoveryIsFound(t *testing.T) {
	const end, complete = "backup.end-a-recovery-only-at-the-end", "backup.complete-a-backup-with-its-log"
	recovery := plan.Recovery{Backup: backup.Backup{Stop: 100}, Until: 1000}
	for name, c := range map[string]struct {
		target  plan.Target
		reached backup.LSN
		stopped bool
		rule    string
	}{
		"all of it":                {reached: 1000},
		"less than there is":       {reached: 999, rule: end},
		"stopped without a target": {reached: 999, stopped: true, rule: end},
		"the target":               {target: plan.Target{LSN: 500}, reached: 510, stopped: true},
		"less than the target":     {target: plan.Target{LSN: 500}, reached: 400, rule: end},
		"a time was reached":       {target: plan.Target{Time: noon}, reached: 500, stopped: true},
		"a time was not reached":   {target: plan.Target{Time: noon}, reached: 500, rule: end},
		"less than the backup has": {target: plan.Target{Time: noon}, reached: 50, stopped: true, rule: complete},
	} {
		rule := ""
		for _, violation := range plan.CheckRecovery(recovery, c.target, c.reached, c.stopped) {
			rule = violation.Rule
		}
		if rule != c.rule {
			t.Errorf("%s: breaks %q, not %q", name, rule, c.rule)
		}
	}
}

func TestEveryRuleIsNamedOnce(t *testing.T) {
	if problems := rule.Problems(plan.Rules()); len(problems) > 0 {
		t.Error(problems)
	}
}

// A replica's base backup begins at its last restartpoint, which is some log before the moment that backups were turned
// on at.
func TestANewRepositoryBeginsWithTheOldestLogThatIsHere(t *testing.T) {
	facts := plan.Facts{
		Term: 1, Leads: true, Instance: "a", Flushed: 6*size + 100, History: postgres.History{{Timeline: 1}},
		Owner: backup.Owner{SegmentSize: size}, Stored: &backup.Catalogue{Owner: backup.Owner{SegmentSize: size}},
		Local: []plan.LocalLog{{Timeline: 1, Segments: []uint64{1, 3, 4, 5, 6, 7}}},
	}
	shipping := plan.Ship(facts)
	want := []plan.Action{
		plan.BeginTerm{Term: backup.Term{Term: 1, Timeline: 1, Instance: "a"}},
		plan.PutSegment{Timeline: 1, Number: 3}, plan.PutSegment{Timeline: 1, Number: 4},
		plan.PutSegment{Timeline: 1, Number: 5}, plan.PutTail{Timeline: 1, Tail: backup.Tail{Number: 6, To: 100}},
	}
	if diff := cmp.Diff(want, shipping.Actions); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if found := plan.Check(facts, shipping); len(found) > 0 {
		t.Errorf("%v", found)
	}
	if got := plan.Confirmed(facts); got != 3*size {
		t.Errorf("%s is confirmed before anything is shipped", got)
	}
	// After a failover the part before the fork lies in the file of the timeline that was left.
	facts.History = postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 4*size + 7}}
	facts.Local = []plan.LocalLog{
		{Timeline: 1, Segments: []uint64{3, 4}}, {Timeline: 2, Segments: []uint64{4, 5, 6}, HasHistory: true},
	}
	shipping = plan.Ship(facts)
	want = []plan.Action{
		plan.BeginTerm{Term: backup.Term{Term: 1, Timeline: 2, Instance: "a"}}, plan.PutHistory{Timeline: 2},
		plan.PutSegment{Timeline: 1, Number: 3}, plan.PutSegment{Timeline: 2, Number: 4},
		plan.PutSegment{Timeline: 2, Number: 5}, plan.PutTail{Timeline: 2, Tail: backup.Tail{Number: 6, To: 100}},
	}
	if diff := cmp.Diff(want, shipping.Actions); diff != "" {
		t.Errorf("after a failover: -want +got:\n%s", diff)
	}
	if found := plan.Check(facts, shipping); len(found) > 0 {
		t.Errorf("after a failover: %v", found)
	}
}

// Many tails of a segment are followed by one that covers them, and go then: a later listing shows it.
func TestOneTailCoversMany(t *testing.T) {
	stored := catalogue(row(1, 20), []uint64{10})
	log := &stored.Logs[0]
	add := func(from, to uint64) {
		tail := backup.Tail{Number: 21, From: from, To: to, At: minute(21)}
		tail.Name = backup.TailName(1, tail, size, ".zst")
		log.Tails = append(log.Tails, tail)
		stored.Objects = append(stored.Objects,
			backup.Object{Name: tail.Name, At: tail.At, Key: backup.ParseKey(tail.Name, size)})
	}
	for at := range uint64(256) {
		facts := plan.Facts{
			Term: 1, Highest: 1, Leads: true, Flushed: backup.LSN(21*size + 10*at + 10), History: log.History,
			Owner: stored.Owner, Stored: stored, Local: []plan.LocalLog{{Timeline: 1, Segments: []uint64{21}}},
		}
		want := []plan.Action{plan.PutTail{Timeline: 1, Tail: backup.Tail{Number: 21, From: 10 * at, To: 10*at + 10}}}
		if diff := cmp.Diff(want, plan.Ship(facts).Actions); diff != "" {
			t.Fatalf("%d: -want +got:\n%s", at, diff)
		}
		add(10*at, 10*at+10)
	}
	facts := plan.Facts{
		Term: 1, Highest: 1, Leads: true, Flushed: 21*size + 2570, History: log.History,
		Owner: stored.Owner, Stored: stored, Local: []plan.LocalLog{{Timeline: 1, Segments: []uint64{21}}},
	}
	shipping := plan.Ship(facts)
	want := []plan.Action{plan.PutTail{Timeline: 1, Tail: backup.Tail{Number: 21, To: 2570}}}
	if diff := cmp.Diff(want, shipping.Actions); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if found := plan.Check(facts, shipping); len(found) > 0 {
		t.Errorf("%v", found)
	}
	policy := plan.Policy{Window: time.Hour, AtLeast: 1}
	before := plan.Retain(stored, policy)
	add(0, 2570)
	log.Tails = slices.Concat(log.Tails[:1], log.Tails[256:], log.Tails[1:256]) // As a listing sorts them.
	deleted := plan.Retain(stored, policy)
	if len(deleted) != len(before)+256 {
		t.Errorf("%d are deleted, and %d before", len(deleted), len(before))
	}
	if found := plan.CheckDeletes(stored, policy, deleted); len(found) > 0 {
		t.Errorf("%v", found)
	}
	after := plan.Without(stored, deleted)
	if recovery, err := plan.Recover(after, plan.Target{}); err != nil || recovery.Until != 21*size+2570 ||
		len(recovery.Files[len(recovery.Files)-1].Tails) != 1 {
		t.Errorf("%+v, %v", recovery, err)
	}
}
