//go:build cluster

package pgmodel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian.dev/meridian/test/sim/pgmodel"
)

// account is the user that servers run as, because PostgreSQL does not run as root; nil for the present one.
func account() *syscall.Credential {
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			uid, _ := strconv.Atoi(found.Uid)
			gid, _ := strconv.Atoi(found.Gid)
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		}
	}
	return nil
}

// programs are PostgreSQL's, of one version.
type programs struct {
	folder string
	major  int
}

func (p programs) command(name string, arguments ...string) *exec.Cmd {
	command := exec.Command(filepath.Join(p.folder, name), arguments...)
	command.Env = []string{
		"PATH=" + p.folder + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=/tmp", "PGCONNECT_TIMEOUT=60",
	}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: account(), Setpgid: true}
	command.Dir = "/"
	return command
}

func (p programs) run(name string, arguments ...string) (output string, code int) {
	command := p.command(name, arguments...)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	err := command.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return said.String(), failed.ExitCode()
	}
	if err != nil {
		return said.String() + err.Error(), -1
	}
	return said.String(), 0
}

const realConf = `listen_addresses = ''
wal_level = replica
wal_log_hints = on
hot_standby = on
fsync = off
autovacuum = off
max_connections = 40
max_wal_senders = 16
max_replication_slots = 16
shared_buffers = 8MB
min_wal_size = 2MB
max_wal_size = 1GB
wal_recycle = off
wal_keep_size = 0
checkpoint_timeout = 1d
checkpoint_completion_target = 0
wal_sender_timeout = 0
wal_receiver_timeout = 0
wal_receiver_status_interval = 1s
wal_retrieve_retry_interval = 100ms
recovery_target_timeline = latest
restart_after_crash = off
log_destination = stderr
logging_collector = off
huge_pages = off
dynamic_shared_memory_type = mmap
`

// realServer is a real server.
type realServer struct {
	p      programs
	name   string
	folder string // Holds the data, the socket and the log.
	port   int
	proxy  map[string]*proxy // By the server that is reached through it.

	process *exec.Cmd
	ended   chan struct{}
	exit    error
	held    int // The checkpointer that was stopped.
	logged  int64
	counted int64 // Where in the log the count of tries begins.
	conf    pgmodel.Conf
	session *pgx.Conn // For looking, kept because a new one costs a process; nil if there is none.
}

func (s *realServer) data() string { return filepath.Join(s.folder, "data") }

func (s *realServer) socket() string {
	return filepath.Join(s.folder, fmt.Sprintf(".s.PGSQL.%d", s.port))
}

// configure writes the files.
func (s *realServer) configure() error {
	text := realConf + fmt.Sprintf("port = %d\nunix_socket_directories = '%s'\n", s.port, s.folder)
	if s.conf.SlotKeep > 0 {
		text += fmt.Sprintf("max_slot_wal_keep_size = '%dkB'\n", s.conf.SlotKeep>>10)
	}
	if s.conf.Sync.K > 0 {
		text += fmt.Sprintf("synchronous_standby_names = 'ANY %d (%s)'\n", s.conf.Sync.K,
			strings.Join(s.conf.Sync.Names, ","))
	}
	if s.conf.Upstream != "" {
		to := s.proxy[s.conf.Upstream]
		text += fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=postgres application_name=%s connect_timeout=5'\n",
			filepath.Dir(to.path), s.port, s.conf.Name)
		text += fmt.Sprintf("primary_slot_name = '%s'\n", s.conf.Slot)
	}
	// Another file would be overwritten by a rewind as well; the old name keeps the permissions.
	const access = "local all all trust\nlocal replication all trust\n"
	for name, content := range map[string]string{
		"postgresql.conf": text, "postgresql.auto.conf": "", "pg_hba.conf": access,
	} {
		if err := s.write(filepath.Join(s.data(), name), content); err != nil {
			return err
		}
	}
	return nil
}

func (s *realServer) write(path, content string) error {
	// At once and as theirs: a server that finds half of a history, or may not read it, ends.
	made := path + ".made"
	if err := errors.Join(os.WriteFile(made, []byte(content), 0o600), own(made)); err != nil {
		return err
	}
	return os.Rename(made, path)
}

// own gives a file to the user of the servers.
func own(path string) error {
	who := account()
	if who == nil {
		return nil
	}
	return os.Lchown(path, int(who.Uid), int(who.Gid))
}

func (s *realServer) running() bool {
	if s.process == nil {
		return false
	}
	select {
	case <-s.ended:
		return false
	default:
		return true
	}
}

func (s *realServer) start(standby bool) error {
	signal := filepath.Join(s.data(), "standby.signal")
	if err := os.Remove(signal); err != nil && !os.IsNotExist(err) {
		return err
	}
	if standby {
		if err := s.write(signal, ""); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if info, err := log.Stat(); err == nil {
		s.logged = info.Size()
	}
	s.process = s.p.command("postgres", "-D", s.data())
	s.process.Stdout, s.process.Stderr = log, log
	s.ended, s.held = make(chan struct{}), 0
	if err := s.process.Start(); err != nil {
		s.process = nil
		return err
	}
	process, ended := s.process, s.ended
	go func() {
		s.exit = process.Wait()
		_ = log.Close()
		close(ended)
	}()
	return nil
}

// children are the processes of the server.
func (s *realServer) children() map[int]string {
	found := map[int]string{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(s.process.Process.Pid) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			title, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			found[pid] = strings.TrimSpace(strings.ReplaceAll(string(title), "\x00", " "))
		}
	}
	return found
}

