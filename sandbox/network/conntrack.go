package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ForgetUnanswered has the network namespace of this process forget after five seconds where it has sent the first
// packet of a connection that nobody has answered. The kernel remembers it for two minutes, and sends another one from
// the same port there as well, although the service leads elsewhere by then: clients of a test that open a hundred
// connections a second come round to the same port in that time. The root is where /proc/sys is mounted. A kernel that
// follows no connections yet has no such setting.
func ForgetUnanswered(root string) error {
	err := os.WriteFile(filepath.Join(root, "net/netfilter/nf_conntrack_tcp_timeout_syn_sent"), []byte("5"), 0o600)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget connections that nobody answers: %w", err)
	}
	return nil
}
