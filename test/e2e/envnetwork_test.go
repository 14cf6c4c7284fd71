//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// denyEverything lets nothing in or out of the namespace of the database and of the operator, but for what other
// policies let through.
func denyEverything(c *cluster) {
	c.t.Helper()
	for _, namespace := range []string{c.space, operatorNamespace} {
		c.kubectl("apply", "-n", namespace, "-f", manifest("deny"))
	}
	c.kubectl("apply", "-n", c.space, "-f", manifest("clients"))
	c.t.Cleanup(func() {
		if err := c.plain.NetworkingV1().NetworkPolicies(operatorNamespace).Delete(context.Background(),
			"environment-deny", metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
	})
}

// tryDeny asks database and cache from pods, which policies bind, before and after the primary was lost.
func (f *failover) tryDeny() {
	f.makeCache(v1alpha1.EgressNeeded)
	f.askBoth("before the failover")
	if output, ok := f.fromPod("stranger", f.psql("select 1")); ok {
		f.t.Errorf("a pod without a way out reaches the database, so that nothing is enforced: %s", output)
	}
	if *chosenEnvironments == "short" {
		f.freezeUntilAnotherLeads()
	} else {
		f.tryOnce(fault{
			name: "freeze pod 15 s", moves: true, gap: 13 * time.Second, hold: 15 * time.Second, do: (*failover).freezePod,
		}, 1)
	}
	f.askBoth("after the failover")
}

// freezeUntilAnotherLeads loses the primary when the traffic has ended: what was written is there afterwards. Agents
// have to agree over what policies let through.
func (f *failover) freezeUntilAnotherLeads() {
	f.t.Helper()
	f.begin(time.Minute)()
	written := len(f.present())
	before, term := f.before, f.term
	thaw := f.freezePod()
	begun := time.Now()
	func() {
		defer thaw()
		f.awaitTerm(term)
	}()
	f.t.Logf("%s was frozen, and another instance has the lease after %s", before,
		time.Since(begun).Round(100*time.Millisecond))
	f.awaitWell()
	if left := len(f.present()); left < written {
		f.t.Errorf("%d rows are left of %d", left, written)
	}
}

// askBoth asks the database and the cache from a pod of an application.
func (f *failover) askBoth(when string) {
	f.t.Helper()
	for _, command := range []string{f.psql("select 'answer'"), redisCommand} {
		begun := time.Now()
		f.c.until("a pod is answered "+when, time.Minute, func(context.Context) (bool, string) {
			output, ok := f.fromPod("map", command)
			return ok && strings.Contains(output, "answer"), output
		})
		f.t.Logf("%s a pod is answered after %s", when, time.Since(begun).Round(100*time.Millisecond))
	}
}

// redisCommand writes a value and reads it.
const redisCommand = `cli() { redis-cli --tls --cacert /tiles/ca.crt -h $CACHE_HOST --user app "$@"; }
	cli set a answer >/dev/null && cli get a`

func (f *failover) psql(sql string) string {
	return `PGCONNECT_TIMEOUT=5 psql -XAtq -c "` + sql + `"`
}

// makeCache has a cache of two instances beside the database, Ready.
func (f *failover) makeCache(egress v1alpha1.NetworkEgress) {
	f.t.Helper()
	made := &v1alpha1.GeoCache{Spec: v1alpha1.GeoCacheSpec{
		DatabaseRef: v1alpha1.DatabaseRef{Name: failoverName}, Replicas: 2, Memory: new(resource.MustParse("64Mi")),
		Network: v1alpha1.CacheNetwork{Egress: egress},
	}}
	made.Namespace, made.Name = f.c.space, "tiles"
	begun := time.Now()
	if err := f.c.Create(f.t.Context(), made); err != nil {
		f.t.Fatal(err)
	}
	f.c.until("the cache is Ready", 2*time.Minute, func(ctx context.Context) (bool, string) {
		if err := f.c.Get(ctx, client.ObjectKeyFromObject(made), made); err != nil {
			return false, err.Error()
		}
		return condition.IsTrue(made.Status.Conditions, v1alpha1.ConditionReady), fmt.Sprintf("%+v", made.Status)
	})
	f.t.Logf("the cache is Ready after %s", time.Since(begun).Round(100*time.Millisecond))
}

// fromPod runs a command in a pod that bears the label app, and returns what it printed and whether it succeeded.
func (f *failover) fromPod(app, script string) (string, bool) {
	f.t.Helper()
	pod := f.applicationPod(app, script)
	if err := f.c.Create(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = f.c.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) }()
	f.c.until("the pod has ended", time.Minute, func(ctx context.Context) (bool, string) {
		if err := f.c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, err.Error()
		}
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, string(pod.Status.Phase)
	})
	logs := f.c.plain.CoreV1().Pods(f.c.space).GetLogs(pod.Name, &corev1.PodLogOptions{})
	stream, err := logs.Stream(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	output, err := io.ReadAll(stream)
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(output)), pod.Status.Phase == corev1.PodSucceeded
}

