package restore_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store/model"
)

const size = 1 << 20

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A file is delivered as a whole, or not at all; "there is none" is said only of what the listing does not show; all
// else gives recovery up or waits, because PostgreSQL takes every other answer for the end of the log (K6).
func TestOnlyTheListingEndsTheLog(t *testing.T) {
	restore.RetrySoon()
	whole := backup.WALName(1, 5, size, ".zst")
	tail := backup.TailName(1, backup.Tail{Number: 6, To: 300}, size, ".zst")
	for name, c := range map[string]struct {
		file string
		harm func(*model.Store, *repository.Repository)
		code int
		// waits says that it must have waited at least once.
		waits bool
	}{
		"a whole segment":               {file: backup.SegmentName(1, 5, size)},
		"a segment made of tails":       {file: backup.SegmentName(1, 6, size)},
		"a segment of a left timeline":  {file: backup.SegmentName(1, 7, size), code: 44},
		"the history of a timeline":     {file: "00000002.history"},
		"a segment that was never made": {file: backup.SegmentName(2, 9, size), code: 44},
		"a history that was never made": {file: "00000003.history", code: 44},
		"a file of another kind":        {file: "000000010000000000000005.00000028.backup", code: 44},
		"a store that is away for a while": {file: backup.SegmentName(1, 5, size), waits: true,
			harm: func(under *model.Store, _ *repository.Repository) { awayFor(under, 3, model.Refused) }},
		"credentials that are refused for a while": {file: backup.SegmentName(1, 5, size), waits: true,
			harm: func(under *model.Store, _ *repository.Repository) { awayFor(under, 3, model.Denied) }},
		"not found, but listed": {file: backup.SegmentName(1, 5, size), waits: true,
			harm: func(under *model.Store, _ *repository.Repository) { awayFor(under, 3, model.Missed) }},
		"a segment that was lost since": {file: backup.SegmentName(1, 5, size), code: 255,
			harm: func(under *model.Store, r *repository.Repository) { must(t, under.Delete(t.Context(), r.Root+whole)) }},
		"a segment whose pieces were put together since": {file: backup.SegmentName(1, 6, size),
			harm: func(under *model.Store, r *repository.Repository) {
				must(t, under.Delete(t.Context(), r.Root+tail))
				must(t, r.PutSegment(t.Context(), backup.Owner{SegmentSize: size}, 1, 6, bytes.NewReader(make([]byte, size))))
			}},
		"pieces of a segment that were lost since": {file: backup.SegmentName(1, 6, size), code: 255,
			harm: func(under *model.Store, r *repository.Repository) { must(t, under.Delete(t.Context(), r.Root+tail)) }},
		"a segment that was damaged": {file: backup.SegmentName(1, 5, size), code: 255,
			harm: func(under *model.Store, r *repository.Repository) {
				must(t, under.Delete(t.Context(), r.Root+whole))
				must(t, under.PutIfAbsent(t.Context(), r.Root+whole, strings.NewReader("no zstd")))
			}},
		"a segment that is too short": {file: backup.SegmentName(1, 5, size), code: 255,
			harm: func(under *model.Store, r *repository.Repository) {
				must(t, under.Delete(t.Context(), r.Root+whole))
				sealed, err := seal.Keys{}.Seal(strings.NewReader("short"))
				must(t, err)
				must(t, under.PutIfAbsent(t.Context(), r.Root+whole, sealed))
			}},
	} {
		t.Run(name, func(t *testing.T) {
			under, r, catalogue := newRepository(t)
			if c.harm != nil {
				c.harm(under, r)
			}
			folder := t.TempDir()
			socket, path := filepath.Join(folder, "s"), filepath.Join(folder, "RECOVERYXLOG")
			listener, err := net.Listen("unix", socket)
			must(t, err)
			defer func() { _ = listener.Close() }()
			waited := make(chan error, 100)
			go restore.ServeFiles(t.Context(), r, &catalogue, listener, func(err error) { waited <- err })
			code := restore.Fetch(socket, c.file, path)
			if code != c.code || c.waits != (len(waited) > 0) {
				t.Errorf("it ended with %d after %d waits", code, len(waited))
			}
			content, err := os.ReadFile(path)
			if (err == nil) != (c.code == 0) {
				t.Errorf("the file: %v", err)
			}
			if err == nil && !strings.HasSuffix(c.file, ".history") && len(content) != size {
				t.Errorf("the file has %d bytes", len(content))
			}
		})
	}
}

