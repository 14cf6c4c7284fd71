// Package machine makes machines out of one Linux kernel: each has its own processes, network, mounts, host name and
// cgroup, and an init (PID 1) that starts its services and restarts them when they die.
//
// A machine has no clean-up code of its own on purpose. Its mounts, loop devices and network end with its last
// process, and killing its PID 1 kills them all at once, as a power cut would. What is left is an empty cgroup.
// Every process of a machine is in the machine's cgroup from before it can do harm, so a command that comes after a
// crash finds them all there and never has to guess whose a process is.
//
// Boot starts a machine from outside; Init is what runs as its PID 1; Services and Tell talk to it.
package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Spec is all that a machine needs to boot. It is written to the machine's folder, where its init reads it.
type Spec struct {
	Name string `json:"name"`
	// Dir is the machine's folder on the host: logs, identity and the control socket.
	Dir string `json:"dir"`
	// Keep is a folder of the host that stays visible at its own path whatever is mounted above it.
	Keep string `json:"keep"`
	// Tmpfs are mounted empty, hiding what the host has there. They come before the binds.
	Tmpfs []string `json:"tmpfs"`
	// Binds are folders or files of the host shown at another path.
	Binds []Bind `json:"binds"`
	// Values are files of /proc/sys that the machine believes to be its own: a write to them must not reach the host.
	Values map[string]string `json:"values"`
	// Sysctls are set in the machine's own network namespace.
	Sysctls map[string]string `json:"sysctls"`
	// Services start in this order, each as soon as the one before is ready.
	Services []Service `json:"services"`
}

// Bind shows the host's Source at Target.
type Bind struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// Service is one long-running program. Its output goes to log/<name>.log in the machine's folder.
type Service struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env"`
	// Ready holds the next service back until this says yes.
	Ready *Check `json:"ready,omitempty"`
}

// Check asks whether a service is ready: by connecting to a socket or by an HTTPS or HTTP GET that answers 200.
type Check struct {
	Socket string `json:"socket,omitempty"`
	URL    string `json:"url,omitempty"`
	// CA is the file with the authority of an HTTPS URL.
	CA string `json:"ca,omitempty"`
}

const specFile = "machine.json"

func (s Spec) save() error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode machine %s: %w", s.Name, err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, specFile), content, 0o600); err != nil {
		return fmt.Errorf("write machine %s: %w", s.Name, err)
	}
	return nil
}

func load(dir string) (Spec, error) {
	content, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return Spec{}, fmt.Errorf("read machine: %w", err)
	}
	var spec Spec
	if err := json.Unmarshal(content, &spec); err != nil {
		return Spec{}, fmt.Errorf("decode machine in %s: %w", dir, err)
	}
	return spec, nil
}

func (s Spec) socket() string { return filepath.Join(s.Dir, "control.sock") }

func (s Spec) logFile(service string) string { return filepath.Join(s.Dir, "log", service+".log") }

// ValueFile is the file, in a machine's folder, that is shown in place of a value of /proc/sys.
func ValueFile(name string) string {
	return filepath.Join("values", strings.ReplaceAll(name, "/", "_"))
}
