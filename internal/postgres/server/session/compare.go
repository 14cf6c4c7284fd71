package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
)

// compared is what the last comparison has shown, of which configuration and when.
type compared struct {
	mark       string
	at         time.Time
	parameters []postgres.Parameter
	own        []postgres.Floor
}

// How long a comparison counts: what is not in force changes sooner than what is. A new configuration is not compared
// in its first moment, nor is the application's database looked into so deep: others wait for a server that is becoming
// a primary.
const (
	comparedCalm = 30 * time.Second
	comparedBusy = 2 * time.Second
	compareAfter = 500 * time.Millisecond
	deeperCalm   = 10 * time.Second
	deeperAfter  = 5 * time.Second
)

// compareQuery lists what the file says and what is not in force by it. What is in force has the place in the file that
// the server has read it from; values cannot be compared, because each has many forms. What a session sets for itself
// says nothing about the others.
//
// PostgreSQL remembers that a parameter waits for a restart even after its line is gone from the file. It waits for
// nothing then, unless the value in force was in the file too: a restart would bring what there is.
const compareQuery = `
with file as (select distinct on (lower(name)) lower(name) as name, setting, sourcefile, sourceline
              from pg_file_settings where name is not null order by lower(name), seqno desc)
select s.name::text, current_setting(s.name), coalesce(f.setting, s.boot_val, ''), s.pending_restart
from pg_settings s left join file f on f.name = lower(s.name)
where s.pending_restart and (f.name is not null or s.source = 'configuration file')
   or f.name is not null and s.source not in ('client', 'session', 'interactive', 'test', 'database', 'user',
                                              'database user')
      and (s.sourcefile, s.sourceline) is distinct from (f.sourcefile, f.sourceline)
order by s.name collate "C"`

// compare looks whether each parameter of the file is in force.
func (l *Link) compare(ctx context.Context, server *postgres.Server) error {
	calm := comparedCalm
	if len(l.compared.parameters) > 0 {
		calm = comparedBusy
	}
	due := l.compared.mark != server.Loaded || time.Since(l.compared.at) > calm
	if due && time.Since(l.proven.at) >= compareAfter {
		connection, err := l.main(ctx)
		if err != nil {
			return err
		}
		rows, err := connection.Query(ctx, compareQuery)
		if err != nil {
			return fmt.Errorf("compare the parameters: %w", Short(err))
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[postgres.Parameter])
		if err != nil {
			return fmt.Errorf("compare the parameters: %w", Short(err))
		}
		l.compared = compared{mark: server.Loaded, at: time.Now(), parameters: found}
		rows, err = connection.Query(ctx,
			`select name::text, setting::int from pg_settings where name = any($1) order by 1`, postgres.BoundNames())
		if err != nil {
			return fmt.Errorf("compare the parameters: %w", Short(err))
		}
		if l.compared.own, err = pgx.CollectRows(rows, pgx.RowToStructByPos[postgres.Floor]); err != nil {
			return fmt.Errorf("compare the parameters: %w", Short(err))
		}
	}
	server.Parameters, server.Compared, server.Own = l.compared.parameters, l.compared.mark, l.compared.own
	return nil
}

// collationQuery lists collations whose order has changed since an index was built by them. Only those that an index
// uses are of interest: there are hundreds, and a new library changes all.
const collationQuery = `
with used as (
  select distinct i.indexrelid, c.oid as sorted
  from pg_index i join pg_class k on k.oid = i.indexrelid join pg_namespace n on n.oid = k.relnamespace
  cross join lateral unnest(i.indcollation::oid[]) as c(oid)
  where n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast') and c.oid <> 0),
changed as (
  select c.oid, 'collation ' || c.collname as name, c.collversion as before, pg_collation_actual_version(c.oid) as now
  from pg_collation c where c.collversion is not null and c.oid in (select sorted from used)
  union all
  select 'default'::regcollation, 'database collation', d.datcollversion, pg_database_collation_actual_version(d.oid)
  from pg_database d where d.datname = current_database() and d.datcollversion is not null)
select name, before, coalesce(now, ''),
       array(select u.indexrelid::regclass::text from used u where u.sorted = changed.oid order by 1)
from changed where before is distinct from now order by name`

// versionsQuery finds the functions that tell versions: those of the extension, and nobody's with the same name.
const versionsQuery = `
select p.proname::text, n.nspname::text, coalesce(current_setting('` + noteParameter + `', true), '')
from pg_extension e join pg_roles o on o.oid = e.extowner and o.rolsuper
join pg_depend d on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
  and d.classid = 'pg_proc'::regclass and d.deptype = 'e'
join pg_proc p on p.oid = d.objid and p.pronargs = 0 join pg_namespace n on n.oid = p.pronamespace
where e.extname = 'postgis' and p.proname in ('postgis_geos_version', 'postgis_proj_version') order by 1`

