// Package repository reads and writes the layout of a repository of backups: who owns it, which terms have shipped, the
// log, base backups. Every write is put-if-absent (K1), and content is sealed. It decides nothing: plan does.
//
// Start reading at Repository; Catalogue is how everybody else learns what is there.
package repository

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store"
)

// ErrForeign means that the repository belongs to another database.
var ErrForeign = errors.New("the repository belongs to another database")

// Repository is the repository of one database.
type Repository struct {
	Store store.Store
	// Root is what all names begin with; see backup.Root.
	Root string
	Keys seal.Keys
	// Pause is the first one before an object of a base backup is written again, a second if it is 0.
	Pause time.Duration
}

// layoutVersion is that of what is written. What says a later one is not touched.
const layoutVersion = 1

// Claim writes down whose repository it is, or checks it. It is done before anything else is written.
func (r *Repository) Claim(ctx context.Context, owner backup.Owner) error {
	owner.Version = layoutVersion
	err := r.putJSON(ctx, backup.OwnerName, owner)
	if err == nil || !store.Is(err, store.Exists) {
		return err
	}
	found, err := r.Owner(ctx)
	if err != nil {
		return err
	}
	if found.DatabaseUID != owner.DatabaseUID || found.SystemIdentifier != owner.SystemIdentifier {
		return fmt.Errorf("claim %s: %w: %s/%s with the UID %s and the system identifier %s", r.Root, ErrForeign,
			found.Namespace, found.Name, found.DatabaseUID, found.SystemIdentifier)
	}
	return nil
}

// Owner tells whose repository it is.
func (r *Repository) Owner(ctx context.Context) (backup.Owner, error) {
	var owner backup.Owner
	if err := r.getJSON(ctx, backup.OwnerName, &owner); err != nil {
		return backup.Owner{}, err
	}
	if owner.Version > layoutVersion {
		return backup.Owner{}, fmt.Errorf("read %s: version %d: %w", backup.OwnerName, owner.Version, backup.ErrTooNew)
	}
	if size := owner.SegmentSize; size < 1<<10 || size > 1<<30 || size&(size-1) != 0 {
		return backup.Owner{}, fmt.Errorf("read %s: %w: segments of %d bytes", backup.OwnerName, seal.ErrDamaged, size)
	}
	return owner, nil
}

// BeginTerm writes down that a term ships from now on.
func (r *Repository) BeginTerm(ctx context.Context, term backup.Term) error {
	err := r.putJSON(ctx, backup.TermName(term.Term), term)
	if store.Is(err, store.Exists) {
		return nil
	}
	return err
}

// PutSegment writes a whole segment of the log. One that is there already is the same: a timeline has one writer (K7).
func (r *Repository) PutSegment(ctx context.Context, owner backup.Owner, timeline int, number uint64,
	content io.Reader) error {
	name := backup.WALName(timeline, number, owner.SegmentSize, r.Keys.Suffix())
	return r.putLog(ctx, name, content)
}

// PutTail writes a piece of a segment.
func (r *Repository) PutTail(ctx context.Context, owner backup.Owner, timeline int, tail backup.Tail,
	content io.Reader) error {
	return r.putLog(ctx, backup.TailName(timeline, tail, owner.SegmentSize, r.Keys.Suffix()), content)
}

// PutHistory writes the history of a timeline as PostgreSQL wrote it.
func (r *Repository) PutHistory(ctx context.Context, timeline int, content []byte) error {
	err := r.Store.PutIfAbsent(ctx, r.Root+backup.HistoryName(timeline), bytes.NewReader(content))
	if store.Is(err, store.Exists) {
		return nil
	}
	return err
}

// PutGap writes down that segments could not be shipped.
func (r *Repository) PutGap(ctx context.Context, owner backup.Owner, timeline int, gap backup.Gap) error {
	err := r.putJSON(ctx, backup.GapName(timeline, gap, owner.SegmentSize), gap)
	if store.Is(err, store.Exists) {
		return nil
	}
	return err
}

// PutBackup makes a base backup exist. It is written last (K2).
func (r *Repository) PutBackup(ctx context.Context, written backup.Backup) error {
	written.Version = layoutVersion
	return r.putOnce(ctx, backup.BaseName(written.ID), written)
}

// PutVerified writes down what a restore on trial came to. Time tells trials of a backup apart; it has no dot.
func (r *Repository) PutVerified(ctx context.Context, time string, trial backup.Verified) error {
	return r.putOnce(ctx, backup.VerifiedName(trial.Backup, time), trial)
}

// Delete removes an object.
func (r *Repository) Delete(ctx context.Context, name string) error {
	return r.Store.Delete(ctx, r.Root+name)
}

func (r *Repository) putLog(ctx context.Context, name string, content io.Reader) error {
	sealed, err := r.Keys.Seal(content)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = r.Store.PutIfAbsent(ctx, r.Root+name, sealed)
	if store.Is(err, store.Exists) {
		return nil
	}
	return err
}

func (r *Repository) putJSON(ctx context.Context, name string, value any) error {
	content, err := record(value)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return r.Store.PutIfAbsent(ctx, r.Root+name, bytes.NewReader(content))
}

// record is the content of a small object that is not sealed.
func record(value any) ([]byte, error) {
	content, err := json.MarshalIndent(value, "", "  ")
	return append(content, '\n'), err
}

// putOnce is putJSON for a record that only we write: one with the same content is our own, whose answer was lost.
func (r *Repository) putOnce(ctx context.Context, name string, value any) error {
	refused := r.putJSON(ctx, name, value)
	if !store.Is(refused, store.Exists) {
		return refused
	}
	stored, err := r.getPlain(ctx, name)
	if err != nil {
		return err
	}
	if content, err := record(value); err != nil || !bytes.Equal(content, stored) {
		return errors.Join(refused, err)
	}
	return nil
}

// maxRecord bounds what is read of an object that is not sealed. A backup has some 250 bytes for each part, which is of
// 1 GiB: this is enough for 60 TiB.
const maxRecord = 16 << 20

func (r *Repository) getPlain(ctx context.Context, name string) ([]byte, error) {
	reader, err := r.Store.Get(ctx, r.Root+name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reader.Close() }()
	content, err := io.ReadAll(io.LimitReader(reader, maxRecord))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return content, nil
}

func (r *Repository) getJSON(ctx context.Context, name string, value any) error {
	content, err := r.getPlain(ctx, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, value); err != nil {
		return fmt.Errorf("read %s: %w: %w", name, seal.ErrDamaged, err)
	}
	return nil
}