func awayFor(under *model.Store, calls int, fault model.Fault) {
	under.Fault = func(string, string) model.Fault {
		if calls--; calls >= 0 {
			return fault
		}
		return model.None
	}
}

// newRepository has segment 5 and a part of 6 on timeline 1, which was left in 6 for timeline 2.
func newRepository(t *testing.T) (*model.Store, *repository.Repository, backup.Catalogue) {
	t.Helper()
	ctx := context.Background()
	now := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	under := &model.Store{Now: func() time.Time { now = now.Add(time.Second); return now }}
	r := &repository.Repository{Store: under, Root: "x/"}
	owner := backup.Owner{DatabaseUID: "u", SystemIdentifier: "7", SegmentSize: size}
	must(t, r.Claim(ctx, owner))
	zeros := func(count int) io.Reader { return bytes.NewReader(make([]byte, count)) }
	must(t, r.PutSegment(ctx, owner, 1, 5, zeros(size)))
	must(t, r.PutTail(ctx, owner, 1, backup.Tail{Number: 6, To: 300}, zeros(300)))
	must(t, r.PutSegment(ctx, owner, 1, 7, zeros(size)))
	must(t, r.PutHistory(ctx, 2, []byte("1\t0/600100\tno recovery target specified\n")))
	catalogue, err := r.Catalogue(ctx)
	must(t, err)
	return under, r, catalogue
}

func TestNobodyToAskGivesRecoveryUp(t *testing.T) {
	folder := t.TempDir()
	if code := restore.Fetch(filepath.Join(folder, "none"), "00000002.history", filepath.Join(folder, "x")); code != 255 {
		t.Errorf("without anybody it ended with %d", code)
	}
	listener, err := net.Listen("unix", filepath.Join(folder, "s"))
	must(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		connection, err := listener.Accept()
		if err == nil {
			_ = connection.Close()
		}
	}()
	if code := restore.Fetch(filepath.Join(folder, "s"), "00000002.history", filepath.Join(folder, "x")); code != 255 {
		t.Errorf("with somebody who ends before the answer it ended with %d", code)
	}
}

// A data directory that is there already is never written into.
func TestFilesRefuseAFolderThatIsNotEmpty(t *testing.T) {
	_, r, _ := newRepository(t)
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "PG_VERSION"), []byte("15"), 0o600))
	err := restore.Files(context.Background(), r, backup.Backup{}, restore.Place{Data: folder})
	if err == nil || !strings.Contains(err.Error(), "is not empty") {
		t.Errorf("it ended in %v", err)
	}
}

// PostgreSQL is told that there is no file only by whoever has looked for it: a program that crashes, cannot be run or
// is called in a wrong way gives recovery up.
func TestOnlyOneCodeMeansAbsent(t *testing.T) {
	for program, want := range map[string]int{
		"sh -c 'exit 0'": 0, "sh -c 'exit 44'": 1, "sh -c 'exit 1'": 255, "sh -c 'exit 2'": 255, "/there/is/none": 255,
		"sh -c 'kill -9 $$'": 255,
	} {
		text := strings.NewReplacer("%f", "000000010000000000000001", "%p", "pg_wal/RECOVERYXLOG").Replace(
			restore.Command(program, "/run/socket"))
		command := exec.Command("sh", "-c", text)
		if _ = command.Run(); command.ProcessState.ExitCode() != want {
			t.Errorf("%s: PostgreSQL sees %d, want %d", program, command.ProcessState.ExitCode(), want)
		}
	}
}
