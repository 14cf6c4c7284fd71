package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/network"
)

// Down ends the sandbox and removes all of it, data included, whatever state it is in. Processes end by their
// control group; mounts, namespaces and loop devices end with them. One thing that cannot be removed keeps none of
// the others.
func (c *Cluster) Down(ctx context.Context) error {
	return c.exclusively(ctx, func() error {
		return errors.Join(machine.RemoveAll(), network.Remove(), c.removeState())
	})
}

// removeState removes what is in the folder and then the folder, unless somebody has mounted a disk there.
func (c *Cluster) removeState() error {
	entries, err := filepath.Glob(c.path("*"))
	if err != nil {
		return fmt.Errorf("list the sandbox's folder: %w", err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(entry); err != nil {
			return fmt.Errorf("remove the sandbox's folder: %w", err)
		}
	}
	err = os.Remove(c.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("remove the sandbox's folder: %w", err)
	}
	return nil
}
