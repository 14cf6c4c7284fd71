package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"meridian.dev/meridian/sandbox/image"
	"meridian.dev/meridian/sandbox/parts"
)

// build makes programs and images, or finds them in the cache, and puts the programs into the sandbox's folder.
//
// Two things are made at a time: Kubernetes, which is more than half of the work, and beside it one after the other all
// the rest. While one of them downloads, unpacks or links, the other one keeps the processors busy. A third would not
// make it faster, but need more memory.
func (c *Cluster) build(ctx context.Context, options Options, kubernetes parts.Part) ([]image.Built, error) {
	var control, runtime string
	var images []image.Built
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		control, err = c.buildPart(ctx, options, kubernetes)
		return err
	})
	group.Go(func() (err error) {
		if images, err = c.buildImages(ctx, options); err != nil {
			return err
		}
		runtime, err = c.buildPart(ctx, options, parts.Containerd())
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, dir := range []string{control, runtime} {
		if err := c.install(dir); err != nil {
			return nil, err
		}
	}
	return images, c.installFile(options.Binary, "sandbox")
}

// buildPart returns the folder with the programs of a part.
func (c *Cluster) buildPart(ctx context.Context, options Options, part parts.Part) (string, error) {
	done := c.task(fmt.Sprintf("%s %s", part.Name, part.Version), parts.Built(options.CacheDir, part))
	dir, err := parts.Build(ctx, options.CacheDir, part)
	done(err)
	return dir, err
}

// buildImages makes those of recipes first: most of their time they wait for a mirror of Debian.
func (c *Cluster) buildImages(ctx context.Context, options Options) ([]image.Built, error) {
	settings := image.Options{
		RecipesDir: options.RecipesDir, CacheDir: filepath.Join(options.CacheDir, "images"), Progress: c.Say,
	}
	all, err := image.Recipes(options.RecipesDir)
	if err != nil {
		return nil, err
	}
	names, leftOut, err := chosen(all, options.Only, func(name string) (bool, error) {
		return image.InCache(settings, name)
	})
	if err != nil {
		return nil, err
	}
	if len(leftOut) > 0 {
		c.sayf("images left out for now: %s; 'sandbox up' builds them", strings.Join(leftOut, ", "))
	}
	images, err := image.Build(ctx, settings, names...)
	if err != nil {
		return nil, err
	}
	coredns := parts.CoreDNS()
	dir, err := c.buildPart(ctx, options, coredns)
	if err != nil {
		return nil, err
	}
	server, err := image.FromBinary(ctx, settings, image.Binary{
		Name: "coredns", Tag: coredns.Version, File: filepath.Join(dir, "coredns"),
	})
	return append(images, server), err
}

// chosen splits the recipes into those to build and those to leave out. One that lies in the cache is never left out:
// it costs nothing, and whoever has built it may have pods that need it.
func chosen(all, only []string, inCache func(string) (bool, error)) (names, leftOut []string, err error) {
	if len(only) == 0 {
		return all, nil, nil
	}
	for _, name := range only {
		if !slices.Contains(all, name) {
			return nil, nil, fmt.Errorf("--only: there is no image %q: choose from %s", name, strings.Join(all, ", "))
		}
	}
	for _, name := range all {
		wanted := slices.Contains(only, name)
		if !wanted {
			if wanted, err = inCache(name); err != nil {
				return nil, nil, err
			}
		}
		if wanted {
			names = append(names, name)
		} else {
			leftOut = append(leftOut, name)
		}
	}
	return names, leftOut, nil
}

// lasting leaves out the image that changes with each build of the product: a seed would be made anew each time.
func lasting(images []image.Built) []image.Built {
	return slices.DeleteFunc(slices.Clone(images), func(built image.Built) bool { return built.Name == "meridian" })
}

// task announces something that may take long and returns what to call at its end. It repeats itself while it lasts,
// so that nobody has to wonder whether it hangs.
func (c *Cluster) task(what string, cached bool) func(error) {
	if cached {
		c.sayf("%s: in the cache", what)
		return func(error) {}
	}
	start := time.Now()
	c.sayf("%s: building, once", what)
	ticker := time.NewTicker(30 * time.Second)
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				c.sayf("%s: still building, %s so far", what, time.Since(start).Round(time.Second))
			case <-stop:
				return
			}
		}
	}()
	return func(err error) {
		ticker.Stop()
		close(stop)
		if err == nil {
			c.sayf("%s: built in %s", what, time.Since(start).Round(time.Second))
		}
	}
}
