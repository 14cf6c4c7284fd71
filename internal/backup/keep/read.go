package keep

import (
	"context"
	"errors"
	"io"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// reading is what the last reading of the repository said.
type reading struct {
	office  string
	at      time.Time
	stored  *plan.Stored
	summary plan.Summary
	backups []wire.BaseBackup
	count   int
	// locked says that the store has refused to delete something, verified what the last trial said.
	locked   bool
	verified verified
}

// verified is the last restore on trial.
type verified struct {
	backup  string
	at      time.Time
	took    time.Duration
	problem string
}

// read reads the repository, removes what is not needed, and notes what there is.
func (k *Keeper) read(ctx context.Context, settings wire.BackupSettings, office string) error {
	opened, err := k.Open(settings.Repository, root(settings))
	if err != nil {
		return err
	}
	catalogue, err := opened.Catalogue(ctx)
	if err != nil {
		return err
	}
	k.move(partRead)
	// A claim may take the time of an object from whoever wrote it: one clock that was ahead must not make all old (K5).
	if now := k.Now(); catalogue.Now.After(now) {
		catalogue.Now = now
	}
	keyErr := tryKeys(ctx, opened, &catalogue)
	found := reading{office: office, at: k.Now(), stored: &plan.Stored{Broken: plan.Broken(&catalogue)}}
	policy := plan.Policy{Window: time.Duration(settings.WindowSeconds) * time.Second, AtLeast: settings.AtLeast}
	found.locked, err = k.retain(ctx, opened, &catalogue, policy)
	if err = errors.Join(keyErr, err); store.Is(err, store.NotFound) {
		err = nil // Somebody else was faster.
	}
	found.summary = plan.Summarize(&catalogue)
	found.count = len(catalogue.Backups)
	for _, base := range catalogue.Backups {
		if base.For != "" {
			found.stored.Done = append(found.stored.Done, base.For)
		}
		found.backups = append(found.backups, told(&catalogue, base))
	}
	found.backups = found.backups[max(0, len(found.backups)-wire.MostBackups):]
	for _, trial := range catalogue.Verified {
		if trial.At.After(found.verified.at) {
			found.verified = verified{
				backup: trial.Backup, at: trial.At, took: time.Duration(trial.RestoreMilliseconds) * time.Millisecond,
				problem: trial.Problem,
			}
		}
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	found.stored.Since = found.at
	if before := k.reading.stored; before != nil && before.Broken == found.stored.Broken && k.reading.office == office {
		found.stored.Since = before.Since
	}
	k.reading = found
	return err
}

func told(catalogue *backup.Catalogue, base backup.Backup) wire.BaseBackup {
	result := wire.BaseBackup{
		ID: base.ID, For: base.For, At: base.At, Size: base.Size, Instance: base.Instance, Start: base.Start.String(),
	}
	for _, trial := range catalogue.Verified {
		result.Verified = result.Verified || trial.Backup == base.ID && trial.Problem == ""
	}
	return result
}

// tryKeys opens something that is in the repository: a key that does not fit is noticed before it is needed.
func tryKeys(ctx context.Context, opened *repository.Repository, catalogue *backup.Catalogue) error {
	if len(catalogue.Backups) == 0 {
		return nil
	}
	newest := catalogue.Backups[len(catalogue.Backups)-1]
	content, err := opened.Open(ctx, newest.Manifest.Name)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(content, make([]byte, 1))
	return errors.Join(err, content.Close())
}

// retain deletes what is not needed. What the store refuses to delete stays, and is told. A lock is of each object: a
// backup whose backup.json stays keeps its parts, because everybody takes it for one that can be restored.
func (k *Keeper) retain(
	ctx context.Context, opened *repository.Repository, catalogue *backup.Catalogue, policy plan.Policy,
) (locked bool, err error) {
	names := plan.Retain(catalogue, policy)
	if len(names) == 0 {
		return false, nil
	}
	if violations := plan.CheckDeletes(catalogue, policy, names); len(violations) > 0 {
		k.Log.Info("refusing to delete", "rule", violations[0].Rule, "because", violations[0].Detail)
		return false, nil
	}
	var gone []string
	stays := map[string]bool{}
	for _, name := range names {
		key := backup.ParseKey(name, catalogue.Owner.SegmentSize)
		if key.Kind == backup.KindBase && stays[key.ID] {
			continue
		}
		err := opened.Delete(ctx, name)
		switch {
		case store.Is(err, store.Locked):
			locked, stays[key.ID] = true, stays[key.ID] || key.Kind == backup.KindBackup
		case err != nil:
			return locked, err
		default:
			gone = append(gone, name)
		}
		k.move(partRead)
	}
	*catalogue = *plan.Without(catalogue, gone)
	return locked, nil
}
