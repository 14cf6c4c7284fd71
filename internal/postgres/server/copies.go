package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server/session"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// Copies makes copies of another server's data.
type Copies struct {
	Supervisor *supervise.Supervisor
	// Folder is where the volume is mounted, Env the environment of PostgreSQL's programs.
	Folder string
	Env    []string
	// Log is where the volume of the log is mounted, empty if it has none of its own.
	Log string
	// Installed is where the certificate is.
	Installed string
}

func (c *Copies) waldir() waldir { return waldir{data: c.Folder, log: c.Log} }

// askPatience bounds a question to another server.
const askPatience = 3 * time.Second

func (c *Copies) conninfo(source postgres.Source, more ...string) string {
	words := append([]string{
		"host=" + source.Host, fmt.Sprintf("port=%d", source.Port), "connect_timeout=5", "passfile=/nonexistent",
		"keepalives_idle=5", "keepalives_interval=2", "keepalives_count=3", "tcp_user_timeout=10000",
	}, more...)
	if source.Address != "" {
		words = append(words, "hostaddr="+source.Address)
	}
	return strings.Join(append(words, render.TLS(c.Installed)...), " ")
}

// ToCopy leads to a server as those reach it that copy it, under a name for its log.
func (c *Copies) ToCopy(source postgres.Source, name string) string {
	return c.conninfo(source, "user="+render.RoleReplication, "application_name="+name)
}

