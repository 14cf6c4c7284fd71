//go:build cluster

package pgmodel_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"meridian.dev/meridian/test/sim/pgmodel"
)

var (
	sequences = flag.Int("sequences", 30, "how many sequences are run against each version")
	from      = flag.Uint64("from", 1, "the seed of the first one")
	again     = flag.Uint64("again", 1, "how often each sequence is run, for one that may not be steady")
	steps     = flag.Int("steps", 14, "how many operations a sequence has")
	workers   = flag.Int("workers", 2, "how many sequences run at once")
)

// act is one operation: what it is called, and what it does in both, with how each ended.
type act struct {
	name string
	run  func() (model, actual string)
}

func (b *pair) choose(random *rand.Rand) act {
	for {
		name := names[random.IntN(len(names))]
		s := b.model.servers[name]
		var chosen act
		switch {
		case s.Disk != nil && !s.Running():
			chosen = b.whileDown(random, name)
		case s.Mode == pgmodel.Primary:
			chosen = b.onPrimary(random, name)
		case s.Mode == pgmodel.Standby:
			chosen = b.onStandby(random, name)
		default:
			chosen = b.whileClosed(random, name)
		}
		if chosen.run != nil {
			return chosen
		}
	}
}

// other is another server than this.
func other(random *rand.Rand, name string) string {
	for {
		if found := names[random.IntN(len(names))]; found != name {
			return found
		}
	}
}

func (b *pair) whileDown(random *rand.Rand, name string) act {
	s := b.model.servers[name]
	up := other(random, name)
	switch pick := random.IntN(10); {
	case pick < 5:
		standby := s.Disk.Standby || random.IntN(3) > 0
		return act{fmt.Sprintf("start %s standby=%t", name, standby), func() (string, string) {
			return b.start(name, standby)
		}}
	case pick < 7 && b.model.servers[up].Mode == pgmodel.Primary && b.spares(name):
		return act{"rewind " + name + " to " + up, func() (string, string) { return b.rewind(name, up) }}
	case pick < 8 && b.model.servers[up].Mode == pgmodel.Primary && b.spares(name) &&
		!b.model.servers[up].NoCheckpoint:
		return act{"clone " + name + " from " + up, func() (string, string) {
			return b.cloneAndCheckpoint(name, up)
		}}
	case pick < 9:
		return b.following(random, name, up)
	}
	return act{}
}

// spares says that the copy may be made anew: nobody streams to or from it, and no cut is in the way.
func (b *pair) spares(name string) bool {
	for pairing, cut := range b.model.cut {
		if cut && slices.Contains(pairing[:], name) {
			return false
		}
	}
	return true
}

func (b *pair) start(name string, standby bool) (model, actual string) {
	s := b.model.servers[name]
	s.Disk.Standby = standby
	if standby {
		s.Disk.Log.DropPlaceholders()
		b.real[name].dropPlaceholders()
	}
	if err := s.Start(); err != nil {
		model = err.Error()
	}
	if err := b.real[name].start(standby); err != nil {
		actual = err.Error()
	}
	return model, actual
}

// following points a standby at another server, by its slot or without.
func (b *pair) following(random *rand.Rand, name, up string) act {
	slot, alias := "", name
	switch random.IntN(4) {
	case 0:
		alias = "x" + name
	case 1:
		slot = name
	default:
		slot = name
		if !b.model.servers[up].Running() || b.model.servers[up].Disk.Slots[name] == nil {
			slot = ""
		}
	}
	return act{fmt.Sprintf("follow %s to %s as %s slot %q", name, up, alias, slot), func() (string, string) {
		return b.change(name, func(conf *pgmodel.Conf) { conf.Upstream, conf.Name, conf.Slot = up, alias, slot })
	}}
}

// change changes the configuration and reloads it.
func (b *pair) change(name string, change func(*pgmodel.Conf)) (model, actual string) {
	if err := b.configure(name, change); err != nil {
		return "", err.Error()
	}
	_ = b.model.servers[name].Reload()
	b.real[name].reload()
	return "", ""
}

