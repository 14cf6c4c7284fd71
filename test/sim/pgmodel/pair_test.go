//go:build cluster

package pgmodel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"meridian.dev/meridian/test/sim/pgmodel"
)

const (
	segment = 1 << 20
	// ceiling is how long a real server may take to get where the model is.
	ceiling = time.Minute
	// settled is the same for the model, on its own clock.
	settled = 8 * time.Second
)

var names = []string{"a", "b", "c"}

// commitPair is a write of a client, in both.
type commitPair struct {
	id    int
	on    string
	model *pgmodel.Commit
	real  *realCommit
}

// pair is the model and real servers, to which the same is done.
type pair struct {
	p       programs
	model   *world
	real    map[string]*realServer
	commits []*commitPair
	ids     int
	lines   int // Timelines that were given out.
	trace   []string
	folder  string
}

// newPair has three servers of one origin, all down: a leads, b and c follow it with slots.
func newPair(p programs, template, folder string, seed uint64) (*pair, error) {
	both := &pair{p: p, folder: folder, model: newWorld(seed, names...), real: map[string]*realServer{}, lines: 1}
	for _, name := range names {
		home := filepath.Join(folder, name)
		if output, err := exec.Command("cp", "-a", filepath.Join(template, name), home).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w: %s", err, output)
		}
		both.real[name] = &realServer{p: p, name: name, folder: home, port: 5432, proxy: map[string]*proxy{}}
	}
	for _, name := range names {
		for _, to := range names {
			target := both.real[to]
			if name == to {
				continue
			}
			made, err := newProxy(filepath.Join(folder, "p", name+to, ".s.PGSQL.5432"), target.socket)
			if err != nil {
				return nil, err
			}
			both.real[name].proxy[to] = made
		}
	}
	both.begin()
	for _, name := range names {
		if err := both.configure(name, func(*pgmodel.Conf) {}); err != nil {
			return nil, err
		}
	}
	return both, nil
}

// begin brings the model to where the template is.
func (b *pair) begin() {
	a := b.model.servers["a"]
	a.Disk = pgmodel.NewDisk("system", b.p.major, segment)
	a.Disk.Conf.Retry, a.Disk.Conf.Timeout = 100*time.Millisecond, 1000*time.Hour
	_ = a.Start()
	b.model.settle(settled)
	for _, name := range names[1:] {
		s := b.model.servers[name]
		a.CreateSlot(name)
		if err := s.Clone(a); err != nil {
			panic(err)
		}
		s.Disk.Standby = true
		s.Disk.Conf.Upstream, s.Disk.Conf.Name, s.Disk.Conf.Slot = "a", name, name
		_ = s.Start()
	}
	b.model.settle(settled)
	for _, name := range names {
		_ = b.model.servers[name].Stop(pgmodel.Fast)
		b.model.settle(settled)
	}
	for _, name := range names {
		conf := b.model.servers[name].Disk.Conf
		b.real[name].conf = conf
	}
}

func (b *pair) close() {
	for _, s := range b.real {
		s.kill()
		for _, each := range s.proxy {
			_ = each.listener.Close()
			each.set(true)
		}
	}
}

// configure changes the files of a server, in both.
func (b *pair) configure(name string, change func(*pgmodel.Conf)) error {
	conf := b.real[name].conf
	change(&conf)
	b.real[name].conf = conf
	if model := b.model.servers[name]; model.Disk != nil {
		model.Disk.Conf = conf
	}
	return b.real[name].configure()
}

// class says of an error what a client can tell.
func class(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, pgmodel.ErrReadOnly) || strings.Contains(err.Error(), "25006"):
		return "read-only"
	}
	return "not answered"
}

// flaps says that a standby begins to stream again and again, to no avail.
func flaps(s *pgmodel.Server) bool {
	return s.Trouble == pgmodel.TroubleForked || s.Trouble == pgmodel.TroubleNotAChild
}

