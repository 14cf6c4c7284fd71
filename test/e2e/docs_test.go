//go:build cluster

package e2e_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"meridian.dev/meridian/api/v1alpha1"
)

// block is one piece of a page that is run.
type block struct {
	line   int
	script string
	// fails says that it must fail, alone that it may run only where nobody else has databases.
	fails, alone bool
}

// TestGuide runs the blocks of every page of the guide that are marked, in the order of the page and in a namespace of
// its own, the way a reader would.
func TestGuide(t *testing.T) {
	beside(t)
	c := connect(t)
	build(c)
	install(c)
	programs(c)
	var ran atomic.Int64
	t.Run("together", func(t *testing.T) { // Most of a page is waiting.
		for page, blocks := range guide(t, false) {
			t.Run(nameOf(page), func(t *testing.T) {
				t.Parallel()
				ran.Add(follow(t, c, page, blocks))
			})
		}
	})
	// Whoever asks for one page alone has fewer.
	if one := flag.Lookup("test.run").Value.String(); ran.Load() < 15 && !strings.Contains(one, "/") {
		t.Errorf("only %d blocks were run", ran.Load())
	}
}

// TestGuideAlone does the same with the pages that need the cluster for themselves.
func TestGuideAlone(t *testing.T) {
	c := connect(t)
	c.awaitLeaving("")
	build(c)
	install(c)
	programs(c)
	for page, blocks := range guide(t, true) {
		t.Run(nameOf(page), func(t *testing.T) { follow(t, c, page, blocks) })
	}
}

// guide are the marked blocks of the pages that have some: of those that need the cluster for themselves, or of the
// others.
func guide(t *testing.T, apart bool) map[string][]block {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "guide", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]block{}
	for _, page := range pages {
		blocks := blocksOf(t, page)
		if len(blocks) > 0 && slices.ContainsFunc(blocks, func(one block) bool { return one.alone }) == apart {
			found[page] = blocks
		}
	}
	if len(found) == 0 {
		t.Fatal("there is no such page: this shows nothing")
	}
	return found
}

// follow runs the blocks of a page, and says how many they were.
func follow(t *testing.T, c *cluster, page string, blocks []block) (ran int64) {
	t.Helper()
	own := *c
	own.t = t
	space := "guide-" + nameOf(page)
	own.namespace(space)
	surroundings := readerOf(t, &own, space)
	for _, block := range blocks {
		if block.alone && (shared() || !alone(&own)) {
			t.Logf("line %d: left out, others have databases here", block.line)
			continue
		}
		ran++
		runBlock(t, &own, block, surroundings)
	}
	return ran
}

func nameOf(page string) string { return strings.TrimSuffix(filepath.Base(page), ".md") }

// blocksOf finds the marked blocks of a page.
func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []block
	var open *block
	for number, line := range strings.Split(string(content), "\n") {
		switch {
		case strings.HasPrefix(line, "```sh test"):
			mark := strings.TrimPrefix(line, "```sh ")
			open = &block{line: number + 1, fails: mark == "test-fails", alone: mark == "test-alone"}
		case strings.HasPrefix(line, "```") && open != nil:
			blocks, open = append(blocks, *open), nil
		case open != nil:
			open.script += line + "\n"
		}
	}
	return blocks
}

// readerOf is the environment of a reader: kubectl and the plugin in the PATH, and the namespace chosen.
func readerOf(t *testing.T, c *cluster, space string) []string {
	t.Helper()
	folder := t.TempDir()
	config, err := clientcmd.LoadFromFile(filepath.Join(c.root, ".sandbox", "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.Contexts[config.CurrentContext].Namespace = space
	kubeconfig := filepath.Join(folder, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	// A machine without a kubectl of its own has that of the sandbox.
	path := []string{filepath.Join(c.root, "bin"), os.Getenv("PATH"), strings.TrimSpace(c.sandbox("parts"))}
	return append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+strings.Join(path, ":"))
}

func runBlock(t *testing.T, c *cluster, block block, surroundings []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block.script)
	cmd.Dir, cmd.Env = c.root, surroundings
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	start := time.Now()
	err := cmd.Run()
	if (err != nil) != block.fails {
		t.Fatalf("line %d: %v\n%s%s", block.line, err, block.script, &output)
	}
	t.Logf("line %d, %v:\n%s", block.line, time.Since(start).Round(100*time.Millisecond), &output)
}

// alone says that nobody has a database in this cluster.
func alone(c *cluster) bool {
	var databases v1alpha1.GeoDatabaseList
	return c.List(c.t.Context(), &databases) == nil && len(databases.Items) == 0
}
