// Package base takes base backups: it runs pg_basebackup, cuts its one long tar into parts between files, and writes
// each part compressed and encrypted while it arrives, so that nothing is kept on the disk and little in memory.
//
// A backup exists only when Complete has written its backup.json, after the log up to its stop is in the repository
// (K2). One that breaks off leaves a draft, which retention removes; it is resumed by starting over. Start reading at
// Run.
package base

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/postgres"
)

// Request says what to back up.
type Request struct {
	// ID is new for each try, For the wish that it is made for.
	ID, For string
	// Execute runs pg_basebackup with arguments to its end, with its standard output in a file. An error of it says what
	// the program said.
	Execute func(ctx context.Context, arguments []string, output *os.File) error
	// Conninfo is the server.
	Conninfo string
	// MaxRate bounds the bytes a second that the server reads, 0 for no bound.
	MaxRate int64
	// PartSize is where parts are cut, before compression.
	PartSize int64
	Instance string
	Settings map[string]string
	// Progress is told how many bytes were read so far. It may be nil.
	Progress func(done int64)
}

// DefaultPartSize keeps parts small enough to be restored side by side.
const DefaultPartSize = 1 << 30

// Run writes the parts and the manifest of a backup. The result is to be handed to Complete.
func Run(ctx context.Context, to *repository.Repository, request Request) (backup.Backup, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arguments := []string{
		"--dbname=" + request.Conninfo, "--pgdata=-", "--format=tar", "--wal-method=none", "--checkpoint=fast",
		"--label=meridian " + request.ID, "--no-password", "--progress",
	}
	if request.MaxRate > 0 {
		arguments = append(arguments, fmt.Sprintf("--max-rate=%dk", max(32, min(request.MaxRate>>10, 1<<20))))
	}
	output, input, err := os.Pipe()
	if err != nil {
		return backup.Backup{}, fmt.Errorf("run pg_basebackup: %w", err)
	}
	ended := make(chan error, 1)
	go func() {
		err := request.Execute(ctx, arguments, input)
		ended <- errors.Join(err, input.Close())
	}()
	result, err := Store(ctx, to, request, output)
	if err != nil {
		cancel() // It would wait for ever to be read.
	}
	_ = output.Close()
	// A store that failed is the reason, and the end of the program what follows from it; a stream that broke off follows
	// from the end of the program, although it was a write to the store that noticed it.
	if problem := <-ended; problem != nil && (!isStore(err) || errors.Is(err, errBroken)) {
		return backup.Backup{}, fmt.Errorf("run pg_basebackup: %w", problem)
	}
	return result, err
}

// errBroken means that what pg_basebackup writes is not a whole base backup.
var errBroken = errors.New("read the base backup")

func isStore(err error) bool {
	_, ok := errors.AsType[*store.Error](err)
	return ok
}

// Store writes the tar of a base backup as parts.
func Store(ctx context.Context, to *repository.Repository, request Request, from io.Reader) (backup.Backup, error) {
	result := backup.Backup{ID: request.ID, For: request.For, Instance: request.Instance, Settings: request.Settings}
	cutter := &cutter{
		archive: tar.NewReader(from), limit: request.PartSize, progress: request.Progress, piece: make([]byte, 256<<10),
		labelled: func(label []byte) error { return begins(ctx, to, label) },
	}
	if cutter.limit <= 0 {
		cutter.limit = DefaultPartSize
	}
	for number := 1; !cutter.done; number++ {
		cutter.begin()
		part := backup.Part{Name: backup.PartName(request.ID, number, to.Keys.Suffix())}
		sum, err := to.PutPart(ctx, part.Name, cutter)
		if err != nil {
			return backup.Backup{}, err
		}
		part.SHA256, part.Size, part.Files = sum, cutter.size, cutter.files
		result.Size += part.Size
		result.Parts = append(result.Parts, part)
	}
	manifest := backup.Part{Name: backup.ManifestName(request.ID, to.Keys.Suffix()), Files: 1}
	passed := &end{from: cutter.archive}
	sum, err := to.PutPart(ctx, manifest.Name, passed)
	if err != nil {
		return backup.Backup{}, err
	}
	if header, err := cutter.archive.Next(); err == nil {
		return backup.Backup{}, fmt.Errorf("%w: %s is behind its manifest", errBroken, header.Name)
	} else if !errors.Is(err, io.EOF) {
		return backup.Backup{}, fmt.Errorf("%w: %w", errBroken, err)
	}
	manifest.SHA256, manifest.Size = sum, passed.size
	result.Manifest = manifest
	if err := understand(&result, cutter.label, passed.kept); err != nil {
		return backup.Backup{}, err
	}
	return result, nil
}

// end passes content on and keeps the end of it.
type end struct {
	from io.Reader
	size int64
	kept []byte
}

// mostKept is much more than the part of a manifest behind its files: some 80 bytes for each timeline.
const mostKept = 1 << 20

func (e *end) Read(buffer []byte) (int, error) {
	count, err := e.from.Read(buffer)
	e.size += int64(count)
	if e.kept = append(e.kept, buffer[:count]...); len(e.kept) > 2*mostKept {
		e.kept = append(e.kept[:0], e.kept[len(e.kept)-mostKept:]...)
	}
	return count, err
}

// ErrLogMissing means that the log of the backup is not in the repository yet, ErrTooEarly that it never will be.
var (
	ErrLogMissing = errors.New("the log of the backup is not in the repository yet")
	ErrTooEarly   = errors.New("the backup starts before the log that the repository begins with")
)