// Clone implements postgres.Copies. It goes by another name than a member's: an unfinished copy must not acknowledge
// anything (B2). Its place in the log is kept from before it begins until it follows as a member.
func (c *Copies) Clone(ctx context.Context, source postgres.Source, progress func(done, total int64)) error {
	draft, place := filepath.Join(c.Folder, draftFolder), filepath.Join(c.Folder, dataFolder)
	if err := os.RemoveAll(draft); err != nil {
		return fmt.Errorf("remove an unfinished copy: %w", err)
	}
	if _, err := os.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clone: there is something in the place of the copy: %w", errors.Join(err))
	}
	if err := c.waldir().prepare(); err != nil {
		return fmt.Errorf("clone: %w", err)
	}
	if err := c.backup(ctx, source, draft, progress); err != nil {
		return fmt.Errorf("clone: %w", err)
	}
	for _, name := range []string{render.UpstreamFile, standbySignal} {
		if err := os.Remove(filepath.Join(draft, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clone: %w", err)
		}
	}
	// A copy is started as a replica, or not at all.
	if err := writeDurably(filepath.Join(draft, standbySignal), nil, 0o600); err != nil {
		return fmt.Errorf("clone: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("clone: %w", err)
	}
	if err := os.Rename(draft, place); err != nil {
		return fmt.Errorf("move the copy to its place: %w", err)
	}
	return syncFolder(c.Folder)
}

// Assemble has a data directory made beside its place, and moves it there when it is complete. Who makes it is told
// where, and where its log is to lie if that has a volume of its own.
func (c *Copies) Assemble(ctx context.Context, build func(ctx context.Context, data, log string) error) error {
	draft, place := filepath.Join(c.Folder, draftFolder), filepath.Join(c.Folder, dataFolder)
	if err := os.RemoveAll(draft); err != nil {
		return fmt.Errorf("remove an unfinished copy: %w", err)
	}
	if _, err := os.Lstat(place); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is something in the place of the copy: %w", errors.Join(err))
	}
	if err := c.waldir().prepare(); err != nil {
		return err
	}
	log := ""
	if c.Log != "" {
		log = c.waldir().folder()
	}
	if err := build(ctx, draft, log); err != nil {
		return err
	}
	// Whom the source followed is nobody to follow here.
	if err := os.Remove(filepath.Join(draft, render.UpstreamFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move the copy to its place: %w", err)
	}
	if err := errors.Join(ctx.Err(), syncFolder(draft)); err != nil {
		return fmt.Errorf("move the copy to its place: %w", err)
	}
	if err := os.Rename(draft, place); err != nil {
		return fmt.Errorf("move the copy to its place: %w", err)
	}
	return syncFolder(c.Folder)
}

// backup runs the program that copies, which itself waits until everything is on the disk.
func (c *Copies) backup(
	ctx context.Context, source postgres.Source, draft string, progress func(done, total int64),
) error {
	kept, err := c.keepPlace(ctx, source)
	if err != nil {
		return err
	}
	said := progressLines{told: progress}
	command := supervise.Command{
		Path: "pg_basebackup", Env: c.Env, Dir: c.Folder, Lines: said.add, Args: []string{
			"--dbname=" + c.ToCopy(source, "clone/"+source.Instance),
			"--pgdata=" + draft, "--checkpoint=fast", "--wal-method=stream", "--no-password", "--progress",
		},
	}
	command.Args = append(command.Args, c.waldir().arguments()...)
	if kept {
		command.Args = append(command.Args, "--slot="+source.Slot)
	}
	_, err = c.Supervisor.Run(ctx, command)
	if text := said.text(); err != nil && ctx.Err() == nil && text != "" {
		// The output is full of numbers that change with each try.
		return errors.New(text)
	}
	return err
}

// SQL states of another server's refusal.
const (
	stateDuplicate = "42710"
	stateUnknown   = "42704"
	stateLimit     = "53400"
	stateNoFile    = "58P01"
)

// keepPlace makes the slot of the copy, unless an earlier try has. A server that has no room for one more is copied
// without: the copy may have to be made again then.
func (c *Copies) keepPlace(ctx context.Context, source postgres.Source) (kept bool, err error) {
	if source.Slot == "" {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	connection, err := c.connect(ctx, source)
	if err != nil {
		return false, &postgres.NotYetError{Err: fmt.Errorf("connect to %s: %w", source.Host, session.Short(err))}
	}
	defer func() { _ = connection.Close(ctx) }()
	_, err = connection.Exec(ctx, "CREATE_REPLICATION_SLOT "+source.Slot+" PHYSICAL RESERVE_WAL").ReadAll()
	refused, _ := errors.AsType[*pgconn.PgError](err)
	switch {
	case refused != nil && refused.Code == stateLimit:
		return false, nil
	case err != nil && (refused == nil || refused.Code != stateDuplicate):
		return false, fmt.Errorf("keep a replication slot at %s: %w", source.Host, session.Short(err))
	}
	return true, nil
}

// progressLines reads what the program tells of its progress, and keeps what else it says: the first line that tells of
// an error, or else the last.
type progressLines struct {
	told func(done, total int64)

	mutex       sync.Mutex
	error, last string
}

func (p *progressLines) text() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return cmp.Or(p.error, p.last)
}

func (p *progressLines) keep(text string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	rest, failed := strings.CutPrefix(strings.TrimPrefix(text, "pg_basebackup: "), "error: ")
	if p.last = rest; failed && p.error == "" {
		p.error = rest
	}
}

// progressLine is such as " 8192/23456 kB (34%), 0/1 tablespace".
var progressLine = regexp.MustCompile(`^\s*(\d+)/(\d+) kB \(`)

func (p *progressLines) add(line []byte) {
	match := progressLine.FindSubmatch(line)
	if match == nil {
		if text := strings.TrimSpace(string(line)); text != "" {
			p.keep(text)
		}
		return
	}
	done, _ := strconv.ParseInt(string(match[1]), 10, 64)
	total, _ := strconv.ParseInt(string(match[2]), 10, 64)
	if p.told != nil {
		p.told(done<<10, total<<10)
	}
}

// Discard implements postgres.Copies. The first step takes the copy out of its place as a whole.
func (c *Copies) Discard(context.Context) error {
	draft, place := filepath.Join(c.Folder, draftFolder), filepath.Join(c.Folder, dataFolder)
	if err := os.RemoveAll(draft); err != nil {
		return fmt.Errorf("discard a copy: %w", err)
	}
	if err := os.Rename(place, draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("discard a copy: %w", err)
	}
	if err := syncFolder(c.Folder); err != nil {
		return fmt.Errorf("discard a copy: %w", err)
	}
	if err := errors.Join(os.RemoveAll(draft), c.waldir().discard()); err != nil {
		return fmt.Errorf("discard a copy: %w", err)
	}
	return nil
}

// Ask implements postgres.Copies.
func (c *Copies) Ask(ctx context.Context, source postgres.Source) (postgres.Upstream, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	connection, err := c.connect(ctx, source)
	if err != nil {
		return postgres.Upstream{}, fmt.Errorf("ask %s about itself: %w", source.Host, session.Short(err))
	}
	defer func() { _ = connection.Close(ctx) }()
	answer, err := identify(ctx, connection, source)
	if err != nil {
		return postgres.Upstream{}, err
	}
	if answer.ByTimeline, err = tells(ctx, connection, render.NamesParameter, render.NamesTimeline, false); err != nil {
		return postgres.Upstream{}, err
	}
	if answer.Open, err = tells(ctx, connection, render.GateParameter, render.GateOpen, true); err != nil {
		return postgres.Upstream{}, err
	}
	timeline := answer.History.Timeline()
	text := ""
	if timeline > 1 {
		row, err := session.FirstRow(ctx, connection, fmt.Sprintf("TIMELINE_HISTORY %d", timeline), 2)
		if err != nil {
			return postgres.Upstream{}, err
		}
		text = row[1]
	}
	answer.History, err = postgres.ParseHistory(timeline, text)
	return answer, err
}

// tells says whether a parameter of ours has that value in the server, or what is taken for it where a server of an
// earlier version does not know the parameter.
func tells(ctx context.Context, connection *pgconn.PgConn, parameter, value string, unknown bool) (bool, error) {
	row, err := session.FirstRow(ctx, connection, "SHOW "+parameter, 1)
	switch refused, _ := errors.AsType[*pgconn.PgError](err); {
	case refused != nil && refused.Code == stateUnknown:
		return unknown, nil
	case err != nil:
		return false, err
	}
	return row[0] == value, nil
}

// Times of a question to a server that is about to lead: how long it is waited for, and how often it is asked.
const (
	leadPatience = time.Second
	leadPause    = 20 * time.Millisecond
)

// identify asks who the server is. The others hear of a new primary before it leads, and have to hear its history as
// soon as it does: so one that does not lead on its timeline yet is asked again over the same connection.
func identify(ctx context.Context, connection *pgconn.PgConn, source postgres.Source) (postgres.Upstream, error) {
	begun := time.Now()
	for {
		row, err := session.FirstRow(ctx, connection, "IDENTIFY_SYSTEM", 3)
		if err != nil {
			return postgres.Upstream{}, err
		}
		timeline, err := strconv.Atoi(row[1])
		if err != nil {
			return postgres.Upstream{}, fmt.Errorf("ask about its timeline: %w", err)
		}
		// Every server since version 14 tells this to whoever is connected.
		answer := postgres.Upstream{
			Known: true, Leads: connection.ParameterStatus("in_hot_standby") == "off", SystemIdentifier: row[0],
			History: postgres.History{{Timeline: timeline}},
		}
		if answer.LSN, err = postgres.ParseLSN(row[2]); err != nil {
			return postgres.Upstream{}, err
		}
		ready := source.Timeline == 0 || answer.Leads && timeline >= source.Timeline
		if ready || time.Since(begun) >= leadPatience {
			return answer, nil
		}
		select {
		case <-ctx.Done():
			return postgres.Upstream{}, fmt.Errorf("ask %s about itself: %w", source.Host, ctx.Err())
		case <-time.After(leadPause):
		}
	}
}

// positionsQuery gives how far a primary has flushed its WAL, and by the slot of each replica that streams how far that
// has. A slot alone tells less: one that was made anew begins near the end, wherever its replica is. That of the
// repository has no replica, and its place is all that is asked for.
const positionsQuery = `
select pg_current_wal_flush_lsn()::text, coalesce(slot.slot_name::text, ''), coalesce(sender.flush_lsn::text, '')
from (select) as always left join (pg_replication_slots as slot join pg_stat_replication as sender
  on sender.pid = slot.active_pid and sender.state = 'streaming' and sender.flush_lsn is not null) on true
union all
select pg_current_wal_flush_lsn()::text, slot_name::text, restart_lsn::text from pg_replication_slots
where slot_name = '` + render.RepositorySlot + `' and not active and restart_lsn is not null`

// Positions implements postgres.Copies.
func (c *Copies) Positions(ctx context.Context, source postgres.Source) (postgres.Positions, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	connection, err := c.connectAs(ctx, source, render.RoleMonitor, map[string]string{"search_path": "pg_catalog"})
	if err != nil {
		return postgres.Positions{}, fmt.Errorf("ask %s about its replicas: %w", source.Host, session.Short(err))
	}
	defer func() { _ = connection.Close(ctx) }()
	results, err := connection.Exec(ctx, positionsQuery).ReadAll()
	if err != nil {
		return postgres.Positions{}, fmt.Errorf("ask %s about its replicas: %w", source.Host, session.Short(err))
	}
	answer := postgres.Positions{Slots: map[string]uint64{}}
	for _, row := range results[0].Rows {
		if answer.LSN, err = postgres.ParseLSN(string(row[0])); err != nil {
			return postgres.Positions{}, err
		}
		if slot := string(row[1]); slot != "" {
			if answer.Slots[slot], err = postgres.ParseLSN(string(row[2])); err != nil {
				return postgres.Positions{}, err
			}
		}
	}
	return answer, nil
}

// Gone implements postgres.Copies: it asks for the WAL as a standby does, which begins with a whole segment, and goes
// away with the first of it.
func (c *Copies) Gone(ctx context.Context, source postgres.Source, from tenure.Position) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	connection, err := c.connect(ctx, source)
	if err != nil {
		return 0, fmt.Errorf("ask %s for WAL: %w", source.Host, session.Short(err))
	}
	defer func() { _ = connection.Close(ctx) }()
	end, err := gone(ctx, connection, from)
	if err != nil {
		return 0, fmt.Errorf("ask %s for WAL: %w", source.Host, err)
	}
	return end, nil
}

