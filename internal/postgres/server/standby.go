package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/wal"
	"meridian.dev/meridian/internal/tenure"
)

// standbySignal makes a start one of a replica.
const standbySignal = "standby.signal"

// Position implements postgres.Disk.
func (d *Disk) Position(from uint64) (tenure.Position, error) {
	timeline := int(d.line.Load())
	if timeline == 0 {
		return tenure.Position{}, errors.New("find the end of the log: the control file was not read yet")
	}
	return wal.Position(d.Data(), timeline, max(from, d.redo.Load()))
}

// Upstream implements postgres.Disk.
func (d *Disk) Upstream(text string) error {
	return d.WriteFile(postgres.Content{Name: render.UpstreamFile, Text: text})
}

// Standby implements postgres.Disk.
func (d *Disk) Standby(replica bool) error {
	if d.lock == nil {
		return errors.New("choose the role of the next start: the lock of the volume is not ours")
	}
	path := filepath.Join(d.Data(), standbySignal)
	if replica {
		if err := errors.Join(d.dropPlaceholders(), d.dropRepeated()); err != nil {
			return err
		}
		if err := d.write(path, nil); err != nil {
			return fmt.Errorf("write %s: %w", standbySignal, err)
		}
		return nil
	}
	// An old name of the same thing would do as well.
	for _, name := range []string{standbySignal, "recovery.signal"} {
		if err := os.Remove(filepath.Join(d.Data(), name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", name, err)
		}
	}
	return syncFolder(d.Data())
}

// placeholder is all that is in the history of a timeline whose number was taken. A line of ancestry would make it a
// real one.
const placeholder = "# This timeline was given out and has no log here.\n"

// Reserve implements postgres.Disk.
func (d *Disk) Reserve(timeline int) error {
	if d.lock == nil {
		return errors.New("reserve a timeline: the lock of the volume is not ours")
	}
	if timeline < 2 || timeline > 1<<20 {
		return fmt.Errorf("reserve a timeline: %d is none to promote to", timeline)
	}
	folder := filepath.Join(d.Data(), "pg_wal")
	for number := 2; number < timeline; number++ {
		path := filepath.Join(folder, wal.HistoryName(number))
		if _, err := os.Lstat(path); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reserve a timeline: %w", err)
		}
		if err := d.write(path, []byte(placeholder)); err != nil {
			return fmt.Errorf("reserve a timeline: %w", err)
		}
	}
	if _, err := os.Lstat(filepath.Join(folder, wal.HistoryName(timeline))); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reserve a timeline: %d was taken before: %w", timeline, errors.Join(err))
	}
	return nil
}

// Withdraw implements postgres.Disk. A timeline that has a record stays: the caller is told by the position.
func (d *Disk) Withdraw(timeline int) error {
	folder := filepath.Join(d.Data(), "pg_wal")
	_, err := os.Lstat(filepath.Join(folder, wal.HistoryName(timeline)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	reached, err := d.Position(0)
	if err != nil || reached.Timeline >= timeline {
		return errors.Join(fmt.Errorf("withdraw timeline %d: the copy is at %s", timeline, reached), err)
	}
	segments, err := filepath.Glob(filepath.Join(folder, fmt.Sprintf("%08X????????????????", timeline)))
	if err != nil {
		return fmt.Errorf("withdraw timeline %d: %w", timeline, err)
	}
	// The history goes last: without it the segments would be taken for another timeline's.
	for _, name := range append(segments, filepath.Join(folder, wal.HistoryName(timeline))) {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("withdraw timeline %d: %w", timeline, err)
		}
	}
	return syncFolder(folder)
}

// History implements postgres.Disk.
func (d *Disk) History(timeline int) (postgres.History, error) {
	return wal.ReadHistory(filepath.Join(d.Data(), "pg_wal"), timeline)
}

// Marked implements postgres.Disk.
func (d *Disk) Marked() (record *postgres.Record, replica bool, err error) {
	if record, err = d.readRecord(); err != nil {
		return nil, false, err
	}
	_, err = os.Lstat(filepath.Join(d.Data(), standbySignal))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, fmt.Errorf("look for %s: %w", standbySignal, err)
	}
	return record, err == nil, nil
}

// dropPlaceholders removes those above the highest real timeline: a replica would take the last of them for the newest
// timeline, of which it is not a part, and not start. Those below a real one are needed to find it.
func (d *Disk) dropPlaceholders() error {
	folder := filepath.Join(d.Data(), "pg_wal")
	names, err := filepath.Glob(filepath.Join(folder, "????????.history"))
	if err != nil {
		return fmt.Errorf("look for placeholders: %w", err)
	}
	var idle []string
	slices.Sort(names)
	for _, name := range names {
		timeline, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), ".history"), 16, 32)
		if err != nil {
			continue
		}
		history, err := wal.ReadHistory(folder, int(timeline))
		if err != nil {
			return err
		}
		if history.Placeholder() {
			idle = append(idle, name)
		} else {
			idle = nil
		}
	}
	for _, name := range idle {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a placeholder: %w", err)
		}
	}
	return nil
}

// dropRepeated removes a segment that keeps a replica from starting and holds nothing that another does not.
func (d *Disk) dropRepeated() error {
	timeline := int(d.line.Load())
	if timeline == 0 {
		return nil // Nothing is known of the log yet, so nothing of it is touched.
	}
	names, err := wal.Repeated(d.Data(), timeline)
	if err != nil {
		return fmt.Errorf("look for a repeated segment: %w", err)
	}
	for _, name := range names {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a repeated segment: %w", err)
		}
	}
	return nil
}