// kill ends every process at once.
func (s *realServer) kill() {
	s.leave()
	if !s.running() {
		return
	}
	_ = syscall.Kill(s.process.Process.Pid, syscall.SIGSTOP)
	children := s.children()
	_ = syscall.Kill(s.process.Process.Pid, syscall.SIGKILL)
	for pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.ended
	for pid := range children {
		for range 2000 {
			if syscall.Kill(pid, 0) != nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

func (s *realServer) signal(signal syscall.Signal) {
	if s.running() {
		_ = syscall.Kill(s.process.Process.Pid, signal)
	}
}

// holdCheckpoints stops the checkpointer, or lets it go on.
func (s *realServer) holdCheckpoints(hold bool) error {
	if !hold {
		if s.held > 0 {
			_ = syscall.Kill(s.held, syscall.SIGCONT)
		}
		s.held = 0
		return nil
	}
	for pid, title := range s.children() {
		if strings.Contains(title, "checkpointer") {
			s.held = pid
			return syscall.Kill(pid, syscall.SIGSTOP)
		}
	}
	return errors.New("there is no checkpointer")
}

func (s *realServer) connect(ctx context.Context, parameters map[string]string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(s.conninfo())
	if err != nil {
		return nil, err
	}
	config.RuntimeParams = parameters
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	return pgx.ConnectConfig(ctx, config)
}

func (s *realServer) conninfo() string {
	return fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres sslmode=disable", s.folder, s.port)
}

// query runs a statement in the kept session and returns the rows as texts. A session that was ended meanwhile is made
// anew, once.
func (s *realServer) query(statement string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), ceiling)
	defer cancel()
	kept := s.session != nil
	rows, err := s.ask(ctx, statement)
	if err != nil && kept && s.session == nil {
		rows, err = s.ask(ctx, statement)
	}
	return rows, err
}

// leave ends the kept session: a smart stop waits for every session.
func (s *realServer) leave() {
	if s.session != nil {
		_ = s.session.Close(context.Background())
		s.session = nil
	}
}

func (s *realServer) ask(ctx context.Context, statement string) ([][]string, error) {
	if s.session == nil {
		made, err := s.connect(ctx, map[string]string{"synchronous_commit": "local", "application_name": "look"})
		if err != nil {
			return nil, err
		}
		s.session = made
	}
	results, err := s.session.PgConn().Exec(ctx, statement).ReadAll()
	if err != nil {
		if s.session.IsClosed() {
			s.session = nil
		}
		return nil, err
	}
	var rows [][]string
	for _, row := range results[len(results)-1].Rows {
		var texts []string
		for _, value := range row {
			texts = append(texts, string(value))
		}
		rows = append(rows, texts)
	}
	return rows, nil
}

// realCommit is a write of a client.
type realCommit struct {
	mutex  sync.Mutex
	result pgmodel.Result
	pid    uint32
}

func (c *realCommit) get() pgmodel.Result {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.result
}

func (c *realCommit) set(result pgmodel.Result) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.result = result
}

// begin begins a commit, and returns when it has ended or waits for standbys.
func (s *realServer) begin(id int, level pgmodel.Level) (*realCommit, error) {
	ctx := context.Background()
	config, err := pgx.ParseConfig(s.conninfo())
	if err != nil {
		return nil, err
	}
	commit := &realCommit{result: pgmodel.Waiting}
	cancelled := false
	config.RuntimeParams = map[string]string{"synchronous_commit": string(level), "application_name": "client"}
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) {
		cancelled = cancelled || strings.Contains(notice.Message, "canceling wait for synchronous replication")
	}
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	commit.pid = connection.PgConn().PID()
	refused := make(chan error, 1)
	go func() {
		_, err := connection.Exec(ctx, fmt.Sprintf("insert into t values (%d)", id))
		if state, ok := errors.AsType[*pgconn.PgError](err); ok && state.Code == "25006" {
			refused <- err
		} else {
			switch {
			case err != nil:
				commit.set(pgmodel.Broken)
			case cancelled:
				commit.set(pgmodel.Cancelled)
			default:
				commit.set(pgmodel.Acknowledged)
			}
			refused <- nil
		}
		_ = connection.Close(ctx)
	}()
	for end := time.Now().Add(ceiling); time.Now().Before(end); {
		select {
		case err := <-refused:
			return commit, err
		case <-time.After(5 * time.Millisecond):
			rows, err := s.query(fmt.Sprintf("select wait_event from pg_stat_activity where pid = %d", commit.pid))
			if err == nil && len(rows) == 1 && rows[0][0] == "SyncRep" {
				return commit, nil
			}
		}
	}
	return commit, fmt.Errorf("commit %d neither ends nor waits for a standby", id)
}

