//go:build cluster

package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"meridian.dev/meridian/sandbox/image"
)

// expectation is what a real image must hold. Sizes are limits, a little above what was measured: an image that
// suddenly grows has taken in something that nobody asked for.
type expectation struct {
	maxMB int64
	user  string
	files []string
}

var expectations = map[string]expectation{
	"meridian": {maxMB: 120, files: []string{"meridian"}},
	"pause":    {maxMB: 3, files: []string{"pause"}},
	"s3":       {maxMB: 25, files: []string{"s3"}},
	"redis":    {maxMB: 45, user: "redis", files: []string{"usr/bin/redis-server", "usr/bin/redis-cli"}},
	"valkey":   {maxMB: 45, user: "valkey", files: []string{"usr/bin/valkey-server", "usr/bin/valkey-cli"}},
	"postgis-17": {maxMB: 340, user: "postgres", files: postgisFiles("17", "postgis-3", "postgis_raster-3",
		"libpgrouting-3.7")},
	"postgis-15": {maxMB: 315, user: "postgres", files: postgisFiles("15", "postgis-3", "postgis_raster-3",
		"libpgrouting-3.4")},
}

func postgisFiles(major string, modules ...string) []string {
	files := []string{"usr/share/proj/proj.db", "usr/lib/locale/C.utf8/LC_CTYPE", "usr/bin/ps", "usr/bin/bash"}
	for _, program := range []string{"postgres", "initdb", "pg_ctl", "pg_basebackup", "pg_rewind", "pg_waldump",
		"pg_controldata", "pg_checksums", "pg_dump", "pg_restore", "pg_isready", "pgbench", "psql"} {
		files = append(files, "usr/lib/postgresql/"+major+"/bin/"+program)
	}
	for _, module := range modules {
		files = append(files, "usr/lib/postgresql/"+major+"/lib/"+module+".so")
	}
	for _, extension := range []string{"postgis", "postgis_raster", "postgis_topology", "postgis_sfcgal", "pgrouting",
		"pg_stat_statements", "hstore", "btree_gist", "postgres_fdw"} {
		files = append(files, "usr/share/postgresql/"+major+"/extension/"+extension+".control")
	}
	return files
}

// TestRealImages builds every recipe and looks into the result.
func TestRealImages(t *testing.T) {
	names, err := image.Recipes(recipesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			want, ok := expectations[name]
			if !ok {
				t.Fatal("this recipe has no expectations")
			}
			built, err := image.Build(context.Background(), image.Options{RecipesDir: recipesDir, Progress: func(line string) {
				t.Log(line)
			}}, name)
			if err != nil {
				t.Fatal(err)
			}
			if got := built[0].Size / 1e6; got > want.maxMB {
				t.Errorf("%d MB, the limit is %d", got, want.maxMB)
			}
			read, err := tarball.ImageFromPath(built[0].Path, nil)
			if err != nil {
				t.Fatal(err)
			}
			config, err := read.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if config.Config.User != "65532:65532" {
				t.Errorf("runs as %q", config.Config.User)
			}
			content := readContent(t, read)
			for _, file := range want.files {
				if _, ok := content.headers[file]; !ok {
					t.Errorf("no %s", file)
				}
			}
			checkEntries(t, content)
			checkLibraries(t, content)
			checkLinks(t, content)
			if want.user != "" {
				checkAccounts(t, content, want.user)
			}
		})
	}
}

// contents is an image's file system, read once.
type contents struct {
	headers map[string]*tar.Header
	needed  map[string][]string // libraries that a program or library asks for
	small   map[string][]byte   // content of files in /etc
}

func readContent(t *testing.T, from v1.Image) *contents {
	t.Helper()
	layers, err := from.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	stream, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	content := &contents{headers: map[string]*tar.Header{}, needed: map[string][]string{}, small: map[string][]byte{}}
	for reader := tar.NewReader(stream); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return content
		}
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(header.Name, "/")
		content.headers[name] = header
		if header.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "etc/") {
			content.small[name] = data
		}
		if program, err := elf.NewFile(bytes.NewReader(data)); err == nil {
			if content.needed[name], err = program.ImportedLibraries(); err != nil {
				t.Errorf("libraries of %s: %v", name, err)
			}
		} else if bytes.Contains(data, []byte("PRIVATE KEY-----")) { // Libraries hold keys for testing themselves.
			t.Errorf("%s holds a private key", name)
		}
	}
}

