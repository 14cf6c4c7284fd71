package restore

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/repository"
)

// Place is where a data directory is made.
type Place struct {
	// Data is the data directory, empty or not there.
	Data string
	// Log is the folder for the log, if that lies elsewhere; it is made, and pg_wal leads to it.
	Log string
	// Tools are PostgreSQL's programs. Done is told how many bytes are there; it may be nil.
	Tools Tools
	Done  func(int64)
}

// Files restores the files of a base backup, parts side by side, and has PostgreSQL check every file by the manifest.
// The folder is no data directory before it returns without an error.
func Files(ctx context.Context, from *repository.Repository, base backup.Backup, place Place) error {
	to := place.Data
	if err := os.MkdirAll(to, 0o700); err != nil {
		return fmt.Errorf("restore the files: %w", err)
	}
	entries, err := os.ReadDir(to)
	if err != nil {
		return fmt.Errorf("restore the files: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("restore the files: %s is not empty", to)
	}
	if place.Log != "" {
		if err := errors.Join(os.Mkdir(place.Log, 0o700), os.Symlink(place.Log, filepath.Join(to, "pg_wal"))); err != nil {
			return fmt.Errorf("restore the files: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	count := &counter{told: place.Done}
	parts := make(chan backup.Part)
	failures := make(chan error, len(base.Parts)+1)
	var workers sync.WaitGroup
	for range parallel {
		workers.Go(func() {
			for part := range parts {
				if err := restorePart(ctx, from, part, to, count); err != nil {
					failures <- err
					cancel()
				}
			}
		})
	}
	for _, part := range base.Parts {
		parts <- part
	}
	close(parts)
	workers.Wait()
	close(failures)
	if err := <-failures; err != nil {
		return fmt.Errorf("restore the files: %w", err)
	}
	return verify(ctx, from, base, place.Tools, to)
}

// parallel is how many parts are restored side by side. Each has some 10 MiB in memory.
const parallel = 2

// counter counts the bytes that are restored, and tells now and then.
type counter struct {
	bytes, last atomic.Int64
	told        func(int64)
}

// tellEvery is after how many bytes.
const tellEvery = 8 << 20

func (c *counter) Write(content []byte) (int, error) {
	now := c.bytes.Add(int64(len(content)))
	if last := c.last.Load(); c.told != nil && now >= last+tellEvery && c.last.CompareAndSwap(last, now) {
		c.told(now)
	}
	return len(content), nil
}

func restorePart(
	ctx context.Context, from *repository.Repository, part backup.Part, to string, count *counter,
) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	content, err := from.OpenPart(ctx, part)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", part.Name, err)
		}
		if err := restoreFile(to, header, io.TeeReader(archive, count)); err != nil {
			return fmt.Errorf("read %s: %w", part.Name, err)
		}
	}
	// The checksum is told at the end, which lies behind that of the archive.
	_, err = io.Copy(io.Discard, content)
	return err
}

func restoreFile(to string, header *tar.Header, content io.Reader) error {
	if !filepath.IsLocal(header.Name) {
		return fmt.Errorf("%q leads out of the data directory", header.Name)
	}
	path := filepath.Join(to, header.Name)
	if header.Typeflag == tar.TypeDir {
		return os.MkdirAll(path, 0o700)
	}
	if header.Typeflag != tar.TypeReg {
		return fmt.Errorf("%q is no file: tablespaces are not supported", header.Name)
	}
	// The folder may be in a part that another worker has not come to.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

// verify has PostgreSQL compare each file with the manifest, and makes them outlive a loss of power.
func verify(ctx context.Context, from *repository.Repository, base backup.Backup, tools Tools, to string) error {
	content, err := from.OpenPart(ctx, base.Manifest)
	if err != nil {
		return fmt.Errorf("restore the manifest: %w", err)
	}
	manifest, err := io.ReadAll(content)
	if err := errors.Join(err, content.Close()); err != nil {
		return fmt.Errorf("restore the manifest: %w", err)
	}
	if err := os.WriteFile(filepath.Join(to, "backup_manifest"), manifest, 0o600); err != nil {
		return fmt.Errorf("restore the manifest: %w", err)
	}
	if err := tools.run(ctx, "pg_verifybackup", "--no-parse-wal", "--quiet", to); err != nil {
		return fmt.Errorf("compare the files with the manifest: %w", err)
	}
	return tools.run(ctx, "initdb", "--sync-only", "--pgdata="+to)
}
