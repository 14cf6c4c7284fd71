package ship_test

import (
	"context"
	"slices"
	"testing"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
)

// flaws breaks what would be shipped in every way that applies, and asks whether each is found, by its rule.
func (w *world) flaws(m *member) {
	catalogue := w.catalogue()
	if catalogue == nil {
		return
	}
	facts := m.facts()
	facts.Local, _ = m.List()
	facts.Stored, facts.Highest = catalogue, catalogue.LatestTerm()
	good := plan.Ship(facts)
	if violations := plan.Check(facts, good); len(violations) > 0 {
		w.t.Fatalf("the plan %+v breaks %v", good, violations)
	}
	last, timeline := m.flushed/segment, m.history.Timeline()
	try := func(rule, flaw string, facts plan.Facts, shipping plan.Shipping) {
		found := plan.Check(facts, shipping)
		if slices.ContainsFunc(found, func(violation plan.Violation) bool { return violation.Rule == rule }) {
			w.seen.found[rule+" "+flaw]++
			return
		}
		w.seen.missed = append(w.seen.missed, flaw)
	}
	with := func(action plan.Action) plan.Shipping {
		return plan.Shipping{Actions: append(slices.Clone(good.Actions), action)}
	}
	try("backup.ship-in-order", "a segment that is not flushed", facts,
		with(plan.PutSegment{Timeline: timeline, Number: last}))
	try("backup.ship-in-order", "a tail beyond what is flushed", facts,
		with(plan.PutTail{Timeline: timeline, Tail: backup.Tail{Number: last, To: m.flushed%segment + 1}}))
	if len(m.history) > 1 && m.leads && facts.Highest <= facts.Term {
		fork, before := m.history[len(m.history)-1].Begin, m.history[len(m.history)-2].Timeline
		if fork%segment > 0 && (fork/segment+1)*segment <= m.flushed {
			try("backup.ship-in-order", "the last segment of a timeline that was left, as a whole", facts,
				with(plan.PutSegment{Timeline: before, Number: fork / segment}))
		}
	}
	foreign := facts
	foreign.Owner.DatabaseUID = "another"
	if len(good.Actions) > 0 {
		try("backup.ship-as-owner-in-the-latest-term", "into the repository of a namesake", foreign, good)
	}
	deposed := facts
	deposed.Highest = facts.Term + 1
	isTail := func(action plan.Action) bool { return action.Verb() == "ship a tail" }
	if facts.Leads && slices.ContainsFunc(good.Actions, isTail) {
		try("backup.ship-as-owner-in-the-latest-term", "after a later term has begun", deposed, good)
	}
	w.leaveOut(facts, good, try)
}

// leaveOut leaves each segment out in turn.
func (w *world) leaveOut(facts plan.Facts, good plan.Shipping, try func(string, string, plan.Facts, plan.Shipping)) {
	for index, action := range good.Actions {
		put, ok := action.(plan.PutSegment)
		if !ok || len(good.Holds) > 0 {
			continue
		}
		without := plan.Shipping{Actions: slices.Delete(slices.Clone(good.Actions), index, index+1)}
		_, follows := nextOf(good.Actions, index)
		log := facts.Stored.Log(put.Timeline)
		recorded := log != nil && slices.ContainsFunc(log.Gaps, func(gap backup.Gap) bool {
			return gap.First <= put.Number && put.Number <= gap.Last
		})
		// A new repository may begin with any segment.
		first := !slices.ContainsFunc(good.Actions[:index], isSegment) && !slices.ContainsFunc(facts.Stored.Logs, hasAny)
		if follows && facts.Leads && !recorded && !first {
			try("backup.ship-in-order", "a segment left out", facts, without)
		}
		if !facts.Leads && log != nil && len(log.Segments) > 0 && log.Segments[0].Number < put.Number {
			try("backup.fill-in-below-a-fork", "a segment below the fork left out", facts, without)
		}
	}
}

func isSegment(action plan.Action) bool { return action.Verb() == plan.PutSegment{}.Verb() }

func hasAny(log backup.Log) bool { return len(log.Segments)+len(log.Tails) > 0 }

