package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/base"
	"meridian.dev/meridian/internal/backup/keep"
	"meridian.dev/meridian/internal/backup/open"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/wire"
)

// newKeeper makes the loop of backups, beside the two that decide about the server. It knows of them what they have
// shown, and they wait for nothing of it.
func (w *world) newKeeper(options Options, log logr.Logger) *keep.Keeper {
	opener := &open.Opener{Folder: options.Backup, Claim: options.BackupClaim}
	return keep.New(keep.Ports{
		Instance: options.Instance, Now: time.Now, Folder: filepath.Join(w.real.Disk.Data(), "pg_wal"),
		Copy: w.copyHere, Open: opener.Repository, Log: log.WithName("backup"),
		Settings: func() (*wire.BackupSettings, error) { return backupSettings(options) },
		Application: func() (database, owner string) {
			settings, err := w.real.Mounts.Settings()
			if err != nil {
				return "", ""
			}
			return settings.Application.Database, settings.Application.Owner
		},
		Base: func(ctx context.Context, request *base.Request, progress func(done, total int64)) error {
			return prepareBase(ctx, w.real.Backups, options, request, progress)
		},
	})
}

// backupSettings reads what is mounted; nil is for no backups. Those of another database are refused by name.
func backupSettings(options Options) (*wire.BackupSettings, error) {
	document, err := os.ReadFile(filepath.Join(options.Settings, wire.KeyBackup))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of backups: %w", err)
	}
	settings, err := wire.DecodeBackupSettings(document)
	if err != nil {
		return nil, err
	}
	if settings.Database != options.Database || settings.Namespace != options.Namespace {
		return nil, fmt.Errorf("the settings of backups are those of the database %s/%s", settings.Namespace, settings.Database)
	}
	return &settings, nil
}

// copyHere is what is known of the copy, by what both loops have shown last.
func (w *world) copyHere() keep.Copy {
	state, ok := w.instance.State()
	if !ok {
		return keep.Copy{}
	}
	report, facts := state.Report, w.instance.Facts()
	major, _, _ := strings.Cut(report.ServerVersion, ".")
	here := keep.Copy{
		SystemIdentifier: report.SystemIdentifier, Term: report.Term,
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

// prepareBase has a base backup taken from the own server, over the loopback interface and with a certificate, as it is
// copied by others.
func prepareBase(
	ctx context.Context, of *server.Backups, options Options, request *base.Request, progress func(done, total int64),
) error {
	floors, err := of.Floors(ctx)
	if err != nil {
		return err
	}
	address := options.Listen
	if net.ParseIP(address) == nil {
		address = "127.0.0.1"
	}
	request.Settings = floors
	request.Conninfo = of.Conninfo(postgres.Source{
		Host: render.Host(options.Database, options.Instance), Address: address, Port: wire.PortPostgres,
		Instance: options.Instance,
	})
	request.Execute = func(ctx context.Context, arguments []string, output *os.File) error {
		return of.Execute(ctx, arguments, output, progress)
	}
	return nil
}
