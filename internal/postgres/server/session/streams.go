package session

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/kit/watchdog"
)

// proof is what a new session has shown. A session that is open already knows what it has loaded itself, and not what
// the first process of the server, which makes all new ones, has loaded.
type proof struct {
	mark, names string
	open, full  bool
	loaded      tenure.Instant
	at          time.Time // When it was shown.
}

const proofQuery = `
select coalesce(current_setting('` + render.MarkParameter + `', true), ''),
       current_setting('synchronous_standby_names'),
       coalesce(current_setting('` + render.GateParameter + `', true), '') = '` + render.GateOpen + `',
       coalesce(current_setting('` + render.RoomParameter + `', true), '') = '` + render.RoomFull + `'`

// prove opens a new session when the one that is open tells of another configuration than was proven.
func (l *Link) prove(ctx context.Context, server *postgres.Server) error {
	if l.proven.mark != server.Loaded || l.proven.mark == "" {
		connection, err := l.connect(ctx, "postgres")
		if err != nil {
			return err
		}
		defer func() { _ = connection.Close(ctx) }()
		var seen proof
		err = connection.QueryRow(ctx, proofQuery).Scan(&seen.mark, &seen.names, &seen.open, &seen.full)
		if err != nil {
			return fmt.Errorf("ask a new session about its configuration: %w", Short(err))
		}
		seen.at, seen.loaded = time.Now(), tenure.Instant(watchdog.Now())
		l.proven = seen
	}
	server.Proven, server.Open, server.Full = l.proven.mark, l.proven.open, l.proven.full
	server.Replication.Names, server.Replication.Loaded = l.proven.names, l.proven.loaded
	return nil
}

// sessionsQuery counts those of applications.
const sessionsQuery = `(select count(*) from pg_stat_activity where ` + applicationSessions + `)`

const applicationSessions = `backend_type = 'client backend' and usename is distinct from '` + render.Superuser + `'
  and usename is distinct from '` + render.RoleProbe + `' and pid <> pg_backend_pid()`

// slotsQuery gives names in parallel with whether they are in use, whether their log is gone, and where it begins.
const slotsQuery = `s.names, s.busy, s.lost, s.holding, s.since from (
  select coalesce(array_agg(slot_name::text order by slot_name), '{}') as names,
         coalesce(array_agg(active order by slot_name), '{}') as busy,
         coalesce(array_agg(coalesce(wal_status, '') = 'lost' order by slot_name), '{}') as lost,
         coalesce(array_agg(xmin is not null order by slot_name), '{}') as holding,
         coalesce(array_agg(coalesce(restart_lsn - '0/0', 0)::bigint order by slot_name), '{}') as since
  from pg_replication_slots where slot_type = 'physical' and not temporary) s`

// places takes what slotsQuery gives.
type places struct {
	names               []string
	busy, lost, holding []bool
	since               []int64
}

// note keeps those that are ours.
func (p places) note(facts *postgres.Replication) {
	for index, name := range p.names {
		if !render.OurSlot(name) {
			continue
		}
		facts.Slots = append(facts.Slots, name)
		if p.busy[index] {
			facts.Busy = append(facts.Busy, name)
		}
		if p.lost[index] {
			facts.Lost = append(facts.Lost, name)
		}
		if p.holding[index] {
			facts.Holding = append(facts.Holding, name)
		}
		if facts.Since == nil {
			facts.Since = map[string]uint64{}
		}
		facts.Since[name] = uint64(p.since[index])
	}
}

const replicaQuery = `
select coalesce((select status = 'streaming' from pg_stat_wal_receiver), false),
       coalesce(pg_last_wal_receive_lsn() - '0/0', 0)::bigint,
       coalesce(pg_last_wal_replay_lsn() - '0/0', 0)::bigint,
       coalesce((select latest_end_lsn - '0/0' from pg_stat_wal_receiver), 0)::bigint,
       coalesce(extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp()) * 1000, 0)::bigint,
       coalesce((select received_tli from pg_stat_wal_receiver), 0),
       ` + sessionsQuery + `, ` + slotsQuery

