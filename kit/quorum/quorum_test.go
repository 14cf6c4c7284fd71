package quorum_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/quorum"
)

func setting(k int, names ...string) *quorum.Setting { return &quorum.Setting{Names: names, K: k} }

func TestIntersects(t *testing.T) {
	three := quorum.Record{Members: []string{"a", "b", "c"}, W: 2}
	for name, test := range map[string]struct {
		setting quorum.Setting
		record  quorum.Record
		want    bool
	}{
		"the writer and one of two":          {*setting(1, "b", "c"), three, true},
		"the writer alone":                   {*setting(0, "b", "c"), three, false},
		"more than is promised":              {*setting(2, "b", "c"), three, true},
		"one that does not count":            {*setting(1, "b", "x"), three, false},
		"fewer names than copies waited for": {*setting(2, "b"), three, false},
		"nobody to wait for":                 {*setting(0), quorum.Record{Members: []string{"a"}, W: 1}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := quorum.Intersects(test.setting, test.record); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	one := quorum.Record{Members: []string{"a"}, W: 1}
	two := quorum.Record{Members: []string{"a", "b"}, W: 2}
	three := quorum.Record{Members: []string{"a", "b", "c"}, W: 2}
	near := func(id string, flushed uint64) quorum.Copy { return quorum.Copy{ID: id, Near: true, Flushed: flushed} }
	for name, test := range map[string]struct {
		facts quorum.Facts
		wish  []string
		want  quorum.Step
	}{
		"as wished": {
			quorum.Facts{Record: three, InForce: setting(1, "b", "c")}, []string{"a", "b", "c"}, quorum.Step{},
		},
		"a new one is recorded before it is waited for": {
			quorum.Facts{Record: one, InForce: setting(0), Copies: []quorum.Copy{near("b", 5)}}, []string{"a", "b"},
			quorum.Step{Record: &quorum.Record{Members: []string{"a", "b"}, W: 1}},
		},
		"a new one that is far behind is not": {
			quorum.Facts{Record: one, InForce: setting(0), Copies: []quorum.Copy{{ID: "b", Flushed: 5}}}, []string{"a", "b"},
			quorum.Step{},
		},
		"W is raised with the setting first": {
			quorum.Facts{Record: quorum.Record{Members: two.Members, W: 1}, InForce: setting(0, "b")}, two.Members,
			quorum.Step{Setting: setting(1, "b")},
		},
		"W is not raised before the other has everything": {
			quorum.Facts{
				Record: quorum.Record{Members: two.Members, W: 1}, InForce: setting(1, "b"), Barrier: 9,
				Copies: []quorum.Copy{near("b", 8)},
			}, two.Members, quorum.Step{Wait: "one more member must have all that was written before it is promised"},
		},
		"W is raised": {
			quorum.Facts{
				Record: quorum.Record{Members: two.Members, W: 1}, InForce: setting(1, "b"), Barrier: 9,
				Copies: []quorum.Copy{near("b", 9)},
			}, two.Members, quorum.Step{Record: &two},
		},
		"one that leaves is waited for no more, first": {
			quorum.Facts{Record: three, InForce: setting(1, "b", "c")}, two.Members,
			quorum.Step{Setting: setting(1, "b")},
		},
		"it stays recorded until it is sure what the writer waits for": {
			quorum.Facts{Record: three}, two.Members, quorum.Step{Setting: setting(1, "b")},
		},
		"it stays recorded until the others have everything": {
			quorum.Facts{Record: three, InForce: setting(1, "b"), Barrier: 9, Copies: []quorum.Copy{near("b", 3)}},
			two.Members,
			quorum.Step{Wait: "the members that stay must have all that was written with the help of c"},
		},
		"it has left": {
			quorum.Facts{Record: three, InForce: setting(1, "b"), Barrier: 9, Copies: []quorum.Copy{near("b", 9)}},
			two.Members, quorum.Step{Record: &two},
		},
		"Q3: a dead one stays until another is there": {
			quorum.Facts{Record: two, InForce: setting(1, "b")}, []string{"a", "c"},
			quorum.Step{Wait: "another member must be there before b leaves"},
		},
		"Q3: the new one comes first": {
			quorum.Facts{Record: two, InForce: setting(1, "b"), Copies: []quorum.Copy{near("c", 3)}}, []string{"a", "c"},
			quorum.Step{Record: &quorum.Record{Members: []string{"a", "b", "c"}, W: 2}},
		},
		"W is not lowered because a member is late": {
			quorum.Facts{Record: two, InForce: setting(1, "b")}, []string{"a", "late"},
			quorum.Step{Wait: "another member must be there before b leaves"},
		},
		"W is lowered with the record first": {
			quorum.Facts{Record: two, InForce: setting(1, "b")}, []string{"a"},
			quorum.Step{Record: &quorum.Record{Members: two.Members, W: 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.facts.Self = "a"
			got := quorum.Next(test.facts, quorum.Wish{Members: test.wish, W: quorum.Majority})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

// world is a writer whose parts follow a new setting one by one, and copies that store the log one by one.
type world struct {
	record   quorum.Record
	told     quorum.Setting
	old, now quorum.Setting // What a part of the writer still follows, and what the others do.
	sure     bool
	barrier  uint64
	flushed  map[string]uint64
	acked    uint64
}

func (w world) key() string {
	var flushed []string
	for _, id := range []string{"a", "b", "c", "d"} {
		flushed = append(flushed, fmt.Sprint(w.flushed[id]))
	}
	return fmt.Sprint(w.record, w.told, w.old, w.now, w.sure, w.barrier, flushed, w.acked)
}

func (w world) copy() world {
	flushed := map[string]uint64{}
	for id, at := range w.flushed {
		flushed[id] = at
	}
	w.flushed = flushed
	return w
}

// TestEveryPathKeepsWhatWasAcknowledged walks through every order of steps, reloads, writes, acknowledgements and
// copies between every pair of wishes, and asks after each: does any set of answers that an election may rely on have
// all that was acknowledged?
func TestEveryPathKeepsWhatWasAcknowledged(t *testing.T) {
	wishes := [][]string{{"a"}, {"a", "b"}, {"a", "b", "c"}, {"a", "b", "d"}, {"a", "d"}}
	states := 0
	for _, from := range wishes {
		for _, to := range wishes {
			record := quorum.Record{Members: from, W: quorum.Majority(len(from))}
			resting := quorum.Resting("a", record)
			begin := world{record: record, told: resting, old: resting, now: resting, sure: true, flushed: map[string]uint64{}}
			states += explore(t, begin, quorum.Wish{Members: to, W: quorum.Majority})
		}
	}
	if states < 10_000 {
		t.Errorf("only %d states were seen", states)
	}
	t.Logf("%d states", states)
}

func explore(t *testing.T, begin world, wish quorum.Wish) int {
	t.Helper()
	seen := map[string]bool{begin.key(): true}
	queue := []world{begin}
	for len(queue) > 0 {
		current := queue[0]
		queue = queue[1:]
		for _, next := range neighbours(current, wish) {
			if seen[next.key()] {
				continue
			}
			if problem := lost(next); problem != "" {
				t.Fatalf("towards %v: %s in %+v", wish.Members, problem, next)
			}
			seen[next.key()] = true
			queue = append(queue, next)
		}
	}
	return len(seen)
}

// neighbours is everything that may happen next.
func neighbours(w world, wish quorum.Wish) []world {
	var result []world
	add := func(change func(*world)) {
		next := w.copy()
		change(&next)
		result = append(result, next)
	}
	facts := quorum.Facts{Self: "a", Record: w.record, Barrier: w.barrier}
	if w.sure {
		facts.InForce = &w.told
	}
	for _, id := range []string{"b", "c", "d"} {
		facts.Copies = append(facts.Copies, quorum.Copy{ID: id, Near: true, Flushed: w.flushed[id]})
	}
	switch step := quorum.Next(facts, wish); {
	case step.Record != nil:
		add(func(w *world) { w.record = *step.Record })
	case step.Setting != nil && !step.Setting.Equal(w.told):
		add(func(w *world) { w.old, w.told, w.now, w.sure = w.now, *step.Setting, *step.Setting, false })
	}
	if !w.sure {
		add(func(w *world) { w.old, w.sure, w.barrier = w.now, true, w.flushed["a"] })
	}
	if w.flushed["a"] < 2 {
		add(func(w *world) { w.flushed["a"]++ })
	}
	for _, id := range []string{"b", "c", "d"} {
		if w.flushed[id] < w.flushed["a"] {
			add(func(w *world) { w.flushed[id]++ })
		}
	}
	for _, part := range []quorum.Setting{w.old, w.now} {
		if next := w.acked + 1; next <= w.flushed["a"] && enough(w, part, next) {
			add(func(w *world) { w.acked++ })
		}
	}
	return result
}

func enough(w world, part quorum.Setting, at uint64) bool {
	count := 0
	for _, id := range part.Names {
		if w.flushed[id] >= at {
			count++
		}
	}
	return count >= part.K
}

// lost looks at every set of members that may elect.
func lost(w world) string {
	members := w.record.Members
	for set := range 1 << len(members) {
		var names []string
		best := uint64(0)
		for index, id := range members {
			if set>>index&1 == 1 {
				names = append(names, id)
				best = max(best, w.flushed[id])
			}
		}
		if len(names) >= w.record.Answers() && best < w.acked {
			return strings.Join(names, ",") + " would lose what was acknowledged"
		}
	}
	if !slices.Contains(members, "a") {
		return "the writer does not count"
	}
	return ""
}