func (b *pair) onPrimary(random *rand.Rand, name string) act {
	s := b.model.servers[name]
	switch pick := random.IntN(26); {
	case pick < 8:
		level := pgmodel.Levels[random.IntN(len(pgmodel.Levels))]
		if random.IntN(2) == 0 {
			level = pgmodel.LevelOn
		}
		return act{fmt.Sprintf("commit on %s %s", name, level), func() (string, string) { return b.commit(name, level) }}
	case pick < 10:
		return act{"checkpoint " + name, func() (string, string) { return b.checkpoint(name) }}
	case pick < 12:
		return act{"switch segment of " + name, func() (string, string) { return b.leaveSegment(name) }}
	case pick < 15:
		return b.quorum(random, name)
	case pick < 17:
		how := []pgmodel.How{pgmodel.Fast, pgmodel.Immediate, pgmodel.Fast}[random.IntN(3)]
		return act{fmt.Sprintf("stop %s %s", name, how), func() (string, string) { return b.stop(name, how), "" }}
	case pick < 19:
		return act{"kill " + name, func() (string, string) { s.Kill(); b.real[name].kill(); return "", "" }}
	case pick < 20:
		return act{"hold checkpoints of " + name, func() (string, string) { return b.hold(name) }}
	case pick < 22:
		return b.keeping(random, name)
	case pick < 24:
		return b.waitEnds(random)
	}
	return b.cutting(random, name)
}

func (b *pair) onStandby(random *rand.Rand, name string) act {
	s := b.model.servers[name]
	switch pick := random.IntN(22); {
	case pick < 5:
		return b.following(random, name, other(random, name))
	case pick < 6:
		return act{"follow nobody " + name, func() (string, string) {
			return b.change(name, func(conf *pgmodel.Conf) { conf.Upstream = "" })
		}}
	case pick < 9:
		return act{"promote " + name, func() (string, string) { return b.promote(name) }}
	case pick < 11:
		how := []pgmodel.How{pgmodel.Fast, pgmodel.Immediate, pgmodel.Smart}[random.IntN(3)]
		return act{fmt.Sprintf("stop %s %s", name, how), func() (string, string) { return b.stop(name, how), "" }}
	case pick < 13:
		return act{"kill " + name, func() (string, string) { s.Kill(); b.real[name].kill(); return "", "" }}
	case pick < 14:
		return act{"commit on standby " + name, func() (string, string) { return b.commit(name, pgmodel.LevelOn) }}
	case pick < 15:
		return act{"restartpoint " + name, func() (string, string) { return b.checkpoint(name) }}
	case pick < 17:
		return act{"pause or resume replay of " + name, func() (string, string) { return b.pause(name) }}
	case pick < 18 && !s.NoCheckpoint:
		return act{"hold checkpoints of " + name, func() (string, string) { return b.hold(name) }}
	}
	return b.cutting(random, name)
}

func (b *pair) whileClosed(random *rand.Rand, name string) act {
	s := b.model.servers[name]
	switch pick := random.IntN(4); {
	case s.NoCheckpoint && pick < 2:
		return act{"let checkpoints of " + name + " go on", func() (string, string) { return b.hold(name) }}
	case pick == 2:
		return act{"kill " + name, func() (string, string) { s.Kill(); b.real[name].kill(); return "", "" }}
	}
	return b.cutting(random, name)
}

// quorum sets synchronous_standby_names.
func (b *pair) quorum(random *rand.Rand, name string) act {
	var sync pgmodel.Sync
	for _, each := range names {
		if each != name && random.IntN(4) > 0 {
			sync.Names = append(sync.Names, each)
		}
	}
	if len(sync.Names) > 0 {
		sync.K = 1 + random.IntN(len(sync.Names))
	}
	return act{fmt.Sprintf("quorum of %s %d of %v", name, sync.K, sync.Names), func() (string, string) {
		return b.change(name, func(conf *pgmodel.Conf) { conf.Sync = sync })
	}}
}

