package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"meridian.dev/meridian/internal/arch"
)

// TestRepository runs every rule over this repository, the sandbox module included.
func TestRepository(t *testing.T) {
	root := repositoryRoot(t)
	repo, err := arch.Load(os.DirFS(root))
	if err != nil {
		t.Fatalf("load the repository: %v", err)
	}
	// A run that looked at nothing would pass. It must not.
	if len(repo.Packages) < 3 || len(repo.Files) < 20 {
		t.Fatalf("only %d packages and %d files found below %s", len(repo.Packages), len(repo.Files), root)
	}
	rules := append([]arch.Rule{arch.ForbidWords(machineWords(t, root))}, arch.Rules...)
	for _, rule := range rules {
		t.Run(rule.Name, func(t *testing.T) {
			findings := rule.Check(repo)
			for _, finding := range findings {
				t.Error(finding)
			}
			if len(findings) > 0 {
				t.Logf("the rule %q exists because %s", rule.Name, rule.Why)
			}
		})
	}
}

// repositoryRoot climbs to the folder of the main module's go.mod.
func repositoryRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(content), "module "+arch.Module+"\n") {
			return dir
		}
	}
	t.Fatal("no go.mod of the main module above the working folder")
	return ""
}

// machineWords asks this machine where it gets packages from and where the checkout lies. Nothing of that is written
// here, so the test means something on every machine.
func machineWords(t *testing.T, root string) []string {
	t.Helper()
	settings, err := exec.CommandContext(t.Context(), "go", "env", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE").Output()
	if err != nil {
		t.Fatalf("ask Go for its settings: %v", err)
	}
	words := arch.HostsIn(string(settings))
	lists, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range append(lists, "/etc/apt/sources.list") {
		// Not every machine has apt, and not every list can be read by everyone.
		if content, err := os.ReadFile(list); err == nil {
			words = append(words, arch.HostsIn(string(content))...)
		}
	}
	// A short root such as /src or /root is an ordinary word of documents and says nothing of a machine.
	if strings.Count(root, "/") > 1 {
		words = append(words, root)
	}
	return words
}
