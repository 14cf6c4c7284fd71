package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/kit/supervise"
)

// split is an instance whose log has a volume of its own. Its programs are stand-ins that make what the real ones make
// and the agent looks at.
type split struct {
	data, log string
	disk      *server.Disk
	copies    *server.Copies
}

// The stand-in for initdb and pg_basebackup takes the arguments that the real ones take.
const standIn = `#!/bin/sh
for word in "$@"; do
  case $word in
    --pgdata=*) data=${word#--pgdata=} ;;
    --waldir=*) log=${word#--waldir=} ;;
  esac
done
mkdir "$data" "$data/global" "$log" || exit 1
echo 17 > "$data/PG_VERSION"
echo > "$data/global/pg_control"
echo log > "$log/000000010000000000000001"
ln -s "$log" "$data/pg_wal"
`

const controlStandIn = `#!/bin/sh
echo 'Database system identifier: 7401'
echo 'Database cluster state: shut down'
echo "Latest checkpoint's TimeLineID: 1"
`

func newSplit(t *testing.T) split {
	t.Helper()
	programs, made := t.TempDir(), split{data: t.TempDir(), log: t.TempDir()}
	for name, text := range map[string]string{
		"initdb": standIn, "pg_basebackup": standIn, "pg_controldata": controlStandIn,
	} {
		must(t, os.WriteFile(filepath.Join(programs, name), []byte(text), 0o700))
	}
	must(t, os.Mkdir(filepath.Join(made.log, "lost+found"), 0o700))
	supervisor, err := supervise.New()
	must(t, err)
	t.Cleanup(supervisor.Close)
	env := []string{"PATH=" + programs + ":/usr/bin:/bin"}
	made.disk = &server.Disk{Folder: made.data, Log: made.log, Supervisor: supervisor, Env: env}
	made.copies = &server.Copies{Folder: made.data, Log: made.log, Supervisor: supervisor, Env: env}
	must(t, made.disk.Lock())
	t.Cleanup(made.disk.Unlock)
	return made
}

func (s split) record(t *testing.T, step postgres.Step, incarnation string) {
	t.Helper()
	record := postgres.Record{DatabaseUID: "u1", Incarnation: incarnation, InProgress: step}
	if step == "" || step == postgres.StepRewind {
		record.SystemIdentifier = "7401"
	}
	must(t, s.disk.WriteRecord(record))
}

func (s split) initialise(t *testing.T) {
	t.Helper()
	s.record(t, postgres.StepInitialise, "i1")
	must(t, s.disk.Initialise(t.Context(), postgres.Initialise{Major: 17}))
	s.record(t, "", "i1")
}

func (s split) look(t *testing.T) (postgres.Volume, postgres.Data) {
	t.Helper()
	volume, data := s.disk.Look(t.Context())
	if volume.Problem != "" {
		t.Fatalf("the volume: %s", volume.Problem)
	}
	return volume, data
}

func TestLogVolumeOfItsOwn(t *testing.T) {
	s := newSplit(t)
	s.initialise(t)
	volume, data := s.look(t)
	if data.Presence != postgres.DataPresent || volume.Log.Incarnation != "i1" || volume.Log.DatabaseUID != "u1" {
		t.Fatalf("after initdb: %+v, log %+v", data, volume.Log)
	}
	target, err := os.Readlink(filepath.Join(s.data, "pgdata", "pg_wal"))
	if err != nil || target != filepath.Join(s.log, "pg_wal") {
		t.Errorf("pg_wal leads to %q: %v", target, err)
	}
	// The copy is replaced by a clone, and its log with it.
	s.record(t, postgres.StepDiscard, "i1")
	must(t, s.copies.Discard(t.Context()))
	if _, err := os.Lstat(filepath.Join(s.log, "pg_wal")); err == nil {
		t.Error("the log outlives its copy")
	}
	s.record(t, postgres.StepClone, "i2")
	must(t, s.copies.Clone(t.Context(), postgres.Source{Host: "cities-1", Instance: "cities-2"}, nil))
	if volume, data := s.look(t); data.Presence != postgres.DataPresent || volume.Log.Incarnation != "i2" {
		t.Fatalf("after a clone: %+v, log %+v", data, volume.Log)
	}
}

