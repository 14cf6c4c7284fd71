package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"meridian.dev/meridian/sandbox/compile"
)

// Repository is what the references of all images start with. The first part of a reference is a host, and "localhost"
// is one that no resolver is ever asked about: the kubelet finds the image because it was loaded before, and where it
// was not, the pull fails at once on the node itself and nothing leaves the machine.
const Repository = "localhost/meridian/"

// EpochVariable is the conventional environment variable for the one time that all files of an image carry.
const EpochVariable = "SOURCE_DATE_EPOCH"

// defaultEpoch is the time of all files where the environment names none: the first second of 2026.
const defaultEpoch = 1767225600

// DefaultUID is the user and group of every image of the project. It is the number that images without a distribution
// commonly use, far from those of system accounts, so one security context fits all pods.
const DefaultUID = 65532

// Options say where things are.
type Options struct {
	// RecipesDir is the folder of all recipes: images/ in a checkout. Go programs are built from the folder above it.
	RecipesDir string
	// CacheDir holds built images; DefaultCacheDir if empty.
	CacheDir string
	// Rebuild builds even if the cache has the image, to take in newer Debian packages.
	Rebuild bool
	// Progress is told what happens, one line at a time; may be nil.
	Progress func(string)
}

// Built is an image in the cache.
type Built struct {
	// Name is the recipe's, such as postgis-17.
	Name string
	// Ref is what a pod's spec names.
	Ref string
	// Path is the file to load.
	Path string
	// Digest is that of the image's manifest.
	Digest string
	// Size of the file in bytes. Nothing in it is compressed.
	Size int64
	// Cached tells that nothing had to be built.
	Cached bool
}

// Build makes the named images, or all recipes if none is named, one after the other.
func Build(ctx context.Context, options Options, names ...string) ([]Built, error) {
	if len(names) == 0 {
		all, err := Recipes(options.RecipesDir)
		if err != nil {
			return nil, err
		}
		names = all
	}
	store, err := options.open()
	if err != nil {
		return nil, err
	}
	built := make([]Built, 0, len(names))
	for _, name := range names {
		read, err := load(options.RecipesDir, name)
		if err != nil {
			return built, err
		}
		start := time.Now()
		one, err := options.build(ctx, store, read)
		if err != nil {
			return built, fmt.Errorf("build image %s: %w", name, err)
		}
		options.tell(one, time.Since(start))
		built = append(built, one)
	}
	return built, nil
}

// InCache tells whether an image lies in the cache. One of a Go program never counts as such: its name there is known
// only when the program is built.
func InCache(options Options, name string) (bool, error) {
	read, err := load(options.RecipesDir, name)
	if err != nil || read.Debian == nil {
		return false, err
	}
	store, err := options.open()
	if err != nil {
		return false, err
	}
	key, err := read.key(store.epoch)
	if err != nil {
		return false, err
	}
	_, err = found(read.id, store.file(read.id, key), read.reference())
	return err == nil, nil
}

// Check reads all recipes and finds out where their packages would come from, so that what is missing is told before
// anything else is built.
func Check(recipesDir string) error {
	names, err := Recipes(recipesDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		read, err := load(recipesDir, name)
		if err != nil {
			return err
		}
		if read.Debian == nil {
			continue
		}
		if _, err := sourcesFor(os.DirFS("/"), read.Debian.Suite, os.Getenv(MirrorVariable)); err != nil {
			return err
		}
	}
	return nil
}

// Binary is a static program that becomes an image of its own.
type Binary struct {
	// Name and Tag make the reference.
	Name, Tag string
	// File is the program on this machine. It lies in the image as /<name>.
	File string
	// User is the numeric user and group, "0:0" for root; DefaultUID for both if empty.
	User string
}

