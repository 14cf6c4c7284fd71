//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
)

// besideLabel is that of testdata/beside.yaml.
const besideLabel = "meridian.dev/test-beside"

var (
	besideTests  sync.Map // The names of those that run beside others.
	besidePolicy sync.Once
	besideMade   atomic.Bool
)

// beside has a test run beside others when all that need the cluster for themselves have ended. Its databases reserve
// little CPU: pods that find no node would wait for those of other tests.
func beside(t *testing.T) {
	t.Helper()
	besideTests.Store(t.Name(), true)
	t.Parallel()
}

// isBeside reports whether the test, or the one that it is a part of, runs beside others.
func (c *cluster) isBeside() bool {
	whole, _, _ := strings.Cut(c.t.Name(), "/")
	_, found := besideTests.Load(whole)
	return found && !shared()
}

// reserveLittle waits until a database in the namespace would reserve little CPU.
func (c *cluster) reserveLittle(namespace string) {
	c.t.Helper()
	besidePolicy.Do(func() {
		besideMade.Store(true)
		c.kubectl("apply", "-f", filepath.Join("test", "e2e", "testdata", "beside.yaml"))
	})
	c.until("databases reserve little CPU in "+namespace, time.Minute, func(ctx context.Context) (bool, string) {
		tried := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tried"}}
		tried.Spec.Storage.Size = resource.MustParse("1Gi")
		err := c.Create(ctx, tried, client.DryRunAll)
		cpu := tried.Spec.Resources.CPU
		return err == nil && cpu != nil && cpu.MilliValue() == 100, fmt.Sprint(cpu, err)
	})
}

// endBeside removes what reserveLittle has made.
func endBeside() error {
	if !besideMade.Load() {
		return nil
	}
	root := filepath.Join("..", "..")
	remove := exec.Command(filepath.Join("bin", "sandbox"), "kubectl", "delete", "--ignore-not-found", "-f",
		filepath.Join("test", "e2e", "testdata", "beside.yaml"))
	remove.Dir = root
	if output, err := remove.CombinedOutput(); err != nil {
		return fmt.Errorf("remove the policy of tests beside each other: %w: %s", err, output)
	}
	return nil
}
