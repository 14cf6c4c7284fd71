package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server/extension"
	"meridian.dev/meridian/internal/wire"
)

// Link speaks SQL with the server over its local socket, as the superuser that exists there alone. It is for one
// goroutine.
type Link struct {
	// Folder holds the socket.
	Folder string
	Port   uint16
	// Major tells the version of the server, 0 while unknown.
	Major func() int

	// least has the connection that stays open be that of render.RoleProbe where that gets in.
	least bool

	connection *pgx.Conn
	proven     proof
	compared   compared
	deeper     deeper
	twins      twins
}

const (
	// lookPatience bounds an observation: a server that hangs is a fact, and must not hang the loop.
	lookPatience = time.Second
	// shortPatience bounds an act that takes no time in a server that is well.
	shortPatience = 5 * time.Second
)

// pinned are settings of each session. What tenants can influence, such as names in a search path or settings of a
// database, must not change what our statements mean; and our statements are not for the log.
var pinned = map[string]string{
	"application_name":                    "meridian-agent",
	"search_path":                         "pg_catalog, pg_temp",
	"client_encoding":                     "UTF8",
	"client_min_messages":                 "warning",
	"default_table_access_method":         "heap",
	"default_tablespace":                  "",
	"default_transaction_deferrable":      "off",
	"default_transaction_isolation":       "read committed",
	"default_transaction_read_only":       "off",
	"idle_in_transaction_session_timeout": "0",
	"idle_session_timeout":                "0",
	"local_preload_libraries":             "",
	"lock_timeout":                        "10s",
	"pgaudit.log":                         "none",
	"log_duration":                        "off",
	"log_min_duration_statement":          "-1",
	"log_min_error_statement":             "panic",
	"log_statement":                       "none",
	"role":                                "none",
	"row_security":                        "off",
	"standard_conforming_strings":         "on",
	"statement_timeout":                   "0",
	"synchronous_commit":                  "local",
	"transform_null_equals":               "off",
}

// suset are those of pinned that a role which is no superuser may not set: it has them by itself, see CreateAgents.
var suset = []string{
	"log_duration", "log_min_duration_statement", "log_min_error_statement", "log_statement", "pgaudit.log",
}

func (l *Link) connect(ctx context.Context, database string) (*pgx.Conn, error) {
	return l.connectWith(ctx, database, nil)
}

// connectLeast begins a session of the role that may do nothing but look. The superuser takes its place where the
// server lets it not in: one of before, whose primary has not made the role yet; one whose places are all taken; and a
// database whose owner lets nobody in.
func (l *Link) connectLeast(ctx context.Context, database string) (*pgx.Conn, error) {
	connection, err := l.dial(ctx, render.RoleProbe, database, nil)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code != "" {
		return l.connect(ctx, database)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return connection, nil
}

// connectWith begins a session with other settings than those that are pinned.
func (l *Link) connectWith(ctx context.Context, database string, others map[string]string) (*pgx.Conn, error) {
	connection, err := l.dial(ctx, render.Superuser, database, others)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", Short(err))
	}
	return connection, nil
}

func (l *Link) dial(ctx context.Context, role, database string, others map[string]string) (*pgx.Conn, error) {
	// The parser fills in what is not said from the environment and from files of the user, so everything is said.
	config, err := pgx.ParseConfig(fmt.Sprintf(
		"host=%s port=%d user=%s dbname=postgres sslmode=disable passfile=/dev/null", l.Folder, l.Port, role))
	if err != nil {
		return nil, err
	}
	config.Database, config.Password, config.Fallbacks = database, "", nil
	config.RuntimeParams = maps.Clone(pinned)
	maps.Copy(config.RuntimeParams, others)
	if l.Major != nil && l.Major() >= 17 {
		config.RuntimeParams["transaction_timeout"] = "0"
	}
	if role != render.Superuser {
		for _, name := range suset {
			delete(config.RuntimeParams, name)
		}
	}
	config.ConnectTimeout = lookPatience
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	return pgx.ConnectConfig(ctx, config)
}

