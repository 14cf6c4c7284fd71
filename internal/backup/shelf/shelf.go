// Package shelf is what a person does with the base backups of a database: look at them, and delete one. The agent's
// binary does it in a pod of the database, with the credentials that are mounted there, so that no person needs them.
//
// Start reading at List.
package shelf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// Shelf is where the backups of a database are.
type Shelf struct {
	Settings wire.BackupSettings
	// Open opens the repository at a root.
	Open func(settings wire.Repository, root string) (*repository.Repository, error)
	// Lock is a file that only one deletion in this pod has at a time.
	Lock string
}

// List tells what is there.
func (s Shelf) List(ctx context.Context) (wire.BackupList, error) {
	opened, catalogue, err := s.read(ctx)
	if err != nil {
		return wire.BackupList{}, err
	}
	list := wire.BackupList{
		Folder: opened.Root, Now: catalogue.Now.UTC(), WindowSeconds: s.Settings.WindowSeconds, AtLeast: s.Settings.AtLeast,
		Backups: []wire.ListedBackup{},
	}
	windows := plan.Windows(&catalogue)
	for _, base := range catalogue.Backups {
		list.Backups = append(list.Backups, s.tell(&catalogue, windows, base))
	}
	return list, nil
}

func (s Shelf) tell(catalogue *backup.Catalogue, windows []plan.Window, base backup.Backup) wire.ListedBackup {
	told := wire.ListedBackup{
		ID: base.ID, For: base.For, At: base.At.UTC(), Instance: base.Instance, Timeline: base.Timeline, Size: base.Size,
		Parts: len(base.Parts), Start: base.Start.String(), Stop: base.Stop.String(),
	}
	for _, object := range catalogue.Objects {
		if object.Key.ID == base.ID && (object.Key.Kind == backup.KindBase || object.Key.Kind == backup.KindBackup) {
			told.Stored += object.Size
		}
	}
	for _, window := range windows {
		if window.Backup.ID == base.ID {
			from, until := window.FromAt.UTC(), window.UntilAt.UTC()
			told.From, told.Until = window.From.String(), window.Until.String()
			told.FromTime, told.UntilTime = &from, &until
		}
	}
	for _, trial := range catalogue.Verified {
		if trial.Backup == base.ID {
			told.Trials = append(told.Trials, wire.ListedTrial{
				At: trial.At.UTC(), RestoreMilliseconds: trial.RestoreMilliseconds, Problem: trial.Problem,
			})
		}
	}
	slices.SortFunc(told.Trials, func(a, b wire.ListedTrial) int { return a.At.Compare(b.At) })
	_, refused := plan.Remove(catalogue, s.policy(), base.ID)
	told.Needed = because(refused)
	return told
}

// because is the first reason of several.
func because(refused []plan.Violation) string {
	if len(refused) == 0 {
		return ""
	}
	return refused[0].Detail
}

// ErrNeeded is of a backup that cannot be deleted now.
var ErrNeeded = errors.New("it is needed")

// Delete deletes a base backup, unless it is needed. Its log goes with the next retention, as far as no other one
// needs it.
func (s Shelf) Delete(ctx context.Context, id string) error {
	unlock, err := lock(s.Lock)
	if err != nil {
		return err
	}
	defer unlock()
	opened, catalogue, err := s.read(ctx)
	if err != nil {
		return err
	}
	names, refused := plan.Remove(&catalogue, s.policy(), id)
	switch {
	case catalogue.Backup(id) == nil:
		return fmt.Errorf("there is no backup %q; there are: %s", id, strings.Join(ids(&catalogue), ", "))
	case len(refused) > 0:
		return fmt.Errorf("keep the backup %s: %w: %s", id, ErrNeeded, because(refused))
	}
	for _, name := range names {
		if err := opened.Delete(ctx, name); err != nil && !store.Is(err, store.NotFound) {
			return fmt.Errorf("delete the backup %s: %w", id, err)
		}
	}
	return nil
}

func ids(catalogue *backup.Catalogue) []string {
	names := make([]string, 0, len(catalogue.Backups))
	for _, base := range catalogue.Backups {
		names = append(names, base.ID)
	}
	return names
}

func (s Shelf) policy() plan.Policy {
	return plan.Policy{Window: time.Duration(s.Settings.WindowSeconds) * time.Second, AtLeast: s.Settings.AtLeast}
}

// read opens the repository and lists it. A repository of another database is not touched.
func (s Shelf) read(ctx context.Context) (*repository.Repository, backup.Catalogue, error) {
	settings := s.Settings
	opened, err := s.Open(settings.Repository,
		backup.Root(settings.Repository.Prefix(), settings.Namespace, settings.Database, settings.DatabaseUID))
	if err != nil {
		return nil, backup.Catalogue{}, err
	}
	catalogue, err := opened.Catalogue(ctx)
	if err != nil {
		return nil, backup.Catalogue{}, fmt.Errorf("read the repository: %w", err)
	}
	// As retention does: one clock of a claim that was ahead must not make all old (K5).
	if now := time.Now(); catalogue.Now.After(now) {
		catalogue.Now = now
	}
	if catalogue.Owner.DatabaseUID != settings.DatabaseUID {
		return nil, backup.Catalogue{}, fmt.Errorf("read the repository: %w: %s/%s with the UID %s", repository.ErrForeign,
			catalogue.Owner.Namespace, catalogue.Owner.Name, catalogue.Owner.DatabaseUID)
	}
	return opened, catalogue, nil
}

// lock takes a file, so that of two who delete the second one sees what the first has left.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Clean(path), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("somebody else deletes a backup here: try again later"), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
