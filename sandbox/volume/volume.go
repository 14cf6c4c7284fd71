// Package volume is the sandbox's storage: each volume is an XFS file system in a sparse file of one node's folder,
// attached through a loop device, so that it can really grow, fill up and be lost.
//
// Three roles share the files. Controller runs beside the control plane and does what a storage system does: makes,
// grows and deletes volumes. Driver runs on each node and mounts them for the kubelet (the Container Storage
// Interface). Fill and Lose are the faults. Loop devices are attached by mount itself and let go by the kernel with
// the last unmount, also when a node is powered off, so none can be left behind.
package volume

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// DriverName names the driver in CSI objects.
	DriverName = "xfs.sandbox.meridian.dev"
	// NodeLabel is the topology key: a volume is on one node and only there.
	NodeLabel = "topology.sandbox.meridian.dev/node"
	// minimum is the smallest file system that mkfs.xfs makes; a smaller request is rounded up.
	minimum = 300 << 20
)

// Store is the folder with the files of all nodes.
type Store struct{ Dir string }

// File is where the volume's content is.
func (s Store) File(node, volume string) string { return filepath.Join(s.Dir, node, volume+".img") }

// Create makes an empty file system unless the volume is there. It appears under its name only when it is complete.
func (s Store) Create(node, volume string, size int64) error {
	file := s.File(node, volume)
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("make folder for volumes: %w", err)
	}
	unfinished := file + ".new"
	if err := os.WriteFile(unfinished, nil, 0o600); err != nil {
		return fmt.Errorf("make volume %s: %w", volume, err)
	}
	if err := os.Truncate(unfinished, size); err != nil {
		return fmt.Errorf("size volume %s: %w", volume, err)
	}
	if output, err := exec.Command("mkfs.xfs", "-q", "-f", unfinished).CombinedOutput(); err != nil {
		return fmt.Errorf("make a file system on volume %s: %w: %s", volume, err, output)
	}
	if err := os.Rename(unfinished, file); err != nil {
		return fmt.Errorf("name volume %s: %w", volume, err)
	}
	return nil
}

// Grow makes the volume at least as big as size; the file system follows on the node. It never shrinks.
func (s Store) Grow(node, volume string, size int64) error {
	file := s.File(node, volume)
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("look at volume %s: %w", volume, err)
	}
	if info.Size() >= size {
		return nil
	}
	if err := os.Truncate(file, size); err != nil {
		return fmt.Errorf("grow volume %s: %w", volume, err)
	}
	return nil
}

// Delete removes the volume. A node that still has it mounted keeps an unnamed file until it unmounts.
func (s Store) Delete(node, volume string) error {
	if err := os.RemoveAll(s.File(node, volume)); err != nil {
		return fmt.Errorf("delete volume %s: %w", volume, err)
	}
	return nil
}