// troubles are what a standby logs, the class of each.
var troubles = []struct {
	class pgmodel.Trouble
	text  *regexp.Regexp
}{
	{pgmodel.TroubleBehind, regexp.MustCompile(`highest timeline \d+ of the primary is behind`)},
	{pgmodel.TroubleHistory, regexp.MustCompile(`could not receive timeline history file`)},
	{pgmodel.TroubleNoSlot, regexp.MustCompile(`replication slot "[^"]*" does not exist`)},
	{pgmodel.TroubleNotInHist, regexp.MustCompile(`not in this server's history`)},
	{pgmodel.TroubleAhead, regexp.MustCompile(`ahead of the WAL flush position`)},
	{pgmodel.TroubleRemoved, regexp.MustCompile(
		`requested WAL segment \w+ has already been removed|cannot read from|can no longer get changes`)},
	{pgmodel.TroubleForked, regexp.MustCompile(`forked off current database system timeline`)},
	{pgmodel.TroubleNotAChild, regexp.MustCompile(`is not a child of database system timeline`)},
	{pgmodel.TroubleConnect, regexp.MustCompile(
		`could not connect|connection to server|server closed the connection|terminating connection`)},
}

// trouble is the class of the last line of the log that has one, and tries is how many such lines there were since
// countTries.
func (s *realServer) trouble() (last pgmodel.Trouble, tries int) {
	text, err := os.ReadFile(filepath.Join(s.folder, "log"))
	if err != nil || int64(len(text)) < s.logged {
		return pgmodel.TroubleNone, 0
	}
	end := len(text)
	for end > int(s.logged) {
		start := max(bytes.LastIndexByte(text[:end-1], '\n')+1, int(s.logged))
		for _, each := range troubles {
			if each.text.Match(text[start:end]) {
				if last == pgmodel.TroubleNone {
					last = each.class
				}
				if start >= int(s.counted) {
					tries++
				}
				break
			}
		}
		if last != pgmodel.TroubleNone && start < int(s.counted) {
			break
		}
		end = start
	}
	return last, tries
}

// countTries begins to count anew.
func (s *realServer) countTries() {
	if info, err := os.Stat(filepath.Join(s.folder, "log")); err == nil {
		s.counted = info.Size()
	}
}

// reload has the configuration read anew, and returns when every process has done it: nothing that can be seen tells
// when the checkpointer has, by whose word commits wait for standbys.
func (s *realServer) reload() {
	const said = "received SIGHUP, reloading configuration files"
	before := s.says(said)
	s.signal(syscall.SIGHUP)
	for end := time.Now().Add(ceiling); s.running() && time.Now().Before(end); time.Sleep(time.Millisecond) {
		if s.says(said) > before && s.idle() {
			time.Sleep(time.Millisecond)
			if s.idle() {
				return
			}
		}
	}
}

// says is how often a text is in the log.
func (s *realServer) says(text string) int {
	log, _ := os.ReadFile(filepath.Join(s.folder, "log"))
	return strings.Count(string(log), text)
}

// idle says that no process of it runs or has a SIGHUP before it, but for one that was stopped.
func (s *realServer) idle() bool {
	processes := s.children()
	processes[s.process.Process.Pid] = "postgres"
	for pid := range processes {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		state, pending := field(string(status), "State:"), false
		for _, name := range []string{"SigPnd:", "ShdPnd:"} {
			signals, _ := strconv.ParseUint(field(string(status), name), 16, 64)
			pending = pending || signals&(1<<(syscall.SIGHUP-1)) != 0
		}
		if !strings.HasPrefix(state, "T") && (pending || strings.HasPrefix(state, "R")) {
			return false
		}
	}
	return true
}

func (s *realServer) promote() error {
	// It is removed by the server at any moment, once it is there.
	file := filepath.Join(s.data(), "promote")
	if err := s.write(file+".new", ""); err != nil {
		return err
	}
	if err := os.Rename(file+".new", file); err != nil {
		return err
	}
	s.signal(syscall.SIGUSR1)
	return nil
}

// history is the path of the history of a timeline.
func (s *realServer) history(timeline int) string {
	return filepath.Join(s.data(), "pg_wal", fmt.Sprintf("%08X.history", timeline))
}

// reserve takes the numbers of missing timelines below one.
func (s *realServer) reserve(timeline int) error {
	for number := 2; number < timeline; number++ {
		if _, err := os.Stat(s.history(number)); err == nil {
			continue
		}
		if err := s.write(s.history(number), "# taken\n"); err != nil {
			return err
		}
	}
	return nil
}

// dropPlaceholders removes those above the highest real timeline.
func (s *realServer) dropPlaceholders() {
	paths, _ := filepath.Glob(filepath.Join(s.data(), "pg_wal", "*.history"))
	for at := len(paths) - 1; at >= 0; at-- {
		text, _ := os.ReadFile(paths[at])
		if !strings.HasPrefix(string(text), "#") {
			return
		}
		_ = os.Remove(paths[at])
	}
}
