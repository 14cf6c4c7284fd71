package server

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server/session"
	"meridian.dev/meridian/kit/supervise"
)

// Rewind implements postgres.Copies. It is done when its source has flushed all that was copied, and fails if the copy
// would need WAL that nobody has any more.
func (c *Copies) Rewind(ctx context.Context, source postgres.Source) error {
	if early, err := c.tooEarly(ctx, source); err != nil {
		return fmt.Errorf("rewind: %w", err)
	} else if early {
		return fmt.Errorf("rewind: %w", postgres.ErrEarly)
	}
	output, err := c.Supervisor.Run(ctx, supervise.Command{
		Path: "pg_rewind", Env: c.Env, Dir: c.Folder, Args: []string{
			"--target-pgdata=" + filepath.Join(c.Folder, dataFolder),
			"--source-server=" + c.conninfo(source, "user="+render.RoleRewind, "dbname=postgres",
				"application_name=rewind/"+source.Instance),
		},
	})
	if err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	// Only a copy that has left the history is rewound, so this is never true.
	if bytes.Contains(output, []byte("no rewind required")) {
		return fmt.Errorf("rewind: %w", postgres.ErrVain)
	}
	if err := c.flushSource(ctx, source); err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	if err := c.lacksWAL(ctx, source); err != nil {
		return fmt.Errorf("rewind: %w", err)
	}
	return nil
}

// lateQuery gives the timeline of the last checkpoint: before 16, pg_rewind takes a source to be on that.
const lateQuery = `
select timeline_id from pg_control_checkpoint() where current_setting('server_version_num')::integer < 160000`

// tooEarly says that pg_rewind 15 would take the source to be on an earlier timeline than it is on, because that has
// no checkpoint yet. It finds nothing to do then, or, if the copy has left an earlier timeline too, makes one that
// never starts: the place up to which it has to be replayed would be none of the timeline that is noted with it.
func (c *Copies) tooEarly(ctx context.Context, source postgres.Source) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	connection, err := c.connectAs(ctx, source, render.RoleRewind, map[string]string{"search_path": "pg_catalog"})
	if err != nil {
		return false, fmt.Errorf("ask %s about its last checkpoint: %w", source.Host, session.Short(err))
	}
	defer func() { _ = connection.Close(ctx) }()
	early, err := withoutCheckpoint(ctx, connection, source.Timeline)
	if err != nil {
		return false, fmt.Errorf("ask %s about its last checkpoint: %w", source.Host, session.Short(err))
	}
	return early, nil
}

func withoutCheckpoint(ctx context.Context, connection *pgconn.PgConn, timeline int) (bool, error) {
	results, err := connection.Exec(ctx, lateQuery).ReadAll()
	if err != nil || len(results[0].Rows) == 0 {
		return false, err
	}
	checkpointed, err := strconv.Atoi(string(results[0].Rows[0][0]))
	return checkpointed < timeline, err
}

// flushPatience bounds a flush of another server.
const flushPatience = 30 * time.Second

// flushSource has the source of a rewind flush all that it has written. A sender never sends what is not flushed, but
// pg_rewind copies the files of the WAL as they are. A source that loses power forgets what was not flushed, and goes
// on from before that on the same timeline: the copy would have WAL that no history tells of (T1).
//
// The message is a record of the WAL, whose commit flushes everything before it, and waits for no replica.
func (c *Copies) flushSource(ctx context.Context, source postgres.Source) error {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	connection, err := c.connectAs(ctx, source, render.RoleRewind, map[string]string{
		"search_path": "pg_catalog", "synchronous_commit": "local",
	})
	if err != nil {
		return fmt.Errorf("have %s flush its WAL: %w", source.Host, session.Short(err))
	}
	defer func() { _ = connection.Close(ctx) }()
	if err := flushAll(ctx, connection); err != nil {
		return fmt.Errorf("have %s flush its WAL: %w", source.Host, session.Short(err))
	}
	return nil
}

func flushAll(ctx context.Context, connection *pgconn.PgConn) error {
	_, err := connection.Exec(ctx, "select pg_logical_emit_message(true, 'meridian', 'rewound')").ReadAll()
	return err
}
