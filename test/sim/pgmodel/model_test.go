package pgmodel_test

import (
	"errors"
	"testing"
	"time"

	"meridian.dev/meridian/test/sim/pgmodel"
)

const major = 15

// three has a primary a and standbys b and c that it waits for one of, each with a slot.
func three(t *testing.T) *world {
	t.Helper()
	w := newWorld(1, "a", "b", "c")
	a := w.servers["a"]
	a.Disk = pgmodel.NewDisk("system", major, 1<<20)
	a.Disk.Conf.Retry, a.Disk.Conf.Timeout = 100*time.Millisecond, time.Hour
	a.Disk.Conf.Sync = pgmodel.Sync{K: 1, Names: []string{"b", "c"}}
	w.start(t, "a", false)
	for _, name := range []string{"b", "c"} {
		a.CreateSlot(name)
		if err := w.servers[name].Clone(a); err != nil {
			t.Fatal(err)
		}
		w.servers[name].Disk.Conf.Sync = pgmodel.Sync{}
		w.follow(name, "a")
		w.start(t, name, true)
	}
	return w
}

func (w *world) start(t *testing.T, name string, standby bool) {
	t.Helper()
	s := w.servers[name]
	s.Disk.Standby = standby
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	w.settle(time.Second)
	if err := s.Answers(); err != nil {
		t.Fatalf("%s does not start: %v, %s", name, err, s.Exit)
	}
}

func (w *world) follow(name, up string) {
	s := w.servers[name]
	s.Disk.Conf.Upstream, s.Disk.Conf.Name, s.Disk.Conf.Slot = up, name, name
	if up == "" {
		s.Disk.Conf.Name, s.Disk.Conf.Slot = "", ""
	}
	_ = s.Reload()
	w.settle(time.Second)
}

