package restore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"meridian.dev/meridian/internal/backup"
)

// superuser is who made the source's data directory, as in every one of ours.
const superuser = "postgres"

// reset changes what came back before anybody sees it. The server listens in the work folder alone, which only its
// owner may enter.
func reset(ctx context.Context, request Request, base backup.Backup) error {
	if len(request.Reset) == 0 {
		return nil
	}
	empty, access := filepath.Join(request.Work, "empty.conf"), filepath.Join(request.Work, "reset-hba.conf")
	if err := os.Chmod(request.Work, 0o700); err != nil {
		return fmt.Errorf("reset what came back: %w", err)
	}
	if err := os.WriteFile(access, []byte("local all "+superuser+" trust\n"), 0o600); err != nil {
		return fmt.Errorf("reset what came back: %w", err)
	}
	arguments := []string{"-D", request.Data}
	for _, setting := range append(Needed(base),
		"config_file="+empty, "hba_file="+access, "ident_file="+empty, "listen_addresses=", "ssl=off",
		"unix_socket_directories="+request.Work, "port=5432", "logging_collector=off", "log_destination=stderr",
		"archive_mode=off", "shared_preload_libraries=", "synchronous_standby_names=", "autovacuum=off", "lc_messages=C",
		"max_logical_replication_workers=0", "session_preload_libraries=", "local_preload_libraries=",
	) {
		arguments = append(arguments, "-c", setting)
	}
	server, err := request.Tools.start("postgres", nil, arguments...)
	if err != nil {
		return fmt.Errorf("reset what came back: %w", err)
	}
	err = whileUp(ctx, request, server)
	if err != nil {
		server.end()
		return fmt.Errorf("reset what came back: %w", err)
	}
	err = server.signal(syscall.SIGINT)
	<-server.done
	if err := errors.Join(err, server.err); err != nil {
		return fmt.Errorf("reset what came back: %w", err)
	}
	return nil
}

// whileUp waits until the server answers, and runs the statements as one transaction.
func whileUp(ctx context.Context, request Request, server *program) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for request.Tools.run(ctx, "pg_isready", "--quiet", "--host="+request.Work, "--port=5432") != nil {
		select {
		case <-server.done:
			return errors.New("the server ended: " + lastFatal(server.text()))
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	return request.Tools.run(ctx, "psql", "--no-psqlrc", "-qXAt", "--single-transaction", "-v", "ON_ERROR_STOP=1",
		"--host="+request.Work, "--port=5432", "--username="+superuser, "--dbname=postgres", "--no-password",
		"--command="+strings.Join(request.Reset, ";\n"))
}