// Short drops the list of attempts from an error of the library, which says the same several times.
func Short(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		return errors.New(refused.Message)
	}
	return err
}

// main is the connection that stays open.
func (l *Link) main(ctx context.Context) (*pgx.Conn, error) {
	if l.connection != nil && !l.connection.IsClosed() {
		return l.connection, nil
	}
	connect := l.connect
	if l.least {
		connect = l.connectLeast
	}
	connection, err := connect(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	l.connection = connection
	return connection, nil
}

// Close ends the connection that stays open.
func (l *Link) Close() {
	if l.connection == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.connection.Close(ctx)
	l.connection, l.proven, l.compared = nil, proof{}, compared{}
}

const serverQuery = `
select pg_is_in_recovery(),
       split_part(current_setting('server_version'), ' ', 1),
       (select system_identifier::text from pg_control_system()),
       (select timeline_id from pg_control_checkpoint()),
       case when pg_is_in_recovery() then coalesce(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())::text
            else pg_current_wal_flush_lsn()::text end,
       case when pg_is_in_recovery() then '' else pg_walfile_name(pg_current_wal_flush_lsn()) end,
       coalesce(current_setting('` + render.MarkParameter + `', true), ''),
       coalesce(current_setting('` + render.SettingsParameter + `', true), ''),
       array(select s.name from pg_settings s
             where s.pending_restart and (s.source = 'configuration file' or exists (
               select from pg_file_settings f where lower(f.name) = lower(s.name)))
             order by s.name), -- As in compareQuery.
       array(select coalesce(name, '') from pg_file_settings f
             where error is not null and (name is not null or sourcefile is not null)
               and not exists (select from pg_settings s where s.name = lower(f.name) and s.pending_restart)
             order by seqno)`

// Server implements postgres.SQL.
func (l *Link) Server(ctx context.Context) postgres.Server {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	server, err := l.look(ctx)
	if err == nil {
		err = l.prove(ctx, &server)
	}
	if err == nil {
		err = l.lookAtStreams(ctx, &server)
	}
	if err == nil {
		err = l.compare(ctx, &server)
	}
	if err != nil {
		l.Close()
		return postgres.Server{Problem: err.Error()}
	}
	return server
}

func (l *Link) look(ctx context.Context) (postgres.Server, error) {
	connection, err := l.main(ctx)
	if err != nil {
		return postgres.Server{}, err
	}
	server := postgres.Server{Reachable: true}
	var segment string
	err = connection.QueryRow(ctx, serverQuery).Scan(&server.Replica, &server.Version, &server.SystemIdentifier,
		&server.Timeline, &server.LSN, &segment, &server.Loaded, &server.Settings, &server.PendingRestart, &server.Refused)
	if err != nil {
		return postgres.Server{}, fmt.Errorf("ask the server about itself: %w", Short(err))
	}
	// The control file learns of a new timeline at the next checkpoint; the name of the log file knows at once.
	if len(segment) > 8 {
		if _, err := fmt.Sscanf(segment[:8], "%X", &server.Timeline); err != nil {
			return postgres.Server{}, fmt.Errorf("understand the name of the WAL file %q: %w", segment, err)
		}
	}
	return server, nil
}

// Application implements postgres.SQL.
func (l *Link) Application(ctx context.Context, wanted wire.Settings, logins postgres.Logins) postgres.Application {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	application, err := l.lookInside(ctx, wanted, logins)
	if err != nil {
		return postgres.Application{Problem: err.Error()}
	}
	return application
}

func (l *Link) lookInside(
	ctx context.Context, wanted wire.Settings, logins postgres.Logins,
) (postgres.Application, error) {
	connection, err := l.main(ctx)
	if err != nil {
		return postgres.Application{}, err
	}
	application := postgres.Application{Known: true}
	if err := l.lookAtLogins(ctx, connection, logins, wanted.Application, &application); err != nil {
		return postgres.Application{}, err
	}
	var letIn bool
	err = connection.QueryRow(ctx, ownerQuery, wanted.Application.Database, render.RoleProbe).
		Scan(&application.Owner, &letIn)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return application, nil
	case err != nil:
		return postgres.Application{}, fmt.Errorf("look for the database: %w", Short(err))
	}
	application.Database = true
	connect := l.connectLeast
	if !letIn {
		connect = l.connect // A refusal would be a line in the log, each second.
	}
	inside, err := connect(ctx, wanted.Application.Database)
	if err != nil {
		return postgres.Application{}, err
	}
	defer func() { _ = inside.Close(ctx) }()
	return application, l.lookDeeper(ctx, inside, wanted, &application)
}

