package parts

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestKubernetesVersion(t *testing.T) {
	for name, test := range map[string]struct{ asked, version, refusal string }{
		"minor":   {asked: "1.35", version: "1.35.4"},
		"oldest":  {asked: "1.33", version: "1.33.13"},
		"full":    {asked: "1.36.3", version: "1.36.3"},
		"default": {asked: DefaultKubernetes, version: "1.36.3"},
		"unknown": {asked: "1.2", refusal: "choose one of 1.36.3, 1.35.4, 1.33.13"},
		"empty":   {asked: "", refusal: "choose one of"},
	} {
		t.Run(name, func(t *testing.T) {
			part, err := Kubernetes(test.asked)
			if (err != nil) != (test.refusal != "") || (err != nil && !strings.Contains(err.Error(), test.refusal)) {
				t.Fatalf("error is %v, want %q in it", err, test.refusal)
			}
			if part.Version != test.version {
				t.Errorf("version is %q, want %q", part.Version, test.version)
			}
		})
	}
}

// TestModulesAreOfTheirFolder finds a module whose requirement was raised without renaming its folder: the cache's
// key and the printed version would then tell something else than what is built.
func TestModulesAreOfTheirFolder(t *testing.T) {
	var parts []Part
	for _, version := range KubernetesVersions() {
		part, err := Kubernetes(version)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, part)
	}
	for _, part := range append(parts, Containerd(), CoreDNS()) {
		content, err := sources.ReadFile(part.files()[0])
		if err != nil {
			t.Fatal(err)
		}
		wanted := regexp.MustCompile(`(?m)/` + part.Name + `(/v2)? v` + regexp.QuoteMeta(part.Version) + `( |$)`)
		if !wanted.Match(content) {
			t.Errorf("%s does not require version %s", part.files()[0], part.Version)
		}
	}
}

// TestModulesAreShared finds a module that is used by several of the things that a first start builds, in versions that
// differ: all that depends on it would be compiled once for each. Kubernetes itself is an exception, since its release
// names the versions that it was tested with.
func TestModulesAreShared(t *testing.T) {
	files := map[string]string{"the operator": "../../go.mod", "the sandbox": "../go.mod"}
	for _, part := range []Part{Containerd(), CoreDNS()} {
		files[part.Name] = part.files()[0]
	}
	// What is only in somebody's list of requirements, and not compiled, may differ.
	shared := regexp.MustCompile(
		`(?m)^\s((?:golang\.org/x|k8s\.io|github\.com/(?:prometheus|fxamacker)|go\.yaml\.in)/\S+) (v\S+)`)
	type use struct{ by, version string }
	first, compared := map[string]use{}, 0
	for by, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range shared.FindAllStringSubmatch(string(content), -1) {
			module, version := found[1], found[2]
			before, seen := first[module]
			if seen {
				compared++
			}
			if seen && before.version != version {
				t.Errorf("%s is %s for %s, but %s for %s", module, before.version, before.by, version, by)
			}
			first[module] = use{by, version}
		}
	}
	if compared < 30 {
		t.Errorf("only %d requirements were compared: the pattern misses some", compared)
	}
}

func TestKeyChangesWithEachInput(t *testing.T) {
	base := Part{Name: "coredns", Version: CoreDNS().Version, programs: map[string]string{"a": "."}}
	keys := map[string]string{"base": base.Key()}
	for name, change := range map[string]func(*Part){
		"programs": func(p *Part) { p.programs = map[string]string{"b": "."} },
		"aliases":  func(p *Part) { p.aliases = []string{"c"} },
		"tags":     func(p *Part) { p.tags = "t" },
		"ldflags":  func(p *Part) { p.ldflags = "-X a=b" },
	} {
		other := base
		change(&other)
		keys[name] = other.Key()
	}
	seen := map[string]string{}
	for name, key := range keys {
		if before, twice := seen[key]; twice {
			t.Errorf("%s and %s have the same key", name, before)
		}
		seen[key] = name
	}
	if again := base.Key(); again != keys["base"] {
		t.Errorf("the same part has two keys: %s, %s", keys["base"], again)
	}
}

func TestUnfinishedBuildIsNotBelieved(t *testing.T) {
	cache, part := t.TempDir(), CoreDNS()
	dir := filepath.Join(cache, "parts", part.Key())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "coredns"), []byte("half"), 0o755); err != nil {
		t.Fatal(err)
	}
	if Built(cache, part) {
		t.Error("a folder without the last file is believed")
	}
	if err := os.WriteFile(filepath.Join(dir, complete), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Build(context.Background(), cache, part); err != nil || got != dir {
		t.Errorf("a complete folder is not used: %s, %v", got, err)
	}
}
