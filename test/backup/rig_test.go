//go:build cluster

// Package backup_test backs real PostgreSQL servers up, loses them, and restores them.
package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/base"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/ship"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/postgres/wal"
)

// PostgreSQL does not run as root, so the test binary runs itself as the user postgres then. It is also the command
// that recovery runs for each file.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "fetch" {
		os.Exit(restore.Fetch(os.Args[2], os.Args[3], os.Args[4]))
	}
	if os.Getuid() != 0 {
		os.Exit(m.Run())
	}
	os.Exit(asPostgres())
}

func asPostgres() int {
	account, err := user.Lookup("postgres")
	if err != nil {
		fmt.Println("PostgreSQL does not run as root, and there is no user postgres:", err)
		return 1
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	folder, err := os.MkdirTemp("", "mb-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	content, err := os.ReadFile("/proc/self/exe")
	if err != nil || os.Chown(folder, uid, gid) != nil ||
		os.WriteFile(filepath.Join(folder, "test"), content, 0o755) != nil {
		fmt.Println("cannot copy the test binary", err)
		return 1
	}
	command := exec.Command(filepath.Join(folder, "test"), os.Args[1:]...)
	command.Stdout, command.Stderr, command.Dir = os.Stdout, os.Stderr, folder
	page, _ := os.ReadFile(pagePath)
	command.Env = append(os.Environ(), "TMPDIR="+folder, "HOME="+folder, pageVariable+"="+string(page))
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if err := command.Run(); err != nil {
		return 1
	}
	return 0
}

func programs() string {
	if wanted := os.Getenv("MERIDIAN_TEST_POSTGRES"); wanted != "" {
		return wanted
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	if len(found) == 0 {
		return "/usr/bin"
	}
	return found[len(found)-1]
}

var env = []string{
	"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/tmp", "PGUSER=postgres", "PGDATABASE=postgres",
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, program string, arguments ...string) string {
	t.Helper()
	return runIn(t, env, program, arguments...)
}

func runIn(t *testing.T, env []string, program string, arguments ...string) string {
	t.Helper()
	command := exec.Command(filepath.Join(programs(), program), arguments...)
	command.Env = env
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("%s %v: %v\n%s", program, arguments, err, problems.String())
	}
	return strings.TrimSpace(output.String())
}

// server is a real PostgreSQL, which listens on a socket in its own folder alone.
type server struct {
	t            *testing.T
	folder, data string
	term         int64
	shipper      *ship.Shipper
	// clock is how far its clock is off, in the words of libfaketime, empty for not at all.
	clock string
}

func newServer(t *testing.T, data string) *server {
	t.Helper()
	folder, err := os.MkdirTemp("", "s-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &server{t: t, folder: folder, data: data}
	if s.data == "" {
		s.data = filepath.Join(folder, "data")
	}
	return s
}

func (s *server) start() {
	s.t.Helper()
	options := "-c listen_addresses= -c port=5432 -c wal_keep_size=512 -c autovacuum=off -c fsync=off -k " + s.folder
	log := "--log=" + filepath.Join(s.folder, "log")
	environment := env
	if s.clock != "" {
		environment = append(slices.Clone(env), "LD_PRELOAD="+faketime, "FAKETIME="+s.clock, "FAKETIME_DONT_FAKE_MONOTONIC=1")
	}
	runIn(s.t, environment, "pg_ctl", "start", "--wait", "--timeout=300", "--pgdata="+s.data, log, "--options="+options)
	s.t.Cleanup(s.kill)
}

// kill ends it as a loss of power does.
func (s *server) kill() {
	command := exec.Command(filepath.Join(programs(), "pg_ctl"), "stop", "--mode=immediate", "--pgdata="+s.data)
	command.Env = env
	_ = command.Run()
}

func (s *server) sql(text string) string {
	s.t.Helper()
	return run(s.t, "psql", "--no-psqlrc", "-XAt", "-v", "ON_ERROR_STOP=1", "-h", s.folder, "-p", "5432", "-c", text)
}

// clone makes a standby.
func (s *server) clone() *server {
	s.t.Helper()
	return s.cloneAt("")
}

// cloneAt makes one whose clock is off.
func (s *server) cloneAt(clock string) *server {
	s.t.Helper()
	other := newServer(s.t, "")
	other.clock = clock
	run(s.t, "pg_basebackup", "-h", s.folder, "-p", "5432", "-D", other.data, "-R", "-X", "stream", "-c", "fast")
	other.start()
	return other
}

func (s *server) waitFor(question string) {
	s.t.Helper()
	for range 600 {
		if s.sql(question) == "t" {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Fatalf("it never came true: %s", question)
}

// caughtUp waits until a standby has replayed all that this server has.
func (s *server) caughtUp(standby *server) {
	s.t.Helper()
	standby.waitFor("select pg_last_wal_replay_lsn() >= '" + s.sql("select pg_current_wal_flush_lsn()") + "'")
}

func (s *server) promote(term int64) {
	s.t.Helper()
	s.sql("select pg_promote()")
	s.waitFor("select not pg_is_in_recovery()")
	s.term = term
}

// rig is a database with its repository.
type rig struct {
	t     *testing.T
	store store.Folder
	under store.Store // The same, or the same with faults.
	keys  seal.Keys
	key   string
	owner backup.Owner
	reset []string // What is reset of what comes back.
}

func newRig(t *testing.T) (*rig, *server) {
	t.Helper()
	first := newServer(t, "")
	run(t, "initdb", "--data-checksums", "--auth=trust", "--username=postgres", "--no-sync", "--pgdata="+first.data)
	first.term = 1
	first.start()
	key, err := seal.NewKey()
	must(t, err)
	keys, err := seal.ParseKeys(key)
	must(t, err)
	folder, err := os.MkdirTemp("", "r-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	r := &rig{t: t, store: store.Folder{Path: filepath.Join(folder, "bucket")}, keys: keys, key: key}
	must(t, os.Mkdir(r.store.Path, 0o700))
	r.under = r.store
	must(t, store.Contact(context.Background(), r.store, "contact/1"))
	r.owner = backup.Owner{
		DatabaseUID: "u1", Namespace: "prod", Name: "cities", SegmentSize: 16 << 20, Major: 15,
		SystemIdentifier: first.sql("select system_identifier from pg_control_system()"),
	}
	return r, first
}

func (r *rig) repository() *repository.Repository {
	return &repository.Repository{
		Store: r.under, Root: backup.Root("geo", r.owner.Namespace, r.owner.Name, r.owner.DatabaseUID), Keys: r.keys,
	}
}

// facts are what a primary ships by.
func (r *rig) facts(s *server) plan.Facts {
	r.t.Helper()
	answer := strings.Split(s.sql(
		"select pg_current_wal_flush_lsn(), substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"), "|")
	facts := plan.Facts{Owner: r.owner, Term: s.term, Leads: true, Instance: s.folder}
	must(r.t, facts.Flushed.UnmarshalText([]byte(answer[0])))
	timeline, err := strconv.ParseInt(answer[1], 16, 32)
	must(r.t, err)
	facts.History, err = wal.ReadHistory(filepath.Join(s.data, "pg_wal"), int(timeline))
	must(r.t, err)
	return facts
}

// ship ships all that a primary has.
func (r *rig) ship(s *server) ship.Result {
	r.t.Helper()
	folder := filepath.Join(s.data, "pg_wal")
	if s.shipper == nil {
		s.shipper = &ship.Shipper{Repository: r.repository(), Log: ship.Folder{Path: folder, Owner: r.owner}}
	}
	facts := r.facts(s)
	result, err := s.shipper.Pass(context.Background(), facts)
	for must(r.t, err); result.More; must(r.t, err) {
		result, err = s.shipper.Pass(context.Background(), facts)
	}
	if len(result.Holds) > 0 {
		r.t.Fatalf("held: %+v", result.Holds)
	}
	if result.Confirmed != facts.Flushed {
		r.t.Fatalf("%s is confirmed, and %s is flushed", result.Confirmed, facts.Flushed)
	}
	return result
}

// execute runs pg_basebackup.
func execute(ctx context.Context, arguments []string, output *os.File) error {
	command := exec.CommandContext(ctx, filepath.Join(programs(), "pg_basebackup"), arguments...)
	var said bytes.Buffer
	command.Env, command.Stdout, command.Stderr = env, output, &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, said.String())
	}
	return nil
}

// backup takes a base backup of one server while the log comes from another.
func (r *rig) backup(id string, of, primary *server) backup.Backup {
	r.t.Helper()
	ctx := context.Background()
	taken, err := base.Run(ctx, r.repository(), base.Request{
		ID: id, Execute: execute, PartSize: 8 << 20,
		Conninfo: "host=" + of.folder + " port=5432 user=postgres",
	})
	must(r.t, err)
	r.ship(primary)
	history, err := wal.ReadHistory(filepath.Join(of.data, "pg_wal"), taken.Timeline)
	must(r.t, err)
	must(r.t, base.Complete(ctx, r.repository(), history, taken))
	return taken
}

// restore restores into a new server, which is not started yet.
func (r *rig) restore(target plan.Target, waiting func(error)) (*server, restore.Result, error) {
	r.t.Helper()
	restored := newServer(r.t, "")
	work, err := os.MkdirTemp("", "w-")
	must(r.t, err)
	r.t.Cleanup(func() { _ = os.RemoveAll(work) })
	own, err := os.Executable()
	must(r.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	result, err := restore.Run(ctx, restore.Request{
		From: r.repository(), Target: target, Tools: restore.Tools{Folder: programs(), Env: env},
		Data: restored.data, Work: work, FetchCommand: own + " fetch", Waiting: waiting, Reset: r.reset,
	})
	return restored, result, err
}

// rows are what a restored server has.
func (s *server) rows() string {
	s.start()
	return s.sql("select string_agg(word, ' ' order by id) from words")
}