// ownerQuery tells whose a database is, and whether its owner lets the role in that looks.
const ownerQuery = `select pg_get_userbyid(datdba), exists (
  select from pg_roles r where r.rolname = $2 and has_database_privilege(r.oid, d.oid, 'connect'))
from pg_database d where datname = $1`

// lookDeeper looks into the application's database, where anything may be the application's.
func (l *Link) lookDeeper(
	ctx context.Context, connection *pgx.Conn, wanted wire.Settings, application *postgres.Application,
) (err error) {
	if application.Extensions, err = extensions(ctx, connection, wanted); err != nil {
		return err
	}
	l.lookAtLibraries(ctx, connection, application)
	return nil
}

const extensionQuery = `
select coalesce(e.extname::text, a.name::text), coalesce(e.extversion, ''), coalesce(a.default_version, ''),
       case when o.rolsuper then '' else coalesce(o.rolname::text, '') end, ` + extension.Closed + `
from pg_extension e full join pg_available_extensions a on a.name = e.extname left join pg_roles o on o.oid = e.extowner
where e.extname is not null or a.name = any($1) order by 1`

func extensions(ctx context.Context, connection *pgx.Conn, wanted wire.Settings) ([]postgres.Extension, error) {
	rows, err := connection.Query(ctx, extensionQuery, wanted.Extensions)
	if err != nil {
		return nil, fmt.Errorf("look for extensions: %w", Short(err))
	}
	extensions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[postgres.Extension])
	if err != nil {
		return nil, fmt.Errorf("look for extensions: %w", Short(err))
	}
	// The server sorts by its own rules.
	slices.SortFunc(extensions, func(a, b postgres.Extension) int { return strings.Compare(a.Name, b.Name) })
	return extensions, nil
}

// CreateDatabase implements postgres.SQL.
func (l *Link) CreateDatabase(ctx context.Context, name, owner string) error {
	connection, err := l.main(ctx)
	if err != nil {
		return err
	}
	create := fmt.Sprintf("create database %s owner %s template template0", identifier(name), identifier(owner))
	if err := l.execute(ctx, connection, create); err != nil {
		return err
	}
	return l.scripts().Furnish(ctx, name)
}

// scripts runs those of extensions.
func (l *Link) scripts() extension.Session { return l.connectWith }

// CreateExtension implements postgres.SQL.
func (l *Link) CreateExtension(ctx context.Context, database, name string) error {
	return l.scripts().Create(ctx, database, name)
}

// UpdateExtension implements postgres.SQL.
func (l *Link) UpdateExtension(ctx context.Context, database, name, to string) error {
	return l.scripts().Update(ctx, database, name, to)
}

// GrantExtension implements postgres.SQL.
func (l *Link) GrantExtension(ctx context.Context, database, name string) error {
	return l.scripts().Grant(ctx, database, name)
}

func (l *Link) inDatabase(ctx context.Context, database, statement string) error {
	connection, err := l.connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(ctx) }()
	return l.execute(ctx, connection, statement)
}

func (l *Link) execute(ctx context.Context, connection *pgx.Conn, statement string) error {
	if _, err := connection.Exec(ctx, statement, pgx.QueryExecModeSimpleProtocol); err != nil {
		return Short(err)
	}
	return nil
}

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }
