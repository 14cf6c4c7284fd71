//go:build cluster

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"meridian.dev/meridian/api/v1alpha1"
)

const operatorNamespace = "meridian-system"

// cluster is the running sandbox with clients for it.
type cluster struct {
	t    *testing.T
	root string
	client.Client
	plain kubernetes.Interface
	// space is where a test has its database, and caches where it has its caches: it may run beside others.
	space, caches string
}

// connect finds the sandbox. A test without a cluster has tested nothing, so it fails.
func connect(t *testing.T) *cluster {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(root, ".sandbox", "kubeconfig"))
	if err != nil {
		t.Fatalf("no sandbox: run bin/sandbox up: %v", err)
	}
	config.QPS = -1 // Whoever looks at the status all the time must not wait for a turn of its own making.
	log.SetLogger(logr.Discard())
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	typed, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	whole, _, _ := strings.Cut(t.Name(), "/")
	return &cluster{
		t: t, root: root, Client: typed, plain: plain, space: spaceOf(t.Name()), caches: spaceOf(whole) + "-tiles",
	}
}

// sandbox runs a verb of the sandbox from the root of the repository.
func (c *cluster) sandbox(args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), filepath.Join(c.root, "bin", "sandbox"), args...)
	cmd.Dir, cmd.Env = c.root, os.Environ()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("sandbox %s: %v\n%s%s", strings.Join(args, " "), err, output, &stderr)
	}
	return string(output)
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return c.sandbox(append([]string{"kubectl"}, args...)...)
}

// until waits for a condition and says what it was waiting for when it never comes.
func (c *cluster) until(what string, limit time.Duration, check func(context.Context) (bool, string)) time.Duration {
	c.t.Helper()
	start := time.Now()
	for {
		done, seen := check(c.t.Context())
		if done {
			return time.Since(start)
		}
		if time.Since(start) > limit {
			c.t.Fatalf("%s: not within %v; last seen: %s", what, limit, seen)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// metricsToken is that of an account which may get the figures of the operator, as Prometheus would have it.
func (c *cluster) metricsToken() string {
	c.t.Helper()
	const account = "figures"
	made := []client.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: account}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "meridian-test-figures"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "meridian-metrics-reader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: operatorNamespace, Name: account}},
		},
	}
	for _, object := range made {
		if err := c.Create(c.t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			c.t.Fatal(err)
		}
	}
	hour := int64(3600)
	request, err := c.plain.CoreV1().ServiceAccounts(operatorNamespace).CreateToken(c.t.Context(), account,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}},
		metav1.CreateOptions{})
	if err != nil {
		c.t.Fatalf("make a token for the figures: %v", err)
	}
	return request.Status.Token
}

// figures reads those of one replica of the operator. Who brings no token gets none.
func (c *cluster) figures(pod corev1.Pod, token string) []byte {
	c.t.Helper()
	caller := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	get := func(token string) (int, []byte) {
		address := "https://" + net.JoinHostPort(pod.Status.PodIP, "8443") + "/metrics"
		request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, address, nil)
		if err != nil {
			c.t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := caller.Do(request)
		if err != nil {
			c.t.Fatalf("read the metrics of %s: %v", pod.Name, err)
		}
		defer response.Body.Close() //nolint:errcheck // A test.
		text, err := io.ReadAll(response.Body)
		if err != nil {
			c.t.Fatal(err)
		}
		return response.StatusCode, text
	}
	if status, _ := get(""); status != http.StatusUnauthorized {
		c.t.Errorf("the figures of %s are answered by %d to who brings no token", pod.Name, status)
	}
	status, text := get(token)
	if status != http.StatusOK {
		c.t.Fatalf("read the metrics of %s: %d %s", pod.Name, status, text)
	}
	return text
}

// writes counts what the operator's replicas have sent to the API server, by method. The lease of the election is
// renewed by PUT, which nothing else of the operator uses.
func (c *cluster) writes() map[string]int {
	c.t.Helper()
	pods, err := c.plain.CoreV1().Pods(operatorNamespace).List(c.t.Context(), metav1.ListOptions{
		LabelSelector: "app.kubernetes.io/component=operator",
	})
	if err != nil {
		c.t.Fatal(err)
	}
	counts, samples := map[string]int{}, 0
	for _, pod := range pods.Items {
		text := c.figures(pod, c.metricsToken())
		lines := bufio.NewScanner(bytes.NewReader(text))
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), "} ")
			if !strings.HasPrefix(name, "rest_client_requests_total{") {
				continue
			}
			samples++
			for _, method := range []string{"POST", "PATCH", "DELETE", "PUT", "GET"} {
				if strings.Contains(name, fmt.Sprintf("method=%q", method)) {
					number, err := strconv.ParseFloat(value, 64)
					if err != nil {
						c.t.Fatal(err)
					}
					counts[method] += int(number)
				}
			}
		}
	}
	if samples == 0 {
		c.t.Fatal("the operator counts no requests: this check would see nothing")
	}
	return counts
}

// itemsOf returns the objects of a list.
func itemsOf(list client.ObjectList) ([]client.Object, error) {
	var objects []client.Object
	err := meta.EachListItem(list, func(item runtime.Object) error {
		objects = append(objects, item.(client.Object))
		return nil
	})
	return objects, err
}