// Data without its own log is no copy, however the log was lost.
func TestDataWithoutItsLog(t *testing.T) {
	for name, test := range map[string]struct {
		harm func(*testing.T, split)
		want string
	}{
		"volume emptied": {func(t *testing.T, s split) {
			must(t, os.RemoveAll(filepath.Join(s.log, "pg_wal")))
			must(t, os.Remove(filepath.Join(s.log, "agent.json")))
		}, "is empty"},
		"log of another copy": {func(t *testing.T, s split) { s.record(t, "", "i9") }, "of another copy"},
		"log removed": {func(t *testing.T, s split) {
			must(t, os.RemoveAll(filepath.Join(s.log, "pg_wal")))
		}, "no log any more"},
		"mark removed": {func(t *testing.T, s split) {
			must(t, os.Remove(filepath.Join(s.log, "agent.json")))
		}, "is empty"},
		"link removed": {func(t *testing.T, s split) {
			must(t, os.Remove(filepath.Join(s.data, "pgdata", "pg_wal")))
		}, "no pg_wal"},
		"link elsewhere": {func(t *testing.T, s split) {
			link := filepath.Join(s.data, "pgdata", "pg_wal")
			must(t, os.Remove(link))
			must(t, os.Symlink(t.TempDir(), link))
		}, "does not lead"},
		"volume not mounted": {func(_ *testing.T, s split) { s.disk.Log = "" }, "does not have"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSplit(t)
			s.initialise(t)
			test.harm(t, s)
			if _, data := s.look(t); data.Presence != postgres.DataDamaged || !strings.Contains(data.Problem, test.want) {
				t.Errorf("presence %s, problem %q, want %q", data.Presence, data.Problem, test.want)
			}
		})
	}
}

// An agent may end between any two steps: what it finds then is a copy with its log, or one that is made anew.
func TestCrashWhileALogIsMade(t *testing.T) {
	s := newSplit(t)
	s.record(t, postgres.StepInitialise, "i1")
	must(t, os.Mkdir(filepath.Join(s.data, "pgdata.new"), 0o700))
	must(t, os.WriteFile(filepath.Join(s.log, "agent.json"), []byte(`{"databaseUID":"u1","incarnation":"i0"}`), 0o600))
	must(t, os.Mkdir(filepath.Join(s.log, "pg_wal"), 0o700))
	must(t, s.disk.Initialise(t.Context(), postgres.Initialise{Major: 17}))
	if volume, data := s.look(t); data.Presence != postgres.DataPresent || volume.Log.Incarnation != "i1" {
		t.Errorf("after a second try: %+v, log %+v", data, volume.Log)
	}
	// A removal that was broken off after the log was gone goes on.
	s.record(t, postgres.StepDiscard, "i1")
	must(t, os.RemoveAll(filepath.Join(s.log, "pg_wal")))
	if _, data := s.look(t); data.Presence != postgres.DataPresent {
		t.Errorf("in the middle of a removal: %+v", data)
	}
	must(t, s.copies.Discard(t.Context()))
	if _, data := s.look(t); data.Presence != postgres.DataAbsent {
		t.Errorf("after a removal: %+v", data)
	}
}

func TestLogOfOthersIsLeftAlone(t *testing.T) {
	for name, mark := range map[string]string{
		"another database": `{"databaseUID":"u2","incarnation":"i1"}`, "nobody": "",
	} {
		t.Run(name, func(t *testing.T) {
			s := newSplit(t)
			s.record(t, postgres.StepClone, "i2")
			must(t, os.Mkdir(filepath.Join(s.log, "pg_wal"), 0o700))
			if mark != "" {
				must(t, os.WriteFile(filepath.Join(s.log, "agent.json"), []byte(mark), 0o600))
			}
			if err := s.copies.Clone(t.Context(), postgres.Source{Instance: "cities-2"}, nil); err == nil {
				t.Error("it was cloned over")
			}
			if volume, _ := s.look(t); volume.Log.Stray != (mark == "") {
				t.Errorf("stray is %t", volume.Log.Stray)
			}
			if _, err := os.Stat(filepath.Join(s.log, "pg_wal")); err != nil {
				t.Errorf("the log of somebody else: %v", err)
			}
		})
	}
	// A whole copy is no reason to make room either.
	s := newSplit(t)
	s.initialise(t)
	if err := s.disk.Initialise(t.Context(), postgres.Initialise{Major: 17}); err == nil {
		t.Error("a copy was made over a whole one")
	}
	if _, data := s.look(t); data.Presence != postgres.DataPresent {
		t.Errorf("the copy: %+v", data)
	}
}