// sound says that whether a standby streams lasts: while nothing gets through, a receiver may be anywhere between.
func (b *pair) sound(name string) bool {
	s := b.model.servers[name]
	up := s.Conf().Upstream
	return !flaps(s) && b.model.Connected(name, up) && b.model.Connected(up, name)
}

// unstable are names of standbys that stream for a moment only.
func (b *pair) unstable() []string {
	var found []string
	for _, s := range b.model.servers {
		if s.Running() && flaps(s) {
			found = append(found, s.Conf().Name)
		}
	}
	return found
}

// modelSees is what can be seen of a server of the model.
func (b *pair) modelSees(name string) string {
	s := b.model.servers[name]
	switch s.Mode {
	case pgmodel.Down:
		if s.Disk == nil {
			return "nothing"
		}
		return fmt.Sprintf("down, %s, timeline %d", s.Disk.Control.State, s.Disk.Control.Checkpoint.Timeline)
	case pgmodel.Starting, pgmodel.Stopping:
		return "closed"
	case pgmodel.Standby, pgmodel.Primary:
	}
	timeline := ""
	if s.Mode == pgmodel.Primary {
		timeline = fmt.Sprintf("%08X/%d", s.Timeline(), s.Disk.Control.Checkpoint.Timeline)
	}
	ids := s.Visible()
	slices.Sort(ids)
	var senders, slots []string
	hidden := b.unstable()
	for _, line := range s.Senders() {
		if line.Streaming && !slices.Contains(hidden, line.Name) {
			senders = append(senders, fmt.Sprintf("%s:%t:%t:%t", line.Name, line.Counts, line.Flush >= s.Flushed(),
				line.Apply >= s.Flushed()))
		}
	}
	for _, slot := range s.Disk.Slots {
		busy := slot.Busy() && !slices.Contains(hidden, slot.Name)
		slots = append(slots, fmt.Sprintf("%s:%t:%t", slot.Name, busy, slot.Lost))
	}
	slices.Sort(senders)
	slices.Sort(slots)
	b.hideUnsteady(name, senders)
	received := ""
	if s.Streams() && b.sound(name) {
		_, line := s.Received()
		received = fmt.Sprint(line)
	}
	return fmt.Sprintf("%s on %s, rows %v, senders %v, slots %v, receives %q", s.Mode, timeline, ids, senders, slots,
		received)
}

// hideUnsteady leaves out of lines of pg_stat_replication whether a standby has everything, if it cannot get or replay
// more: a server writes WAL of its own accord, such as hints of pages that are read, and snapshots.
func (b *pair) hideUnsteady(server string, lines []string) {
	for index, line := range lines {
		part := strings.Split(line, ":")
		name := strings.TrimPrefix(part[0], "x")
		standby := b.model.servers[name]
		if !b.model.Connected(server, name) || !b.model.Connected(name, server) {
			part[2], part[3] = "?", "?"
		}
		if standby.Paused {
			part[3] = "?"
		}
		lines[index] = strings.Join(part, ":")
	}
}

const lookQuery = `select case when pg_is_in_recovery() then 'standby' else 'primary' end,
  case when pg_is_in_recovery() then '' else substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) || '/' ||
    (select timeline_id from pg_control_checkpoint()) end,
  (select coalesce(string_agg(id::text, ' ' order by id), '') from t),
  (select coalesce(string_agg(application_name || ':' || (sync_priority > 0) || ':' ||
     coalesce(flush_lsn >= at, false) || ':' || coalesce(replay_lsn >= at, false), ' ' order by application_name), '')
   from pg_stat_replication where state = 'streaming' and not application_name = any('{%s}')),
  (select coalesce(string_agg(slot_name || ':' || (active and not slot_name = any('{%s}')) || ':' ||
     (coalesce(wal_status, '') = 'lost'), ' ' order by slot_name), '') from pg_replication_slots where not temporary),
  coalesce((select received_tli::text from pg_stat_wal_receiver where status = 'streaming'), '')
from (select case when pg_is_in_recovery() then greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())
             else pg_current_wal_flush_lsn() end) as present(at)`

