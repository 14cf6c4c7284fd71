package agent

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/begin"
	"meridian.dev/meridian/internal/backup/keep"
	"meridian.dev/meridian/internal/backup/local"
	"meridian.dev/meridian/internal/backup/open"
	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	tenures "meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// newKeeper makes the loop of backups, beside the two that decide about the server. It knows of them what they have
// shown, and they wait for nothing of it.
func (w *world) newKeeper(
	options Options, supervisor *supervise.Supervisor, env []string, log logr.Logger,
) *keep.Keeper {
	address := options.Listen
	if net.ParseIP(address) == nil {
		address = "127.0.0.1"
	}
	// The own server is copied as others copy it: with a certificate, over the loopback interface.
	conninfo := w.real.Copies.ToCopy(postgres.Source{
		Host: render.Host(options.Database, options.Instance), Address: address, Port: wire.PortPostgres,
	}, "backup/"+options.Instance)
	opener := &open.Opener{Folder: options.Backup, Claim: options.BackupClaim}
	return keep.New(keep.Ports{
		Instance: options.Instance, Now: time.Now, Folder: filepath.Join(w.real.Disk.Data(), "pg_wal"),
		Copy: w.copyHere, Open: opener.Repository, Log: log.WithName("backup"),
		Settings: func() (*wire.BackupSettings, error) {
			return local.Settings(options.Settings, options.Namespace, options.Database)
		},
		Application: func() (database, owner string) {
			settings, err := w.real.Mounts.Settings()
			if err != nil {
				return "", ""
			}
			return settings.Application.Database, settings.Application.Owner
		},
		Base: local.Programs{Supervisor: supervisor, Env: env, Folder: options.Volume}.Prepare(w.real.Disk.Data(), conninfo),
	})
}

// newRestores makes what begins a database with the backups of another.
func (w *world) newRestores(
	options Options, supervisor *supervise.Supervisor, env []string, log logr.Logger,
) *begin.Restores {
	opener := &open.Opener{Folder: options.Restore, Claim: options.RestoreClaim}
	return &begin.Restores{
		Assemble: w.real.Copies.Assemble, Open: opener.Repository,
		Tools: restore.Tools{Env: env, Supervisor: supervisor, Lock: w.real.Disk.LockFile},
		Work:  filepath.Join(options.Runtime, "restore"), Log: log.WithName("restore"),
	}
}

// copyHere is what is known of the copy, by what both loops have shown last.
func (w *world) copyHere() keep.Copy {
	state, ok := w.instance.State()
	if !ok {
		return keep.Copy{}
	}
	report, facts := state.Report, w.instance.Facts()
	shown, _, _ := w.shown()
	major, _, _ := strings.Cut(report.ServerVersion, ".")
	here := keep.Copy{
		SystemIdentifier: report.SystemIdentifier, Term: report.Term, Line: lineOf(shown),
		Running: report.Role != wire.RoleNone && report.State == wire.StateRunning,
	}
	here.Major, _ = strconv.Atoi(major)
	switch leading := facts.Leading; {
	case leading != nil && report.Role == wire.RolePrimary:
		here.Leads = w.tenure.Leads(leading.Term)
		here.Term, here.Timeline, here.Flushed = leading.Term, leading.Timeline, backup.LSN(leading.Flushed)
	case facts.Flushed != nil:
		here.Timeline, here.Flushed = facts.Flushed.Timeline, backup.LSN(facts.Flushed.LSN)
	}
	return here
}

// lineOf is the timeline that the holder of the lease leads on, 0 while that is not known.
func lineOf(shown tenures.Shown) int {
	if record := shown.Snapshot.Lease.Record; record != nil {
		return record.Timeline
	}
	return 0
}

// repository tells the loop of the server about the repository.
func (w *world) repository(standing tenure.Standing) postgres.Repository {
	if w.keeper == nil {
		return postgres.Repository{}
	}
	var known postgres.Repository
	known.Kept, known.Confirmed = w.keeper.Confirmed(standing.Term)
	known.Unshipped = standing.Role == tenure.RoleFollow && w.keeper.Unshipped(standing.Term, standing.Timeline)
	return known
}
