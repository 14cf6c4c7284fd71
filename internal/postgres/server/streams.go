package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/wire"
)

// proof is what a new session has shown. A session that is open already knows what it has loaded itself, and not what
// the first process of the server, which makes all new ones, has loaded.
type proof struct {
	mark, names string
	open        bool
	loaded      time.Time
}

const proofQuery = `
select coalesce(current_setting('` + render.MarkParameter + `', true), ''),
       current_setting('synchronous_standby_names'),
       coalesce(current_setting('` + render.GateParameter + `', true), '') = '` + render.GateOpen + `',
       pg_conf_load_time()`

// prove opens a new session when the one that is open tells of another configuration than was proven.
func (l *Link) prove(ctx context.Context, server *postgres.Server) error {
	if l.proven.mark != server.Loaded || l.proven.mark == "" {
		connection, err := l.connect(ctx, "postgres")
		if err != nil {
			return err
		}
		defer func() { _ = connection.Close(ctx) }()
		var seen proof
		err = connection.QueryRow(ctx, proofQuery).Scan(&seen.mark, &seen.names, &seen.open, &seen.loaded)
		if err != nil {
			return fmt.Errorf("ask a new session about its configuration: %w", short(err))
		}
		l.proven = seen
	}
	server.Proven, server.Open = l.proven.mark, l.proven.open
	server.Replication.Names, server.Replication.Loaded = l.proven.names, l.proven.loaded
	return nil
}

// sessionsQuery counts those of applications.
const sessionsQuery = `(select count(*) from pg_stat_activity
  where backend_type = 'client backend' and usename is distinct from '` + render.Superuser + `'
    and pid <> pg_backend_pid())`

const slotsQuery = `array(select slot_name::text from pg_replication_slots where slot_type = 'physical' order by 1),
       array(select slot_name::text from pg_replication_slots where slot_type = 'physical' and active order by 1)`

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
       coalesce(flush_lsn - '0/0', 0)::bigint, coalesce(sync_priority, 0), backend_start
from pg_stat_replication order by application_name, pid`

// lookAtStreams reads what a server takes from and gives to others.
func (l *Link) lookAtStreams(ctx context.Context, server *postgres.Server) error {
	connection, err := l.main(ctx)
	if err != nil {
		return err
	}
	facts := &server.Replication
	// The senders come first, so that what is flushed is never older than what they were seen to go by.
	if facts.Senders, err = senders(ctx, connection); err != nil {
		return err
	}
	if server.Replica {
		var received, replayed, ahead, age int64
		var timeline int
		err = connection.QueryRow(ctx, replicaQuery).Scan(&facts.Receiving, &received, &replayed, &ahead, &age, &timeline,
			&facts.Sessions, &facts.Slots, &facts.Busy)
		facts.Received, facts.Replayed, facts.Ahead = uint64(received), uint64(replayed), uint64(ahead)
		facts.Age = time.Duration(age) * time.Millisecond
		server.Timeline = max(server.Timeline, timeline)
	} else {
		var flushed int64
		err = connection.QueryRow(ctx, primaryQuery, len(render.AgentRoles), render.AgentRoles).Scan(&flushed, &facts.Roles,
			&facts.Sessions, &facts.Slots, &facts.Busy)
		facts.Flushed = uint64(flushed)
	}
	if err != nil {
		return fmt.Errorf("ask the server about replication: %w", short(err))
	}
	facts.Slots = slices.DeleteFunc(facts.Slots, func(name string) bool { return !render.OurSlot(name) })
	return nil
}

func senders(ctx context.Context, connection *pgx.Conn) ([]postgres.Sender, error) {
	rows, err := connection.Query(ctx, sendersQuery)
	if err != nil {
		return nil, fmt.Errorf("ask the server about replication: %w", short(err))
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (postgres.Sender, error) {
		var sender postgres.Sender
		var name string
		var flushed int64
		err := row.Scan(&sender.PID, &name, &sender.Stream, &flushed, &sender.Priority, &sender.Began)
		sender.Member, sender.Flushed = wire.ParseMember(name), uint64(flushed)
		return sender, err
	})
	if err != nil {
		return nil, fmt.Errorf("ask the server about replication: %w", short(err))
	}
	return found, nil
}

// CreateAgents implements postgres.SQL. The functions are those that pg_rewind needs of its source.
func (l *Link) CreateAgents(ctx context.Context) error {
	var statements []string
	for role, more := range map[string]string{
		render.RoleReplication: "login replication", render.RoleRewind: "login",
		render.RoleMonitor: "login in role pg_monitor",
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
func (l *Link) KeepPlaces(ctx context.Context, wanted []string) error {
	ctx, cancel := context.WithTimeout(ctx, shortPatience)
	defer cancel()
	connection, err := l.main(ctx)
	if err != nil {
		return err
	}
	_, err = connection.Exec(ctx, `select pg_create_physical_replication_slot(name, true)
		from unnest($1::text[]) name where not pg_is_in_recovery()
		  and not exists (select from pg_replication_slots where slot_name = name)`, wanted)
	if err != nil {
		return fmt.Errorf("keep places in the log: %w", short(err))
	}
	rows, err := connection.Query(ctx, `select slot_name::text from pg_replication_slots
		where slot_type = 'physical' and not temporary and not active and not (slot_name = any($1))`, wanted)
	if err != nil {
		return fmt.Errorf("keep places in the log: %w", short(err))
	}
	idle, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("keep places in the log: %w", short(err))
	}
	for _, name := range idle {
		if !render.OurSlot(name) {
			continue
		}
		if _, err := connection.Exec(ctx, "select pg_drop_replication_slot($1)", name); err != nil {
			return fmt.Errorf("give up a place in the log: %w", short(err))
		}
	}
	return nil
}

// EndSessions implements postgres.SQL.
func (l *Link) EndSessions(ctx context.Context) error {
	return l.short(ctx, `select pg_terminate_backend(pid) from pg_stat_activity
		where backend_type = 'client backend' and usename is distinct from '`+render.Superuser+`'
		  and pid <> pg_backend_pid()`)
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