// realSees is the same of a real one.
func (b *pair) realSees(name string) string {
	s := b.real[name]
	if !s.running() {
		if _, err := os.Stat(filepath.Join(s.data(), "global", "pg_control")); err != nil {
			return "nothing"
		}
		output, _ := s.p.run("pg_controldata", "-D", s.data())
		return fmt.Sprintf("down, %s, timeline %s", field(output, "Database cluster state:"),
			field(output, "Latest checkpoint's TimeLineID:"))
	}
	hidden := strings.Join(b.unstable(), ",")
	rows, err := s.query(fmt.Sprintf(lookQuery, hidden, hidden))
	if err != nil {
		if !s.running() {
			return "ends"
		}
		return "closed"
	}
	row := rows[0]
	senders := strings.Fields(row[3])
	b.hideUnsteady(name, senders)
	if !b.sound(name) {
		row[5] = ""
	}
	return fmt.Sprintf("%s on %s, rows [%s], senders [%s], slots [%s], receives %q", row[0], row[1], row[2],
		strings.Join(senders, " "), row[4], row[5])
}

func field(output, name string) string {
	for line := range strings.Lines(output) {
		if rest, found := strings.CutPrefix(line, name); found {
			return strings.TrimSpace(rest)
		}
	}
	return "?"
}

// troubled are troubles that last, so that both must tell of the same.
var troubled = []pgmodel.Trouble{
	pgmodel.TroubleBehind, pgmodel.TroubleHistory, pgmodel.TroubleNoSlot, pgmodel.TroubleNotInHist, pgmodel.TroubleAhead,
	pgmodel.TroubleRemoved, pgmodel.TroubleForked, pgmodel.TroubleNotAChild,
}

// difference says how the two differ now, empty if they do not.
func (b *pair) difference() string {
	for _, name := range names {
		if model, actual := b.modelSees(name), b.realSees(name); model != actual {
			return fmt.Sprintf("%s:\n  model %s\n  real  %s", name, model, actual)
		}
		s := b.model.servers[name]
		lasting := s.Running() && s.Conf().Upstream != "" && slices.Contains(troubled, s.Trouble)
		if actual, _ := b.real[name].trouble(); lasting && actual != s.Trouble {
			return fmt.Sprintf("%s does not receive:\n  model %s\n  real  %s", name, s.Trouble, actual)
		}
	}
	for _, commit := range b.commits {
		if model, actual := commit.model.Result, commit.real.get(); model != actual {
			return fmt.Sprintf("commit %d on %s (%s):\n  model %s\n  real  %s", commit.id, commit.on, commit.model.Level,
				model, actual)
		}
	}
	return ""
}

// untried is a standby that does not receive, goes on trying, and has not tried twice since the two agreed; empty if
// there is none. What it learns from a try that fails, such as histories, lasts: so one that began when the operation
// was over must have ended before the next operation.
func (b *pair) untried() string {
	for _, name := range names {
		s := b.model.servers[name]
		up := s.Conf().Upstream
		tries := s.Running() && s.Mode != pgmodel.Stopping && !s.Paused && up != "" &&
			slices.Contains(troubled, s.Trouble) && b.model.Connected(name, up) && b.model.Connected(up, name)
		if _, count := b.real[name].trouble(); tries && count < 2 {
			return fmt.Sprintf("%s has tried to receive %d times since, and is to try twice", name, count)
		}
	}
	return ""
}

func (b *pair) countTries() {
	for _, name := range names {
		b.real[name].countTries()
	}
}

// agree waits until the two do not differ.
func (b *pair) agree() error {
	b.model.settle(settled)
	agreed, end := false, time.Now().Add(ceiling)
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		difference := b.difference()
		if difference != "" || !agreed {
			b.countTries()
		}
		if agreed = difference == ""; agreed {
			difference = b.untried()
		}
		if agreed {
			difference += b.flushOwn()
		}
		switch {
		case difference == "":
			return nil
		case time.Now().After(end):
			for _, name := range names {
				difference += fmt.Sprintf("\n%s %q", b.model.servers[name], b.model.servers[name].Trouble)
			}
			return errors.New(difference)
		}
		time.Sleep(pause)
	}
}

