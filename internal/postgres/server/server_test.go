package server_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/wire"
)

func TestParseControl(t *testing.T) {
	const good = `pg_control version number:            1700
Database system identifier:           7401234567890123456
Database cluster state:               in production
Latest checkpoint's TimeLineID:       3
Latest checkpoint's PrevTimeLineID:   2
`
	identifier, timeline, state, err := server.ParseControl([]byte(good))
	if identifier != "7401234567890123456" || timeline != 3 || state != "in production" || err != nil {
		t.Errorf("%s, %d, %s, %v", identifier, timeline, state, err)
	}
	const rewound = good + "Minimum recovery ending location:     1/3000060\n"
	if consistent, err := server.Consistent([]byte(rewound)); consistent != 1<<32+0x3000060 || err != nil {
		t.Errorf("consistent at %x, %v", consistent, err)
	}
	for name, output := range map[string]string{
		"no position":      strings.Replace(rewound, "1/3000060", "x", 1),
		"a wrong checksum": "WARNING: Calculated CRC checksum does not match value stored in file.\n" + good,
		"a missing line":   strings.Replace(good, "Database cluster state", "Else", 1),
		"no number":        strings.Replace(good, "       3\n", "       x\n", 1),
	} {
		if _, _, _, err := server.ParseControl([]byte(output)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestMajorOf(t *testing.T) {
	for output, want := range map[string]int{
		"postgres (PostgreSQL) 17.6 (Debian 17.6-1)\n": 17, "postgres (PostgreSQL) 18beta1\n": 18, "postgres 17\n": 0, "": 0,
	} {
		if got, err := server.MajorOf(output); got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", output, got, err)
		}
	}
}

func TestInitdbArguments(t *testing.T) {
	for major, builtin := range map[int]bool{15: false, 16: false, 17: true, 18: true} {
		arguments := server.InitArgs(postgres.Initialise{Major: major})
		has := func(argument string) bool { return slices.Contains(arguments, argument) }
		if has("--builtin-locale=C.UTF-8") != builtin || !has("--data-checksums") {
			t.Errorf("version %d: %v", major, arguments)
		}
	}
}

func TestDisk(t *testing.T) {
	folder := t.TempDir()
	disk := &server.Disk{Folder: folder}
	volume, data := disk.Look(t.Context())
	empty := postgres.Volume{Lock: postgres.LockFree, Room: volume.Room}
	room := volume.Room
	if room.Size == 0 || room.Free == 0 || room.Free > room.Size || room.LogSize > 0 || room.Reserve > 0 {
		t.Errorf("room %+v", room)
	}
	if diff := cmp.Diff(empty, volume); diff != "" || data.Presence != postgres.DataAbsent {
		t.Errorf("an empty volume: data %s (-want +got):\n%s", data.Presence, diff)
	}
	if err := disk.RemovePIDFile(); err == nil {
		t.Error("postmaster.pid was removed without the lock")
	}
	if err := disk.Initialise(t.Context(), postgres.Initialise{}); err == nil {
		t.Error("initialised without the lock")
	}
	if err := disk.Lock(); err != nil {
		t.Fatal(err)
	}
	other := &server.Disk{Folder: folder}
	if volume, _ := other.Look(t.Context()); volume.Lock != postgres.LockOthers {
		t.Errorf("the other one sees the lock as %s", volume.Lock)
	}
	if err := other.Lock(); err == nil {
		t.Error("two have the lock")
	}
	record := postgres.Record{Version: 1, DatabaseUID: "u", Incarnation: "i", InProgress: postgres.StepInitialise}
	if err := disk.WriteRecord(record); err != nil {
		t.Fatal(err)
	}
	volume, _ = disk.Look(t.Context())
	want := postgres.Volume{Lock: postgres.LockOurs, Record: &record, Room: volume.Room}
	if diff := cmp.Diff(want, volume); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

// The reserve takes real blocks, and gives them back: by itself, or when a write finds no room.
func TestReserveOfRoom(t *testing.T) {
	folder := t.TempDir()
	disk := &server.Disk{Folder: folder}
	if err := disk.KeepReserve(); err != nil {
		t.Fatal(err)
	}
	if volume, _ := disk.Look(t.Context()); volume.Room.Reserve < postgres.ReserveSize {
		t.Errorf("the reserve has %d bytes", volume.Room.Reserve)
	}
	tries := 0
	err := server.WithReserve(folder, func() error {
		if tries++; tries == 1 {
			return fmt.Errorf("write: %w", syscall.ENOSPC)
		}
		return nil
	})
	if volume, _ := disk.Look(t.Context()); err != nil || tries != 2 || volume.Room.Reserve > 0 {
		t.Errorf("error %v after %d tries, room %+v", err, tries, volume.Room)
	}
	// Without a reserve, and for any other error, there is one try.
	for _, problem := range []error{syscall.ENOSPC, syscall.EIO} {
		tries = 0
		err := server.WithReserve(folder, func() error { tries++; return problem })
		if !errors.Is(err, problem) || tries != 1 {
			t.Errorf("error %v after %d tries", err, tries)
		}
	}
	if err := disk.SpendReserve(); err != nil {
		t.Errorf("spending nothing: %v", err)
	}
}

func folder(name string) func(string) error {
	return func(volume string) error { return os.Mkdir(filepath.Join(volume, name), 0o700) }
}

func file(name, content string) func(string) error {
	return func(volume string) error {
		path := filepath.Join(volume, name)
		return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600))
	}
}

func link(volume string) error { return os.Symlink("/tmp", filepath.Join(volume, "pgdata")) }

// A server that was killed with its container leaves two files that name its process. In the next container that number
// may be anyone's, and PostgreSQL would not start.
func TestFilesOfAServerThatIsNoMore(t *testing.T) {
	folder, lock := t.TempDir(), filepath.Join(t.TempDir(), ".s.PGSQL.5432.lock")
	err := errors.Join(file("pgdata/PG_VERSION", "17\n")(folder), os.WriteFile(lock, []byte("1\n"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	disk := &server.Disk{Folder: folder, SocketLock: lock}
	if _, data := disk.Look(t.Context()); !data.PIDFile {
		t.Error("the lock of the socket is not noticed")
	}
	if err := errors.Join(disk.Lock(), disk.RemovePIDFile()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock of the socket is still there: %v", err)
	}
}

// What is in the place of the data directory is told apart, and what cannot be read is not taken for absent.
func TestDiskTellsDamageFromAbsence(t *testing.T) {
	for name, test := range map[string]struct {
		make    func(folder string) error
		want    postgres.Presence
		problem bool
	}{
		"a file":            {file("pgdata", ""), postgres.DataOtherwise, false},
		"a link":            {link, postgres.DataOtherwise, false},
		"empty":             {folder("pgdata"), postgres.DataDamaged, false},
		"a strange version": {file("pgdata/PG_VERSION", "x"), postgres.DataDamaged, false},
		"no control file":   {file("pgdata/PG_VERSION", "17\n"), postgres.DataDamaged, false},
		"a spoilt record":   {file("agent.json", "{"), postgres.DataAbsent, true},
		"an empty record":   {file("agent.json", ""), postgres.DataAbsent, true},
		"no volume at all":  {os.Remove, postgres.DataAbsent, true},
		"a folder for it":   {folder("agent.json"), postgres.DataAbsent, true},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := test.make(folder); err != nil {
				t.Fatal(err)
			}
			volume, data := (&server.Disk{Folder: folder}).Look(t.Context())
			if data.Presence != test.want || (volume.Problem != "") != test.problem {
				t.Errorf("presence %s, problem %q", data.Presence, volume.Problem)
			}
		})
	}
}

func TestDurableWriteLeavesNoDraft(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	for _, content := range []string{"one", "two"} {
		if err := server.Durable(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); string(got) != content || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	entries, err := os.ReadDir(folder)
	if len(entries) != 1 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
}

func TestPassword(t *testing.T) {
	folder := t.TempDir()
	mounts := &server.Mounts{AppFolder: folder}
	for content, want := range map[string]bool{"good one": true, "": false, "new\nline": false, "é": false} {
		if err := os.WriteFile(filepath.Join(folder, "password"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := mounts.Logins(); (err == nil) != want || want && got.Present.Password != content {
			t.Errorf("%q: %+v, %v", content, got, err)
		}
	}
}

// A Secret of before has neither a name that counts nor a number. One that makes the next login ready has all of both,
// or is not used.
func TestLogins(t *testing.T) {
	folder := t.TempDir()
	mounts := &server.Mounts{AppFolder: folder}
	write := func(key, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, key), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("password", "one")
	write("username", "geo")
	want := postgres.Logins{Present: postgres.Login{Name: "geo", Password: "one"}}
	if got, err := mounts.Logins(); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	write("next-rotation", "12")
	write("next-username", wire.OtherLogin)
	if got, err := mounts.Logins(); err == nil {
		t.Errorf("a login without a password is taken: %+v", got)
	}
	write("next-password", "two")
	next := postgres.Login{Name: wire.OtherLogin, Password: "two", Rotation: 12}
	got, err := mounts.Logins()
	if err != nil || got.Next == nil || *got.Next != next || got.Present != want.Present || got.Latest() != next {
		t.Errorf("%+v, %v, want the next login %+v", got, err, next)
	}
	if named := got.Named("geo"); named.Next == nil || named.Present.Name != "geo" {
		t.Errorf("%+v", named)
	}
	if named := (postgres.Logins{Present: next, Next: &next}).Named("geo"); named.Next != nil {
		t.Errorf("a login takes turns with itself: %+v", named)
	}
}
