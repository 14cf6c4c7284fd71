package restore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/seal"
)

// What the program that is run for each file ends with. PostgreSQL takes 1 to 125 for "there is no such file" and ends
// the recovery there, with rows missing and no error; above that it gives the recovery up (K6). A program that crashes
// ends with 2, so only a code of its own means absent, and command turns it into what PostgreSQL understands.
const (
	exitDone   = 0
	exitAbsent = 44
	// ExitAbort gives the recovery up.
	ExitAbort = 255
)

// command is what PostgreSQL runs for each file.
func command(program, socket string) string {
	return fmt.Sprintf(`%s %s "%%f" "%%p"; case $? in %d) exit 0;; %d) exit 1;; esac; exit %d`,
		program, socket, exitDone, exitAbsent, ExitAbort)
}

// fetcher hands PostgreSQL the files of the log. It goes by the listing that the recovery was planned on: what that
// does not show is absent, and what it shows is fetched for as long as that takes.
type fetcher struct {
	from      *repository.Repository
	catalogue *backup.Catalogue
	recovery  plan.Recovery
	listener  net.Listener
	// waiting is told why a file is waited for.
	waiting func(error)
	// delivered is told of each file. It may be nil.
	delivered func(name string)

	mutex sync.Mutex
	err   error // Why recovery was given up.
}

// retryAfter is how long it is waited before a store that is away is asked again.
var retryAfter = time.Second

func (f *fetcher) serve(ctx context.Context) {
	for {
		connection, err := f.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = connection.Close() }()
			line, err := bufio.NewReader(connection).ReadString('\n')
			name, path, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if err != nil || !found {
				return
			}
			_, _ = fmt.Fprintln(connection, f.answer(ctx, name, path))
		}()
	}
}

// answer delivers a file. It returns only what is sure.
func (f *fetcher) answer(ctx context.Context, name, path string) int {
	for {
		found, err := f.deliver(ctx, name, path)
		switch {
		case err == nil && found:
			if f.delivered != nil {
				f.delivered(name)
			}
			return exitDone
		case err == nil:
			return exitAbsent
		case ctx.Err() != nil:
			return ExitAbort
		case errors.Is(err, repository.ErrLost), errors.Is(err, seal.ErrDamaged), errors.Is(err, seal.ErrKeyWrong):
			f.mutex.Lock()
			f.err = err
			f.mutex.Unlock()
			return ExitAbort
		}
		if f.waiting != nil {
			f.waiting(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

func (f *fetcher) deliver(ctx context.Context, name, path string) (bool, error) {
	var timeline int
	if rest, isHistory := strings.CutSuffix(name, ".history"); isHistory {
		// A name that cannot be read is one of timeline 0, which there is not.
		_, _ = fmt.Sscanf(rest, "%08X", &timeline)
		if log := f.catalogue.Log(timeline); timeline == 1 || log == nil || log.History == nil {
			return false, nil
		}
		content, err := f.from.History(ctx, timeline)
		if err != nil {
			return false, err
		}
		return true, os.WriteFile(path, content, 0o600)
	}
	size := f.catalogue.Owner.SegmentSize
	timeline, number, ok := backup.ParseSegment(name, size)
	if !ok {
		return false, nil
	}
	file, found := plan.FileOf(f.catalogue, f.recovery.History, timeline, number)
	if !found {
		return false, nil
	}
	err := f.write(path, func(to io.Writer) error { return f.from.WriteFile(ctx, file, size, to) })
	if !errors.Is(err, repository.ErrLost) {
		return true, err
	}
	// Pieces of a segment are removed when all of it is there: whoever still ships has done that since the listing.
	again, fresh := f.anew(ctx, file)
	if fresh != nil {
		return true, fresh
	}
	if again == nil {
		return true, err
	}
	return true, f.write(path, func(to io.Writer) error { return f.from.WriteFile(ctx, *again, size, to) })
}

// anew looks for the same bytes of the log under other names, nil if they are gone.
func (f *fetcher) anew(ctx context.Context, file backup.File) (*backup.File, error) {
	catalogue, err := f.from.Catalogue(ctx)
	if err != nil {
		return nil, err
	}
	found, there := plan.FileOf(&catalogue, f.recovery.History, file.Timeline, file.Number)
	if !there || found.Valid < file.Valid {
		return nil, nil
	}
	// Whatever was added since lies behind what the recovery was planned on.
	found.Valid = file.Valid
	return &found, nil
}

// write makes a file appear as a whole: PostgreSQL would take a part for the end of the log.
func (f *fetcher) write(path string, content func(io.Writer) error) error {
	draft, err := os.CreateTemp(filepath.Dir(path), ".fetch-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }()
	buffered := bufio.NewWriterSize(draft, 256<<10)
	if err := errors.Join(content(buffered), buffered.Flush(), draft.Close()); err != nil {
		return err
	}
	return os.Rename(draft.Name(), path)
}

func (f *fetcher) failure() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.err
}

// Fetch is what the restore_command runs: it asks the process that restores for a file, and tells the exit code. If
// nobody answers, the recovery is given up: only who restores may say that the log has ended (K6).
func Fetch(socket, name, path string) int {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return ExitAbort
	}
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return ExitAbort
	}
	defer func() { _ = connection.Close() }()
	if _, err := fmt.Fprintf(connection, "%s %s\n", name, absolute); err != nil {
		return ExitAbort
	}
	code := ExitAbort
	if _, err := fmt.Fscan(connection, &code); err != nil {
		return ExitAbort
	}
	return code
}
