// Package cluster is a real Kubernetes on one machine: a control plane and nodes, each a machine of its own, wired
// by a network, with storage and name service. It is also the Go API of the faults that tests inject.
//
// There is one sandbox per host: its addresses and device names are fixed. All of its state is in one folder, all of
// its processes are in one control group, and every command can be repeated after a crash at any point. Start
// reading at Up.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"meridian.dev/meridian/sandbox/lock"
	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/volume"
)

// Dir is where a sandbox keeps its state. It is fixed, as Down removes what is in it.
const Dir = "/var/lib/meridian-sandbox"

// lockFile keeps two commands from changing the sandbox at once. It is outside of the state, which Down removes.
const lockFile = "/run/meridian-sandbox.lock"

// Machines that are no nodes: the one with the API server and its helpers, and the one that is the network's switch.
const (
	controlPlane  = "control"
	switchMachine = "switch"
)

// Config is what a sandbox was made with. It cannot change until the sandbox is down.
type Config struct {
	Nodes      int    `json:"nodes"`
	Kubernetes string `json:"kubernetes"`
	// Fast shortens the time in which Kubernetes notices a lost node from about 50 to about 11 seconds. Failover times
	// measured with it are not those of a cluster with default settings.
	Fast bool `json:"fast"`
}

// Cluster is the sandbox of this host, up or not.
type Cluster struct {
	dir string
	// Say gets a line for each thing that happens.
	Say func(string)
}

// Open returns the sandbox of this host; it need not exist.
func Open() *Cluster { return open(Dir) }

func open(dir string) *Cluster { return &Cluster{dir: dir, Say: func(string) {}} }

func (c *Cluster) sayf(format string, args ...any) { c.Say(fmt.Sprintf(format, args...)) }

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.dir}, parts...)...)
}

func (c *Cluster) machineDir(name string) string { return c.path("machines", name) }

func (c *Cluster) program(name string) string { return c.path("bin", name) }

func (c *Cluster) store() volume.Store { return volume.Store{Dir: c.path("volumes")} }

// Kubeconfig is the file with an administrator's credentials.
func (c *Cluster) Kubeconfig() string { return c.path("pki", "admin.kubeconfig") }

// Kubectl is the kubectl that fits the cluster's version.
func (c *Cluster) Kubectl() string { return c.program("kubectl") }

func nodeName(n int) string { return fmt.Sprintf("node%d", n) }

// Config reads what the sandbox was made with; fs.ErrNotExist means that there is none.
func (c *Cluster) Config() (Config, error) {
	content, err := os.ReadFile(c.path("cluster.json"))
	if err != nil {
		return Config{}, fmt.Errorf("read the sandbox's configuration: %w", err)
	}
	var config Config
	if err := json.Unmarshal(content, &config); err != nil {
		return Config{}, fmt.Errorf("decode the sandbox's configuration: %w", err)
	}
	return config, nil
}

func (c *Cluster) saveConfig(config Config) error {
	content, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode the sandbox's configuration: %w", err)
	}
	return writeFile(c.path("cluster.json"), content, 0o644)
}

// running returns the configuration of a sandbox that is there, or an error that says what to do.
func (c *Cluster) running() (Config, error) {
	config, err := c.Config()
	if errors.Is(err, fs.ErrNotExist) {
		return Config{}, errors.New("there is no sandbox: start one with 'sandbox up'")
	}
	return config, err
}

// node checks that the sandbox has a node n.
func (c *Cluster) node(n int) (Config, error) {
	config, err := c.running()
	if err == nil && (n < 1 || n > config.Nodes) {
		err = fmt.Errorf("there is no node %d: the sandbox has nodes 1 to %d", n, config.Nodes)
	}
	return config, err
}

// pid is the process id of the machine's init, or 0 when it is off.
func (c *Cluster) pid(name string) int { return machine.PID(name, c.machineDir(name)) }

// exclusively runs do while no other command changes the sandbox. It says so if it has to wait.
func (c *Cluster) exclusively(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	notice := time.AfterFunc(time.Second, func() { c.Say("waiting for another command to finish with the sandbox") })
	held, err := lock.Take(ctx, lockFile)
	notice.Stop()
	if err != nil {
		return err
	}
	defer held.Release()
	return do()
}

// writeFile writes a file whole or not at all, with its folder.
func writeFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("make folder of %s: %w", path, err)
	}
	unfinished := path + ".new"
	if err := os.WriteFile(unfinished, content, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(unfinished, path); err != nil {
		return fmt.Errorf("name %s: %w", path, err)
	}
	return nil
}
