// Package verify restores the latest of a repository on trial, and looks through what came back: pages, indexes, and
// whether a spatial index finds what a scan finds. It writes the result into the repository, beside the backup, and
// takes part in nothing: its server listens on a socket in a folder of its own, and is gone when it ends.
//
// Start reading at Run.
package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/backup/seal"
)

// Request says what to try, and where.
type Request struct {
	From  *repository.Repository
	Tools restore.Tools
	// Data and Work are as for a restore. What is left in them is of no use to anybody.
	Data, Work   string
	FetchCommand string
	Waiting      func(error)
	// Now is a clock, for the name of the record and the duration.
	Now func() time.Time
}

// Result is what a trial came to.
type Result struct {
	Restore  restore.Result
	Duration time.Duration // Of the restore alone: the measured time to recover.
	// Indexes is how many spatial indexes were compared with scans.
	Indexes int
	// Problem is what is wrong with the backup, nil if nothing is.
	Problem error
}

// Run restores, looks and writes down. Its error says that the trial could not be made, which says nothing about the
// backup; what is wrong with the backup is in the result.
func Run(ctx context.Context, request Request) (Result, error) {
	began, result := request.Now(), Result{}
	var chosen string
	restored, err := restore.Run(ctx, restore.Request{
		From: request.From, Tools: request.Tools, Data: request.Data, Work: request.Work,
		FetchCommand: request.FetchCommand, Waiting: request.Waiting,
		Progress: func(progress restore.Progress) { chosen = progress.Backup },
	})
	switch {
	case err == nil:
		result.Restore, result.Duration = restored, request.Now().Sub(began)
		result.Indexes, err = look(ctx, request, restored.Backup)
		if problem, ok := errors.AsType[*ProblemError](err); ok {
			result.Problem, err = problem, nil
		}
		if err != nil {
			return Result{}, fmt.Errorf("look through what was restored: %w", err)
		}
	case isWrong(err) && ctx.Err() == nil && chosen != "":
		result.Restore.Backup.ID, result.Problem = chosen, &ProblemError{Check: "restore", Said: err.Error()}
	default:
		return Result{}, fmt.Errorf("restore on trial: %w", err)
	}
	trial := backup.Verified{Backup: result.Restore.Backup.ID, RestoreMilliseconds: result.Duration.Milliseconds()}
	if result.Problem != nil {
		trial.Problem = result.Problem.Error()
	}
	if err := request.From.PutVerified(ctx, began.UTC().Format("20060102T150405Z"), trial); err != nil {
		return Result{}, fmt.Errorf("write down what was found: %w", err)
	}
	return result, nil
}

// isWrong says that a restore has failed for what is in the repository, and not for what is around it.
func isWrong(err error) bool {
	ended, byProgram := errors.AsType[*restore.ExitError](err)
	return errors.Is(err, seal.ErrDamaged) || errors.Is(err, repository.ErrLost) || errors.Is(err, restore.ErrShort) ||
		byProgram && ended.Program == "pg_verifybackup"
}

// ProblemError is something wrong with what was restored.
type ProblemError struct{ Check, Said string }

func (p *ProblemError) Error() string { return p.Check + ": " + p.Said }

// look runs PostgreSQL's own checks, first on the files and then on a server that only we can reach.
func look(ctx context.Context, request Request, base backup.Backup) (int, error) {
	if err := request.run(ctx, "pg_checksums", "--check", "--pgdata="+request.Data); err != nil {
		// A database without checksums has none to look at.
		if problem, ok := errors.AsType[*ProblemError](err); !ok || !strings.Contains(problem.Said, "not enabled") {
			return 0, err
		}
	}
	stop, err := serve(ctx, request, base)
	if err != nil {
		return 0, err
	}
	defer stop()
	host := []string{"--host=" + request.Work, "--port=5432", "--username=" + superuser}
	// Its functions go into every database of the copy, which nobody else will see.
	amcheck := append(host, "--all", "--install-missing", "--heapallindexed", "--no-password")
	if err := request.run(ctx, "pg_amcheck", amcheck...); err != nil {
		return 0, err
	}
	return compare(ctx, request)
}

const superuser = "postgres"

// serve starts the server, and waits until it answers.
func serve(ctx context.Context, request Request, base backup.Backup) (stop func(), err error) {
	access, empty := filepath.Join(request.Work, "trial-hba.conf"), filepath.Join(request.Work, "trial.conf")
	for path, content := range map[string]string{access: "local all " + superuser + " trust\n", empty: ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	arguments := []string{"-D", request.Data}
	for _, setting := range append(restore.Needed(base),
		"config_file="+empty, "hba_file="+access, "ident_file="+empty, "listen_addresses=", "ssl=off",
		"unix_socket_directories="+request.Work, "port=5432", "logging_collector=off", "archive_mode=off",
		"shared_preload_libraries=", "synchronous_standby_names=", "fsync=off", "autovacuum=off",
		"max_logical_replication_workers=0",
	) {
		arguments = append(arguments, "-c", setting)
	}
	command := exec.Command(filepath.Join(request.Tools.Folder, "postgres"), arguments...)
	command.Env = request.Tools.Env
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	stop = func() {
		_ = command.Process.Signal(syscall.SIGQUIT)
		<-ended
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return nil, &ProblemError{Check: "start the server", Said: last(said.String())}
		case <-ctx.Done():
			stop()
			return nil, ctx.Err()
		case <-ticker.C:
		}
		if request.run(ctx, "pg_isready", "--quiet", "--host="+request.Work, "--port=5432") == nil {
			return stop, nil
		}
	}
}

// run runs a check. One that could not run, or was killed, has found nothing.
func (r Request) run(ctx context.Context, name string, arguments ...string) error {
	_, err := r.ask(ctx, name, arguments...)
	return err
}

func (r Request) ask(ctx context.Context, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, filepath.Join(r.Tools.Folder, name), arguments...)
	command.Env = r.Tools.Env
	var output, said bytes.Buffer
	command.Stdout, command.Stderr = &output, &said
	err := command.Run()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok && failed.Exited() && ctx.Err() == nil {
		return "", &ProblemError{Check: name, Said: last(output.String() + "\n" + said.String())}
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return output.String(), nil
}

func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
