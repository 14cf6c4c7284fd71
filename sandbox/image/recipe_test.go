package image_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/sandbox/image"
)

const goodRecipe = `
name: postgis
tag: "17"
debian: {suite: trixie, packages: postgis-17/packages.txt, leaveOut: [debian/leave-out.txt]}
user: {name: postgres, uid: 65532}
env: {LANG: C.UTF-8}
entrypoint: [postgres]
`

func TestParse(t *testing.T) {
	got, err := image.Parse([]byte(goodRecipe))
	if err != nil {
		t.Fatal(err)
	}
	want := image.Recipe{
		Name: "postgis",
		Tag:  "17",
		Debian: &image.Debian{
			Suite: "trixie", Packages: "postgis-17/packages.txt", LeaveOut: []string{"debian/leave-out.txt"},
		},
		User:       image.User{Name: "postgres", UID: 65532},
		Env:        map[string]string{"LANG": "C.UTF-8"},
		Workdir:    "/",
		Entrypoint: []string{"postgres"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recipe (-want +got):\n%s", diff)
	}
}

func TestParseNamesTheWrongField(t *testing.T) {
	binary := "binary: {module: ., package: ./cmd/x, path: /x}\n"
	tests := map[string]struct{ replace, by, want string }{
		"name with capitals":      {"name: postgis", "name: PostGIS", "name:"},
		"no tag":                  {`tag: "17"`, "", "tag:"},
		"tag with a slash":        {`tag: "17"`, `tag: a/b`, "tag:"},
		"both bases":              {"user:", binary + "user:", "debian, binary:"},
		"no base":                 {"debian: {", "# {", "debian, binary:"},
		"suite with a pocket":     {"trixie", "trixie-backports", "debian.suite:"},
		"packages outside":        {"postgis-17/packages.txt", "../packages.txt", "debian.packages:"},
		"leave-out by other name": {"debian/leave-out.txt", "debian/rest.txt", "debian.leaveOut[0]:"},
		"leave-out too deep":      {"debian/leave-out.txt", "debian/x/leave-out.txt", "debian.leaveOut[0]:"},
		"no user":                 {"name: postgres,", "", "user.name:"},
		"root":                    {"65532", "0", "user.uid:"},
		"nobody":                  {"65532", "65534", "user.uid:"},
		"environment in small":    {"LANG", "lang", "env.lang:"},
		"relative workdir":        {"entrypoint", "workdir: data\nentrypoint", "workdir:"},
		"no entrypoint":           {"entrypoint: [postgres]", "", "entrypoint:"},
		"unknown field":           {"entrypoint", "volumes: []\nentrypoint", "volumes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(goodRecipe, test.replace) {
				t.Fatalf("the good recipe has no %q", test.replace)
			}
			_, err := image.Parse([]byte(strings.Replace(goodRecipe, test.replace, test.by, 1)))
			if err == nil {
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %q does not name %q", err, test.want)
			}
		})
	}
}

func TestParseBinaryNamesTheWrongField(t *testing.T) {
	tests := map[string]struct{ binary, want string }{
		"module outside":   {"{module: .., package: ./cmd/x, path: /x}", "binary.module:"},
		"package by name":  {"{module: ., package: cmd/x, path: /x}", "binary.package:"},
		"relative program": {"{module: ., package: ./cmd/x, path: x}", "binary.path:"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := image.Parse([]byte("name: x\ntag: dev\nuser: {name: x, uid: 1}\nentrypoint: [/x]\nbinary: " + test.binary))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v does not name %q", err, test.want)
			}
		})
	}
}

// recipeFolder writes a Debian recipe with all files it names.
func recipeFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"postgis-17/image.yaml":   goodRecipe,
		"postgis-17/packages.txt": "postgresql-17 # with a remark\n",
		"debian/leave-out.txt":    "perl\n/usr/share/man\n",
		"debian/trim.sh":          "true\n",
	} {
		writeFile(t, filepath.Join(dir, name), content)
	}
	return dir
}

func writeFile(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestRecipeKeyFollowsContent(t *testing.T) {
	tests := map[string]struct {
		file, content string
		same          bool
	}{
		"nothing":             {"postgis-17/image.yaml", goodRecipe, true},
		"remark in the list":  {"postgis-17/packages.txt", "# why\npostgresql-17\n", true},
		"remark in the yaml":  {"postgis-17/image.yaml", "# why\n" + goodRecipe, true},
		"a package":           {"postgis-17/packages.txt", "postgresql-17\nprocps\n", false},
		"what is left out":    {"debian/leave-out.txt", "perl\n", false},
		"the script":          {"debian/trim.sh", "false\n", false},
		"the suite":           {"postgis-17/image.yaml", strings.Replace(goodRecipe, "trixie", "forky", 1), false},
		"the user":            {"postgis-17/image.yaml", strings.Replace(goodRecipe, "65532", "26", 1), false},
		"the environment":     {"postgis-17/image.yaml", strings.Replace(goodRecipe, "C.UTF-8", "C", 1), false},
		"the entry point":     {"postgis-17/image.yaml", strings.Replace(goodRecipe, "[postgres]", "[sh]", 1), false},
		"the working folder":  {"postgis-17/image.yaml", goodRecipe + "workdir: /tmp\n", false},
		"the default, spoken": {"postgis-17/image.yaml", goodRecipe + "workdir: /\n", true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := recipeFolder(t)
			before, err := image.RecipeKey(dir, "postgis-17")
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, filepath.Join(dir, test.file), test.content)
			after, err := image.RecipeKey(dir, "postgis-17")
			if err != nil {
				t.Fatal(err)
			}
			if same := before == after; same != test.same {
				t.Errorf("key stayed the same: %t, want %t", same, test.same)
			}
		})
	}
}

func TestLoadErrorsNameTheRecipe(t *testing.T) {
	tests := map[string]struct{ file, content, want string }{
		"bad package":  {"postgis-17/packages.txt", "postgresql 17\n", `debian.packages: "postgresql 17"`},
		"other folder": {"postgis-17/image.yaml", strings.Replace(goodRecipe, "postgis\n", "other\n", 1), "name:"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := recipeFolder(t)
			writeFile(t, filepath.Join(dir, test.file), test.content)
			_, err := image.RecipeKey(dir, "postgis-17")
			if err == nil || !strings.Contains(err.Error(), "recipe postgis-17: "+test.want) {
				t.Errorf("error %v does not say %q", err, test.want)
			}
		})
	}
}
