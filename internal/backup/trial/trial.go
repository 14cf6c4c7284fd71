// Package trial is a restore on trial as a process: it finds out from what is mounted which repository it is, restores
// the latest on a volume of its own, has it looked through, and leaves the result where the kubelet takes it up. It is
// no agent: it holds no lease, asks no peer, ships nothing and opens no port.
//
// Start reading at Run.
package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/begin"
	"meridian.dev/meridian/internal/backup/local"
	"meridian.dev/meridian/internal/backup/open"
	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/backup/verify"
	"meridian.dev/meridian/internal/wire"
)

// Options say where everything is.
type Options struct {
	Namespace, Database string
	// Settings, Credentials and Claim are what is mounted, as it is for an agent.
	Settings, Credentials, Claim string
	// Volume is where the data directory is made, Runtime a folder for sockets.
	Volume, Runtime string
	// Path is where PostgreSQL's programs are looked for.
	Path string
	// FetchCommand is what PostgreSQL runs for each file of the log, before its arguments. Empty: this program.
	FetchCommand string
	// Result is the file for the result.
	Result string
	Now    func() time.Time
	Log    logr.Logger
}

// Run restores on trial. It returns an error if that could not be done, and none if something is wrong with the backup:
// both are in the result as well.
func Run(ctx context.Context, options Options) error {
	result, failed := try(ctx, options)
	if failed != nil {
		result = wire.TrialResult{Failure: failed.Error()}
	}
	document, err := result.Encode()
	if err != nil {
		return errors.Join(failed, err)
	}
	options.Log.Info("restored on trial", "result", string(document))
	// The kubelet has made the file; it lies on a file system that is not ours.
	if err := os.WriteFile(options.Result, document, 0o600); err != nil {
		return errors.Join(failed, fmt.Errorf("leave the result: %w", err))
	}
	return failed
}

func try(ctx context.Context, options Options) (wire.TrialResult, error) {
	settings, err := local.Settings(options.Settings, options.Namespace, options.Database)
	if err != nil {
		return wire.TrialResult{}, err
	}
	if settings == nil {
		return wire.TrialResult{}, errors.New("this pod is told of no repository (spec.backup)")
	}
	tools, err := toolsIn(options.Path)
	if err != nil {
		return wire.TrialResult{}, err
	}
	work := filepath.Join(options.Runtime, "trial")
	if err := os.RemoveAll(work); err != nil {
		return wire.TrialResult{}, err
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return wire.TrialResult{}, err
	}
	opener := &open.Opener{Folder: options.Credentials, Claim: options.Claim}
	repository, err := opener.Repository(settings.Repository, backup.Root(settings.Repository.Prefix(),
		settings.Namespace, settings.Database, settings.DatabaseUID))
	if err != nil {
		return wire.TrialResult{}, err
	}
	fetch := options.FetchCommand
	if fetch == "" {
		own, err := os.Executable()
		if err != nil {
			return wire.TrialResult{}, err
		}
		fetch = own + " " + begin.FetchCommand
	}
	found, err := verify.Run(ctx, verify.Request{
		From: repository, Tools: tools, Data: filepath.Join(options.Volume, "trial"), Work: work, FetchCommand: fetch,
		Now: options.Now, Waiting: func(err error) { options.Log.Info("waiting for the repository", "because", err.Error()) },
	})
	if err != nil {
		return wire.TrialResult{}, err
	}
	result := wire.TrialResult{
		Backup: found.Restore.Backup.ID, RestoreMilliseconds: found.Duration.Milliseconds(), Indexes: found.Indexes,
		LastCommit: found.Restore.LastCommit,
	}
	if found.Problem != nil {
		result.Problem = found.Problem.Error()
	}
	return result, nil
}

// toolsIn finds PostgreSQL's programs. They are children of this process, which ends with the container.
func toolsIn(path string) (restore.Tools, error) {
	for _, folder := range filepath.SplitList(path) {
		if found, err := exec.LookPath(filepath.Join(folder, "postgres")); err == nil {
			// Nothing of the pod's environment reaches PostgreSQL by chance.
			return restore.Tools{
				Folder: filepath.Dir(found), Env: []string{"PATH=" + path, "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/tmp"},
			}, nil
		}
	}
	return restore.Tools{}, errors.New("the image lacks PostgreSQL's programs")
}