// applicationPod is a pod with what an application knows of the database and of the cache. It waits a moment: a pod is
// open until the enforcer knows its address.
func (f *failover) applicationPod(app, script string) *corev1.Pod {
	pod := applicationPod("")
	pod.Namespace, pod.Labels = f.c.space, map[string]string{"app": app}
	container := &pod.Spec.Containers[0]
	container.Command = []string{"bash", "-c", "sleep 3; " + script}
	for i := range container.Env {
		if from := container.Env[i].ValueFrom; from != nil {
			from.SecretKeyRef.Name = failoverName + "-app"
		}
	}
	pod.Spec.Volumes[0].Secret.SecretName = failoverName + "-app"
	if strings.Contains(script, "redis-cli") {
		container.Image = "localhost/meridian/redis:8"
		for variable, key := range map[string]string{"CACHE_HOST": "host", "REDISCLI_AUTH": "password"} {
			container.Env = append(container.Env, corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "tiles"}, Key: key,
				},
			}})
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "tiles", MountPath: "/tiles"})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "tiles", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "tiles", Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}},
		}})
	}
	return pod
}

// letSidecarsIn lets containers into the namespace that may change the network of their pod, as those of a mesh do.
func letSidecarsIn(c *cluster) {
	c.t.Helper()
	c.kubectl("label", "namespace", c.space, "--overwrite", "pod-security.kubernetes.io/enforce=privileged")
}

// trySidecar drains the node of the primary, and looks whether the stand-in was there.
func (f *failover) trySidecar() {
	for name, pod := range f.presentPods() {
		all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
		if !slices.ContainsFunc(all, func(one corev1.Container) bool { return one.Name == "mesh" }) {
			f.t.Fatalf("%s has no sidecar: this shows nothing", name)
		}
	}
	f.tryOnce(fault{
		name: "node drained", node: true, moves: true, gap: 2 * time.Second, hold: 10 * time.Second,
		do: (*failover).drainNode,
	}, 1)
	f.tryOnce(fault{name: "pod delete", moves: true, gap: 2 * time.Second, do: (*failover).deletePod}, 1)
}

const (
	// floodClients is how many there are, floodTime for how long.
	floodClients = 500
	floodTime    = time.Minute
)

// tryFlood has many clients ask the API server for all that there is, each again as soon as it is answered: the primary
// stays, and clients of the database notice nothing but that the machine is busy.
func (f *failover) tryFlood() {
	f.awaitWell()
	term := f.leaseTerm(f.t.Context())
	config := f.floodAccount()
	end := f.begin(10 * time.Second)
	ctx, stop := context.WithTimeout(f.t.Context(), floodTime)
	defer stop()
	var answered, refused, failed atomic.Int64
	var clients sync.WaitGroup
	for range floodClients {
		clients.Go(func() {
			own := rest.CopyConfig(config)
			own.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext // Without it they would share a connection.
			through, err := rest.HTTPClientFor(own)
			for err == nil && ctx.Err() == nil {
				switch status := askOnce(ctx, through, own.Host+"/api/v1/pods?limit=500"); {
				case status == http.StatusOK:
					answered.Add(1)
				case status == http.StatusTooManyRequests:
					refused.Add(1)
				case ctx.Err() == nil:
					failed.Add(1)
				}
			}
		})
	}
	clients.Wait()
	f.t.Logf("%d clients in %s: %d requests were answered, %d refused, %d failed", floodClients, floodTime,
		answered.Load(), refused.Load(), failed.Load())
	if answered.Load() < floodClients {
		f.t.Error("there was no flood: this shows nothing")
	}
	end()
	if now := f.leaseTerm(f.t.Context()); now != term {
		f.t.Errorf("the primary has moved: the term was %d, and is %d", term, now)
	}
}

func askOnce(ctx context.Context, through *http.Client, address string) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0
	}
	response, err := through.Do(request)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// floodAccount is how an account of a pod reaches the API server, which treats it as it treats agents: an administrator
// would pass all others by.
func (f *failover) floodAccount() *rest.Config {
	f.t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.c.space, Name: "flood"}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "environment-flood"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: f.c.space, Name: "flood"}},
	}
	f.t.Cleanup(func() { _ = f.c.Delete(context.Background(), binding) })
	for _, object := range []client.Object{account, binding} {
		if err := f.c.Create(f.t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			f.t.Fatal(err)
		}
	}
	hour := int64(3600)
	token, err := f.c.plain.CoreV1().ServiceAccounts(f.c.space).CreateToken(f.t.Context(), "flood",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &hour}},
		metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	admin, err := clientcmd.BuildConfigFromFlags("", f.c.root+"/.sandbox/kubeconfig")
	if err != nil {
		f.t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(admin)
	config.BearerToken = token.Status.Token
	return config
}