func gone(ctx context.Context, connection *pgconn.PgConn, from tenure.Position) (uint64, error) {
	row, err := session.FirstRow(ctx, connection, "SHOW wal_segment_size", 1)
	if err != nil {
		return 0, err
	}
	size, err := segmentSize(row[0])
	if err != nil {
		return 0, err
	}
	begin := from.LSN / size * size
	front := connection.Frontend()
	front.SendQuery(&pgproto3.Query{String: fmt.Sprintf(
		"START_REPLICATION PHYSICAL %s TIMELINE %d", postgres.FormatLSN(begin), from.Timeline)})
	if err := front.Flush(); err != nil {
		return 0, err
	}
	for {
		message, err := connection.ReceiveMessage(ctx)
		refused, _ := errors.AsType[*pgconn.PgError](err)
		if answer, isError := message.(*pgproto3.ErrorResponse); isError {
			refused = pgconn.ErrorResponseToPgError(answer)
		}
		switch {
		case refused != nil && refused.Code == stateNoFile:
			return begin + size, nil
		case refused != nil:
			return 0, session.Short(refused)
		case err != nil:
			return 0, err
		}
		switch message.(type) {
		case *pgproto3.CopyData, *pgproto3.CopyDone:
			return 0, nil
		}
	}
}

// segmentSize reads what the server shows, such as 16MB.
func segmentSize(text string) (uint64, error) {
	for unit, bytes := range map[string]uint64{"MB": 1 << 20, "GB": 1 << 30} {
		if number, found := strings.CutSuffix(text, unit); found {
			if count, err := strconv.ParseUint(number, 10, 16); err == nil && count > 0 {
				return count * bytes, nil
			}
		}
	}
	return 0, fmt.Errorf("read the size of a segment: %q is none", text)
}

