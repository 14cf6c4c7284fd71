//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// demoLimit is how long the demo may take when everything is built.
const demoLimit = 3 * time.Minute

// TestDemo runs the demo twice and takes it away: the first time from nothing but a sandbox, the second time over
// itself.
func TestDemo(t *testing.T) {
	beside(t)
	c := connect(t)
	build(c)
	install(c)
	keepOperator(c)
	binary := filepath.Join(t.TempDir(), "demo")
	programs(c)
	c.command("go", "build", "-o", binary, "./hack/demo")
	t.Cleanup(func() { c.t = t; c.command(binary, "down") })
	endings := map[string][]string{
		"first": {
			"Recoverable: 1 base backup", "drop table city", "$ kubectl meridian -n demo restore cities --to ",
			"cities: there is no table city",
		},
		"second": {"cities-before is there already", "cities: 66 cities"},
	}
	for _, run := range []string{"first", "second"} {
		start := time.Now()
		output := c.command(binary)
		took := time.Since(start)
		t.Logf("the %s run took %v", run, took.Round(time.Second))
		if took > demoLimit {
			t.Logf("the %s run took %v: more than the %v that an idle machine needs at most", run, took, demoLimit)
		}
		for _, want := range append(endings[run], "[9/9]", "cities-before: 66 cities and 19800 stations",
			"the same as before the mistake", "pg_is_in_recovery() = true: a replica", "Accra",
			"bytes came back unchanged", "Five things to try next", "GeoDatabase demo/cities  well",
			"kubectl meridian -n demo status cities --watch",
		) {
			if !strings.Contains(output, want) {
				t.Errorf("the %s run does not say %q:\n%s", run, want, output)
			}
		}
	}
	c.command(binary, "down")
	var space corev1.Namespace
	if err := c.Get(t.Context(), client.ObjectKey{Name: "demo"}, &space); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace is still there after the demo was taken away: %v", err)
	}
	c.until("the volumes of databases and store are gone", time.Minute, func(ctx context.Context) (bool, string) {
		var volumes corev1.PersistentVolumeList
		err := c.List(ctx, &volumes)
		left := slices.DeleteFunc(volumes.Items, func(volume corev1.PersistentVolume) bool {
			return volume.Spec.ClaimRef == nil || volume.Spec.ClaimRef.Namespace != "demo"
		})
		return err == nil && len(left) == 0, fmt.Sprintf("%d volumes, %v", len(left), err)
	})
}

// keepOperator tells the demo that the operator runs the image of now. It would restart it otherwise, and tests beside
// this one count on a webhook that is always there.
func keepOperator(c *cluster) {
	c.t.Helper()
	if shared() {
		return
	}
	built := strings.Fields(c.sandbox("image", "build", "meridian"))
	if len(built) == 0 {
		c.t.Fatal("it was not said where the image is")
	}
	image := strings.TrimSuffix(filepath.Base(built[len(built)-1]), ".tar")
	c.kubectl("-n", operatorNamespace, "annotate", "--overwrite", "deployment/meridian-operator",
		"demo.meridian.dev/image="+image)
}

// command runs a program in the root of the repository.
func (c *cluster) command(words ...string) string {
	c.t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = c.root
	output, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, output)
	}
	return string(output)
}
