package image_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/sandbox/image"
)

const (
	bookworm = "ID=debian\nVERSION_CODENAME=bookworm\n"
	gpg      = "usr/share/keyrings/debian-archive-keyring.gpg"
	pgp      = "usr/share/keyrings/debian-archive-keyring.pgp"
)

func TestSourcesFor(t *testing.T) {
	tests := map[string]struct {
		files  map[string]string
		mirror string
		want   []string
	}{
		"stanzas with security": {
			files: map[string]string{"etc/os-release": bookworm, "etc/apt/sources.list.d/debian.sources": `Types: deb deb-src
# a remark
URIs: http://mirror.test/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /keys/debian.gpg

Types: deb
URIs: http://mirror.test/security
Suites: bookworm-security
Components: main
Signed-By: /keys/debian.gpg
`},
			want: []string{
				"deb [signed-by=/keys/debian.gpg] http://mirror.test/debian trixie main",
				"deb [signed-by=/keys/debian.gpg] http://mirror.test/debian trixie-updates main",
				"deb [signed-by=/keys/debian.gpg] http://mirror.test/security trixie-security main",
			},
		},
		"one line, no key": {
			files: map[string]string{"etc/os-release": bookworm, gpg: "", "etc/apt/sources.list": `# remark
deb http://mirror.test/debian/ bookworm main non-free # another
deb-src http://mirror.test/debian/ bookworm main
deb http://mirror.test/debian/ bookworm main
`},
			want: []string{"deb [signed-by=/" + gpg + "] http://mirror.test/debian/ trixie main"},
		},
		"one line with options": {
			files: map[string]string{"etc/os-release": bookworm, "etc/apt/sources.list.d/a.list": "deb [ arch=amd64 " +
				"signed-by=/k.asc trusted=yes ] file:/srv/debian stable main\n"},
			want: []string{"deb [signed-by=/k.asc trusted=yes] file:/srv/debian trixie main"},
		},
		"a key written out falls back to Debian's keyring": {
			files: map[string]string{"etc/os-release": bookworm, gpg: "", pgp: "",
				"etc/apt/sources.list.d/a.sources": "Types: deb\nURIs: http://mirror.test\nSuites: bookworm\n" +
					"Components: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n"},
			want: []string{"deb [signed-by=/" + pgp + "] http://mirror.test trixie main"},
		},
		"other vendors and disabled entries are no mirrors": {
			files: map[string]string{"etc/os-release": bookworm,
				"etc/apt/sources.list": "deb http://vendor.test/apt any main\ndeb http://mirror.test bookworm main\n",
				"etc/apt/sources.list.d/a.sources": "Types: deb\nEnabled: no\nURIs: http://off.test\nSuites: bookworm\n" +
					"Components: main\n",
				"etc/apt/sources.list.d/b.sources.disabled": "Types: deb\nURIs: http://off.test\nSuites: bookworm\n" +
					"Components: main\n"},
			want: []string{"deb http://mirror.test trixie main"},
		},
		"a mirror that was asked for": {
			files:  map[string]string{gpg: "", "etc/apt/sources.list": "deb http://mirror.test bookworm main\n"},
			mirror: "http://mine.test/debian",
			want: []string{
				"deb [signed-by=/" + gpg + "] http://mine.test/debian trixie main",
				"deb [signed-by=/" + gpg + "] http://mine.test/debian trixie-updates main",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := image.SourcesFor(fileSystem(test.files), "trixie", test.mirror)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("sources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSourcesForSaysWhatToSet(t *testing.T) {
	tests := map[string]map[string]string{
		"unknown system": {},
		"not Debian":     {"etc/os-release": "ID=ubuntu\nVERSION_CODENAME=noble\n"},
		"no sources":     {"etc/os-release": bookworm},
		"only security": {"etc/os-release": bookworm,
			"etc/apt/sources.list": "deb http://mirror.test/security bookworm-security main\n"},
		"without main": {"etc/os-release": bookworm, "etc/apt/sources.list": "deb http://mirror.test bookworm contrib\n"},
	}
	for name, files := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := image.SourcesFor(fileSystem(files), "trixie", "")
			if err == nil {
				t.Fatalf("no error, but %v", got)
			}
			for _, part := range append([]string{image.MirrorVariable}, image.DebianPackages...) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not name %s", err, part)
				}
			}
		})
	}
}

func fileSystem(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, content := range files {
		root[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return root
}
