package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"meridian.dev/meridian/sandbox/image"
	"meridian.dev/meridian/sandbox/machine"
)

// pauseImage holds the namespaces of each pod.
const pauseImage = image.Repository + "pause:dev"

// seedMachine is a machine that lives only while the images of a seed are unpacked.
const seedMachine = "seed"

// plantImages gives each new node a containerd that has the images unpacked already. They are unpacked once into a
// seed, and nodes share its files by hard links: a second a node instead of twenty, and one copy on disk and in
// memory. Nothing writes to an unpacked file in place; the databases of containerd are copied.
func (c *Cluster) plantImages(ctx context.Context, options Options, images []image.Built) error {
	seed, err := c.seed(ctx, options, images)
	if err != nil {
		return err
	}
	var group errgroup.Group
	for n := 1; n <= options.Nodes; n++ {
		name := nodeName(n)
		target := filepath.Join(c.machineDir(name), "containerd")
		if exists(target) {
			continue
		}
		group.Go(func() error {
			// The record comes first and the node last: a node that exists has a record.
			if err := c.recordImages(name, images); err != nil {
				return err
			}
			return plant(ctx, seed, target)
		})
	}
	return group.Wait()
}

// seed returns the folder of a containerd with exactly these images, made on first need.
func (c *Cluster) seed(ctx context.Context, options Options, images []image.Built) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, "seed 1")
	digests := make([]string, 0, len(images))
	for _, built := range images {
		digests = append(digests, built.Ref+" "+built.Digest)
	}
	slices.Sort(digests)
	fmt.Fprintln(sum, digests)
	dir := filepath.Join(options.CacheDir, "seeds", hex.EncodeToString(sum.Sum(nil))[:16])
	if exists(dir) {
		return dir, nil
	}
	start := time.Now()
	unfinished := c.machineDir(seedMachine)
	if err := errors.Join(machine.PowerOff(seedMachine), os.RemoveAll(unfinished)); err != nil {
		return "", fmt.Errorf("clear an unfinished seed: %w", err)
	}
	if err := c.fillSeed(ctx, unfinished, images); err != nil {
		return "", errors.Join(err, machine.PowerOff(seedMachine))
	}
	if err := pruneSeeds(filepath.Dir(dir)); err != nil {
		return "", err
	}
	if err := moveTree(ctx, filepath.Join(unfinished, "containerd"), dir); err != nil {
		return "", err
	}
	c.sayf("images: unpacked %d in %s", len(images), time.Since(start).Round(time.Second))
	return dir, os.RemoveAll(unfinished)
}

func (c *Cluster) fillSeed(ctx context.Context, dir string, images []image.Built) error {
	if err := os.MkdirAll(filepath.Join(dir, "containerd"), 0o755); err != nil {
		return fmt.Errorf("make folder of seed: %w", err)
	}
	if err := writeFile(dir+"/containerd.toml", []byte(containerdConfig(dir)), 0o644); err != nil {
		return err
	}
	spec := machine.Spec{
		Name: seedMachine, Dir: dir, Keep: c.dir, Tmpfs: []string{"/run", "/tmp", "/var/lib"},
		Binds:    []machine.Bind{{Source: dir + "/containerd", Target: "/var/lib/containerd"}},
		Services: []machine.Service{c.containerd(dir)},
	}
	if err := machine.Boot(ctx, c.program("sandbox"), spec, func(int) error { return nil }); err != nil {
		return err
	}
	if err := c.awaitService(ctx, seedMachine, "containerd"); err != nil {
		return err
	}
	for _, built := range images {
		if err := c.importImage(ctx, seedMachine, built.Path); err != nil {
			return err
		}
	}
	return machine.PowerOff(seedMachine)
}

// pruneSeeds removes all seeds: each holds a gigabyte, and only the newest set of images is ever planted again.
// Nodes that share its files keep them.
func pruneSeeds(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove old seeds: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make folder of seeds: %w", err)
	}
	return nil
}

// plant copies a seed by hard links, if it can, and makes the databases files of their own.
func plant(ctx context.Context, seed, target string) error {
	unfinished := target + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("clear an unfinished copy: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return fmt.Errorf("make folder of node: %w", err)
	}
	if err := copyTree(ctx, seed, unfinished); err != nil {
		return err
	}
	err := filepath.WalkDir(unfinished, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Ext(path) != ".db" || !ownedByContainerd(unfinished, path) {
			return err
		}
		if err := copyFile(path, path+".own"); err != nil {
			return err
		}
		return os.Rename(path+".own", path)
	})
	if err != nil {
		return fmt.Errorf("copy databases: %w", err)
	}
	return os.Rename(unfinished, target)
}