// connect opens a connection for the commands of replication.
func (c *Copies) connect(ctx context.Context, source postgres.Source) (*pgconn.PgConn, error) {
	return c.connectAs(ctx, source, render.RoleReplication, map[string]string{"replication": "true"})
}

func (c *Copies) connectAs(
	ctx context.Context, source postgres.Source, role string, parameters map[string]string,
) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig(fmt.Sprintf(
		"host=%s port=%d user=%s dbname=postgres sslmode=disable passfile=/nonexistent",
		source.Host, source.Port, role))
	if err != nil {
		return nil, err
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(c.Installed, wire.KeyCertificate),
		filepath.Join(c.Installed, wire.KeyPrivateKey))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(c.Installed, wire.KeyAuthority))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	config.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: source.Host, RootCAs: pool, Certificates: []tls.Certificate{certificate},
	}
	config.Fallbacks, config.Password = nil, ""
	config.RuntimeParams = parameters
	config.RuntimeParams["application_name"] = "ask/" + source.Instance
	if source.Address != "" {
		config.LookupFunc = func(context.Context, string) ([]string, error) { return []string{source.Address}, nil }
	}
	config.DialFunc = (&net.Dialer{Timeout: askPatience}).DialContext
	return pgconn.ConnectConfig(ctx, config)
}