// begins refuses a backup whose log is never shipped before it is copied. The label is the first file of the archive.
func begins(ctx context.Context, to *repository.Repository, label []byte) error {
	start, _, err := readLabel(label)
	if err != nil {
		return err
	}
	catalogue, err := to.Catalogue(ctx)
	if err != nil {
		return err
	}
	return early(&catalogue, start)
}

func early(catalogue *backup.Catalogue, start backup.LSN) error {
	if plan.MayBegin(catalogue, start) {
		return nil
	}
	return fmt.Errorf("begin a backup at %s: %w", start, ErrTooEarly)
}

// Complete makes a backup exist, if its log is there (K2). History is that of the server the backup was taken from.
func Complete(ctx context.Context, to *repository.Repository, history postgres.History, taken backup.Backup) error {
	catalogue, err := to.Catalogue(ctx)
	if err != nil {
		return err
	}
	if err := early(&catalogue, taken.Start); err != nil {
		return err
	}
	if !plan.MayComplete(&catalogue, history, taken) {
		return fmt.Errorf("complete the backup %s: %w: it needs %s to %s of timeline %d", taken.ID, ErrLogMissing,
			taken.Start, taken.Stop, taken.Timeline)
	}
	return to.PutBackup(ctx, taken)
}

// readLabel reads where recovery begins.
func readLabel(label []byte) (start backup.LSN, timeline int, err error) {
	place := ""
	for line := range strings.Lines(string(label)) {
		if rest, found := strings.CutPrefix(line, "START WAL LOCATION: "); found {
			place, _, _ = strings.Cut(rest, " ")
		}
		if rest, found := strings.CutPrefix(line, "START TIMELINE: "); found {
			if _, err := fmt.Sscan(rest, &timeline); err != nil {
				return 0, 0, fmt.Errorf("understand backup_label: %w", err)
			}
		}
	}
	if err := start.UnmarshalText([]byte(place)); err != nil {
		return 0, 0, fmt.Errorf("understand backup_label: %w", err)
	}
	return start, timeline, nil
}

// understand reads where the log of a backup begins and ends from what PostgreSQL says about it.
func understand(result *backup.Backup, label, content []byte) error {
	start, timeline, err := readLabel(label)
	if err != nil {
		return err
	}
	result.Start = start
	var manifest struct {
		Ranges []struct {
			Timeline int        `json:"Timeline"`
			End      backup.LSN `json:"End-LSN"`
		} `json:"WAL-Ranges"`
	}
	// The list of the files lies before it, and may be long.
	const last = `"WAL-Ranges"`
	at := max(0, bytes.LastIndex(content, []byte(last)))
	if err := json.Unmarshal(append([]byte("{"), content[at:]...), &manifest); err != nil {
		return fmt.Errorf("understand backup_manifest: %w", err)
	}
	for _, found := range manifest.Ranges {
		if found.End > result.Stop {
			result.Stop, result.Timeline = found.End, found.Timeline
		}
	}
	if result.Stop <= result.Start || timeline == 0 {
		return fmt.Errorf("understand backup_manifest: the log goes from %s to %s", result.Start, result.Stop)
	}
	return nil
}

// cutter turns one archive into several, cut between files. It reads as it is read, and starts no goroutine.
type cutter struct {
	archive  *tar.Reader
	limit    int64
	progress func(int64)
	labelled func(label []byte) error
	piece    []byte

	writer *tar.Writer
	ready  bytes.Buffer
	left   int64 // Of the present file.
	ended  bool  // The present part has its end.
	done   bool  // There is no more.

	size, total int64
	files       int
	label       []byte
}

func (c *cutter) begin() {
	c.ready.Reset()
	c.writer, c.ended, c.size, c.files = tar.NewWriter(&c.ready), false, 0, 0
}

func (c *cutter) Read(buffer []byte) (int, error) {
	for c.ready.Len() == 0 {
		if c.ended {
			return 0, io.EOF
		}
		if err := c.fill(); err != nil {
			return 0, err
		}
	}
	return c.ready.Read(buffer)
}

func (c *cutter) fill() error {
	if c.left > 0 {
		count, err := io.ReadFull(c.archive, c.piece[:min(c.left, int64(len(c.piece)))])
		if err != nil {
			return fmt.Errorf("%w: %w", errBroken, err)
		}
		c.advance(int64(count))
		_, err = c.writer.Write(c.piece[:count])
		return err
	}
	if c.size >= c.limit {
		c.ended = true
		return c.writer.Close()
	}
	header, err := c.archive.Next()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it ended without a manifest", errBroken)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return c.file(header)
}

func (c *cutter) advance(count int64) {
	c.left -= count
	c.size += count
	c.total += count
	if c.progress != nil {
		c.progress(c.total)
	}
}

// maxLabel bounds the label, which has some lines.
const maxLabel = 1 << 20

// file begins a file. The manifest, which comes last, gets an object of its own: it has some 150 bytes for each file of
// the database, so it is not read here. The label is looked at as it passes.
func (c *cutter) file(header *tar.Header) error {
	if header.Name == "backup_manifest" {
		c.ended, c.done = true, true
		return c.writer.Close()
	}
	c.files++
	c.left = header.Size
	if header.Name != "backup_label" {
		return c.writer.WriteHeader(header)
	}
	content, err := io.ReadAll(io.LimitReader(c.archive, maxLabel))
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	if err := c.labelled(content); err != nil {
		return err
	}
	c.label = content
	if err := c.writer.WriteHeader(header); err != nil {
		return err
	}
	c.advance(int64(len(content)))
	_, err = c.writer.Write(content)
	return err
}
