package server

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/kit/supervise"
)

// Backups is what base backups need of the own server. It may be used beside everything else, by one goroutine.
type Backups struct {
	Copies *Copies
	// Link is a session of its own: a server that hangs holds up nothing else.
	Link *Link
}

// Conninfo leads to a server as those reach it that copy it.
func (b *Backups) Conninfo(source postgres.Source) string {
	return b.Copies.conninfo(source, "user="+render.RoleReplication, "application_name=backup/"+source.Instance)
}

// Execute runs pg_basebackup with its standard output in a file, and tells how far it has come.
func (b *Backups) Execute(
	ctx context.Context, arguments []string, output *os.File, progress func(done, total int64),
) error {
	said := progressLines{told: progress}
	_, err := b.Copies.Supervisor.Run(ctx, supervise.Command{
		Path: "pg_basebackup", Args: arguments, Env: b.Copies.Env, Dir: b.Copies.Folder, Lines: said.add, Output: output,
	})
	if text := said.text(); err != nil && ctx.Err() == nil && text != "" {
		return errors.New(text)
	}
	return err
}

// Floors are the settings that a recovery of the backup needs at least as high.
func (b *Backups) Floors(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, shortPatience)
	defer cancel()
	connection, err := b.Link.connect(ctx, "postgres")
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close(ctx) }()
	rows, err := connection.Query(ctx, "select name, setting from pg_settings order by name")
	if err != nil {
		return nil, fmt.Errorf("ask for the settings of recovery: %w", short(err))
	}
	found := map[string]string{}
	var name, value string
	_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		if postgres.Bound(name) {
			found[name] = value
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("ask for the settings of recovery: %w", short(err))
	}
	return found, nil
}
