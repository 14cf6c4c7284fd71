package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server/extension"
	"meridian.dev/meridian/internal/postgres/wal"
	"meridian.dev/meridian/kit/supervise"
)

// Names on the volume.
const (
	recordFile = "agent.json"
	lockFile   = "agent.lock"
	dataFolder = "pgdata"
	// draftFolder is where a data directory is made. It is moved to its place when it is complete, so that what is in
	// the place always is.
	draftFolder = "pgdata.new"
)

// Disk is the volume of an instance. It is for one goroutine.
type Disk struct {
	// Folder is where the volume is mounted.
	Folder string
	// Log is where the volume of the log is mounted, empty if it has none of its own.
	Log string
	// SocketLock is the lock of the server's socket. It outlives a container, but not a pod.
	SocketLock string
	Supervisor *supervise.Supervisor
	// Env is the environment of PostgreSQL's programs.
	Env []string

	lock    *os.File
	control control
	// redo is where recovery would begin, for Position.
	redo  atomic.Uint64
	sound wal.Sound
	line  atomic.Int64
	major atomic.Int64
}

func (d *Disk) waldir() waldir { return waldir{data: d.Folder, log: d.Log} }

func (d *Disk) path(parts ...string) string {
	return filepath.Join(append([]string{d.Folder}, parts...)...)
}

// Data is the path of the data directory.
func (d *Disk) Data() string { return d.path(dataFolder) }

// Major is the version of the data, 0 while unknown.
func (d *Disk) Major() int { return int(d.major.Load()) }

// Look implements postgres.Disk.
func (d *Disk) Look(ctx context.Context) (postgres.Volume, postgres.Data) {
	volume := postgres.Volume{}
	record, err := d.readRecord()
	if err == nil {
		volume.Record = record
		volume.Lock, err = d.lookAtLock()
	}
	if err == nil {
		volume.Log, err = d.waldir().look()
	}
	if err != nil {
		return postgres.Volume{Problem: err.Error()}, postgres.Data{Presence: postgres.DataAbsent}
	}
	data, err := d.lookAtData(ctx)
	if err == nil && data.Presence == postgres.DataPresent {
		data, err = d.lookAtLog(data, record)
	}
	if err != nil {
		volume.Problem = err.Error()
	}
	volume.Room = d.room()
	return volume, data
}

// lookAtLog calls a copy damaged whose log is not there, or is not its own: data without its log is no copy (V7). One
// that is being removed may be in any state.
func (d *Disk) lookAtLog(data postgres.Data, record *postgres.Record) (postgres.Data, error) {
	if record == nil || record.InProgress == postgres.StepDiscard {
		return data, nil
	}
	problem, err := d.waldir().problem(record)
	if problem != "" {
		data.Presence, data.Problem = postgres.DataDamaged, problem
	}
	return data, err
}

func (d *Disk) readRecord() (*postgres.Record, error) { return readRecord(d.Folder) }

func readRecord(volume string) (*postgres.Record, error) {
	// A folder that is not there is a mount that failed, not an empty volume.
	if _, err := os.Stat(volume); err != nil {
		return nil, fmt.Errorf("look at the volume: %w", err)
	}
	document, err := os.ReadFile(filepath.Join(volume, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record: %w", err)
	}
	record, err := postgres.DecodeRecord(document)
	if err != nil {
		return nil, err
	}
	return &record, nil
}

func (d *Disk) lookAtData(ctx context.Context) (postgres.Data, error) {
	data := postgres.Data{Presence: postgres.DataAbsent}
	if _, err := os.Lstat(d.path(draftFolder)); err == nil {
		data.Draft = true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return data, fmt.Errorf("look for a data directory in the making: %w", err)
	}
	info, err := os.Lstat(d.Data())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return data, nil
	case err != nil:
		return data, fmt.Errorf("look at the data directory: %w", err)
	case !info.IsDir():
		data.Presence, data.Problem = postgres.DataOtherwise, "it is not a folder"
		return data, nil
	}
	data.Presence = postgres.DataPresent
	data.Private = info.Mode().Perm() == 0o700
	for _, file := range d.pidFiles() {
		if _, err := os.Lstat(file); err == nil {
			data.PIDFile = true
		}
	}
	version, err := os.ReadFile(filepath.Join(d.Data(), "PG_VERSION"))
	if err != nil {
		return damaged(data, err)
	}
	if data.Major, err = strconv.Atoi(strings.TrimSpace(string(version))); err != nil {
		return damaged(data, fmt.Errorf("understand PG_VERSION: %w", err))
	}
	d.major.Store(int64(data.Major))
	control, err := d.readControl(ctx)
	if err != nil {
		return damaged(data, err)
	}
	data.SystemIdentifier, data.Timeline, data.State = control.systemIdentifier, control.timeline, control.state
	data.Checkpointed = control.checkpointed
	data.Floors, data.Consistent = control.floors, control.consistent
	d.redo.Store(control.redo)
	d.line.Store(int64(control.timeline))
	if _, err := os.Lstat(filepath.Join(d.Data(), standbySignal)); err == nil {
		data.Standby = true
	}
	return data, nil
}

