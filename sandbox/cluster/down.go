package cluster

import (
	"context"
	"fmt"
	"os"

	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/network"
)

// Down ends the sandbox and removes all of it, data included, whatever state it is in. Processes end by their control
// group; mounts, namespaces and loop devices end with them.
func (c *Cluster) Down(ctx context.Context) error {
	return c.exclusively(ctx, func() error {
		if err := machine.RemoveAll(); err != nil {
			return err
		}
		if err := network.Remove(); err != nil {
			return err
		}
		if err := os.RemoveAll(c.dir); err != nil {
			return fmt.Errorf("remove the sandbox's folder: %w", err)
		}
		return nil
	})
}
