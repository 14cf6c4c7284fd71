// Package restore brings a database back from its repository: the files of a base backup, checked by PostgreSQL's own
// manifest, and the log up to a target. What is restored is decided by plan; this package fetches, runs PostgreSQL in a
// place where nobody can connect to, and lets nobody in before replay has reached what it must (K6).
//
// Start reading at Run.
package restore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/postgres/wal"
)

// Request says what to restore, and where.
type Request struct {
	From   *repository.Repository
	Target plan.Target
	Tools  Tools
	// Data is the data directory to make, Log the folder of its log if that is to lie elsewhere. Work is a folder for
	// everything that is not kept. Its path is short: it has sockets.
	Data, Log, Work string
	// FetchCommand is a program with arguments that calls Fetch with the socket and two more arguments.
	FetchCommand string
	// Waiting is told why the log is waited for. It may be nil.
	Waiting func(error)
	// Progress is told how far it has come. It may be nil.
	Progress func(Progress)
	// Reset is SQL, one statement in a line, that is run on the result where nobody can connect to. What fails, fails the
	// restore.
	Reset []string
}

// Progress is how far a restore has come.
type Progress struct {
	// Backup is the base backup, Done and Total are bytes of its files.
	Backup      string
	Done, Total int64
	// Replaying says that the files are there. File is the last one of the log that was handed out.
	Replaying bool
	File      string
}

func (r Request) tell(progress Progress) {
	if r.Progress != nil {
		r.Progress(progress)
	}
}

// ErrShort means that replay ended before it had reached what it had to.
var ErrShort = errors.New("the replay ended too early")

// Result is what came out.
type Result struct {
	Backup backup.Backup
	// Reached is the end of the last record that was replayed, on a timeline of the source; Timeline is the new one.
	Reached  backup.LSN
	Timeline int
	// LastCommit is when the last transaction that came back was committed, by the server's own word; zero if it does not
	// say, such as when nothing had to be replayed.
	LastCommit time.Time
}

// Run restores. When it returns without an error, the data directory is that of a server that was stopped properly, as
// a primary on a timeline above the source's.
func Run(ctx context.Context, request Request) (Result, error) {
	catalogue, err := request.From.Catalogue(ctx)
	if err != nil {
		return Result{}, err
	}
	recovery, err := plan.Recover(&catalogue, request.Target)
	if err != nil {
		return Result{}, err
	}
	progress := Progress{Backup: recovery.Backup.ID, Total: recovery.Backup.Size}
	request.tell(progress)
	place := Place{Data: request.Data, Log: request.Log, Tools: request.Tools, Done: func(done int64) {
		request.tell(Progress{Backup: progress.Backup, Done: done, Total: progress.Total})
	}}
	if err := Files(ctx, request.From, recovery.Backup, place); err != nil {
		return Result{}, err
	}
	result, err := replay(ctx, request, &catalogue, recovery)
	if err != nil {
		return Result{}, err
	}
	return result, reset(ctx, request, recovery.Backup)
}

func replay(ctx context.Context, request Request, catalogue *backup.Catalogue, recovery plan.Recovery) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	socket := filepath.Join(request.Work, "fetch.sock")
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return Result{}, fmt.Errorf("replay the log: %w", err)
	}
	defer func() { _ = listener.Close() }()
	fetch := &fetcher{
		from: request.From, catalogue: catalogue, recovery: recovery, listener: listener, waiting: request.Waiting,
	}
	size := recovery.Backup.Size
	fetch.delivered = func(name string) {
		request.tell(Progress{Backup: recovery.Backup.ID, Done: size, Total: size, Replaying: true, File: name})
	}
	request.tell(Progress{Backup: recovery.Backup.ID, Done: size, Total: size, Replaying: true})
	go fetch.serve(ctx)
	target := request.Target
	said, err := recoverOnce(ctx, request, recovery, target)
	// Nothing was written after the target, and the log of the repository leads up to it: all of it is replayed.
	if err != nil && target != (plan.Target{}) &&
		strings.Contains(said, "recovery ended before configured recovery target") {
		if why := unproven(recovery, target, said); why != "" && !target.Time.IsZero() {
			return Result{}, fmt.Errorf("replay the log: %w: %s, and the last commit before that is older than %s", ErrShort,
				why, target)
		}
		target = plan.Target{}
		said, err = recoverOnce(ctx, request, recovery, target)
	}
	if failure := fetch.failure(); failure != nil {
		return Result{}, fmt.Errorf("replay the log: %w", failure)
	}
	if err != nil {
		return Result{}, fmt.Errorf("replay the log: %w: %s", err, lastFatal(said))
	}
	return judge(ctx, request, recovery, target, said)
}