// damaged tells what is missing from what could not be read: only the first is a fact about the data.
func damaged(data postgres.Data, err error) (postgres.Data, error) {
	var syntax *strconv.NumError
	if errors.Is(err, fs.ErrNotExist) || errors.As(err, &syntax) || errors.Is(err, errControl) {
		data.Presence, data.Problem = postgres.DataDamaged, err.Error()
		return data, nil
	}
	return data, fmt.Errorf("read the data directory: %w", err)
}

// Files implements postgres.Disk.
func (d *Disk) Files(names []string) ([]postgres.File, error) {
	var files []postgres.File
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(d.Data(), name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		files = append(files, postgres.File{
			Name: name, Hash: render.Hash(string(content)), Ours: strings.HasPrefix(string(content), render.Header),
		})
	}
	return files, nil
}

// WriteRecord implements postgres.Disk.
func (d *Disk) WriteRecord(record postgres.Record) error {
	document, err := record.Encode()
	if err != nil {
		return err
	}
	if err := d.write(d.path(recordFile), document); err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	// Whatever changes the copy is recorded before, and when it is done (I2).
	d.sound.Forget()
	return nil
}

// WriteFile implements postgres.Disk.
func (d *Disk) WriteFile(file postgres.Content) error {
	if err := d.write(filepath.Join(d.Data(), file.Name), []byte(file.Text)); err != nil {
		return fmt.Errorf("write %s: %w", file.Name, err)
	}
	return nil
}

// TightenMode implements postgres.Disk.
func (d *Disk) TightenMode() error {
	if err := os.Chmod(d.Data(), 0o700); err != nil {
		return fmt.Errorf("close the data directory: %w", err)
	}
	return nil
}

// RemovePIDFile implements postgres.Disk.
func (d *Disk) RemovePIDFile() error {
	if d.lock == nil {
		return errors.New("remove postmaster.pid: the lock of the volume is not ours")
	}
	for _, file := range d.pidFiles() {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what names a server that is no more: %w", err)
		}
	}
	return nil
}

// pidFiles are the files by which a server knows that another one runs. They hold the number of a process, which after
// a restart of the container belongs to any other process, such as the watchdog: a server would not start beside it.
func (d *Disk) pidFiles() []string {
	files := []string{filepath.Join(d.Data(), "postmaster.pid")}
	if d.SocketLock != "" {
		files = append(files, d.SocketLock)
	}
	return files
}

// Initialise implements postgres.Disk.
func (d *Disk) Initialise(ctx context.Context, how postgres.Initialise) error {
	if d.lock == nil {
		return errors.New("initialise: the lock of the volume is not ours")
	}
	draft := d.path(draftFolder)
	if err := os.RemoveAll(draft); err != nil {
		return fmt.Errorf("remove an unfinished data directory: %w", err)
	}
	if err := d.waldir().prepare(); err != nil {
		return err
	}
	// initdb itself waits until everything is on the disk.
	command := supervise.Command{Path: "initdb", Args: initdbArguments(how), Env: d.Env, Dir: d.Folder}
	command.Args = append(command.Args, "--pgdata="+draft)
	command.Args = append(command.Args, d.waldir().arguments()...)
	if _, err := d.Supervisor.Run(ctx, command); err != nil {
		return fmt.Errorf("initialise: %w", err)
	}
	if err := os.Rename(draft, d.Data()); err != nil {
		return fmt.Errorf("move the data directory to its place: %w", err)
	}
	if err := syncFolder(d.Folder); err != nil {
		return fmt.Errorf("move the data directory to its place: %w", err)
	}
	return nil
}

