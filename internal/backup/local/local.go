// Package local is what backups need of the machine that they are made on: the programs of PostgreSQL, run under the
// reaper of the agent, and what is mounted. Start reading at Programs.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/backup/base"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// Programs are PostgreSQL's programs.
type Programs struct {
	Supervisor *supervise.Supervisor
	// Env is their environment, Folder where they run.
	Env    []string
	Folder string
}

// Prepare fills in how a base backup of the server is taken whose data directory and address these are.
func (p Programs) Prepare(
	data, conninfo string,
) func(ctx context.Context, request *base.Request, progress func(done, total int64)) error {
	return func(ctx context.Context, request *base.Request, progress func(done, total int64)) error {
		control, err := p.Run(ctx, "pg_controldata", data)
		if err != nil {
			return err
		}
		request.Settings, request.Conninfo = Floors(control), conninfo
		request.Execute = func(ctx context.Context, arguments []string, output *os.File) error {
			_, err := p.Supervisor.Run(ctx, supervise.Command{
				Path: "pg_basebackup", Args: arguments, Env: p.Env, Dir: p.Folder, Output: output,
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
}

// Run runs a program to its end, and returns what it said.
func (p Programs) Run(ctx context.Context, name string, arguments ...string) (string, error) {
	output, err := p.Supervisor.Run(ctx, supervise.Command{Path: name, Args: arguments, Env: p.Env, Dir: p.Folder})
	return string(output), err
}

// Floors are the settings that a recovery needs at least as high, by the control file.
func Floors(control string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(control) {
		name, value, _ := strings.Cut(line, ":")
		if parameter := postgres.BoundIn(name); parameter != "" {
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

// Settings reads what is mounted; nil is for no backups. Those of another database are refused by name.
func Settings(folder, namespace, database string) (*wire.BackupSettings, error) {
	document, err := os.ReadFile(filepath.Join(folder, wire.KeyBackup))
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
	if settings.Database != database || settings.Namespace != namespace {
		return nil, fmt.Errorf("the settings of backups are those of the database %s/%s",
			settings.Namespace, settings.Database)
	}
	return &settings, nil
}