// dependentQuery lists indexes whose values or whose choice of rows come from functions of PostGIS. A plain index of
// shapes holds boxes, which no library computes.
const dependentQuery = `
select i.indexrelid::regclass::text from pg_index i
where (i.indexprs is not null or i.indpred is not null) and exists (
  select from pg_depend d
  join pg_depend m on m.classid = 'pg_proc'::regclass and m.objid = d.refobjid and m.deptype = 'e'
    and m.refclassid = 'pg_extension'::regclass
  join pg_extension e on e.oid = m.refobjid and e.extname like 'postgis%'
  where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid and d.refclassid = 'pg_proc'::regclass)
order by 1`

// noteParameter is set for the application's database. It goes with the data to every copy, and whoever owns the
// database can take it away.
const noteParameter = "meridian.libraries"

// deeper is what was seen of libraries, with which extensions and when.
type deeper struct {
	key string
	at  time.Time
	postgres.Application
}

// lookAtLibraries looks seldom: it loads what it asks. What they are is good to know, and nothing depends on it.
func (l *Link) lookAtLibraries(ctx context.Context, connection *pgx.Conn, application *postgres.Application) {
	key := fmt.Sprint(connection.Config().Database, application.Extensions)
	due := l.deeper.key != key || time.Since(l.deeper.at) > deeperCalm
	if due && time.Since(l.proven.at) >= deeperAfter {
		l.deeper = deeper{key: key, at: time.Now()}
		if libraries(ctx, connection, &l.deeper.Application) != nil {
			l.deeper.Application = postgres.Application{}
		}
	}
	application.Libraries, application.Versions = l.deeper.Libraries, l.deeper.Versions
	application.Noted = l.deeper.Noted
}

// libraries compares what the data was written with and what there is now.
func libraries(ctx context.Context, connection *pgx.Conn, application *postgres.Application) error {
	rows, err := connection.Query(ctx, collationQuery)
	if err != nil {
		return fmt.Errorf("compare collations: %w", Short(err))
	}
	application.Libraries, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (wire.Library, error) {
		var library wire.Library
		var indexes []string
		err := row.Scan(&library.Name, &library.Before, &library.Now, &indexes)
		return bounded(library, indexes), err
	})
	if err != nil {
		return fmt.Errorf("compare collations: %w", Short(err))
	}
	return postgisLibraries(ctx, connection, application)
}

func bounded(library wire.Library, indexes []string) wire.Library {
	library.More = max(0, len(indexes)-wire.MostIndexes)
	library.Indexes = indexes[:min(len(indexes), wire.MostIndexes)]
	return library
}

func postgisLibraries(ctx context.Context, connection *pgx.Conn, application *postgres.Application) error {
	rows, err := connection.Query(ctx, versionsQuery)
	if err != nil {
		return fmt.Errorf("look for versions of libraries: %w", Short(err))
	}
	type function struct{ Name, Schema, Noted string }
	functions, err := pgx.CollectRows(rows, pgx.RowToStructByPos[function])
	if err != nil {
		return fmt.Errorf("look for versions of libraries: %w", Short(err))
	}
	var versions []string
	for _, found := range functions {
		name := strings.Split(found.Name, "_")[1]
		var text string
		call := "select coalesce(" + pgx.Identifier{found.Schema, found.Name}.Sanitize() + "(), '')"
		if err := connection.QueryRow(ctx, call).Scan(&text); err != nil {
			return fmt.Errorf("ask for the version of %s: %w", name, Short(err))
		}
		// What follows tells of files and of the network.
		version, _, _ := strings.Cut(text, " ")
		versions = append(versions, name+"="+version)
		application.Noted = found.Noted
		before, known := noted(found.Noted, name)
		if known && before != version {
			application.Libraries = append(application.Libraries, wire.Library{Name: name, Before: before, Now: version})
		}
	}
	application.Versions = strings.Join(versions, " ")
	return addDependents(ctx, connection, application)
}

// noted finds the version of a library in a note.
func noted(note, name string) (version string, found bool) {
	for _, word := range strings.Fields(note) {
		if version, found = strings.CutPrefix(word, name+"="); found {
			return version, true
		}
	}
	return "", false
}

func addDependents(ctx context.Context, connection *pgx.Conn, application *postgres.Application) error {
	for index, library := range application.Libraries {
		if !strings.Contains(application.Versions, library.Name+"=") {
			continue
		}
		rows, err := connection.Query(ctx, dependentQuery)
		if err != nil {
			return fmt.Errorf("look for dependent indexes: %w", Short(err))
		}
		indexes, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("look for dependent indexes: %w", Short(err))
		}
		application.Libraries[index] = bounded(library, indexes)
	}
	return nil
}

// NoteLibraries implements postgres.SQL.
func (l *Link) NoteLibraries(ctx context.Context, database, versions string) error {
	// A version is letters, digits and punctuation of a library's own; an apostrophe would be none.
	if strings.ContainsAny(versions, "'\\") {
		return fmt.Errorf("note versions of libraries: %q is none", versions)
	}
	l.deeper = deeper{}
	return l.short(ctx, fmt.Sprintf("alter database %s set %s = '%s'", identifier(database), noteParameter, versions))
}
