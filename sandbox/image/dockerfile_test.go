package image_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/sandbox/compile"
	"meridian.dev/meridian/sandbox/image"
)

const recipesDir = "../../images"

// stage is the part of a Dockerfile from one FROM to the next.
type stage map[string][]string // arguments by instruction

// stages reads as much of a Dockerfile as the project's own use: instructions, remarks and continued lines.
func stages(t *testing.T, file string) []stage {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all []stage
	for line := range strings.Lines(strings.ReplaceAll(string(content), "\\\n", " ")) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		instruction, arguments, _ := strings.Cut(line, " ")
		if instruction == "FROM" {
			all = append(all, stage{})
		}
		last := all[len(all)-1]
		last[instruction] = append(last[instruction], strings.Join(strings.Fields(arguments), " "))
	}
	return all
}

// TestDockerfilesAgree holds each Dockerfile against its recipe: whoever builds with Docker gets the same image.
func TestDockerfilesAgree(t *testing.T) {
	names, err := image.Recipes(recipesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(recipesDir, name, "image.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			recipe, err := image.Parse(content)
			if err != nil {
				t.Fatal(err)
			}
			docker := stages(t, filepath.Join(recipesDir, name, "Dockerfile"))
			if len(docker) != 2 {
				t.Fatalf("%d stages, want one that makes the tree and one that is the image", len(docker))
			}
			want := wantTree(recipe)
			if diff := cmp.Diff(want, treeOf(docker[0], recipe)); diff != "" {
				t.Errorf("first stage (-recipe +Dockerfile):\n%s", diff)
			}
			if diff := cmp.Diff(wantImage(t, recipe), docker[1]); diff != "" {
				t.Errorf("last stage (-recipe +Dockerfile):\n%s", diff)
			}
			usage := fmt.Sprintf("-t %s%s:%s -f images/%s/Dockerfile", image.Repository, recipe.Name, recipe.Tag, name)
			whole, err := os.ReadFile(filepath.Join(recipesDir, name, "Dockerfile"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(whole), usage) {
				t.Errorf("the remark at the top does not say %q", usage)
			}
		})
	}
}

// treeOf reduces the first stage to what has to agree: the base, the files copied in, and the last command.
func treeOf(first stage, recipe image.Recipe) stage {
	got := stage{"FROM": first["FROM"]}
	for _, run := range first["RUN"] {
		steps := strings.Split(run, " && ")
		got["RUN"] = append(got["RUN"], steps[len(steps)-1])
	}
	if recipe.Debian == nil {
		return got
	}
	for _, copied := range first["COPY"] {
		files := strings.Fields(copied)
		got["COPY"] = append(got["COPY"], files[:len(files)-1]...)
	}
	slices.Sort(got["COPY"])
	return got
}

func wantTree(recipe image.Recipe) stage {
	if recipe.Binary != nil {
		return stage{
			"FROM": {"golang:1.26 AS tree"},
			"RUN": {fmt.Sprintf(`CGO_ENABLED=0 go build -C %s %s -buildvcs=false -ldflags="-s -w" -o %s %s`,
				recipe.Binary.Module, strings.Join(compile.Flags, " "), recipe.Binary.Path, recipe.Binary.Package)},
		}
	}
	files := append([]string{"debian/trim.sh", recipe.Debian.Packages}, recipe.Debian.LeaveOut...)
	slices.Sort(files)
	return stage{
		"FROM": {"debian:" + recipe.Debian.Suite + "-slim AS tree"},
		"COPY": files,
		"RUN":  {fmt.Sprintf("sh /build/debian/trim.sh /build %s %d", recipe.User.Name, recipe.User.UID)},
	}
}

func wantImage(t *testing.T, recipe image.Recipe) stage {
	t.Helper()
	entrypoint, err := json.Marshal(recipe.Entrypoint)
	if err != nil {
		t.Fatal(err)
	}
	want := stage{
		"FROM":       {"scratch"},
		"COPY":       {"--from=tree / /"},
		"USER":       {fmt.Sprintf("%d:%[1]d", recipe.User.UID)},
		"WORKDIR":    {recipe.Workdir},
		"ENTRYPOINT": {strings.ReplaceAll(string(entrypoint), `","`, `", "`)},
	}
	if recipe.Binary != nil {
		want["COPY"] = []string{fmt.Sprintf("--from=tree %s %[1]s", recipe.Binary.Path)}
	}
	for key, value := range recipe.Env {
		want["ENV"] = append(want["ENV"], key+"="+value)
	}
	slices.Sort(want["ENV"])
	return want
}

// TestRecipesShareOneUser is what lets one security context fit all pods.
func TestRecipesShareOneUser(t *testing.T) {
	names, err := image.Recipes(recipesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(recipesDir, name, "image.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		recipe, err := image.Parse(content)
		if err != nil {
			t.Fatal(err)
		}
		if recipe.User.UID != image.DefaultUID {
			t.Errorf("%s runs as %d, want %d", name, recipe.User.UID, image.DefaultUID)
		}
	}
}