// nextOf says whether the action after one ships the segment behind it, or a part of it.
func nextOf(actions []plan.Action, index int) (plan.Action, bool) {
	number := actions[index].(plan.PutSegment).Number
	if index+1 >= len(actions) {
		return nil, false
	}
	switch next := actions[index+1].(type) {
	case plan.PutSegment:
		return next, next.Number == number+1
	case plan.PutTail:
		return next, next.Tail.Number == number+1
	}
	return nil, false
}

// deletionFlaws deletes what is needed, and asks whether that is found.
func (w *world) deletionFlaws(catalogue *backup.Catalogue) {
	windows := plan.Windows(catalogue)
	if len(windows) == 0 {
		return
	}
	newest := windows[len(windows)-1]
	file := plan.Follow(catalogue, plan.Newest(catalogue), newest.Backup.Start).Files[0]
	var names []string
	for _, object := range catalogue.Objects {
		isLog := object.Key.Kind == backup.KindSegment || object.Key.Kind == backup.KindTail
		if isLog && object.Key.Number >= file.Number {
			names = append(names, object.Name)
		}
	}
	var all []string
	for _, window := range windows {
		all = append(all, backup.BaseName(window.Backup.ID))
	}
	for flaw, names := range map[string][]string{
		"the log of the newest backup": names, "all backups": all,
		"the owner": {backup.OwnerName},
	} {
		if len(plan.CheckDeletes(catalogue, policy, names)) > 0 {
			w.seen.found["K5 "+flaw]++
		} else {
			w.seen.missed = append(w.seen.missed, "deletion of "+flaw)
		}
	}
}

// A random life of a database under a hostile store: after every step all that is said to be restorable is, byte by
// byte, the log of the history that the database went; and what is wrong on purpose is found every time.
func TestShippingInAHostileWorld(t *testing.T) {
	total := counters{found: map[string]int{}}
	seeds := uint64(60)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		w := newWorld(t, seed)
		for range 60 {
			w.step()
		}
		w.settle()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		total.failovers += w.seen.failovers
		total.zombies += w.seen.zombies
		total.gaps += w.seen.gaps
		total.backups += w.seen.backups
		total.deletes += w.seen.deletes
		total.files += w.seen.files
		total.fills += w.seen.fills
		total.errors += w.seen.errors
		for flaw, count := range w.seen.found {
			total.found[flaw] += count
		}
		if len(w.seen.missed) > 0 {
			t.Fatalf("seed %d: not found: %v", seed, w.seen.missed)
		}
	}
	t.Logf("%+v", total)
	if total.failovers == 0 || total.zombies == 0 || total.gaps == 0 || total.backups == 0 || total.deletes == 0 ||
		total.files == 0 || total.fills == 0 || total.errors == 0 || len(total.found) < 10 {
		t.Errorf("nothing happened: %+v", total)
	}
}

func TestANamesakeShipsNothing(t *testing.T) {
	w := newWorld(t, 1)
	w.faults = false
	first := w.primary()
	w.pass(first)
	facts := first.facts()
	facts.Owner.DatabaseUID = "another"
	shipper := w.newShipper(first)
	result, err := shipper.Pass(context.Background(), facts)
	if err != nil || result.Actions != 0 || len(result.Holds) != 1 || result.Holds[0].Reason != "RepositoryForeign" {
		t.Errorf("%+v, %v", result, err)
	}
}

// A member looks at the repository, the primary ships more, and the member removes what the repository confirms, as its
// slot says. When it becomes the primary, nothing of that is a gap.
func TestASuccessorSeesWhatWasShippedBefore(t *testing.T) {
	w := newWorld(t, 1)
	w.faults = false
	old, next := w.members[0], w.members[1]
	w.pass(old)
	w.pass(next)
	old.flushed, next.flushed = 12*segment+7, 12*segment+7
	w.pass(old)
	next.kept = 11
	w.failover()
	if w.primary() != next {
		t.Fatal("another one has become the primary")
	}
	w.pass(next)
	for _, log := range w.catalogue().Logs {
		if len(log.Gaps) > 0 {
			t.Errorf("timeline %d has %d segments and the gaps %+v", log.Timeline, len(log.Segments), log.Gaps)
		}
	}
}
