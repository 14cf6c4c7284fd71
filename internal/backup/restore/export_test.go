package restore

import (
	"context"
	"net"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
)

// ServeFiles hands out files as a restore does, until the context ends.
func ServeFiles(ctx context.Context, from *repository.Repository, catalogue *backup.Catalogue, listener net.Listener,
	waiting func(error)) {
	recovery := plan.Recovery{History: plan.Newest(catalogue)}
	fetch := &fetcher{from: from, catalogue: catalogue, recovery: recovery, listener: listener, waiting: waiting}
	fetch.serve(ctx)
}

// RetrySoon makes waiting short.
func RetrySoon() { retryAfter = time.Millisecond }

// RecordFound is what the end of the reader means.
func RecordFound(ended error) (bool, error) { return recordFound(ended) }

// RunTool runs a program with its arguments.
func RunTool(ctx context.Context, tools Tools, command ...string) error {
	return tools.run(ctx, command[0], command[1:]...)
}

// Command is what PostgreSQL runs for each file.
func Command(program, socket string) string { return command(program, socket) }
