package extension

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/wire"
)

// Functions of an extension read its tables with the rights of whoever calls them, and some scripts forget to let
// anybody read. What a script or a person has said about the rights of something stays: a right that was revoked does
// not come back, and what a script closes stays closed.

// untouched are the relations that an extension e of a superuser has brought, and of which nobody has said who may read
// them. Sequences are not among them: reading is all that is granted.
const untouched = `
  from pg_depend d join pg_class c on c.oid = d.objid join pg_namespace n on n.oid = c.relnamespace
  where d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid and d.classid = 'pg_class'::regclass
    and d.deptype = 'e' and c.relkind in ('r', 'p', 'v', 'm', 'f') and c.relacl is null
    and (select o.rolsuper from pg_roles o where o.oid = c.relowner)
    and (select o.rolsuper from pg_roles o where o.oid = e.extowner)`

// unused is the schema of an extension e that PostgreSQL has made for it, because its control file names it. A schema
// with another name may be a person's, with more in it than the extension.
const unused = `
  from pg_namespace n
  where n.oid = e.extnamespace and n.nspname in ('tiger', 'topology') and n.nspacl is null
    and (select o.rolsuper from pg_roles o where o.oid = n.nspowner)
    and (select o.rolsuper from pg_roles o where o.oid = e.extowner)`

// Closed tells of the extension e whether there is anything in it that Grant would let everybody read or use.
const Closed = `(exists (select` + untouched + `) or exists (select` + unused + `))`

const grantsQuery = `
select format('grant usage on schema %I to public', s.nspname)
from pg_extension e cross join lateral (select n.nspname` + unused + `) s where e.extname = $1
union all
select format('grant select on %I.%I to public', r.nspname, r.relname)
from pg_extension e cross join lateral (select n.nspname, c.relname` + untouched + `) r where e.extname = $1`

// Grant lets everybody in the database read what an extension has brought, where that is data to look things up in.
func (s Session) Grant(ctx context.Context, database, name string) error {
	connection, err := s(ctx, database, nil)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	if err := execute(ctx, connection, "begin isolation level read committed"); err != nil {
		return err
	}
	if err := grant(ctx, connection, name); err != nil {
		return err
	}
	return execute(ctx, connection, "commit")
}

// grant is part of a transaction. It asks again afterwards, because a name may lead elsewhere: the application can
// rename a schema of its own in which an extension lies.
func grant(ctx context.Context, connection *pgx.Conn, name string) error {
	if !wire.Reference(name) {
		return nil
	}
	statements, err := grants(ctx, connection, name)
	if err != nil {
		return err
	}
	if err := executeAll(ctx, connection, statements); err != nil {
		return fmt.Errorf("let everybody read what %s has brought: %w", name, err)
	}
	left, err := grants(ctx, connection, name)
	if err == nil && len(left) > 0 {
		return errors.New("schemas were renamed at the same time; this is tried again")
	}
	return err
}

func grants(ctx context.Context, connection *pgx.Conn, name string) ([]string, error) {
	rows, err := connection.Query(ctx, grantsQuery, name)
	if err != nil {
		return nil, fmt.Errorf("look for what %s has brought: %w", name, short(err))
	}
	statements, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for what %s has brought: %w", name, short(err))
	}
	return statements, nil
}
