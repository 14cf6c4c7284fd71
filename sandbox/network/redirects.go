package network

import (
	"fmt"
	"os"
	"path/filepath"
)

// RefuseRedirects has the network namespace of this process neither send nor believe ICMP redirects, on the devices
// that are there and on those to come. The root is where /proc/sys is mounted. Every route of the sandbox is written
// down; what a redirect would put beside it outlives the power cycle of the machine that it leads to.
//
// A kernel that forwards believes a redirect only if both "all" and the device say so, one that does not if either
// does, and sends one if either says so; "default" is for devices to come. So all of them are set.
func RefuseRedirects(root string) error {
	files, err := filepath.Glob(filepath.Join(root, "net/ipv4/conf/*/*_redirects"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no settings of redirects in %s", root)
	}
	for _, file := range files {
		if err := refuseRedirect(file); err != nil {
			return err
		}
	}
	return nil
}

func refuseRedirect(file string) error {
	switch filepath.Base(file) {
	case "accept_redirects", "send_redirects":
		if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
			return fmt.Errorf("refuse redirects: %w", err)
		}
	}
	return nil
}

// refuseOnCard does the same for one device of the host, whose other devices are not ours.
func refuseOnCard(name string) error {
	for _, setting := range []string{"accept_redirects", "send_redirects"} {
		if err := refuseRedirect(filepath.Join("/proc/sys/net/ipv4/conf", name, setting)); err != nil {
			return err
		}
	}
	return nil
}
