package server

import (
	"encoding/json"
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
		return tenure.Position{}, errors.New("find the end of the WAL: the control file was not read yet")
	}
	return d.sound.Position(d.Data(), timeline, max(from, d.redo.Load()))
}

// Received implements postgres.Disk.
func (d *Disk) Received(flushed tenure.Position) { d.sound.Received(flushed) }

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
	if err := d.withdrawLater(folder, timeline); err != nil {
		return err
	}
	_, err := os.Lstat(filepath.Join(folder, wal.HistoryName(timeline)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	reached, err := d.Position(0)
	if err != nil || reached.Timeline >= timeline {
		return errors.Join(fmt.Errorf("withdraw timeline %d: the copy is at %s", timeline, reached), err)
	}
	return withdraw(folder, timeline)
}

// withdrawLater removes timelines before another that come from the copy's, and do not begin where the copy ends.
func (d *Disk) withdrawLater(folder string, before int) error {
	var reached tenure.Position
	removed := false
	for number := 2; number < before; number++ {
		history, err := wal.ReadHistory(folder, number)
		if errors.Is(err, fs.ErrNotExist) || err == nil && history.Placeholder() {
			continue
		}
		if err == nil && reached.LSN == 0 {
			reached, err = d.Position(0)
		}
		if err != nil {
			return fmt.Errorf("withdraw timeline %d: %w", number, err)
		}
		if !history.Strays(reached) {
			continue
		}
		segments, err := segmentsOf(folder, number)
		if err == nil && len(segments) > 0 {
			err = errors.New("there is WAL of it")
		}
		if err == nil {
			err = os.Remove(filepath.Join(folder, wal.HistoryName(number)))
		}
		if err != nil {
			return fmt.Errorf("withdraw timeline %d: %w", number, err)
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return syncFolder(folder)
}

func segmentsOf(folder string, timeline int) ([]string, error) {
	return filepath.Glob(filepath.Join(folder, fmt.Sprintf("%08X????????????????", timeline)))
}

func withdraw(folder string, timeline int) error {
	segments, err := segmentsOf(folder, timeline)
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

// Names on the volume of the log, if it has one of its own. The log lies in a folder of it, because a file system may
// have folders of its own at its root, and PostgreSQL accepts nothing beside its log.
const (
	logMarker = "agent.json"
	logFolder = "pg_wal"
)

// waldir is the volume of the log beside the volume of the data. Data and log are one copy: each is worth nothing
// without the other, and a server that met a log that is not that of its data would lose what was acknowledged (V7).
// Therefore the log bears the mark of the copy that it belongs to, which is written before the copy is made.
type waldir struct {
	// data and log are where the volumes are mounted; log is empty if the log lies with the data.
	data, log string
}

// mark is what is written on the volume of the log.
type mark struct {
	DatabaseUID string `json:"databaseUID"`
	Incarnation string `json:"incarnation"`
}

func (w waldir) folder() string { return filepath.Join(w.log, logFolder) }

func (w waldir) place() string { return filepath.Join(w.data, dataFolder, logFolder) }

// arguments have initdb and pg_basebackup put the log there, and a link to it into the data directory.
func (w waldir) arguments() []string {
	if w.log == "" {
		return nil
	}
	return []string{"--waldir=" + w.folder()}
}

func (w waldir) readMark() (mark, error) {
	var found mark
	// A folder that is not there is a mount that failed, not an empty volume.
	if _, err := os.Stat(w.log); err != nil {
		return found, fmt.Errorf("look at the WAL volume: %w", err)
	}
	document, err := os.ReadFile(filepath.Join(w.log, logMarker))
	if errors.Is(err, fs.ErrNotExist) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("read the mark of the WAL: %w", err)
	}
	if err := json.Unmarshal(document, &found); err != nil || found.DatabaseUID == "" || found.Incarnation == "" {
		return found, errors.Join(errors.New("the mark of the WAL cannot be understood"), err)
	}
	return found, nil
}

// look tells whose log lies on the volume, nil if the log has none of its own.
func (w waldir) look() (*postgres.LogVolume, error) {
	if w.log == "" {
		return nil, nil
	}
	found, err := w.readMark()
	if err != nil {
		return nil, err
	}
	volume := &postgres.LogVolume{DatabaseUID: found.DatabaseUID, Incarnation: found.Incarnation}
	if found.DatabaseUID == "" {
		// The mark comes before the log.
		_, err := os.Lstat(w.folder())
		volume.Stray = err == nil
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("look at the WAL volume: %w", err)
		}
	}
	return volume, nil
}

// problem says why the log of a data directory that is in its place cannot be used, empty if it can.
func (w waldir) problem(record *postgres.Record) (string, error) {
	info, err := os.Lstat(w.place())
	switch {
	case errors.Is(err, fs.ErrNotExist) && w.log == "", err == nil && info.IsDir():
		return "", nil // It lies with the data.
	case errors.Is(err, fs.ErrNotExist):
		return "it has no pg_wal", nil
	case err != nil:
		return "", fmt.Errorf("look at the WAL: %w", err)
	case w.log == "":
		return "its log is on a volume that this pod does not have", nil
	}
	const elsewhere = "its pg_wal does not lead to the WAL volume"
	if info.Mode()&fs.ModeSymlink == 0 {
		return elsewhere, nil
	}
	if target, err := os.Readlink(w.place()); err != nil {
		return "", fmt.Errorf("look at the WAL: %w", err)
	} else if target != w.folder() {
		return elsewhere, nil
	}
	found, err := w.readMark()
	if err != nil {
		return "", err
	}
	switch {
	case found.Incarnation == "":
		return "its WAL volume is empty, so the WAL is lost", nil
	case found.Incarnation != record.Incarnation || found.DatabaseUID != record.DatabaseUID:
		return "its WAL volume has the WAL of another copy", nil
	}
	if info, err = os.Stat(w.folder()); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return "the volume of its log has no log any more", nil
	}
	return "", err
}

// prepare makes room for the log of a copy that is about to be made, and marks the volume with it. What lies there of
// an earlier copy of the same database is worth nothing: the record says that its data is gone.
func (w waldir) prepare() error {
	if w.log == "" {
		return nil
	}
	record, err := readRecord(w.data)
	if err != nil {
		return err
	}
	if record == nil || record.InProgress != postgres.StepInitialise && record.InProgress != postgres.StepClone {
		return errors.New("prepare the WAL volume: the record does not say that a copy is being made")
	}
	if _, err := os.Lstat(filepath.Join(w.data, dataFolder)); !errors.Is(err, fs.ErrNotExist) {
		return errors.New("prepare the WAL volume: there is a copy in the place")
	}
	volume, err := w.look()
	switch {
	case err != nil:
		return err
	case volume.Stray || volume.DatabaseUID != "" && volume.DatabaseUID != record.DatabaseUID:
		return errors.New("prepare the WAL volume: there is WAL on it that is not of this database")
	}
	if err := os.RemoveAll(w.folder()); err != nil {
		return fmt.Errorf("remove the WAL of an earlier copy: %w", err)
	}
	document, err := json.Marshal(mark{DatabaseUID: record.DatabaseUID, Incarnation: record.Incarnation})
	if err != nil {
		return err
	}
	if err := writeDurably(filepath.Join(w.log, logMarker), append(document, '\n'), 0o600); err != nil {
		return fmt.Errorf("mark the WAL volume: %w", err)
	}
	return nil
}

// discard removes the log of a copy whose data is gone. One that is not known as that stays where it is.
func (w waldir) discard() error {
	if w.log == "" {
		return nil
	}
	record, err := readRecord(w.data)
	if err != nil || record == nil {
		return err
	}
	found, err := w.readMark()
	if err != nil || found.DatabaseUID != record.DatabaseUID || found.Incarnation != record.Incarnation {
		return err
	}
	if err := os.RemoveAll(w.folder()); err != nil {
		return fmt.Errorf("remove the WAL: %w", err)
	}
	return nil
}