// initdbArguments chooses an order of texts that no library of the image can change under an index: by code point.
func initdbArguments(how postgres.Initialise) []string {
	arguments := []string{
		"--username=" + render.Superuser, "--data-checksums", "--encoding=UTF8", "--locale=C.UTF-8", "--lc-messages=C",
		"--auth-local=peer", "--auth-host=scram-sha-256", "--text-search-config=pg_catalog.simple",
	}
	if how.Major >= 16 { // Before, initdb takes no settings.
		arguments = append(arguments, "--set=huge_pages=off")
	}
	if how.Major >= 17 {
		arguments = append(arguments, "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
	}
	return arguments
}

// Programs implements postgres.Disk.
func (d *Disk) Programs(ctx context.Context) postgres.Programs {
	output, err := d.Supervisor.Run(ctx, supervise.Command{Path: "postgres", Args: []string{"--version"}, Env: d.Env})
	if err != nil {
		return postgres.Programs{Problem: fmt.Sprintf("PostgreSQL cannot be run: %v", err)}
	}
	major, err := majorOf(string(output))
	if err != nil {
		return postgres.Programs{Problem: err.Error()}
	}
	current, err := user.Current()
	if err != nil || current.Username == "" {
		return postgres.Programs{Problem: fmt.Sprintf(
			"the image has no name for user %d, and PostgreSQL does not run without: add it to /etc/passwd", os.Getuid())}
	}
	return postgres.Programs{Major: major, User: current.Username, Libraries: extension.Preloadable(d.Env)}
}

// majorOf understands "postgres (PostgreSQL) 17.6 (Debian 17.6-1)".
func majorOf(output string) (int, error) {
	_, rest, _ := strings.Cut(output, "(PostgreSQL) ")
	digits := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if digits <= 0 {
		return 0, fmt.Errorf("the version of PostgreSQL cannot be understood: %q", strings.TrimSpace(output))
	}
	return strconv.Atoi(rest[:digits])
}

// errControl is a control file that PostgreSQL's own program does not understand.
var errControl = errors.New("understand the control file")

// control is what the control file says, and of which file it was read.
type control struct {
	file             os.FileInfo
	systemIdentifier string
	timeline         int
	state            string
	redo, consistent uint64
	checkpointed     int
	floors           []postgres.Floor
}

// readControl runs pg_controldata when the file has changed since the last time, which it does at checkpoints only.
func (d *Disk) readControl(ctx context.Context) (control, error) {
	info, err := os.Stat(filepath.Join(d.Data(), "global", "pg_control"))
	if err != nil {
		return control{}, err
	}
	known := d.control.file
	if known != nil && os.SameFile(known, info) && known.ModTime().Equal(info.ModTime()) {
		return d.control, nil
	}
	output, err := d.Supervisor.Run(ctx, supervise.Command{Path: "pg_controldata", Args: []string{d.Data()}, Env: d.Env})
	if err != nil {
		return control{}, err
	}
	read, err := parseControl(output)
	if err != nil {
		return control{}, err
	}
	read.file = info
	d.control = read
	return read, nil
}

func parseControl(output []byte) (control, error) {
	var read control
	var err error
	lines := bufio.NewScanner(bytes.NewReader(output))
	for lines.Scan() {
		// The program goes on after this warning, with values that mean nothing.
		if strings.HasPrefix(lines.Text(), "WARNING:") {
			return control{}, fmt.Errorf("%w: %s", errControl, lines.Text())
		}
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		if parameter := postgres.BoundIn(name); parameter != "" {
			number, err := strconv.Atoi(value)
			if err != nil {
				return control{}, fmt.Errorf("%w: %s", errControl, lines.Text())
			}
			read.floors = append(read.floors, postgres.Floor{Name: parameter, Value: number})
		}
		switch name {
		case "Database system identifier":
			read.systemIdentifier = value
		case "Database cluster state":
			read.state = value
		case "Latest checkpoint's REDO location":
			if read.redo, err = postgres.ParseLSN(value); err != nil {
				return control{}, fmt.Errorf("%w: %s", errControl, lines.Text())
			}
		case "Minimum recovery ending location":
			if read.consistent, err = postgres.ParseLSN(value); err != nil {
				return control{}, fmt.Errorf("%w: %s", errControl, lines.Text())
			}
		case "Latest checkpoint's TimeLineID", "Min recovery ending loc's timeline":
			// A promotion is noted in the second before the first checkpoint of the new timeline.
			timeline, err := strconv.Atoi(value)
			if err != nil {
				return control{}, fmt.Errorf("%w: %s", errControl, lines.Text())
			}
			read.timeline = max(read.timeline, timeline)
			if name == "Latest checkpoint's TimeLineID" {
				read.checkpointed = timeline
			}
		}
	}
	if read.systemIdentifier == "" || read.state == "" || read.timeline == 0 {
		return control{}, fmt.Errorf("%w: identifier, state or timeline is missing", errControl)
	}
	return read, nil
}