// flushOwn has real primaries flush what they wrote of their own accord, and names those that had to: the standbys are
// to have it before the next operation, which may cut one of them off. Left alone it is flushed at any later time, up
// to the end of a page, and only those that still follow then get it.
func (b *pair) flushOwn() (names string) {
	for name, s := range b.real {
		if model := b.model.servers[name]; model.Mode != pgmodel.Primary || !s.running() {
			continue
		}
		rows, err := s.query("select case when pg_is_in_recovery() then false " +
			"else pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn() end")
		if err != nil || rows[0][0] != "t" {
			continue
		}
		names += name + " has written of its own accord; "
		_, _ = s.query("select pg_logical_emit_message(true, 'own', '')") // It commits locally, and flushes all.
	}
	return names
}

// waitUntilStopped gives a real server the time to end, if that of the model has.
func (b *pair) waitUntilStopped(name string) {
	b.model.settle(settled)
	if b.model.servers[name].Running() || b.real[name].process == nil {
		return
	}
	select {
	case <-b.real[name].ended:
	case <-time.After(ceiling):
	}
}

func (b *pair) stop(name string, how pgmodel.How) string {
	signals := map[pgmodel.How]syscall.Signal{
		pgmodel.Fast: syscall.SIGINT, pgmodel.Smart: syscall.SIGTERM, pgmodel.Immediate: syscall.SIGQUIT,
	}
	_ = b.model.servers[name].Stop(how)
	b.real[name].leave()
	b.real[name].signal(signals[how])
	b.waitUntilStopped(name)
	return ""
}

