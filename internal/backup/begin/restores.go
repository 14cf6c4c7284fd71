package begin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/backup/keep"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
)

// FetchCommand is the sub-command of the agent's program that PostgreSQL runs for each file of the log in a restore.
const FetchCommand = "fetch-wal"

// Restores makes the first data out of a repository, on the volume of this instance.
type Restores struct {
	// Assemble has a data directory made beside its place, and moves it there.
	Assemble func(ctx context.Context, build func(ctx context.Context, data, log string) error) error
	// Open opens the repository at a root with what is mounted now.
	Open  func(settings wire.Repository, root string) (*repository.Repository, error)
	Tools restore.Tools
	// Work is a folder for what is not kept, with a short path.
	Work string
	Log  logr.Logger
}

// Restore implements postgres.Restores.
func (r *Restores) Restore(
	ctx context.Context, how postgres.Restore, told func(postgres.RestoreProgress),
) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	r.Log.Info("restoring", "namespace", how.From.Namespace, "name", how.From.Name)
	voice := &restoreVoice{told: told}
	var result restore.Result
	err = r.Assemble(ctx, func(ctx context.Context, data, log string) error {
		var err error
		result, err = Run(ctx, Request{
			Wanted: how.From, DatabaseUID: how.DatabaseUID, Major: how.Major, Application: how.Application,
			Open: r.Open, Tools: r.Tools, Data: data, Log: log, Work: r.Work,
			FetchCommand: fmt.Sprintf("%q %s", own, FetchCommand), Progress: voice.progress, Waiting: voice.wait,
		})
		return err
	})
	if err != nil {
		err = restoreError(err)
		r.Log.Info("the restore failed", "because", err.Error())
		return err
	}
	r.Log.Info("restored", "backup", result.Backup.ID, "reached", result.Reached.String(), "timeline", result.Timeline)
	return nil
}

// restoreError says what an error of a restore means to whoever waits for it.
func restoreError(err error) error {
	if outside, ok := errors.AsType[*plan.OutsideError](err); ok {
		return &postgres.RestoreError{Err: outside, Outside: true}
	}
	if errors.Is(err, ErrNotFitting) || errors.Is(err, restore.ErrShort) {
		return &postgres.RestoreError{Err: err}
	}
	switch class := keep.Classify(err); class {
	case wire.BackupKeyWrong, wire.BackupRepositoryDamaged, wire.BackupCredentialsRefused, wire.BackupRepositoryForeign:
		return &postgres.RestoreError{Err: fmt.Errorf("%s: %w", class, err)}
	case wire.BackupRepositoryAway:
		return fmt.Errorf("%s: %w", class, err)
	default:
		return err
	}
}

// restoreVoice puts what a restore tells into one sentence.
type restoreVoice struct {
	told func(postgres.RestoreProgress)

	mutex sync.Mutex
	last  restore.Progress
}

func (v *restoreVoice) progress(progress restore.Progress) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.last = progress
	v.tell("")
}

func (v *restoreVoice) wait(why error) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.tell(fmt.Sprintf(", and waits for the repository: %s: %v", keep.Classify(why), why))
}

func (v *restoreVoice) tell(more string) {
	step := "the base backup " + v.last.Backup + " is being fetched"
	if v.last.Replaying {
		step = "the log is being replayed on the base backup " + v.last.Backup
	}
	v.told(postgres.RestoreProgress{Done: v.last.Done, Total: v.last.Total, Step: step + more})
}
