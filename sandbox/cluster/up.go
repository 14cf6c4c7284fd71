package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/network"
	"meridian.dev/meridian/sandbox/parts"
)

// Options say how to bring a sandbox up.
type Options struct {
	Config
	// CacheDir keeps built parts and images between sandboxes.
	CacheDir string
	// RecipesDir has the recipes of the images that the nodes get.
	RecipesDir string
	// Only names the images to build; all if it is empty. What the cache has comes along in any case.
	Only []string
	// Binary is the sandbox's own command, which runs inside the machines too.
	Binary string
}

// Up brings the sandbox to its full state from whatever state it is in: nothing there, half made, killed, with nodes
// off, cut or frozen. What runs already is left alone.
func (c *Cluster) Up(ctx context.Context, options Options) error {
	return c.exclusively(ctx, func() error { return c.up(ctx, options) })
}

func (c *Cluster) up(ctx context.Context, options Options) error {
	part, err := parts.Kubernetes(options.Kubernetes)
	if err != nil {
		return err
	}
	options.Kubernetes = part.Version
	if err := c.agree(options.Config); err != nil {
		return err
	}
	images, err := c.build(ctx, options, part)
	if err != nil {
		return err
	}
	if err := c.saveConfig(options.Config); err != nil {
		return err
	}
	if err := c.issueAll(options.Nodes); err != nil {
		return err
	}
	if err := c.plantImages(ctx, options, lasting(images)); err != nil {
		return err
	}
	if err := c.startMachines(ctx, options.Config); err != nil {
		return err
	}
	if err := c.bringImages(ctx, options.Config, images); err != nil {
		return err
	}
	return c.awaitDNS(ctx)
}

// agree refuses to turn a sandbox into another one: what it runs would not survive that unnoticed.
func (c *Cluster) agree(wanted Config) error {
	if wanted.Nodes < 1 || wanted.Nodes > network.MaxNodes {
		return fmt.Errorf("--nodes %d: a sandbox has 1 to %d nodes", wanted.Nodes, network.MaxNodes)
	}
	existing, err := c.Config()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if existing != wanted {
		return fmt.Errorf("the sandbox has %s, not %s: run 'sandbox down' first", existing, wanted)
	}
	return nil
}

// String describes a configuration for people.
func (c Config) String() string {
	profile := ""
	if c.Fast {
		profile = " and fast node checks"
	}
	return fmt.Sprintf("Kubernetes %s with %d nodes%s", c.Kubernetes, c.Nodes, profile)
}

// install puts the programs of a built part into the sandbox's own folder: the cache may be cleared, or be at a place
// that the machines do not see.
func (c *Cluster) install(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list built programs: %w", err)
	}
	for _, entry := range entries {
		source := filepath.Join(dir, entry.Name())
		if entry.Type()&fs.ModeSymlink != 0 { // A further name of a program.
			err = c.installName(source, entry.Name())
		} else {
			err = c.installFile(source, entry.Name())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) installName(source, name string) error {
	target, err := os.Readlink(source)
	if err != nil {
		return fmt.Errorf("read name %s: %w", name, err)
	}
	_ = os.Remove(c.program(name))
	if err := os.Symlink(target, c.program(name)); err != nil {
		return fmt.Errorf("install name %s: %w", name, err)
	}
	return nil
}

// installFile replaces a program by renaming, so that a running one keeps its file. One that is there stays.
func (c *Cluster) installFile(source, name string) error {
	target := c.program(name)
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("make folder of programs: %w", err)
	}
	if sameFile(source, target) {
		return nil
	}
	unfinished := target + ".new"
	_ = os.Remove(unfinished)
	if os.Link(source, unfinished) != nil { // Another file system.
		if err := copyFile(source, unfinished); err != nil {
			return err
		}
	}
	if err := os.Rename(unfinished, target); err != nil {
		return fmt.Errorf("install %s: %w", name, err)
	}
	return nil
}

// sameFile tells whether target is source, or a copy of it that is not older.
func sameFile(source, target string) bool {
	from, err := os.Stat(source)
	if err != nil {
		return false
	}
	to, err := os.Stat(target)
	return err == nil && (os.SameFile(from, to) || (from.Size() == to.Size() && !to.ModTime().Before(from.ModTime())))
}

// startMachines boots what is off and undoes every fault on what is on.
func (c *Cluster) startMachines(ctx context.Context, config Config) error {
	if err := c.startSwitch(ctx); err != nil {
		return err
	}
	if err := c.startControl(ctx, config); err != nil {
		return err
	}
	if err := c.awaitAPI(ctx); err != nil {
		return err
	}
	var group errgroup.Group
	for n := 1; n <= config.Nodes; n++ {
		group.Go(func() error { return c.startNode(ctx, config, n) })
	}
	if err := errors.Join(group.Wait(), network.RouteHost(config.Nodes, c.nodesOn(config))); err != nil {
		return err
	}
	if err := c.applyManifests(ctx); err != nil {
		return err
	}
	return c.awaitNodes(ctx, c.nodesOn(config))
}

// startSwitch boots the machine that is nothing but a network. Without it every cable is gone, so whatever of a
// killed sandbox still runs is powered off first.
func (c *Cluster) startSwitch(ctx context.Context) error {
	if c.pid(switchMachine) != 0 {
		return nil
	}
	if err := machine.RemoveAll(); err != nil {
		return err
	}
	spec := machine.Spec{Name: switchMachine, Dir: c.machineDir(switchMachine), Keep: c.dir}
	return machine.Boot(ctx, c.program("sandbox"), spec, network.Raise)
}

func (c *Cluster) startControl(ctx context.Context, config Config) error {
	if c.pid(controlPlane) != 0 {
		return c.restore(ctx, controlPlane)
	}
	if err := machine.PowerOff(controlPlane); err != nil { // What a crash left of it.
		return err
	}
	return machine.Boot(ctx, c.program("sandbox"), c.controlSpec(config), func(pid int) error {
		if err := network.Plug(c.pid(switchMachine), controlPlane, pid, network.ControlAddress); err != nil {
			return err
		}
		return network.RouteInside(pid, 0, config.Nodes)
	})
}

func (c *Cluster) startNode(ctx context.Context, config Config, n int) error {
	name := nodeName(n)
	if pid := c.pid(name); pid != 0 {
		if err := network.Heal(ctx, pid); err != nil {
			return err
		}
		return c.restore(ctx, name)
	}
	if err := machine.PowerOff(name); err != nil {
		return err
	}
	spec, err := c.nodeSpec(config, n)
	if err != nil {
		return err
	}
	return machine.Boot(ctx, c.program("sandbox"), spec, func(pid int) error {
		if err := network.Plug(c.pid(switchMachine), name, pid, network.NodeAddress(n)); err != nil {
			return err
		}
		return network.RouteInside(pid, n, config.Nodes)
	})
}

// restore thaws a running machine and starts its held services.
func (c *Cluster) restore(ctx context.Context, name string) error {
	if machine.Frozen(name) {
		if err := machine.Thaw(name); err != nil {
			return err
		}
	}
	states, err := machine.Services(ctx, c.machineDir(name))
	if err != nil {
		return err
	}
	for _, state := range states {
		if state.Held {
			if err := machine.Tell(ctx, c.machineDir(name), state.Name, machine.Release); err != nil {
				return err
			}
		}
	}
	return nil
}

// nodesOn lists the nodes whose machine runs.
func (c *Cluster) nodesOn(config Config) []int {
	var on []int
	for n := 1; n <= config.Nodes; n++ {
		if c.pid(nodeName(n)) != 0 {
			on = append(on, n)
		}
	}
	return on
}
