//go:build cluster

package pgmodel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/test/sim/pgmodel"
)

// TestFidelityOfAStrayedStandby does to both what random operations never meet: a standby learns of the timeline of a
// new primary, which is lost before a record of it has come, or before its first checkpoint has.
func TestFidelityOfAStrayedStandby(t *testing.T) {
	stories(t, map[string]func(*pair) []act{
		"waits for a new start": waits, "is promoted": promoted, "is promoted behind the fork": behind,
		"is promoted past the fork":  beyond,
		"starts again past the fork": restarted,
		"is ahead of the wrong fork": func(b *pair) []act { return rewound(b, 1) },
		"is behind the wrong fork":   func(b *pair) []act { return rewound(b, 8) },
	})
}

// stories plays each with every version of PostgreSQL.
func stories(t *testing.T, all map[string]func(*pair) []act) {
	t.Helper()
	versions := found(t)
	if len(versions) == 0 {
		t.Skip("there is no PostgreSQL in /usr/lib/postgresql")
	}
	for _, p := range versions {
		folder := scratch(t)
		template := filepath.Join(folder, "t")
		must(t, makeTemplate(p, template))
		for name, story := range all {
			t.Run(fmt.Sprintf("%d %s", p.major, name), func(t *testing.T) {
				t.Parallel() // Most of a story is waiting.
				home := filepath.Join(folder, strings.ReplaceAll(name, " ", "-"))
				must(t, os.Mkdir(home, 0o755))
				both, err := newPair(p, template, home, 1)
				must(t, err)
				defer both.close()
				both.do(t, story(both))
			})
		}
	}
}

// do does one operation after the other, and both must agree after each.
func (b *pair) do(t *testing.T, acts []act) {
	t.Helper()
	must(t, b.sequence(nil, 0))
	for _, each := range acts {
		if model, actual := each.run(); model != actual {
			t.Fatalf("%s: model %q, real %q", each.name, model, actual)
		}
		if err := b.agree(); err != nil {
			t.Fatalf("%s: %v", each.name, err)
		}
	}
}

// start, stop and so on, as operations with a name.
func (b *pair) starts(name string, standby bool) act {
	return act{"start " + name, func() (string, string) { return b.start(name, standby) }}
}

func (b *pair) stops(name string) act {
	return act{"stop " + name, func() (string, string) { return b.stop(name, pgmodel.Fast), "" }}
}

func (b *pair) promotes(name string) act {
	return act{"promote " + name, func() (string, string) { return b.promote(name) }}
}

func (b *pair) follows(name, up string) act {
	return act{"follow " + name + " to " + up, func() (string, string) {
		return b.change(name, func(conf *pgmodel.Conf) { conf.Upstream, conf.Name, conf.Slot = up, name, "" })
	}}
}

// leads has a server promoted and lost, whose timeline is 2.
func (b *pair) leads(name string) act {
	return act{name + " leads and is lost", func() (string, string) {
		if model, actual := b.promote(name); model != actual {
			return model, actual
		}
		if err := b.agree(); err != nil {
			return "", err.Error()
		}
		b.model.servers[name].Kill()
		b.real[name].kill()
		return "", ""
	}}
}

// learns gives a standby the history of timeline 2, and waits until the real one has gone over to that.
func (b *pair) learns(name, from string) act {
	return act{name + " learns of timeline 2", func() (string, string) {
		s := b.model.servers[name]
		s.Disk.Log.Histories[2] = b.model.servers[from].Disk.Log.Histories[2]
		text, err := os.ReadFile(b.real[from].history(2))
		if err == nil {
			err = b.real[name].write(b.real[name].history(2), string(text))
		}
		if err != nil {
			return "", err.Error()
		}
		model, actual := b.change(name, func(conf *pgmodel.Conf) { conf.Upstream, conf.Name, conf.Slot = from, name, "" })
		var log []byte
		for end := time.Now().Add(ceiling); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			log, _ = os.ReadFile(filepath.Join(b.real[name].folder, "log"))
			if strings.Contains(string(log), "new target timeline is 2") {
				return model, actual
			}
		}
		return model, actual + "it never went over to timeline 2:\n" + string(log[max(0, len(log)-3000):])
	}}
}

