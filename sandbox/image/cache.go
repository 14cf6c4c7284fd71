package image

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"meridian.dev/meridian/sandbox/lock"
)

// builderVersion is part of every key. Raise it when the same recipe would give another image than before.
const builderVersion = 1

// keep is how many versions of one image stay in the cache: the newest, and the one that a cluster may still load.
const keep = 2

// DefaultCacheDir is where built images lie: $XDG_CACHE_HOME/meridian/images, else ~/.cache/meridian/images.
func DefaultCacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	return filepath.Join(dir, "meridian", "images"), nil
}

// keyOf hashes everything an image is made from. The order of the parts is fixed and each is encoded by itself, so two
// different inputs never read the same.
func keyOf(epoch time.Time, parts ...any) (string, error) {
	sum := sha256.New()
	encode := json.NewEncoder(sum)
	for _, part := range append([]any{builderVersion, runtime.GOARCH, epoch.Unix()}, parts...) {
		if err := encode.Encode(part); err != nil {
			return "", fmt.Errorf("compute the cache key: %w", err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// key of a Debian image: the recipe, and the content of the files it names. Remarks in a list are not content.
func (r *recipe) key(epoch time.Time) (string, error) {
	leaveOut := map[string][]string{}
	for file, content := range r.leaveOut {
		leaveOut[file] = lines(content)
	}
	return keyOf(epoch, r.Recipe, r.packages, leaveOut, string(r.trim))
}

// hashFile returns the hash of a file's content.
func hashFile(name string) (_ string, err error) {
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("hash a file: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("hash %s: %w", name, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// cache is the folder of built images. A file in it is complete, since it gets its name only when it is.
type cache struct {
	dir     string
	rebuild bool
	epoch   time.Time
}

// file is where the image with this key lies.
func (c *cache) file(id, key string) string { return filepath.Join(c.dir, id+"-"+key+".tar") }

// filler makes the layer of an image in an empty work folder.
type filler func(ctx context.Context, work string) (*layer, error)

// get returns the image with this key, and makes it with fill if the cache does not have it.
func (c *cache) get(ctx context.Context, id, key string, with settings, fill filler) (Built, error) {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return Built{}, fmt.Errorf("make the cache folder: %w", err)
	}
	held, err := lock.Take(ctx, filepath.Join(c.dir, id+".lock"))
	if err != nil {
		return Built{}, fmt.Errorf("wait for another build of %s: %w", id, err)
	}
	defer held.Release()
	file := c.file(id, key)
	if !c.rebuild {
		if hit, err := found(id, file, with.ref); err == nil {
			now := time.Now()
			_ = os.Chtimes(file, now, now) // Only decides which old version is removed first.
			hit.Cached = true
			return hit, nil
		}
	}
	if err := c.produce(ctx, id, file, with, fill); err != nil {
		return Built{}, err
	}
	if err := c.prune(id, file); err != nil {
		return Built{}, err
	}
	return found(id, file, with.ref)
}

// produce makes the image in a work folder beside its place and renames it when all of it is on disk.
func (c *cache) produce(ctx context.Context, id, file string, with settings, fill filler) (err error) {
	work := filepath.Join(c.dir, id+".building")
	if err := discard(work); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, discard(work)) }()
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fmt.Errorf("make a work folder: %w", err)
	}
	content, err := fill(ctx, work)
	if err != nil {
		return err
	}
	image, err := assemble(content, with, c.epoch)
	if err != nil {
		return err
	}
	unnamed, err := os.Create(filepath.Join(work, "archive.tar"))
	if err != nil {
		return fmt.Errorf("make the archive: %w", err)
	}
	buffer := bufio.NewWriterSize(unnamed, 1<<20)
	err = writeArchive(buffer, image, with.ref, c.epoch)
	if err := errors.Join(err, buffer.Flush(), unnamed.Sync(), unnamed.Close()); err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	if err := os.Rename(unnamed.Name(), file); err != nil {
		return fmt.Errorf("put the image into the cache: %w", err)
	}
	return nil
}

// discard removes a work folder, also one that a killed build left behind.
func discard(work string) error {
	if err := mountsBelow(work); err != nil {
		return fmt.Errorf("clear %s: %w", work, err)
	}
	for start := time.Now(); ; time.Sleep(grace / 50) {
		err := os.RemoveAll(work)
		if err == nil {
			return nil
		}
		// The tools of a killed build may need a moment to clean up in the same folder.
		if time.Since(start) > grace {
			return fmt.Errorf("clear an unfinished build: %w", err)
		}
	}
}

// prune removes all but the last used versions of an image; the one just made always stays.
func (c *cache) prune(id, newest string) error {
	names, err := filepath.Glob(filepath.Join(c.dir, id+"-????????????????.tar"))
	if err != nil {
		return fmt.Errorf("list old versions of %s: %w", id, err)
	}
	used := map[string]time.Time{}
	names = slices.DeleteFunc(names, func(name string) bool {
		info, err := os.Stat(name)
		if err == nil {
			used[name] = info.ModTime()
		}
		return err != nil || name == newest
	})
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(used[b].Compare(used[a]), cmp.Compare(a, b))
	})
	for _, name := range names[min(len(names), keep-1):] {
		if err := os.Remove(name); err != nil {
			return fmt.Errorf("remove an old version of %s: %w", id, err)
		}
	}
	return nil
}

// found reads what lies in the cache under this name.
func found(id, file, ref string) (Built, error) {
	info, err := os.Stat(file)
	if err != nil {
		return Built{}, fmt.Errorf("look into the cache: %w", err)
	}
	stored, digest, err := readIndex(file)
	if err != nil {
		return Built{}, err
	}
	if stored != ref {
		return Built{}, fmt.Errorf("%s holds %s, not %s", file, stored, ref)
	}
	return Built{Name: id, Ref: ref, Path: file, Digest: digest, Size: info.Size()}, nil
}
