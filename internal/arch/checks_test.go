package arch_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/arch"
)

// TestRulesBite shows for each rule what it accepts and what it refuses. The sources are as small as the point allows.
func TestRulesBite(t *testing.T) {
	for rule, cases := range ruleCases {
		for name, test := range cases {
			t.Run(rule+"/"+name, func(t *testing.T) {
				repo, err := arch.Load(treeOf(test.files))
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, finding := range ruleNamed(t, rule).Check(repo) {
					got = append(got, finding.String())
				}
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("findings differ (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestEachRuleHasACaseThatFails keeps the table above honest: a rule that was never seen to bite does not count.
func TestEachRuleHasACaseThatFails(t *testing.T) {
	for _, rule := range arch.Rules {
		bites, passes := false, false
		for _, test := range ruleCases[rule.Name] {
			bites = bites || len(test.want) > 0
			passes = passes || len(test.want) == 0
		}
		if !bites || !passes {
			t.Errorf("rule %s: a case that it refuses: %t, a case that it accepts: %t; want both", rule.Name, bites, passes)
		}
	}
}

func TestLoadLeavesOutWhatIsNotCommitted(t *testing.T) {
	repo, err := arch.Load(treeOf(files{
		".gitignore":      "/bin/\n/.sandbox/\n*.swp\n",
		"bin/broken.go":   "no Go at all",
		".git/HEAD":       "ref",
		"kit/a/a.go":      "package a",
		"kit/a/testdata/": "",
		"x/testdata/b.go": "no Go at all",
	}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, folder := range repo.Folders {
		got = append(got, folder.Path)
	}
	if diff := cmp.Diff([]string{"kit", "kit/a", "kit/a/testdata", "x", "x/testdata"}, got); diff != "" {
		t.Errorf("folders differ (-want +got):\n%s", diff)
	}
}

func TestLoadReportsBrokenSource(t *testing.T) {
	if _, err := arch.Load(treeOf(files{"kit/a/a.go": "package"})); err == nil {
		t.Error("no error for a file that does not parse")
	}
}

func TestForbidWords(t *testing.T) {
	repo, err := arch.Load(treeOf(files{
		"README.md":  "get it from mirror.example.org\nor from notmirror.example.organic\n",
		"a.bin":      "\x00mirror.example.org",
		"docs/a.txt": "cd /home/joe/meridian/sandbox && ls /home/joe/meridian-old\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := []arch.Finding{
		{Where: "README.md:1", What: `names "mirror.example.org", which belongs to one machine`},
		{Where: "docs/a.txt:1", What: `names "/home/joe/meridian", which belongs to one machine`},
	}
	got := arch.ForbidWords([]string{"mirror.example.org", "/home/joe/meridian"}).Check(repo)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings differ (-want +got):\n%s", diff)
	}
}

func TestHostsIn(t *testing.T) {
	const a, b = "a.example.org", "b.example.org"
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":                  {"direct", nil},
		"a list":                   {"https://a.example.org/path,https://b.example.org|direct", []string{a, b}},
		"with port and password":   {"http://joe:x@a.example.org:8080/debian", []string{a}},
		"a remark":                 {"# http://b.example.org\nURIs: http://a.example.org/debian", []string{a}},
		"numbers are no registry":  {"http://127.0.0.1:3000 http://[::1]:80", nil},
		"short names neither":      {"http://localhost:3000", nil},
		"twice the same":           {"http://a.example.org/x http://a.example.org/y", []string{a}},
		"inside an option bracket": {"deb [signed-by=/x] https://a.example.org/apt main", []string{a}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, arch.HostsIn(test.text)); diff != "" {
				t.Errorf("hosts differ (-want +got):\n%s", diff)
			}
		})
	}
}

// files maps a path to its content. A path that ends in a slash is a folder.
type files map[string]string

func treeOf(source files) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, content := range source {
		if folder, isFolder := strings.CutSuffix(name, "/"); isFolder {
			tree[folder] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
			continue
		}
		tree[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	return tree
}

func ruleNamed(t *testing.T, name string) arch.Rule {
	t.Helper()
	for _, rule := range arch.Rules {
		if rule.Name == name {
			return rule
		}
	}
	t.Fatalf("no rule is named %q", name)
	return arch.Rule{}
}