func (b *pair) keeping(random *rand.Rand, name string) act {
	slot := other(random, name)
	s := b.model.servers[name]
	if found := s.Disk.Slots[slot]; found == nil {
		return act{"create slot " + slot + " on " + name, func() (string, string) {
			_, err := b.real[name].query(fmt.Sprintf("select pg_create_physical_replication_slot('%s', true)", slot))
			return fmt.Sprint(s.CreateSlot(slot)), fmt.Sprint(err == nil)
		}}
	}
	if slices.Contains(b.unstable(), slot) {
		return act{}
	}
	return act{"drop slot " + slot + " of " + name, func() (string, string) {
		_, err := b.real[name].query(fmt.Sprintf("select pg_drop_replication_slot('%s')", slot))
		return fmt.Sprint(s.DropSlot(slot)), fmt.Sprint(err == nil)
	}}
}

func (b *pair) waitEnds(random *rand.Rand) act {
	for _, commit := range b.commits {
		if commit.model.Result == pgmodel.Waiting {
			terminate := random.IntN(2) == 0
			return act{fmt.Sprintf("cancel commit %d terminate=%t", commit.id, terminate), func() (string, string) {
				b.cancel(commit, terminate)
				return "", ""
			}}
		}
	}
	return act{}
}

// cutting cuts what a standby has with another, lets it stall, or heals it.
func (b *pair) cutting(random *rand.Rand, name string) act {
	up := other(random, name)
	own, theirs := b.real[name].proxy[up], b.real[up].proxy[name]
	one, two := b.model.servers[name], b.model.servers[up]
	there, back := [2]string{up, name}, [2]string{name, up}
	switch {
	case b.model.cut[there] || b.model.cut[back]:
		return act{"heal " + name + " with " + up, func() (string, string) {
			b.model.cut[there], b.model.cut[back] = false, false
			one.NetworkChanged()
			two.NetworkChanged()
			own.set(false)
			theirs.set(false)
			return "", ""
		}}
	case random.IntN(2) == 0:
		return act{"cut " + name + " from " + up, func() (string, string) {
			b.model.cut[there], b.model.cut[back] = true, true
			one.Reset(two)
			two.Reset(one)
			own.set(true)
			theirs.set(true)
			return "", ""
		}}
	}
	return act{"stall " + name + " from " + up, func() (string, string) {
		b.model.cut[there] = true
		one.NetworkChanged()
		two.NetworkChanged()
		own.stall(true)
		theirs.stall(false)
		return "", ""
	}}
}

func (b *pair) commit(name string, level pgmodel.Level) (model, actual string) {
	b.ids++
	id := b.ids
	made, err := b.model.servers[name].Begin(id, level, nil)
	begun, realErr := b.real[name].begin(id, level)
	if err == nil && realErr == nil {
		b.commits = append(b.commits, &commitPair{id, name, made, begun})
		if level == pgmodel.LevelOff {
			b.flushed(name)
		}
	}
	return class(err), class(realErr)
}

func (b *pair) checkpoint(name string) (model, actual string) {
	s := b.model.servers[name]
	if s.NoCheckpoint {
		return "", ""
	}
	_, err := b.real[name].query("checkpoint")
	return class(s.Checkpoint(nil)), class(err)
}

// leaveSegment writes before and after, so that no server stands where a file ends.
func (b *pair) leaveSegment(name string) (model, actual string) {
	if model, actual = b.commit(name, pgmodel.LevelLocal); model != actual {
		return model, actual
	}
	err := b.model.servers[name].SwitchSegment()
	_, realErr := b.real[name].query("select pg_switch_wal()")
	if class(err) != class(realErr) {
		return class(err), class(realErr)
	}
	return b.commit(name, pgmodel.LevelLocal)
}

func (b *pair) hold(name string) (model, actual string) {
	s := b.model.servers[name]
	hold := !s.NoCheckpoint
	s.HoldCheckpoints(hold)
	if err := b.real[name].holdCheckpoints(hold); err != nil {
		return "", err.Error()
	}
	return "", ""
}