func checkEntries(t *testing.T, content *contents) {
	t.Helper()
	for name, header := range content.headers {
		if header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s belongs to %d:%d", name, header.Uid, header.Gid)
		}
		if header.Mode&0o6000 != 0 {
			t.Errorf("%s is set-uid or set-gid", name)
		}
		isShared := header.Typeflag == tar.TypeDir && header.Mode&0o1000 != 0
		if header.Typeflag != tar.TypeSymlink && header.Mode&0o022 != 0 && !isShared {
			t.Errorf("%s can be written by others: %o", name, header.Mode)
		}
		if header.Typeflag == tar.TypeReg && header.Mode&0o004 == 0 {
			t.Errorf("%s cannot be read by the image's user: %o", name, header.Mode)
		}
		if strings.HasPrefix(name, "usr/share/doc/") && header.Typeflag == tar.TypeReg && path.Base(name) != "copyright" {
			t.Errorf("%s is documentation", name)
		}
		for _, folder := range []string{"usr/share/man/", "usr/share/locale/", "var/lib/apt/", "var/cache/", "build",
			"var/lib/postgresql/", "etc/ssl/private/"} {
			if strings.HasPrefix(name, folder) {
				t.Errorf("%s does not belong into an image", name)
			}
		}
		for _, part := range []string{"libLLVM", "llvmjit", "/bitcode/", "usr/bin/perl", "usr/bin/dpkg"} {
			if strings.Contains(name, part) {
				t.Errorf("%s does not belong into this image", name)
			}
		}
	}
}

// checkLibraries proves that leaving out packages took nothing away that a program is linked with.
func checkLibraries(t *testing.T, content *contents) {
	t.Helper()
	have := map[string]bool{}
	for name := range content.headers {
		have[path.Base(name)] = true
	}
	for name, libraries := range content.needed {
		for _, library := range libraries {
			if !have[library] {
				t.Errorf("%s needs %s", name, library)
			}
		}
	}
}

// checkLinks proves that no link of the system leads to something that was left out.
func checkLinks(t *testing.T, content *contents) {
	t.Helper()
	for name, header := range content.headers {
		if header.Typeflag != tar.TypeSymlink || !strings.HasPrefix(name, "usr/") && !strings.HasPrefix(name, "etc/") {
			continue
		}
		target := content.resolve(name)
		isRuntime := strings.HasPrefix(target, "proc/") || strings.HasPrefix(target, "run/")
		if _, ok := content.headers[target]; !ok && !isRuntime {
			t.Errorf("%s leads to %s, which is not there", name, target)
		}
	}
}

// resolve follows the links in a path, also those of the folders on the way.
func (c *contents) resolve(name string) string {
	for range 20 {
		followed := ""
		for i := range name + "/" {
			header, ok := c.headers[name[:i]]
			if i < len(name) && name[i] != '/' || !ok || header.Typeflag != tar.TypeSymlink {
				continue
			}
			target := header.Linkname
			if !path.IsAbs(target) {
				target = path.Join(path.Dir(name[:i]), target)
			}
			followed = strings.TrimPrefix(path.Join(target, name[i:]), "/")
			break
		}
		if followed == "" {
			return name
		}
		name = followed
	}
	return name
}

func checkAccounts(t *testing.T, content *contents, user string) {
	t.Helper()
	var accounts []string
	for line := range strings.Lines(string(content.small["etc/passwd"])) {
		accounts = append(accounts, strings.Join(strings.Split(line, ":")[:4], ":"))
	}
	want := []string{"root:x:0:0", fmt.Sprintf("%s:x:%d:%[2]d", user, image.DefaultUID), "nobody:x:65534:65534"}
	if diff := cmp.Diff(want, accounts); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
	for _, file := range []string{"etc/shadow", "etc/gshadow"} {
		if _, ok := content.headers[file]; ok {
			t.Errorf("%s does not belong into an image", file)
		}
	}
}
