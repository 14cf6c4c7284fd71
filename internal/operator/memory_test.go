//go:build cluster

package operator_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/test/apiserver"
)

const (
	// crowd is how many pods and how many ConfigMaps of others there are.
	crowd = 5000
	// limit is that of the operator's container in deploy/, dear how much of it a crowd may cost, in KiB.
	limit, dear = 256 << 10, 48 << 10
)

// TestMemoryInACrowd runs the operator as a process of its own, as its pod does, before and in a cluster in which
// others have thousands of pods and ConfigMaps. The second process lists all of them at its start.
func TestMemoryInACrowd(t *testing.T) {
	server, err := apiserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	admin := prepare(t, server.Config)
	program := filepath.Join(t.TempDir(), "meridian")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/meridian")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, output)
	}
	alone := peak(t, admin, "roses", program, server.Kubeconfig)
	begun := time.Now()
	gather(t, admin)
	t.Logf("%d pods and %d ConfigMaps were made in %s", crowd, crowd, time.Since(begun).Round(time.Second))
	crowded := peak(t, admin, "tulips", program, server.Kubeconfig)
	t.Logf("the operator has used at most %d MiB alone, and %d MiB in the crowd", alone>>10, crowded>>10)
	if crowded > alone+dear || crowded > limit*3/4 {
		t.Errorf("%d KiB alone, %d KiB in the crowd, and the container has %d", alone, crowded, limit)
	}
}

// peak runs an operator until it has worked for a database, and for as long again, and returns the most memory that it
// has had, in KiB.
func peak(t *testing.T, admin client.Client, namespace, program, kubeconfig string) int {
	t.Helper()
	var output log
	process := exec.Command(program, "operator", "--leader-election=false", "--webhook=false", "--metrics-address=0",
		"--probe-address=0", "--agent-image=localhost/meridian/meridian:dev")
	process.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "GOMEMLIMIT=230MiB")
	process.Stdout, process.Stderr = &output, &output
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	defer func() {
		_ = process.Process.Kill()
		<-ended
	}()
	create(t, admin, &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cities"},
		Spec:       v1alpha1.GeoDatabaseSpec{Instances: 1, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")}},
	})
	begun := time.Now()
	await(t, admin, namespace, ended, &output)
	time.Sleep(time.Since(begun) + 5*time.Second)
	return most(t, process.Process.Pid)
}

// most is the largest resident memory that a process has had.
func most(t *testing.T, process int) int {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		t.Skipf("only Linux tells: %v", err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmHWM:" {
			size, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return size
		}
	}
	t.Fatal("the process does not tell its memory")
	return 0
}

// gather makes the pods and ConfigMaps of others.
func gather(t *testing.T, admin client.Client) {
	t.Helper()
	var group sync.WaitGroup
	numbers := make(chan int)
	for range 16 {
		group.Go(func() {
			for number := range numbers {
				named := metav1.ObjectMeta{Namespace: "weeds", Name: fmt.Sprintf("foreign-%d", number)}
				pod := &corev1.Pod{ObjectMeta: named}
				pod.Annotations = map[string]string{"example.com/note": strings.Repeat(named.Name, 200)}
				pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "foreign"}}
				config := &corev1.ConfigMap{ObjectMeta: named}
				config.Data = map[string]string{"content": strings.Repeat(named.Name, 300)}
				for _, object := range []client.Object{pod, config} {
					if err := admin.Create(t.Context(), object); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for number := range crowd {
		numbers <- number
	}
	close(numbers)
	group.Wait()
}