// commit returns what its client is told within a second.
func (w *world) commit(t *testing.T, name string, id int, level pgmodel.Level) *pgmodel.Commit {
	t.Helper()
	commit, err := w.servers[name].Begin(id, level, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.settle(time.Second)
	return commit
}

// A standby whose log left the primary's history is let in when its end lies in the segment of the fork, and what it
// reports moves the mark of released commits (B3).
func TestADivergedStandbyAcknowledges(t *testing.T) {
	w := three(t)
	a, b := w.servers["a"], w.servers["b"]
	if got := w.commit(t, "a", 1, pgmodel.LevelOn).Result; got != pgmodel.Acknowledged {
		t.Fatalf("with two standbys: %s", got)
	}
	w.follow("b", "")
	w.follow("c", "")
	for id := 2; id < 40; id++ {
		w.commit(t, "a", id, pgmodel.LevelLocal)
	}
	a.Kill()
	b.Disk.Conf.Sync = pgmodel.Sync{K: 1, Names: []string{"a", "c"}}
	_ = b.Reload()
	w.settle(time.Second)
	_ = b.Promote()
	w.settle(time.Second)
	b.CreateSlot("a")
	if got := w.commit(t, "b", 100, pgmodel.LevelOn).Result; got != pgmodel.Waiting {
		t.Fatalf("without a standby: %s", got)
	}
	w.follow("a", "b")
	w.start(t, "a", true)
	a.Kill()
	late := w.commit(t, "b", 101, pgmodel.LevelOn)
	if late.Result != pgmodel.Acknowledged || a.Disk.End().Has(101) {
		t.Errorf("the commit is %s, and on the other copy: %t", late.Result, a.Disk.End().Has(101))
	}
}

// stray ends a primary in order, and has a standby learn of timeline 2, whose primary, b, is lost before a record of it
// has come to anybody.
func (w *world) stray(t *testing.T, name string) {
	t.Helper()
	b, s := w.servers["b"], w.servers[name]
	if err := w.servers["a"].Stop(pgmodel.Fast); err != nil {
		t.Fatal(err)
	}
	w.settle(time.Second)
	w.follow("c", "")
	_ = b.Promote()
	w.settle(time.Second)
	b.Kill()
	if name == "a" {
		w.start(t, "a", true)
	}
	s.Disk.Log.Histories[2] = b.Disk.Log.Histories[2]
	w.follow(name, "b")
	w.settle(time.Minute)
}

// A standby that has gone over to the timeline of a lost primary, of which it has no record, never goes back to the one
// that it left: where the next primary does not come from that, it waits until it is started anew. PostgreSQL 15 says
// that timeline 2 is not in the history of the other, and that timeline 3 is not a child of the one that it is on.
func TestAStrayedStandby(t *testing.T) {
	w := three(t)
	w.stray(t, "c")
	a, c := w.servers["a"], w.servers["c"]
	w.start(t, "a", true)
	w.follow("a", "")
	a.Disk.Log.Reserve(3)
	_ = a.Promote()
	w.settle(time.Second)
	a.Disk.Conf.Sync = pgmodel.Sync{}
	w.follow("c", "a")
	w.settle(time.Minute)
	if c.Streams() || c.Trouble != pgmodel.TroubleNotAChild || a.Timeline() != 3 {
		t.Fatalf("it streams: %t, %q, and the primary is on timeline %d", c.Streams(), c.Trouble, a.Timeline())
	}
	_ = c.Stop(pgmodel.Fast)
	w.settle(time.Second)
	w.start(t, "c", true)
	if !c.Streams() || c.Disk.End() != a.Disk.End() {
		t.Errorf("after a new start it streams: %t, %q", c.Streams(), c.Trouble)
	}
}

// A standby that has strayed may be promoted: its timeline comes from the one that it has no record of, and the file in
// which it begins is copied from the one that it has. So another standby is refused once, and then gets the log.
func TestAStrayedStandbyIsPromoted(t *testing.T) {
	w := three(t)
	w.stray(t, "a")
	a, c := w.servers["a"], w.servers["c"]
	_ = a.Promote()
	w.settle(time.Second)
	if history := a.Disk.Log.Histories[3]; len(history) != 3 || history[1].Begin != history[2].Begin {
		t.Fatalf("the history is %v, and was to begin 2 and 3 at one place", history)
	}
	w.follow("c", "a")
	w.settle(time.Minute)
	if !c.Streams() || c.Disk.End() != a.Disk.End() {
		t.Errorf("it streams: %t, %q", c.Streams(), c.Trouble)
	}
}

// pg_basebackup makes a checkpoint, which removes what no slot keeps. A standby without a slot that is a moment behind
// loses the file that it needs next, and one with a slot does not.
func TestACloneTakesTheWALFromAStandbyWithoutASlot(t *testing.T) {
	for slot, want := range map[string]pgmodel.Trouble{"": pgmodel.TroubleRemoved, "c": pgmodel.TroubleNone} {
		w := three(t)
		a, b, c := w.servers["a"], w.servers["b"], w.servers["c"]
		if slot == "" {
			w.follow("c", "")
			c.Disk.Conf.Upstream, c.Disk.Conf.Name = "a", "c"
			_ = c.Reload()
			w.settle(time.Second)
			if !a.DropSlot("c") {
				t.Fatal("the slot of c is in use")
			}
		}
		if !c.Streams() {
			t.Fatalf("slot %q: it does not stream: %q", slot, c.Trouble)
		}
		_ = b.Stop(pgmodel.Fast)
		w.settle(time.Second)
		if !a.DropSlot("b") {
			t.Fatal("the slot of b is in use")
		}
		// A clone comes at some moment between a commit and its arrival.
		for id := 1; id < 40 && c.Streams(); id++ {
			if _, err := a.Begin(id, pgmodel.LevelLocal, nil); err != nil {
				t.Fatal(err)
			}
			w.settle(time.Duration(id) * 100 * time.Microsecond)
			b.Disk = nil
			if err := b.Clone(a); err != nil {
				t.Fatal(err)
			}
			w.settle(time.Second)
		}
		w.settle(time.Minute)
		if lost := c.Disk.End() != a.Disk.End(); c.Trouble != want || lost != (slot == "") {
			t.Errorf("slot %q: %q, and it lacks something: %t", slot, c.Trouble, lost)
		}
	}
}

// Until a new primary of 15 has made its first checkpoint, pg_rewind finds nothing to do.
func TestARewindThatDoesNothing(t *testing.T) {
	w := three(t)
	a, b := w.servers["a"], w.servers["b"]
	a.Disk.Conf.Keep, b.Disk.Conf.Keep = 16<<20, 16<<20
	w.follow("b", "")
	w.commit(t, "a", 1, pgmodel.LevelLocal)
	a.Kill()
	b.HoldCheckpoints(true)
	_ = b.Promote()
	w.settle(time.Second)
	if needed, err := a.Rewind(b); needed || err != nil {
		t.Errorf("before the first checkpoint: needed %t, %v", needed, err)
	}
	b.HoldCheckpoints(false)
	w.settle(time.Second)
	if needed, err := a.Rewind(b); !needed || err != nil {
		t.Errorf("after it: needed %t, %v", needed, err)
	}
	b.CreateSlot("a")
	w.follow("a", "b")
	w.start(t, "a", true)
	if a.Last().Has(1) || a.Timeline() != b.Timeline() {
		t.Errorf("the copy has what the primary does not have: %s", a)
	}
}

// The recovery that comes before a rewind ends with a checkpoint, which removes WAL that nobody keeps: then the rewind
// does not find the checkpoint that both copies have.
func TestARewindThatRemovesWhatItNeeds(t *testing.T) {
	w := three(t)
	a, b := w.servers["a"], w.servers["b"]
	w.commit(t, "a", 1, pgmodel.LevelOn)
	_ = a.SwitchSegment()
	w.commit(t, "a", 2, pgmodel.LevelOn)
	w.follow("b", "")
	w.commit(t, "a", 3, pgmodel.LevelLocal)
	a.Disk.Slots = map[string]*pgmodel.Slot{}
	a.Kill()
	_ = b.Promote()
	w.settle(time.Second)
	if _, err := a.Rewind(b); !errors.Is(err, pgmodel.ErrLogMissing) {
		t.Errorf("rewound: %v", err)
	}
}

// A wait that was cancelled leaves the write visible on the primary alone; a stop in order breaks the connection.
func TestCancelledWaits(t *testing.T) {
	w := three(t)
	a := w.servers["a"]
	w.follow("b", "")
	w.follow("c", "")
	first, second := w.commit(t, "a", 1, pgmodel.LevelOn), w.commit(t, "a", 2, pgmodel.LevelOn)
	if len(a.Visible()) != 0 {
		t.Errorf("visible before: %v", a.Visible())
	}
	a.Cancel(first, false)
	if first.Result != pgmodel.Cancelled || len(a.Visible()) != 1 {
		t.Errorf("%s, visible %v", first.Result, a.Visible())
	}
	_ = a.Stop(pgmodel.Fast)
	w.settle(time.Second)
	if second.Result != pgmodel.Broken || a.Running() {
		t.Errorf("%s, running %t", second.Result, a.Running())
	}
}

// A commit that does not wait for its flush is told of before it is written: it is gone with the process, and with the
// power.
func TestPowerLoss(t *testing.T) {
	for _, power := range []bool{false, true} {
		w := three(t)
		a := w.servers["a"]
		a.NoFlush = true
		commit, _ := a.Begin(1, pgmodel.LevelOff, nil)
		if commit.Result != pgmodel.Acknowledged {
			t.Fatalf("%s", commit.Result)
		}
		if power {
			a.PowerOff()
		} else {
			a.Kill()
		}
		if a.Disk.End().Has(1) {
			t.Errorf("power %t: a write that nobody has flushed is there", power)
		}
	}
}

// Log that no slot keeps is removed by a checkpoint, and a standby that needs it says so.
func TestRemovedLog(t *testing.T) {
	w := three(t)
	a, c := w.servers["a"], w.servers["c"]
	_ = c.Stop(pgmodel.Fast)
	w.settle(time.Second)
	a.DropSlot("c")
	for id := range 3 {
		w.commit(t, "a", id+1, pgmodel.LevelOn)
		_ = a.SwitchSegment()
	}
	_ = a.Checkpoint(nil)
	w.settle(time.Second)
	a.CreateSlot("c")
	w.start(t, "c", true)
	if c.Trouble != pgmodel.TroubleRemoved {
		t.Errorf("trouble %q", c.Trouble)
	}
}

// A standby that starts while a transaction with many subtransactions is open streams and lets nobody in, until the
// primary tells of running transactions after its end, or the standby is promoted.
func TestASilentStandby(t *testing.T) {
	for _, promotes := range []bool{false, true} {
		w := three(t)
		a, b := w.servers["a"], w.servers["b"]
		open, err := a.OpenLong()
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Checkpoint(nil)
		w.settle(time.Second)
		_ = b.Stop(pgmodel.Fast)
		w.settle(time.Second)
		_ = b.Start()
		w.commit(t, "a", 1, pgmodel.LevelOn)
		w.settle(time.Minute)
		if !b.Silent() || b.Answers() == nil || !b.Streams() || !b.Last().Has(1) {
			t.Fatalf("it is silent %t, answers %v, streams %t", b.Silent(), b.Answers(), b.Streams())
		}
		if promotes {
			a.Kill()
			_ = b.Promote()
		} else if over, err := a.CommitLong(open, 2, pgmodel.LevelOn, nil); over || err != nil {
			t.Fatalf("the commit: over %t, %v", over, err)
		}
		w.settle(time.Minute)
		if leads := b.Mode == pgmodel.Primary; b.Answers() != nil || leads != promotes || !b.Last().Has(1) {
			t.Errorf("it answers %v, and is a %s", b.Answers(), b.Mode)
		}
	}
}