const primaryQuery = `
select (pg_current_wal_flush_lsn() - '0/0')::bigint,
       (select count(*) = $1 from pg_roles where rolname = any($2)),
       ` + sessionsQuery + `, ` + slotsQuery

const sendersQuery = `
select pid, coalesce(application_name, ''), coalesce(state, '') = 'streaming',
       coalesce(flush_lsn - '0/0', 0)::bigint, coalesce(sync_priority, 0)
from pg_stat_replication order by application_name, pid`

// lookAtStreams reads what a server takes from and gives to others.
func (l *Link) lookAtStreams(ctx context.Context, server *postgres.Server) error {
	connection, err := l.main(ctx)
	if err != nil {
		return err
	}
	facts := &server.Replication
	var kept places
	// The senders come first, so that what is flushed is never older than what they were seen to go by.
	if facts.Senders, err = senders(ctx, connection); err != nil {
		return err
	}
	if server.Replica {
		var received, replayed, ahead, age int64
		var timeline int
		err = connection.QueryRow(ctx, replicaQuery).Scan(&facts.Receiving, &received, &replayed, &ahead, &age, &timeline,
			&facts.Sessions, &kept.names, &kept.busy, &kept.lost, &kept.holding, &kept.since)
		facts.Received, facts.Replayed, facts.Ahead = uint64(received), uint64(replayed), uint64(ahead)
		facts.Age = time.Duration(age) * time.Millisecond
		server.Timeline = max(server.Timeline, timeline)
	} else {
		var flushed int64
		err = connection.QueryRow(ctx, primaryQuery, len(render.OwnRoles), render.OwnRoles).Scan(&flushed, &facts.Roles,
			&facts.Sessions, &kept.names, &kept.busy, &kept.lost, &kept.holding, &kept.since)
		facts.Flushed = uint64(flushed)
		if err == nil {
			err = l.lookForATwin(ctx, connection, server)
		}
	}
	if err != nil {
		return fmt.Errorf("ask the server about replication: %w", Short(err))
	}
	kept.note(facts)
	return nil
}

func senders(ctx context.Context, connection *pgx.Conn) ([]postgres.Sender, error) {
	rows, err := connection.Query(ctx, sendersQuery)
	if err != nil {
		return nil, fmt.Errorf("ask the server about replication: %w", Short(err))
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (postgres.Sender, error) {
		var sender postgres.Sender
		var name string
		var flushed int64
		err := row.Scan(&sender.PID, &name, &sender.Stream, &flushed, &sender.Priority)
		sender.Member, sender.Joining, sender.Timeline = render.Streamer(name)
		sender.Flushed, sender.Began = uint64(flushed), BegunAt(sender.PID)
		return sender, err
	})
	if err != nil {
		return nil, fmt.Errorf("ask the server about replication: %w", Short(err))
	}
	return found, nil
}

// quiet is what keeps probes, looks and figures out of the log, and which no ordinary role may say for itself.
var quiet = []string{
	"log_duration = 'off'", "log_min_duration_statement = '-1'", "log_min_error_statement = 'panic'",
	"log_statement = 'none'", "pgaudit.log = 'none'",
}

// CreateAgents implements postgres.SQL. The functions are those that pg_rewind needs of its source.
func (l *Link) CreateAgents(ctx context.Context) error {
	var statements []string
	for role, more := range map[string]string{
		render.RoleReplication: "login replication", render.RoleRewind: "login",
		render.RoleMonitor: "login in role pg_monitor", render.RoleProbe: "login",
	} {
		statements = append(statements, fmt.Sprintf(
			"do $$ begin if not exists (select from pg_roles where rolname = '%s') then create role %s %s; end if; end $$",
			role, role, more))
	}
	slices.Sort(statements)
	for _, function := range []string{
		"pg_ls_dir(text, boolean, boolean)", "pg_stat_file(text, boolean)", "pg_read_binary_file(text)",
		"pg_read_binary_file(text, bigint, bigint, boolean)", //nolint:dupword // The types of its parameters.
	} {
		statements = append(statements, "grant execute on function pg_catalog."+function+" to "+render.RoleRewind)
	}
	for _, setting := range quiet {
		statements = append(statements, "alter role "+render.RoleProbe+" set "+setting,
			"alter role "+render.RoleMonitor+" set "+setting)
	}
	return l.short(ctx, "begin; "+strings.Join(statements, "; ")+"; commit")
}

