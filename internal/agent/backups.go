package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
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
		Base: baseBackups{options, w.real, supervisor, env}.prepare,
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
		return nil, fmt.Errorf("the settings of backups are those of the database %s/%s",
			settings.Namespace, settings.Database)
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

// baseBackups takes base backups of the own server, over the loopback interface and with a certificate, as it is copied
// by others.
type baseBackups struct {
	Options
	real       *server.World
	supervisor *supervise.Supervisor
	env        []string
}

func (b baseBackups) prepare(
	ctx context.Context, request *base.Request, progress func(done, total int64),
) error {
	control, err := b.supervisor.Run(ctx, supervise.Command{
		Path: "pg_controldata", Args: []string{b.real.Disk.Data()}, Env: b.env, Dir: b.Volume,
	})
	if err != nil {
		return err
	}
	request.Settings = floors(string(control))
	address := b.Listen
	if net.ParseIP(address) == nil {
		address = "127.0.0.1"
	}
	request.Conninfo = b.real.Copies.ToCopy(postgres.Source{
		Host: render.Host(b.Database, b.Instance), Address: address, Port: wire.PortPostgres,
	}, "backup/"+b.Instance)
	request.Execute = func(ctx context.Context, arguments []string, output *os.File) error {
		_, err := b.supervisor.Run(ctx, supervise.Command{
			Path: "pg_basebackup", Args: arguments, Env: b.env, Dir: b.Volume, Output: output,
			Lines: func(line []byte) {
				if done, total, ok := progressOf(line); ok {
					progress(done, total)
				}
			},
		})
		return err
	}
	return nil
}

// floors are the settings that a recovery needs at least as high, by the control file.
func floors(control string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(control) {
		name, value, _ := strings.Cut(line, ":")
		if parameter, is := strings.CutSuffix(name, " setting"); is && postgres.Bound(parameter) {
			found[parameter] = strings.TrimSpace(value)
		}
	}
	return found
}

// progressLine is such as " 8192/23456 kB (34%), 0/1 tablespace".
var progressLine = regexp.MustCompile(`^\s*(\d+)/(\d+) kB \(`)

func progressOf(line []byte) (done, total int64, ok bool) {
	match := progressLine.FindSubmatch(line)
	if match == nil {
		return 0, 0, false
	}
	done, _ = strconv.ParseInt(string(match[1]), 10, 64)
	total, _ = strconv.ParseInt(string(match[2]), 10, 64)
	return done << 10, total << 10, true
}
