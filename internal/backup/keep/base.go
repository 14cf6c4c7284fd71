package keep

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/base"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/postgres/wal"
	"meridian.dev/meridian/internal/wire"
)

// basing is the base backup that is made, or was at last.
type basing struct {
	wish        string
	phase       wire.BasePhase
	started     time.Time
	done, total int64
}

// Times of completing: the log of a backup is shipped by the primary within seconds.
const (
	completePause   = 2 * time.Second
	completeLongest = 30 * time.Second
	completeWithin  = 30 * time.Minute
)

// makeBase makes the base backup of a wish, unless there is one already.
func (k *Keeper) makeBase(ctx context.Context, settings wire.BackupSettings, wish string) error {
	opened, err := k.Open(settings.Repository, root(settings))
	if err != nil {
		return err
	}
	catalogue, err := opened.Catalogue(ctx)
	if err != nil {
		return err
	}
	for _, found := range catalogue.Backups {
		if found.For == wish {
			k.phase(wish, wire.BaseDone)
			return nil
		}
	}
	request := base.Request{
		// A try that broke off has left objects: each one has a name of its own.
		ID: wish + "-" + strings.ToLower(rand.Text()[:8]), For: wish, Instance: k.Instance, MaxRate: settings.MaxRate,
		Progress: func(done int64) { k.progress(wish, done, 0) },
	}
	if err := k.Base(ctx, &request, func(_, total int64) { k.progress(wish, 0, total) }); err != nil {
		return err
	}
	taken, err := base.Run(ctx, opened, request)
	if err != nil {
		return err
	}
	k.phase(wish, wire.BaseCompleting)
	if err := k.complete(ctx, opened, taken); err != nil {
		return err
	}
	k.phase(wish, wire.BaseDone)
	k.Log.Info("the base backup is complete", "for", wish, "id", taken.ID, "bytes", taken.Size)
	return nil
}

// complete waits until the log of the backup is there too, and makes it exist.
func (k *Keeper) complete(ctx context.Context, opened *repository.Repository, taken backup.Backup) error {
	deadline := k.Now().Add(completeWithin)
	for pause := completePause; ; pause = min(2*pause, completeLongest) {
		history, err := wal.ReadHistory(k.Folder, max(taken.Timeline, k.Copy().Timeline))
		if err == nil {
			err = base.Complete(ctx, opened, history, taken)
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, base.ErrTooEarly) || !k.Now().Before(deadline) {
			return fmt.Errorf("give the backup up: %w", err)
		}
		if !errors.Is(err, base.ErrLogMissing) {
			k.Log.Info("waiting to complete a base backup", "id", taken.ID, "error", err.Error())
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (k *Keeper) progress(wish string, done, total int64) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.basing.wish != wish {
		return
	}
	k.basing.done, k.basing.total = max(k.basing.done, done), max(k.basing.total, total)
	k.works[partBase].moved = k.Now()
}

func (k *Keeper) phase(wish string, phase wire.BasePhase) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.basing.wish != wish {
		return
	}
	k.basing.phase = phase
	if stored := k.reading.stored; phase == wire.BaseDone && stored != nil {
		stored.Stale = true
	}
}
