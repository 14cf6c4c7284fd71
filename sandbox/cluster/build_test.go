package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/sandbox/image"
)

func TestChosenImages(t *testing.T) {
	all := []string{"meridian", "postgis-15", "postgis-17", "valkey"}
	for name, test := range map[string]struct {
		only, cached, names, leftOut []string
		refusal                      string
	}{
		"all":  {names: all},
		"some": {only: all[:2], names: all[:2], leftOut: all[2:]},
		"what is there stays": {
			only: all[:1], cached: []string{"valkey"}, names: []string{"meridian", "valkey"}, leftOut: all[1:3],
		},
		"unknown": {only: []string{"postgres"}, refusal: `"postgres": choose from meridian, postgis-15`},
	} {
		t.Run(name, func(t *testing.T) {
			inCache := func(name string) (bool, error) { return slices.Contains(test.cached, name), nil }
			names, leftOut, err := chosen(all, test.only, inCache)
			if (err != nil) != (test.refusal != "") || (err != nil && !strings.Contains(err.Error(), test.refusal)) {
				t.Fatalf("error is %v, want %q in it", err, test.refusal)
			}
			if diff := cmp.Diff([][]string{test.names, test.leftOut}, [][]string{names, leftOut}); diff != "" {
				t.Errorf("names, left out (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRecordKeepsWhatWasLeftOut is about a node that got an image from one command, and is then brought up by another
// one that leaves this image out: the node still has it.
func TestRecordKeepsWhatWasLeftOut(t *testing.T) {
	c := open(t.TempDir())
	both := []image.Built{{Ref: "localhost/a:1", Digest: "sha256:a"}, {Ref: "localhost/b:1", Digest: "sha256:b"}}
	if err := c.recordImages("node1", both); err != nil {
		t.Fatal(err)
	}
	if err := c.bringTo(t.Context(), "node1", both[:1]); err != nil {
		t.Fatal(err)
	}
	has, err := c.recordedImages("node1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"localhost/a:1": "sha256:a", "localhost/b:1": "sha256:b"}, has); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
