//go:build cluster

package e2e_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var rollingChanges = flag.String("changes", "short", "short, all, or names of changes with semicolons between")

// alteration is a change of the spec under traffic, and what it may cost.
type alteration struct {
	name, patch string
	// short says that it is in the list of every run.
	short bool
	// prepare comes before the traffic.
	prepare func(*failover)
	// then is another change, as soon as the first has reached a pod.
	then string
	// undo takes back what did harm; until then the condition Stalled has the reason.
	undo, reason string
	// gap is how long writes may be unavailable, 0 if nobody may notice.
	gap time.Duration
	// births is how often each pod is made anew, starts how often each server starts in its pod, moves how often the
	// primary changes.
	births, starts, moves int
	// touched is how many pods a change that does harm reaches, and tried how many servers in their pods.
	touched, tried int
}

// alterations are done one after the other to one database of three instances.
var alterations = []alteration{
	{name: "parameter, reload", patch: `{"spec":{"parameters":{"work_mem":"9MB"}}}`},
	{name: "labels", patch: `{"spec":{"podTemplate":{"metadata":{"labels":{"team":"maps"}}}}}`},
	{name: "volume", patch: `{"spec":{"storage":{"size":"1536Mi"}}}`},
	{name: "cpu", patch: `{"spec":{"resources":{"cpu":"300m"}}}`},
	{name: "durability", patch: `{"spec":{"durability":"Available"}}`},
	{name: "extension", patch: `{"spec":{"extensions":["postgis","postgis_raster","pgrouting","postgis_topology"]}}`},
	{
		name: "parameter, restart", short: true, patch: `{"spec":{"parameters":{"work_mem":"9MB","max_connections":"110"}}}`,
		gap: 2 * time.Second, starts: 1, moves: 1,
	},
	{
		name: "memory", patch: `{"spec":{"resources":{"memory":"1200Mi"}}}`,
		gap: 2 * time.Second, starts: 1, moves: 1,
	},
	{name: "restart on request", patch: `{"spec":{"restart":"first"}}`, gap: 2 * time.Second, births: 1, moves: 1},
	{
		name: "another change in mid-roll", patch: `{"spec":{"restart":"second"}}`,
		then: `{"spec":{"podTemplate":{"spec":{"terminationGracePeriodSeconds":45}}}}`,
		gap:  2 * time.Second, births: 1, moves: 1,
	},
	{
		name: "template and parameter", gap: 2 * time.Second, births: 1, moves: 1,
		patch: `{"spec":{"parameters":{"max_connections":"120"},
			"podTemplate":{"spec":{"terminationGracePeriodSeconds":50}}}}`,
	},
	{
		name: "image that is not there", patch: `{"spec":{"image":"localhost/meridian/nothing:17"}}`,
		undo: `{"spec":{"image":null}}`, reason: "RollStopped", touched: 1,
	},
	{
		name: "image without PostgreSQL", patch: `{"spec":{"image":"localhost/meridian/redis:8"}}`,
		undo: `{"spec":{"image":null}}`, reason: "RollStopped", touched: 1,
	},
	{
		name:  "parameter that no server starts with",
		patch: `{"spec":{"parameters":{"max_locks_per_transaction":"100000000"}}}`,
		undo:  `{"spec":{"parameters":{"max_locks_per_transaction":null}}}`, reason: "RollStopped", tried: 1,
	},
	{
		name: "template that no node takes", patch: `{"spec":{"podTemplate":{"spec":{"nodeSelector":{"disk":"none"}}}}}`,
		undo: `{"spec":{"podTemplate":{"spec":{"nodeSelector":null}}}}`, reason: "RollStopped", touched: 1,
	},
	{
		name: "template that is refused", patch: `{"spec":{"podTemplate":{"spec":{"priorityClassName":"precious"}}}}`,
		undo: `{"spec":{"podTemplate":{"spec":{"priorityClassName":null}}}}`, reason: "TemplateRefused",
	},
	{
		name: "image", prepare: (*failover).nextImage, patch: `{"spec":{"image":"localhost/meridian/postgis:17-next"}}`,
		gap: 2 * time.Second, births: 1, moves: 1,
	},
}

// nextImage gives the nodes the image of the database under another name, as a minor upgrade would.
func (f *failover) nextImage() {
	f.t.Helper()
	path := filepath.Join(f.t.TempDir(), "next.tar")
	file := imageFile(f.c, "postgis-17", "localhost/meridian/postgis:17")
	copyImage(f.t, file, path, "postgis:17", "postgis:17-next")
	f.c.sandbox("image", "load", path)
}

// imageFile is the file of an image that the sandbox has built.
func imageFile(c *cluster, recipe, name string) string {
	c.t.Helper()
	for line := range strings.Lines(c.sandbox("image", "build", recipe)) {
		if words := strings.Fields(line); strings.HasPrefix(line, name+" ") {
			return words[len(words)-1]
		}
	}
	c.t.Fatalf("the sandbox builds no %s", name)
	return ""
}

// copyImage copies the file of an image, and gives it another name.
func copyImage(t *testing.T, file, path, from, to string) {
	t.Helper()
	source, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = source.Close() }()
	target, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rename(target, source, from, to), target.Close()); err != nil {
		t.Fatal(err)
	}
}

// rename copies the file of an image, and gives it another name.
func rename(target io.Writer, source io.Reader, from, to string) error {
	reader, writer := tar.NewReader(source), tar.NewWriter(target)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return writer.Close()
		}
		if err != nil {
			return err
		}
		var content io.Reader = reader
		if header.Name == "index.json" || header.Name == "manifest.json" {
			text, err := io.ReadAll(reader)
			if err != nil {
				return err
			}
			text = bytes.ReplaceAll(text, []byte(from+`"`), []byte(to+`"`))
			header.Size, content = int64(len(text)), bytes.NewReader(text)
		}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.Copy(writer, content); err != nil {
			return err
		}
	}
}