// short runs a statement that takes no time.
func (l *Link) short(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, shortPatience)
	defer cancel()
	connection, err := l.main(ctx)
	if err != nil {
		return err
	}
	if err := l.execute(ctx, connection, statement); err != nil {
		// A transaction may have been left open.
		l.Close()
		return err
	}
	return nil
}

// KeepPlaces implements postgres.SQL.
func (l *Link) KeepPlaces(ctx context.Context, how postgres.KeepPlaces) error {
	// No list at all would be an unknown one to the server, of which nothing follows.
	wanted := append([]string{}, how.Slots...)
	ctx, cancel := context.WithTimeout(ctx, shortPatience)
	defer cancel()
	connection, err := l.main(ctx)
	if err != nil {
		return err
	}
	// A slot whose log is gone keeps nothing any more, and a replica is not let in by it.
	_, err = connection.Exec(ctx, `select pg_drop_replication_slot(slot_name) from pg_replication_slots
		where slot_type = 'physical' and not active and wal_status = 'lost' and slot_name = any($1)`, wanted)
	if err != nil {
		return fmt.Errorf("drop a replication slot: %w", Short(err))
	}
	for _, slot := range how.Release {
		if err := l.releaseRows(ctx, slot); err != nil {
			return err
		}
	}
	_, err = connection.Exec(ctx, `select pg_create_physical_replication_slot(name, true)
		from unnest($1::text[]) name
		where not exists (select from pg_replication_slots where slot_name = name)`, wanted)
	if err != nil {
		return fmt.Errorf("keep replication slots: %w", Short(err))
	}
	for slot, lsn := range how.Positions {
		// The server goes no further than it has replayed, and never back.
		_, err = connection.Exec(ctx, `select pg_replication_slot_advance(slot_name, $2::pg_lsn) from pg_replication_slots
			where slot_name = $1 and slot_type = 'physical' and not active and restart_lsn < $2::pg_lsn`,
			slot, postgres.FormatLSN(lsn))
		if err != nil {
			return fmt.Errorf("advance a replication slot: %w", Short(err))
		}
	}
	rows, err := connection.Query(ctx, `select slot_name::text from pg_replication_slots
		where slot_type = 'physical' and not temporary and not active and not (slot_name = any($1))`, wanted)
	if err != nil {
		return fmt.Errorf("keep replication slots: %w", Short(err))
	}
	idle, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("keep replication slots: %w", Short(err))
	}
	for _, name := range idle {
		if !render.OurSlot(name) {
			continue
		}
		if _, err := connection.Exec(ctx, "select pg_drop_replication_slot($1)", name); err != nil {
			return fmt.Errorf("drop a replication slot: %w", Short(err))
		}
	}
	return nil
}

// releaseRows takes the xmin from a slot that nobody uses, as a replica does that needs no rows any more: by a message
// over a connection that streams by the slot. Its place in the WAL stays, because no position is ever reported.
func (l *Link) releaseRows(ctx context.Context, slot string) error {
	config, err := pgconn.ParseConfig(fmt.Sprintf(
		"host=%s port=%d user=%s dbname=postgres sslmode=disable passfile=/dev/null", l.Folder, l.Port, render.Superuser))
	if err != nil {
		return err
	}
	config.Fallbacks = nil
	config.RuntimeParams = map[string]string{"replication": "database", "application_name": "release/" + slot}
	connection, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("release the rows that a slot holds: %w", Short(err))
	}
	defer func() { _ = connection.Close(ctx) }()
	row, err := FirstRow(ctx, connection, "READ_REPLICATION_SLOT "+slot, 3)
	if err != nil {
		return err
	}
	front := connection.Frontend()
	front.SendQuery(&pgproto3.Query{
		String: "START_REPLICATION SLOT " + slot + " PHYSICAL " + row[1] + " TIMELINE " + row[2],
	})
	if err := front.Flush(); err != nil {
		return err
	}
	if message, err := connection.ReceiveMessage(ctx); err != nil {
		return err
	} else if _, streams := message.(*pgproto3.CopyBothResponse); !streams {
		return fmt.Errorf("release the rows that a slot holds: %T", message)
	}
	// Hot standby feedback: the time, then xmin and catalog xmin with their epochs. Zero is none.
	front.Send(&pgproto3.CopyData{Data: append([]byte{'h'}, make([]byte, 24)...)})
	front.Send(&pgproto3.CopyDone{})
	if err := front.Flush(); err != nil {
		return err
	}
	for {
		message, err := connection.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		if _, done := message.(*pgproto3.CopyDone); done {
			return nil
		}
	}
}