func (b *pair) pause(name string) (model, actual string) {
	s := b.model.servers[name]
	function := "pg_wal_replay_pause"
	if s.Paused {
		function = "pg_wal_replay_resume"
	}
	s.Pause(!s.Paused)
	_, err := b.real[name].query("select " + function + "()")
	return "", class(err)
}

// promote takes a timeline that nobody has, as agents do.
func (b *pair) promote(name string) (model, actual string) {
	b.lines++
	s := b.model.servers[name]
	s.Disk.Log.Reserve(b.lines)
	if err := b.real[name].reserve(b.lines); err != nil {
		return "", err.Error()
	}
	_ = s.Promote()
	if err := b.real[name].promote(); err != nil {
		return "", err.Error()
	}
	return "", ""
}

func (b *pair) sequence(random *rand.Rand, count int) error {
	for _, name := range names {
		b.trace = append(b.trace, "start "+name)
		if model, actual := b.start(name, name != "a"); model != actual {
			return fmt.Errorf("model %q, real %q", model, actual)
		}
	}
	if err := b.agree(); err != nil {
		return err
	}
	for range count {
		next := b.choose(random)
		b.trace = append(b.trace, next.name)
		if model, actual := next.run(); model != actual {
			return fmt.Errorf("model %q, real %q", model, actual)
		}
		if err := b.agree(); err != nil {
			return err
		}
	}
	return nil
}

// found are the versions of PostgreSQL on this machine.
func found(t *testing.T) []programs {
	t.Helper()
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	var all []programs
	for _, folder := range folders {
		var major int
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(folder)), "%d", &major); err == nil {
			all = append(all, programs{folder: folder, major: major})
		}
	}
	return all
}

// TestFidelity does the same to the model and to real servers: what a client or an agent can see must agree.
func TestFidelity(t *testing.T) {
	all := found(t)
	if len(all) == 0 {
		t.Skip("there is no PostgreSQL in /usr/lib/postgresql")
	}
	for _, p := range all {
		t.Run(fmt.Sprint(p.major), func(t *testing.T) { fidelity(t, p) })
	}
}

// scratch is a folder in memory, if that can be: each sequence copies three servers.
func scratch(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("/dev/shm", "pgf")
	if err != nil {
		folder, err = os.MkdirTemp("", "pgf")
	}
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	must(t, os.Chmod(folder, 0o755))
	return folder
}

func fidelity(t *testing.T, p programs) {
	folder := scratch(t)
	template := filepath.Join(folder, "t")
	must(t, makeTemplate(p, template))
	var next, done atomic.Uint64
	var group sync.WaitGroup
	for range *workers {
		group.Go(func() {
			for !t.Failed() {
				number := next.Add(1)
				if number > uint64(*sequences)**again {
					return
				}
				seed := *from + (number-1) / *again
				done.Add(one(t, p, template, filepath.Join(folder, fmt.Sprint(number)), seed))
			}
		})
	}
	group.Wait()
	t.Logf("PostgreSQL %d: %d sequences, %d operations", p.major, min(next.Load(), uint64(*sequences)**again),
		done.Load())
}

// one runs one sequence, and returns how many operations it had.
func one(t *testing.T, p programs, template, folder string, seed uint64) uint64 {
	defer func() { _ = os.RemoveAll(folder) }()
	must(t, os.Mkdir(folder, 0o755))
	both, err := newPair(p, template, folder, seed)
	if err != nil {
		t.Errorf("seed %d: %v", seed, err)
		return 0
	}
	defer both.close()
	random := rand.New(rand.NewPCG(seed, 7))
	if err := both.sequence(random, *steps); err != nil {
		var logs strings.Builder
		for _, name := range names {
			text, _ := os.ReadFile(filepath.Join(folder, name, "log"))
			logs.WriteString("log of " + name + ":\n" + tail(string(text), 12) + "\n")
		}
		t.Errorf("seed %d: after\n  %s\n%v\n%s", seed, strings.Join(both.trace, "\n  "), err, logs.String())
	}
	return uint64(len(both.trace))
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