func waits(b *pair) []act {
	return []act{
		b.stops("a"), b.follows("c", ""), b.leads("b"), b.learns("c", "b"), b.starts("a", true), b.promotes("a"),
		b.follows("c", "a"), b.stops("c"), b.starts("c", true),
	}
}

func promoted(b *pair) []act {
	return []act{
		b.stops("a"), b.follows("c", ""), b.leads("b"), b.starts("a", true), b.learns("a", "b"), b.promotes("a"),
		b.follows("c", "a"),
	}
}

// past has c replay WAL of the timeline before from beyond the place where timeline 2 begins, which it waits for.
func past(b *pair) []act {
	return []act{
		b.follows("c", ""), b.writes("a"), b.follows("b", ""), b.writes("a"), b.killed("a"), b.leads("b"),
		b.learns("c", "b"), b.starts("a", true), b.promotes("a"), b.follows("c", "a"),
	}
}

// restarted has it start anew then: what it has replayed is of the timeline before, and not of the one that it waited
// for, or no other timeline would have its minimum recovery point.
func restarted(b *pair) []act { return append(past(b), b.stops("c"), b.starts("c", true)) }

// beyond has c replay past the place where the timeline begins that it waits for, because a has more WAL of the
// timeline before: it does not follow a to timeline 3, and takes all that to be of timeline 2 when it is promoted.
func beyond(b *pair) []act {
	return append(past(b), b.follows("c", ""), b.promotes("c"),
		act{"the history of c", func() (string, string) {
			model := b.model.servers["c"].Disk.Log.Histories[4]
			text, err := os.ReadFile(b.real["c"].history(4))
			if err != nil {
				return "", err.Error()
			}
			var parents []string
			for line := range strings.Lines(string(text)) {
				if fields := strings.Fields(line); len(fields) > 1 {
					parents = append(parents, fields[0])
				}
			}
			var ours []string
			for _, branch := range model[:len(model)-1] {
				ours = append(ours, fmt.Sprint(branch.Timeline))
			}
			return "of " + strings.Join(ours, " "), "of " + strings.Join(parents, " ")
		}},
	)
}

// behind has c promoted before it has the WAL up to where the timeline begins that it waits for: its own begins before
// that, and says that it comes from that one. The server would let in whoever has other WAL up to there.
func behind(b *pair) []act {
	return []act{
		b.follows("c", ""), b.writes("a"), b.killed("a"), b.leads("b"), b.learns("c", "b"), b.follows("c", ""),
		b.promotes("c"), {"the history of c", func() (string, string) {
			history := b.model.servers["c"].Disk.Log.Histories[3]
			text, err := os.ReadFile(b.real["c"].history(3))
			if err != nil {
				return "", err.Error()
			}
			var ends []string
			for line := range strings.Lines(string(text)) {
				if fields := strings.Fields(line); len(fields) > 1 {
					ends = append(ends, fields[1])
				}
			}
			model := len(history) == 3 && history[2].Begin < history[1].Begin
			return fmt.Sprint(model), fmt.Sprint(len(ends) == 2 && ends[1] < ends[0])
		}},
	}
}

// rewound has a follow b to timeline 2, which has no checkpoint before b is lost. Then c leads, whose timeline 3 begins
// where a never was, after so many writes that only c has. Before 16, pg_rewind takes a to be on timeline 1, and finds
// nothing to do or nothing to begin with.
func rewound(b *pair, tail int) []act {
	return append(append([]act{b.follows("b", "")}, slices.Repeat([]act{b.writes("a")}, tail)...),
		b.killed("a"), act{"clone a from b", func() (string, string) { return b.clone("a", "b") }},
		b.follows("a", "b"), b.starts("a", true), act{"hold b", func() (string, string) { return b.hold("b") }},
		b.promotes("b"), b.writes("b"), b.killed("b"), b.follows("c", ""), b.promotes("c"), b.stops("a"),
		act{"rewind a to c", func() (string, string) { return b.rewind("a", "c") }},
	)
}

func (b *pair) writes(name string) act {
	return act{"commit on " + name, func() (string, string) { return b.commit(name, pgmodel.LevelLocal) }}
}

func (b *pair) killed(name string) act {
	return act{"kill " + name, func() (string, string) {
		b.model.servers[name].Kill()
		b.real[name].kill()
		return "", ""
	}}
}