// EndSessions implements postgres.SQL.
func (l *Link) EndSessions(ctx context.Context) error {
	return l.short(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where "+applicationSessions)
}

// Times of a drain: how long it may take in all, and how long the sessions get between two looks.
const (
	drainPatience = time.Second
	drainPause    = 10 * time.Millisecond
)

// Drain implements postgres.SQL, over a session of its own. The message is a record of the WAL: its commit flushes
// everything before it, also what sessions wrote that do not wait for that.
func (l *Link) Drain(ctx context.Context) (reached uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	connection, err := l.connect(ctx, "postgres")
	if err != nil {
		return 0, err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	for {
		var left int
		if err := connection.QueryRow(ctx, `select count(pg_terminate_backend(pid)) from pg_stat_activity
			where `+applicationSessions).Scan(&left); err != nil {
			return 0, fmt.Errorf("end the sessions of applications: %w", Short(err))
		}
		if left == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("end the sessions of applications: %d are left: %w", left, ctx.Err())
		case <-time.After(drainPause):
		}
	}
	var lsn int64
	err = connection.QueryRow(ctx,
		"select (pg_logical_emit_message(true, 'meridian', 'drained') - '0/0')::bigint").Scan(&lsn)
	if err != nil {
		return 0, fmt.Errorf("flush the WAL: %w", Short(err))
	}
	return uint64(lsn), nil
}

// EndSenders implements postgres.SQL.
func (l *Link) EndSenders(ctx context.Context, numbers []int) error {
	var words []string
	for _, number := range numbers {
		words = append(words, fmt.Sprint(number))
	}
	return l.short(ctx, `select pg_terminate_backend(pid) from pg_stat_replication
		where pid in (`+strings.Join(words, ", ")+`)`)
}

// Checkpoint implements postgres.SQL, over a session of its own, because it takes long.
func (l *Link) Checkpoint(ctx context.Context) error {
	return l.inDatabase(ctx, "postgres", "checkpoint")
}

// LeaveSegment implements postgres.SQL.
func (l *Link) LeaveSegment(ctx context.Context) error { return l.short(ctx, "select pg_switch_wal()") }

// twins is what is known of the segment that a primary writes. Once it has one of its own, it never comes back to one
// of an earlier timeline, so nobody looks again.
type twins struct {
	timeline int
	own      bool
	since    time.Time
}

// twinQuery looks a byte further: where one segment ends, the server still names that one.
const twinQuery = `
select exists (select from pg_ls_waldir() as file where file.name ~ '^[0-9A-F]{24}$'
                 and substr(file.name, 9) = substr(present.name, 9) and file.name <> present.name)
from (select pg_walfile_name(pg_current_wal_lsn() + 1) as name) as present`

// lookForATwin notes since when the segment that a primary writes was seen to be there for an earlier timeline too.
func (l *Link) lookForATwin(ctx context.Context, connection *pgx.Conn, server *postgres.Server) error {
	if l.twins.timeline != server.Timeline {
		l.twins = twins{timeline: server.Timeline}
	}
	if l.twins.own {
		return nil
	}
	var found bool
	if err := connection.QueryRow(ctx, twinQuery).Scan(&found); err != nil {
		return err
	}
	switch {
	case !found:
		l.twins.own, l.twins.since = true, time.Time{}
	case l.twins.since.IsZero():
		l.twins.since = time.Now()
	}
	server.Replication.Twin = l.twins.since
	return nil
}
