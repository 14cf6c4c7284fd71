package image

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// recipeFile is the file that makes a folder a recipe.
const recipeFile = "image.yaml"

// leaveOutFile is the name that the trim script looks for in each folder it is given.
const leaveOutFile = "leave-out.txt"

var (
	nameForm    = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	tagForm     = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)
	suiteForm   = regexp.MustCompile(`^[a-z]+$`)
	packageForm = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]+$`)
	envForm     = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
)

// Recipe says what an image holds and how it runs. Exactly one of Debian and Binary is set.
type Recipe struct {
	// Name and Tag make the reference, localhost/meridian/<name>:<tag>. The recipe's folder is called <name>, or
	// <name>-<tag> where one name has several tags.
	Name string `json:"name"`
	Tag  string `json:"tag"`
	// Debian makes the image from packages.
	Debian *Debian `json:"debian,omitempty"`
	// Binary makes the image from one Go program on an empty base.
	Binary *GoBinary `json:"binary,omitempty"`
	// User is the account the image runs as.
	User User `json:"user"`
	// Env is the environment of the image's processes.
	Env map[string]string `json:"env,omitempty"`
	// Workdir is the folder they start in; / by default.
	Workdir string `json:"workdir,omitempty"`
	// Entrypoint is the program that runs when a pod names no command.
	Entrypoint []string `json:"entrypoint"`
}

// Debian names the packages of an image. File names are relative to the folder of all recipes.
type Debian struct {
	// Suite is the code name of a Debian release.
	Suite string `json:"suite"`
	// Packages is a file with one package a line; what they depend on comes along, what they recommend does not.
	Packages string `json:"packages"`
	// LeaveOut are files named leave-out.txt with packages and paths to remove at the end; see the trim script.
	LeaveOut []string `json:"leaveOut"`
}

// GoBinary names a Go program of this repository.
type GoBinary struct {
	// Module is the folder of its module, relative to the root of the repository; "." is the root.
	Module string `json:"module"`
	// Package is the main package as `go build` in that folder takes it.
	Package string `json:"package"`
	// Path is where the program lies in the image.
	Path string `json:"path"`
}

// User is an account whose group has the same name and number. It is never root: every image has to run at the
// "restricted" level of Pod Security.
type User struct {
	Name string `json:"name"`
	UID  int    `json:"uid"`
}

// recipe is a Recipe with where it was found and the content of the files it names.
type recipe struct {
	Recipe
	id       string // name of its folder
	packages []string
	leaveOut map[string][]byte // by file name
	trim     []byte
}

// reference is what a pod's spec names.
func (r *Recipe) reference() string { return Repository + r.Name + ":" + r.Tag }

// Recipes returns the names of all recipes in the folder, sorted.
func Recipes(dir string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*", recipeFile))
	if err != nil {
		return nil, fmt.Errorf("list recipes: %w", err)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no */%s in %s", recipeFile, dir)
	}
	names := make([]string, 0, len(found))
	for _, file := range found {
		names = append(names, filepath.Base(filepath.Dir(file)))
	}
	slices.Sort(names)
	return names, nil
}

// Parse reads a recipe and checks it. An error names the field that is wrong.
func Parse(content []byte) (Recipe, error) {
	var parsed Recipe
	if err := yaml.UnmarshalStrict(content, &parsed); err != nil {
		return Recipe{}, fmt.Errorf("read recipe: %w", err)
	}
	if parsed.Workdir == "" {
		parsed.Workdir = "/"
	}
	return parsed, parsed.check()
}

func (r *Recipe) check() error {
	var wrong []error
	demand := func(ok bool, field, must string) {
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s: must be %s", field, must))
		}
	}
	demand(nameForm.MatchString(r.Name), "name", "lower-case words joined by dashes")
	demand(tagForm.MatchString(r.Tag), "tag", "letters, digits, dots, dashes or underscores")
	demand((r.Debian == nil) != (r.Binary == nil), "debian, binary", "exactly one of the two")
	demand(nameForm.MatchString(r.User.Name), "user.name", "lower-case words joined by dashes")
	demand(r.User.UID > 0 && r.User.UID < 65534, "user.uid", "between 1 and 65533")
	demand(path.IsAbs(r.Workdir), "workdir", "an absolute path")
	demand(len(r.Entrypoint) > 0, "entrypoint", "at least the program")
	for key := range r.Env {
		demand(envForm.MatchString(key), "env."+key, "named with capital letters, digits and underscores")
	}
	if r.Debian != nil {
		demand(suiteForm.MatchString(r.Debian.Suite), "debian.suite", "the code name of a release, such as trixie")
		demand(filepath.IsLocal(r.Debian.Packages), "debian.packages", "a file inside the folder of all recipes")
		for i, file := range r.Debian.LeaveOut {
			demand(filepath.IsLocal(file) && strings.Count(file, "/") == 1 && path.Base(file) == leaveOutFile,
				fmt.Sprintf("debian.leaveOut[%d]", i), "of the form <folder>/"+leaveOutFile)
		}
	}
	if r.Binary != nil {
		demand(filepath.IsLocal(r.Binary.Module), "binary.module", "a folder inside the repository")
		demand(strings.HasPrefix(r.Binary.Package, "./"), "binary.package", "a package of that module, such as ./cmd/x")
		demand(path.IsAbs(r.Binary.Path), "binary.path", "an absolute path")
	}
	return errors.Join(wrong...)
}

// load reads a recipe and all files it names.
func load(dir, id string) (*recipe, error) {
	content, err := os.ReadFile(filepath.Join(dir, id, recipeFile))
	if err != nil {
		return nil, fmt.Errorf("recipe %s: %w", id, err)
	}
	parsed, err := Parse(content)
	if err != nil {
		return nil, fmt.Errorf("recipe %s: %w", id, err)
	}
	if id != parsed.Name && id != parsed.Name+"-"+parsed.Tag {
		return nil, fmt.Errorf("recipe %s: name: the folder has to be called %s or %[2]s-%s", id, parsed.Name, parsed.Tag)
	}
	loaded := &recipe{Recipe: parsed, id: id}
	if parsed.Debian == nil {
		return loaded, nil
	}
	return loaded, loaded.readFiles(dir)
}

func (r *recipe) readFiles(dir string) error {
	content, err := os.ReadFile(filepath.Join(dir, r.Debian.Packages))
	if err != nil {
		return fmt.Errorf("recipe %s: debian.packages: %w", r.id, err)
	}
	r.packages = lines(content)
	for _, name := range r.packages {
		if !packageForm.MatchString(name) {
			return fmt.Errorf("recipe %s: debian.packages: %q is no name of a package", r.id, name)
		}
	}
	r.leaveOut = map[string][]byte{}
	for i, file := range r.Debian.LeaveOut {
		if r.leaveOut[file], err = os.ReadFile(filepath.Join(dir, file)); err != nil {
			return fmt.Errorf("recipe %s: debian.leaveOut[%d]: %w", r.id, i, err)
		}
	}
	if r.trim, err = os.ReadFile(filepath.Join(dir, trimScript)); err != nil {
		return fmt.Errorf("recipe %s: %w", r.id, err)
	}
	return nil
}

// lines returns the lines of a list without remarks and blank ones.
func lines(content []byte) []string {
	var kept []string
	for line := range strings.Lines(string(content)) {
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line != "" {
			kept = append(kept, line)
		}
	}
	return kept
}