// ownedByContainerd tells the databases of containerd, at most two folders deep, from files of that name in images.
func ownedByContainerd(root, path string) bool {
	relative, err := filepath.Rel(root, path)
	return err == nil && strings.Count(relative, "/") <= 1
}

// endsWithUs makes a process end with this one, so that nothing of a command which was killed is still at work when the
// next one clears up.
func endsWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// copyTree copies a folder by hard links or, onto another file system, for real.
func copyTree(ctx context.Context, source, target string) error {
	copyWith := func(flags string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "cp", flags, source, target)
		endsWithUs(cmd)
		return cmd
	}
	if copyWith("-al").Run() == nil {
		return nil
	}
	if err := os.RemoveAll(target); err != nil { // What could be linked so far goes.
		return fmt.Errorf("clear a failed copy: %w", err)
	}
	if output, err := copyWith("-a").CombinedOutput(); err != nil {
		return fmt.Errorf("copy images: %w: %s", err, output)
	}
	return nil
}

func moveTree(ctx context.Context, source, target string) error {
	if os.Rename(source, target) == nil {
		return nil
	}
	if err := copyTree(ctx, source, target+".new"); err != nil {
		return err
	}
	return os.Rename(target+".new", target)
}

func copyFile(source, target string) (err error) {
	from, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		return fmt.Errorf("look at %s: %w", source, err)
	}
	to, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm())
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if _, err := io.Copy(to, from); err != nil {
		return fmt.Errorf("copy %s: %w", source, err)
	}
	return nil
}

// bringImages loads into each node what it does not have yet: images that changed since the node was made.
func (c *Cluster) bringImages(ctx context.Context, config Config, images []image.Built) error {
	var group errgroup.Group
	for _, n := range c.nodesOn(config) {
		group.Go(func() error { return c.bringTo(ctx, nodeName(n), images) })
	}
	return group.Wait()
}

// bringTo loads images into one node. Those that it has beside them stay, and stay on record.
func (c *Cluster) bringTo(ctx context.Context, name string, images []image.Built) error {
	has, err := c.recordedImages(name)
	if err != nil {
		return err
	}
	for _, built := range images {
		if has[built.Ref] == built.Digest {
			continue
		}
		if err := c.importImage(ctx, name, built.Path); err != nil {
			return err
		}
		has[built.Ref] = built.Digest
	}
	return c.writeRecord(name, has)
}

// imageRecord is the file, in a node's folder, with the images that were brought to it: digests by reference.
const imageRecord = "images.json"

func (c *Cluster) recordImages(name string, images []image.Built) error {
	digests := map[string]string{}
	for _, built := range images {
		digests[built.Ref] = built.Digest
	}
	return c.writeRecord(name, digests)
}

func (c *Cluster) writeRecord(name string, digests map[string]string) error {
	content, err := json.MarshalIndent(digests, "", "  ")
	if err != nil {
		return fmt.Errorf("encode list of images: %w", err)
	}
	return writeFile(filepath.Join(c.machineDir(name), imageRecord), content, 0o644)
}

func (c *Cluster) recordedImages(name string) (map[string]string, error) {
	content, err := os.ReadFile(filepath.Join(c.machineDir(name), imageRecord))
	if err != nil {
		return nil, fmt.Errorf("read list of images: %w", err)
	}
	digests := map[string]string{}
	if err := json.Unmarshal(content, &digests); err != nil {
		return nil, fmt.Errorf("decode list of images of %s: %w", name, err)
	}
	return digests, nil
}

// LoadImage loads an image file into every node that is on.
func (c *Cluster) LoadImage(ctx context.Context, file string) error {
	config, err := c.running()
	if err != nil {
		return err
	}
	if !exists(file) {
		return fmt.Errorf("there is no image file %s", file)
	}
	return c.exclusively(ctx, func() error {
		on := c.nodesOn(config)
		if len(on) == 0 {
			return errors.New("no node is on")
		}
		var group errgroup.Group
		for _, n := range on {
			group.Go(func() error { return c.importImage(ctx, nodeName(n), file) })
		}
		return group.Wait()
	})
}

// importImage runs ctr in the machine, reading the file through standard input: the machine may not see its path.
func (c *Cluster) importImage(ctx context.Context, name, file string) error {
	if machine.Frozen(name) {
		return fmt.Errorf("%s is frozen and cannot take an image", name)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	content, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("open image: %w", err)
	}
	defer func() { _ = content.Close() }()
	cmd := exec.CommandContext(ctx, "nsenter", "--mount", "--pid", "--net", "--target", strconv.Itoa(c.pid(name)),
		c.program("ctr"), "--address", containerdSocket, "--namespace", "k8s.io", "images", "import", "--local", "-")
	cmd.Stdin = content
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("load %s into %s: %w: %s", filepath.Base(file), name, err, strings.TrimSpace(string(output)))
	}
	return nil
}