// FromBinary makes an image that holds a program and nothing else.
func FromBinary(ctx context.Context, options Options, binary Binary) (Built, error) {
	if !nameForm.MatchString(binary.Name) || !tagForm.MatchString(binary.Tag) {
		return Built{}, fmt.Errorf("%q with tag %q is no name of an image", binary.Name, binary.Tag)
	}
	store, err := options.open()
	if err != nil {
		return Built{}, err
	}
	if binary.User == "" {
		binary.User = fmt.Sprintf("%d:%[1]d", DefaultUID)
	}
	start := time.Now()
	one, err := store.fromFile(ctx, binary.Name, binary.File, settings{
		ref:        Repository + binary.Name + ":" + binary.Tag,
		user:       binary.User,
		workdir:    "/",
		entrypoint: []string{"/" + binary.Name},
	})
	if err != nil {
		return Built{}, fmt.Errorf("build image %s: %w", binary.Name, err)
	}
	options.tell(one, time.Since(start))
	return one, nil
}

func (o *Options) open() (*cache, error) {
	epoch, err := buildEpoch()
	if err != nil {
		return nil, err
	}
	dir := o.CacheDir
	if dir == "" {
		if dir, err = DefaultCacheDir(); err != nil {
			return nil, err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, fmt.Errorf("find the cache folder: %w", err)
	}
	return &cache{dir: dir, rebuild: o.Rebuild, epoch: epoch}, nil
}

func (o *Options) build(ctx context.Context, store *cache, r *recipe) (Built, error) {
	with := settings{
		ref:        r.reference(),
		user:       fmt.Sprintf("%d:%[1]d", r.User.UID),
		env:        r.Env,
		workdir:    r.Workdir,
		entrypoint: r.Entrypoint,
	}
	if r.Binary != nil {
		return o.buildBinary(ctx, store, r, with)
	}
	key, err := r.key(store.epoch)
	if err != nil {
		return Built{}, err
	}
	return store.get(ctx, r.id, key, with, func(ctx context.Context, work string) (*layer, error) {
		o.say("building image " + r.id + " from packages of Debian " + r.Debian.Suite)
		return debianLayer(ctx, r, work, store.epoch)
	})
}

// buildBinary compiles first and looks into the cache afterwards: the compiler has a cache of its own that knows all
// of a program's inputs, so a program that did not change costs a second.
func (o *Options) buildBinary(ctx context.Context, store *cache, r *recipe, with settings) (Built, error) {
	work, err := os.MkdirTemp("", "meridian-image-")
	if err != nil {
		return Built{}, fmt.Errorf("make a work folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }() // In the folder for temporary files a leftover is cleared by others.
	root, err := filepath.Abs(filepath.Join(o.RecipesDir, ".."))
	if err != nil {
		return Built{}, fmt.Errorf("find the repository: %w", err)
	}
	program := filepath.Join(work, "program")
	build := compile.Programs{
		Dir: filepath.Join(root, r.Binary.Module), Packages: []string{r.Binary.Package}, Output: program,
	}
	if err := build.Run(ctx); err != nil {
		return Built{}, err
	}
	return store.fromFile(ctx, r.id, program, with)
}

// fromFile makes an image of one file, which becomes the entry point.
func (c *cache) fromFile(ctx context.Context, id, file string, with settings) (Built, error) {
	content, err := hashFile(file)
	if err != nil {
		return Built{}, err
	}
	key, err := keyOf(c.epoch, content, with.ref, with.user, with.env, with.workdir, with.entrypoint)
	if err != nil {
		return Built{}, err
	}
	return c.get(ctx, id, key, with, func(_ context.Context, work string) (*layer, error) {
		return writeLayer(filepath.Join(work, "layer.tar"), c.epoch, func(to *layerWriter) error {
			return to.addFile(file, with.entrypoint[0])
		})
	})
}

func (o *Options) tell(one Built, took time.Duration) {
	state := "built in " + took.Round(100*time.Millisecond).String()
	if one.Cached {
		state = "unchanged"
	}
	o.say(fmt.Sprintf("image %s: %s, %d MB", one.Ref, state, one.Size/1e6))
}

func (o *Options) say(line string) {
	if o.Progress != nil {
		o.Progress(line)
	}
}

// buildEpoch is the time that all files of an image carry.
func buildEpoch() (time.Time, error) {
	value := os.Getenv(EpochVariable)
	if value == "" {
		return time.Unix(defaultEpoch, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read %s: %w", EpochVariable, err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