// flushed waits until a real server has flushed everything.
func (b *pair) flushed(name string) {
	for range 2000 {
		rows, err := b.real[name].query("select pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()")
		if err != nil || rows[0][0] == "t" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (b *pair) cancel(commit *commitPair, terminate bool) {
	b.model.servers[commit.on].Cancel(commit.model, terminate)
	function := "pg_cancel_backend"
	if terminate {
		function = "pg_terminate_backend"
	}
	_, _ = b.real[commit.on].query(fmt.Sprintf("select %s(%d)", function, commit.real.pid))
}

// rewind runs pg_rewind.
func (b *pair) rewind(name, source string) (model, actual string) {
	needed, err := b.model.servers[name].Rewind(b.model.servers[source])
	switch {
	case err != nil:
		model = "failed"
	case needed:
		model = "done"
	default:
		model = "no rewind required"
	}
	s := b.real[name]
	output, code := s.p.run("pg_rewind", "-D", s.data(), "--no-sync", "--source-server",
		fmt.Sprintf("host=%s port=5432 user=postgres dbname=postgres", filepath.Dir(s.proxy[source].path)))
	switch {
	case code != 0:
		actual = "failed"
	case strings.Contains(output, "no rewind required"):
		actual = "no rewind required"
	default:
		actual = "done"
	}
	if model != actual {
		actual += ": " + output
	}
	if err := b.configure(name, func(conf *pgmodel.Conf) { conf.Upstream = "" }); err != nil {
		actual += err.Error()
	}
	return model, actual
}

// cloneAndCheckpoint clones and then lets a checkpoint remove WAL, once everybody who streams has it. pg_basebackup
// ends the file that is being written and makes a checkpoint at once, which removes that file: a sender that had yet to
// read the end of it, a matter of milliseconds, has lost its standby. A slot of this session keeps the WAL meanwhile.
func (b *pair) cloneAndCheckpoint(name, source string) (model, actual string) {
	s := b.real[source]
	if _, err := s.query("select pg_create_physical_replication_slot('harness', true, true)"); err != nil {
		return "", err.Error()
	}
	if model, actual = b.clone(name, source); model != actual {
		return model, actual
	}
	if model, actual = b.commit(source, pgmodel.LevelLocal); model != actual {
		return model, actual
	}
	if err := b.agree(); err != nil {
		return "", err.Error()
	}
	if _, err := s.query("select pg_drop_replication_slot('harness')"); err != nil {
		return "", err.Error()
	}
	return b.checkpoint(source)
}

// clone runs pg_basebackup.
func (b *pair) clone(name, source string) (model, actual string) {
	s, m := b.real[name], b.model.servers[name]
	m.Disk = nil
	model, actual = "done", "done"
	if err := m.Clone(b.model.servers[source]); err != nil {
		model = "failed"
	}
	_ = os.RemoveAll(s.data())
	output, code := s.p.run("pg_basebackup", "-D", s.data(), "--no-sync", "-c", "fast", "-X", "stream",
		"-d", fmt.Sprintf("host=%s port=5432 user=postgres", filepath.Dir(s.proxy[source].path)))
	if code != 0 {
		actual = "failed"
	}
	if model != actual {
		return model, actual + ": " + output
	}
	if code == 0 {
		err := b.configure(name, func(conf *pgmodel.Conf) {
			*conf = pgmodel.Conf{Retry: conf.Retry, Timeout: conf.Timeout}
		})
		if err != nil {
			actual += err.Error()
		}
	}
	return model, actual
}

// makeTemplate makes the three servers once; each sequence begins with a copy.
func makeTemplate(p programs, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	all := map[string]*realServer{}
	for _, name := range names {
		s := &realServer{p: p, name: name, folder: filepath.Join(folder, name), port: 5432}
		if err := errors.Join(os.MkdirAll(s.folder, 0o700), own(s.folder)); err != nil {
			return err
		}
		all[name] = s
		defer s.kill()
	}
	a := all["a"]
	output, code := p.run("initdb", "-D", a.data(), "-U", "postgres", "-A", "trust", "-k", "--wal-segsize=1", "--no-sync",
		"-E", "UTF8", "--locale=C")
	if code != 0 {
		return errors.New(output)
	}
	if err := errors.Join(a.configure(), a.start(false), a.wait()); err != nil {
		return err
	}
	for _, statement := range []string{
		"create table t (id int)", "checkpoint", "select pg_create_physical_replication_slot('b', true)",
		"select pg_create_physical_replication_slot('c', true)",
	} {
		if _, err := a.query(statement); err != nil {
			return err
		}
	}
	for _, name := range names[1:] {
		if err := all[name].join(a); err != nil {
			return err
		}
	}
	a.waitForStandbys(len(names) - 1)
	for _, name := range names {
		all[name].signal(syscall.SIGINT)
		<-all[name].ended
	}
	return nil
}

// join makes a server a standby of another.
func (s *realServer) join(up *realServer) error {
	output, code := s.p.run("pg_basebackup", "-D", s.data(), "--no-sync", "-c", "fast", "-X", "stream", "-d",
		fmt.Sprintf("host=%s port=5432 user=postgres", up.folder))
	if code != 0 {
		return errors.New(output)
	}
	s.proxy = map[string]*proxy{up.name: {path: up.socket()}}
	s.conf = pgmodel.Conf{Upstream: up.name, Name: s.name, Slot: s.name}
	return errors.Join(s.configure(), s.start(true), s.wait())
}

// waitForStandbys waits until so many have everything.
func (s *realServer) waitForStandbys(count int) {
	for range 2000 {
		rows, err := s.query("select count(*) from pg_stat_replication where flush_lsn >= pg_current_wal_flush_lsn()")
		if err == nil && rows[0][0] == fmt.Sprint(count) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// wait waits until a real server answers.
func (s *realServer) wait() error {
	ctx, cancel := context.WithTimeout(context.Background(), ceiling)
	defer cancel()
	for {
		connection, err := s.connect(ctx, nil)
		if err == nil {
			return connection.Close(ctx)
		}
		if ctx.Err() != nil || !s.running() {
			log, _ := os.ReadFile(filepath.Join(s.folder, "log"))
			return fmt.Errorf("%w: %s", err, log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
