package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/kit/supervise"
)

// errControl is a control file that PostgreSQL's own program does not understand.
var errControl = errors.New("understand the control file")

// control is what the control file says, and of which file it was read.
type control struct {
	file             os.FileInfo
	systemIdentifier string
	timeline         int
	state            string
	redo             uint64
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
		switch name {
		case "Database system identifier":
			read.systemIdentifier = value
		case "Database cluster state":
			read.state = value
		case "Latest checkpoint's REDO location":
			if read.redo, err = postgres.ParseLSN(value); err != nil {
				return control{}, fmt.Errorf("%w: %s", errControl, lines.Text())
			}
		case "Latest checkpoint's TimeLineID", "Min recovery ending loc's timeline":
			// A promotion is noted in the second before the first checkpoint of the new timeline.
			timeline, err := strconv.Atoi(value)
			if err != nil {
				return control{}, fmt.Errorf("%w: %s", errControl, lines.Text())
			}
			read.timeline = max(read.timeline, timeline)
		}
	}
	if read.systemIdentifier == "" || read.state == "" || read.timeline == 0 {
		return control{}, fmt.Errorf("%w: identifier, state or timeline is missing", errControl)
	}
	return read, nil
}