// unproven says why log that has no commit behind a time does not show that there was none: what was committed between
// the last commit that is there and the target may be what is missing. It is empty if it does show that.
func unproven(recovery plan.Recovery, target plan.Target, said string) string {
	switch {
	case recovery.Hole:
		return fmt.Sprintf("log is missing behind %s", recovery.Until)
	case target.Time.After(recovery.Sure):
		why := fmt.Sprintf("the log ends at %s, and more may have waited to be shipped", recovery.Until)
		if last := lastCommit(said); !last.IsZero() {
			why += ", which the target latest leads to: the last commit there is of " + last.Format(time.RFC3339)
		}
		return why
	}
	return ""
}

// judge lets the result pass only if replay reached what it had to (K6).
func judge(
	ctx context.Context, request Request, recovery plan.Recovery, target plan.Target, said string,
) (Result, error) {
	timeline, reached, err := forkOf(request.Data)
	if err != nil {
		return Result{}, fmt.Errorf("replay the log: %w", err)
	}
	// Who asks for all of the log has nothing to stop at, whatever the server says.
	stopped := target != plan.Target{} && strings.Contains(said, "recovery stopping")
	if !stopped && reached < recovery.Until {
		more, err := anotherRecord(ctx, request, recovery, reached)
		if err != nil {
			return Result{}, fmt.Errorf("replay the log: %w", err)
		}
		if !more {
			reached = recovery.Until // The rest is the begin of a record that was not shipped whole.
		}
	}
	if violations := plan.CheckRecovery(recovery, target, reached, stopped); len(violations) > 0 {
		return Result{}, fmt.Errorf("replay the log: %w: refused by %s: %s", ErrShort, violations[0].Rule,
			violations[0].Detail)
	}
	return Result{Backup: recovery.Backup, Reached: reached, Timeline: timeline, LastCommit: lastCommit(said)}, nil
}

