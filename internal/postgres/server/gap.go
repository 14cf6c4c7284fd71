package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/wal"
	"meridian.dev/meridian/kit/supervise"
)

// lacksWAL returns an error if a copy that was rewound can never be one again: recovery begins with the last checkpoint
// from before the branch, and needs WAL that pg_rewind did not find and that the source has removed. pg_rewind reads
// only the WAL of its target, so it does not notice.
//
// The server would wait for that WAL for ever and let nobody in, and the end of the WAL, beyond the gap, would be taken
// for how far the copy has come.
func (c *Copies) lacksWAL(ctx context.Context, source postgres.Source) error {
	data := filepath.Join(c.Folder, dataFolder)
	begin, err := recoveryBegin(filepath.Join(data, "backup_label"))
	if err != nil {
		return fmt.Errorf("look where recovery begins: %w", err)
	}
	output, err := c.Supervisor.Run(ctx, supervise.Command{Path: "pg_controldata", Args: []string{data}, Env: c.Env})
	if err != nil {
		return err
	}
	control, err := parseControl(output)
	if err != nil {
		return err
	}
	folder := filepath.Join(data, "pg_wal")
	history, err := wal.ReadHistory(folder, control.timeline)
	if err != nil {
		return err
	}
	missing, found, err := wal.Missing(folder, history, begin, control.consistent)
	if err != nil || !found {
		return err
	}
	gone, err := c.Gone(ctx, source, missing)
	if err == nil && gone > 0 {
		err = fmt.Errorf("recovery needs the WAL from %s on, and %s has removed it", missing, source.Host)
	}
	return err
}

// recoveryBegin reads where a copy must be recovered from.
func recoveryBegin(label string) (uint64, error) {
	content, err := os.ReadFile(label)
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(strings.NewReader(string(content))); lines.Scan(); {
		if rest, found := strings.CutPrefix(lines.Text(), "START WAL LOCATION: "); found {
			place, _, _ := strings.Cut(rest, " ")
			return postgres.ParseLSN(place)
		}
	}
	return 0, errors.New("the label tells no place")
}