// lastCommit finds what the server says about the end of the replay.
func lastCommit(said string) time.Time {
	_, after, found := strings.Cut(said, "last completed transaction was at log time ")
	text, _, _ := strings.Cut(after, "\n")
	for _, zone := range []string{"-07", "MST"} {
		if at, err := time.Parse("2006-01-02 15:04:05.999999"+zone, strings.TrimSpace(text)); found && err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// forkOf reads where the new timeline begins: that is the end of what was replayed.
func forkOf(data string) (int, backup.LSN, error) {
	found, err := filepath.Glob(filepath.Join(data, "pg_wal", "*.history"))
	if err != nil || len(found) == 0 {
		return 0, 0, errors.Join(errors.New("the server has begun no timeline"), err)
	}
	slices.Sort(found)
	var timeline int
	if _, err := fmt.Sscanf(filepath.Base(found[len(found)-1]), "%08X.history", &timeline); err != nil {
		return 0, 0, err
	}
	history, err := wal.ReadHistory(filepath.Join(data, "pg_wal"), timeline)
	if err != nil {
		return 0, 0, err
	}
	return timeline, backup.LSN(history[len(history)-1].Begin), nil
}

// anotherRecord has PostgreSQL's own reader look for a record behind the end of the replay.
func anotherRecord(ctx context.Context, request Request, recovery plan.Recovery, reached backup.LSN) (bool, error) {
	folder := filepath.Join(request.Work, "rest")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return false, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	catalogue, err := request.From.Owner(ctx)
	if err != nil {
		return false, err
	}
	size := catalogue.SegmentSize
	timeline := 0
	for _, file := range recovery.Files {
		if (file.Number+1)*size <= uint64(reached) {
			continue
		}
		if timeline == 0 {
			timeline = file.Timeline
		}
		path := filepath.Join(folder, backup.SegmentName(timeline, file.Number, size))
		to, err := os.Create(path)
		if err != nil {
			return false, err
		}
		if err := errors.Join(request.From.WriteFile(ctx, file, size, to), to.Close()); err != nil {
			return false, err
		}
	}
	more, err := recordFound(request.Tools.run(ctx, "pg_waldump", "--quiet", "--path="+folder,
		fmt.Sprintf("--timeline=%d", timeline), "--start="+reached.String(), "--limit=1"))
	if more || err != nil {
		return more, err
	}
	// The reader says the same of a record that is damaged. Only one that goes beyond what is there was cut off.
	cut, err := cutOff(func(at uint64, into []byte) error {
		file, err := os.Open(filepath.Join(folder, backup.SegmentName(timeline, at/size, size)))
		if err != nil {
			return err
		}
		_, err = file.ReadAt(into, int64(at%size))
		return errors.Join(err, file.Close())
	}, size, uint64(reached), uint64(recovery.Until))
	return !cut, err
}

// Sizes of PostgreSQL's log: of a page and its two kinds of header, of what each record begins with, and how long a
// record may be at most.
const (
	pageSize    = 8192
	pageHead    = 24
	segmentHead = 40
	recordHead  = 24
	recordMost  = 1 << 30
)

// cutOff says whether what lies between the end of the replay and the end of the log is the begin of a record that goes
// on behind it, and not one that is damaged, or of another branch.
func cutOff(read func(at uint64, into []byte) error, size, reached, until uint64) (bool, error) {
	head := func(at uint64) uint64 {
		switch {
		case at%size == 0:
			return segmentHead
		case at%pageSize == 0:
			return pageHead
		}
		return 0
	}
	at := reached + head(reached)
	if at+4 > until {
		return true, nil
	}
	var text [16]byte
	if err := read(at, text[:min(until-at, pageSize-at%pageSize, 16)]); err != nil {
		return false, err
	}
	total := uint64(binary.LittleEndian.Uint32(text[:]))
	// The length is followed by the transaction, and then by where the record before begins.
	if before := binary.LittleEndian.Uint64(text[8:]); min(until-at, pageSize-at%pageSize) >= 16 &&
		(before >= reached || reached-before > 2*recordMost) {
		return false, nil
	}
	if total < recordHead || total > recordMost {
		return false, nil
	}
	for room := pageSize - at%pageSize; total > room; room = pageSize - at%pageSize {
		total, at = total-room, at+room
		at += head(at)
	}
	return at+total > until, nil
}

// recordFound tells what the end of the reader means. It ends with 1 where no whole record is left; a reader that could
// not run, or was killed, has said nothing.
func recordFound(ended error) (bool, error) {
	if ended == nil {
		return true, nil
	}
	if failed, ok := errors.AsType[*ExitError](ended); ok && failed.Code == 1 {
		return false, nil
	}
	return false, fmt.Errorf("look for another record: %w", ended)
}

// recoverOnce runs PostgreSQL until it has promoted or given up, and returns what it said.
func recoverOnce(ctx context.Context, request Request, recovery plan.Recovery, target plan.Target) (string, error) {
	for _, name := range []string{"standby.signal", "postmaster.pid"} {
		if err := os.RemoveAll(filepath.Join(request.Data, name)); err != nil {
			return "", err
		}
	}
	files := map[string]string{
		filepath.Join(request.Data, "recovery.signal"): "",
		filepath.Join(request.Work, "hba.conf"):        "local all postgres reject\n",
		filepath.Join(request.Work, "empty.conf"):      "",
		// It is read whatever the command line says: a delay or a target in it would rule this recovery.
		filepath.Join(request.Data, "postgresql.auto.conf"): "",
	}
	for path, content := range files {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	arguments := []string{"-D", request.Data}
	for _, setting := range settings(request, recovery, target) {
		arguments = append(arguments, "-c", setting)
	}
	server, err := request.Tools.start("postgres", nil, arguments...)
	if err != nil {
		return "", err
	}
	err = untilPromoted(ctx, request, server)
	return server.text(), err
}

// settings are on the command line, which goes before everything that the source has written into its files. Nobody
// can connect, so no query can hold the replay up.
func settings(request Request, recovery plan.Recovery, target plan.Target) []string {
	fetching := command(request.FetchCommand, filepath.Join(request.Work, "fetch.sock"))
	result := []string{
		"config_file=" + filepath.Join(request.Work, "empty.conf"), "hba_file=" + filepath.Join(request.Work, "hba.conf"),
		"ident_file=" + filepath.Join(request.Work, "empty.conf"), "listen_addresses=", "hot_standby=off", "ssl=off",
		"unix_socket_directories=" + request.Work, "port=5432", "logging_collector=off", "log_destination=stderr",
		"archive_mode=off", "restore_command=" + fetching, "recovery_target_action=promote", "lc_messages=C",
		fmt.Sprintf("recovery_target_timeline=%d", recovery.Timeline), "synchronous_standby_names=", "log_min_messages=log",
		"shared_preload_libraries=", "archive_cleanup_command=", "recovery_end_command=", "primary_conninfo=",
		// Once promoted it would take the place of the source at the publishers of its subscriptions.
		"max_logical_replication_workers=0",
	}
	result = append(result, Needed(recovery.Backup)...)
	switch {
	case target.LSN != 0:
		result = append(result, "recovery_target_lsn="+target.LSN.String())
	case !target.Time.IsZero():
		result = append(result, "recovery_target_time="+target.Time.UTC().Format("2006-01-02 15:04:05.999999+00"))
	}
	return result
}

// prepared is the parameter that bounds transactions which are prepared and not decided yet, and preparedLeast what it
// is at least: the source may have raised it after the base backup, and a server that has more of them does not start.
const (
	prepared      = "max_prepared_transactions"
	preparedLeast = 1000
)

// Needed are the settings that every server needs which runs on what comes back.
func Needed(base backup.Backup) []string {
	needed := map[string]string{prepared: strconv.Itoa(preparedLeast)}
	for name, value := range base.Settings {
		if bound, err := strconv.Atoi(value); name != prepared || err == nil && bound > preparedLeast {
			needed[name] = value
		}
	}
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		settings = append(settings, name+"="+needed[name])
	}
	return settings
}

// untilPromoted waits until the server accepts connections, which it does when recovery has ended, and stops it.
func untilPromoted(ctx context.Context, request Request, server *program) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-server.done:
			return errors.Join(errors.New("the server ended"), server.err)
		case <-ctx.Done():
			server.end()
			return ctx.Err()
		case <-ticker.C:
		}
		if request.Tools.run(ctx, "pg_isready", "--quiet", "--host="+request.Work, "--port=5432") != nil {
			continue
		}
		if err := server.signal(syscall.SIGINT); err != nil {
			return err
		}
		<-server.done
		return server.err
	}
}

func lastFatal(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for index := len(lines) - 1; index >= 0; index-- {
		// Whoever asks whether it is up gets such a line as well, ten in a second.
		if strings.Contains(lines[index], "FATAL") && !strings.Contains(lines[index], "the database system is ") {
			return lines[index]
		}
	}
	return lines[len(lines)-1]
}
