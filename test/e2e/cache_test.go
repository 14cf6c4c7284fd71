//go:build cluster

package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	compare "github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

const (
	cacheName = "tiles"
	// cacheOperator, when it is set, says that an operator for the namespace of this test runs already: nothing is built
	// and installed then.
	cacheOperator = "MERIDIAN_TEST_OPERATOR"
)

// TestCache follows a cache through its life: manifest, operator, instance, clients, changes under load, idle,
// deletion; and one of the other engine through the short of it. TestCacheFaults has several instances, and loses them.
func TestCache(t *testing.T) {
	beside(t)
	c := connect(t)
	prepareCaches(c)
	// A cache asks whether its database exists, and no more: a paused one is enough.
	paused := &v1alpha1.GeoDatabase{Spec: v1alpha1.GeoDatabaseSpec{
		Instances: 1, Paused: true, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")},
	}}
	paused.Namespace, paused.Name = c.caches, "cities"
	if err := c.Create(t.Context(), paused); err != nil {
		t.Fatal(err)
	}
	t.Run("redis", lifeOfACache)
	t.Run("valkey", lifeOfTheOther)
}

// prepareCaches makes the namespace, with an operator that looks after it.
func prepareCaches(c *cluster) {
	c.t.Helper()
	if os.Getenv(cacheOperator) == "" {
		build(c)
		install(c)
	}
	c.namespace(c.caches)
}

// createCache makes a cache of 64Mi, and says how long it took until it was Ready.
func createCache(c *cluster, engine v1alpha1.Engine, replicas int32) time.Duration {
	c.t.Helper()
	made := &v1alpha1.GeoCache{Spec: v1alpha1.GeoCacheSpec{
		DatabaseRef: v1alpha1.DatabaseRef{Name: "cities"}, Replicas: replicas, Engine: engine,
		Memory: new(resource.MustParse("64Mi")),
	}}
	made.Namespace, made.Name = c.caches, cacheName
	created := time.Now()
	if err := c.Create(c.t.Context(), made); err != nil {
		c.t.Fatal(err)
	}
	awaitInstances(c, replicas)
	return time.Since(created).Round(time.Millisecond)
}

// lifeOfTheOther shows that the other engine takes the same: the door, and memory both ways under load.
func lifeOfTheOther(t *testing.T) {
	c := connect(t)
	t.Logf("Ready %v after it was created", createCache(c, v1alpha1.EngineValkey, 1))
	access := accessTo(c)
	checkDoor(c, access)
	traffic := startTraffic(t, access)
	for _, memory := range []string{"256Mi", "64Mi"} {
		c.kubectl("patch", "gcache", cacheName, "-n", c.caches, "--type=merge", "-p", `{"spec":{"memory":"`+memory+`"}}`)
		t.Logf("%s in force after %v", memory, awaitCache(c, memory).Round(time.Millisecond))
	}
	t.Log(traffic.stop(t))
	c.kubectl("delete", "gcache", cacheName, "-n", c.caches, "--wait=true", "--timeout=60s")
	awaitNoCache(c)
}

func lifeOfACache(t *testing.T) {
	c := connect(t)
	applied := time.Now()
	c.kubectl("apply", "-n", c.caches, "-f", "deploy/samples/cache.yaml")
	c.kubectl("scale", "gcache/"+cacheName, "-n", c.caches, "--replicas=1")
	awaitCache(c, "64Mi")
	t.Logf("Ready %v after the manifest was applied", time.Since(applied).Round(time.Millisecond))
	access := accessTo(c)
	checkDoor(c, access)
	traffic := startTraffic(t, access)
	c.kubectl("patch", "gcache", cacheName, "-n", c.caches, "--type=merge", "-p", `{"spec":{"memory":"256Mi"}}`)
	t.Logf("256Mi in force after %v", awaitCache(c, "256Mi").Round(time.Millisecond))
	traffic.fill(t, 200<<20)
	c.kubectl("patch", "gcache", cacheName, "-n", c.caches, "--type=merge", "-p", `{"spec":{"memory":"64Mi"}}`)
	t.Logf("64Mi in force after %v", awaitCache(c, "64Mi").Round(time.Millisecond))
	c.kubectl("patch", "gcache", cacheName, "-n", c.caches, "--type=merge",
		"-p", `{"spec":{"evictionPolicy":"allkeys-lfu","parameters":{"hz":"33"}}}`)
	t.Logf("policy and parameter in force after %v", awaitCache(c, "64Mi").Round(time.Millisecond))
	t.Logf("another certificate is presented after %v", rotate(c, access).Round(time.Millisecond))
	awaitCache(c, "64Mi")
	evicted := checkFigures(t, access)["evicted_keys"]
	if evicted == "0" {
		t.Error("nothing was evicted: the cache was never full, and shrinking it shows nothing")
	}
	t.Logf("%s; evicted %s", traffic.stop(t), evicted)
	t.Logf("after kill -9 of the server the first answer came after %v", kill(c, access).Round(time.Millisecond))
	checkFigures(t, access)

	awaitCache(c, "64Mi")
	checkIdleCache(c)
	checkSecrecy(c, access)
	c.kubectl("delete", "gcache", cacheName, "-n", c.caches, "--wait=true", "--timeout=60s")
	awaitNoCache(c)
}

func getCache(ctx context.Context, c *cluster) *v1alpha1.GeoCache {
	c.t.Helper()
	var cache v1alpha1.GeoCache
	if err := c.Get(ctx, client.ObjectKey{Namespace: c.caches, Name: cacheName}, &cache); err != nil {
		c.t.Fatal(err)
	}
	return &cache
}

// awaitCache waits until the cache is Ready with so much memory in the server, and a container that fits it. After
// evictions a container may be larger than it has to be, for the holes between keys.
func awaitCache(c *cluster, memory string) time.Duration {
	c.t.Helper()
	wanted := resource.MustParse(memory)
	limit := wanted.Value() + wanted.Value()/4 + 128<<20
	most := limit + limit/2
	return c.until("the cache is Ready with "+memory, 2*time.Minute, func(ctx context.Context) (bool, string) {
		cache := getCache(ctx, c)
		status := cache.Status
		if !condition.IsTrue(status.Conditions, v1alpha1.ConditionReady) || status.ObservedGeneration != cache.Generation ||
			status.Memory == nil || status.Memory.Cmp(wanted) != 0 {
			return false, fmt.Sprintf("%+v", status)
		}
		container := cachePod(c).Status.ContainerStatuses[0]
		if container.Resources == nil {
			return false, "the container tells no resources"
		}
		has := container.Resources.Limits.Memory().Value()
		return limit <= has && has <= most, fmt.Sprintf("the container has %d bytes", has)
	})
}

func cachePod(c *cluster) *corev1.Pod {
	c.t.Helper()
	var pod corev1.Pod
	primary := getCache(c.t.Context(), c).Status.Primary
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.caches, Name: primary + "-0"}, &pod); err != nil {
		c.t.Fatal(err)
	}
	return &pod
}

// cacheObjects are the resourceVersions of everything that there is of the cache.
func cacheObjects(c *cluster) map[string]string {
	c.t.Helper()
	found := map[string]string{}
	for kind, list := range map[string]client.ObjectList{
		"Service": &corev1.ServiceList{}, "ConfigMap": &corev1.ConfigMapList{}, "Secret": &corev1.SecretList{},
		"Set": &appsv1.StatefulSetList{}, "Pod": &corev1.PodList{},
	} {
		ours := client.MatchingLabels{"meridian.dev/cache": cacheName}
		if err := c.List(c.t.Context(), list, client.InNamespace(c.caches), ours); err != nil {
			c.t.Fatal(err)
		}
		objects, err := itemsOf(list)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, object := range objects {
			found[kind+" "+object.GetName()] = object.GetResourceVersion()
		}
	}
	return found
}

func awaitNoCache(c *cluster) {
	c.t.Helper()
	c.until("nothing is left of the cache", time.Minute, func(context.Context) (bool, string) {
		left := cacheObjects(c)
		return len(left) == 0, fmt.Sprint(left)
	})
}

// checkIdleCache applies the manifest again and waits: nothing may be written.
func checkIdleCache(c *cluster) {
	c.t.Helper()
	versions := func() map[string]string {
		objects := cacheObjects(c)
		objects["GeoCache"] = getCache(c.t.Context(), c).ResourceVersion
		return objects
	}
	// The last looks of the changes before may still be under way, on a busy machine for long: who writes for ever is
	// never quiet for half a minute.
	var diff string
	for range 3 {
		before := versions()
		// Three Secrets, three Services, settings, a StatefulSet, its pod, and the cache itself.
		if len(before) != 10 {
			c.t.Errorf("%d objects: %v", len(before), before)
		}
		time.Sleep(30 * time.Second)
		if diff = compare.Diff(before, versions()); diff == "" {
			return
		}
		c.t.Logf("not quiet yet (-before +after):\n%s", diff)
	}
	c.t.Errorf("versions after idle time (-before +after):\n%s", diff)
}

// access is what an application has: the Secret, and the addresses in it.
type access struct {
	address, password string
	trust             *x509.CertPool
	host              string
}

// accessTo reads the Secret. The names in it are resolved by hand, because the test is not in a pod; the certificate is
// checked by them.
func accessTo(c *cluster) access {
	c.t.Helper()
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: c.caches, Name: cacheName}
	if err := c.Get(c.t.Context(), key, &secret); err != nil {
		c.t.Fatal(err)
	}
	var service corev1.Service
	if err := c.Get(c.t.Context(), key, &service); err != nil {
		c.t.Fatal(err)
	}
	trust := x509.NewCertPool()
	trust.AppendCertsFromPEM(secret.Data["ca.crt"])
	return access{
		address: service.Spec.ClusterIP + ":" + string(secret.Data["port"]), password: string(secret.Data["password"]),
		trust: trust, host: string(secret.Data["host"]),
	}
}

func (a access) options() *redis.Options {
	return &redis.Options{
		Addr: a.address, Username: "app", Password: a.password, MaxRetries: -1, PoolSize: 1, DisableIdentity: true,
		TLSConfig: &tls.Config{RootCAs: a.trust, ServerName: a.host, MinVersion: tls.VersionTLS12},
	}
}

// figures are the lines of INFO.
func (a access) figures(t *testing.T) map[string]string {
	t.Helper()
	link := redis.NewClient(a.options())
	defer func() { _ = link.Close() }()
	text, err := link.Info(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		found[name] = value
	}
	return found
}

// presented is the certificate that the server shows, checked by name and authority.
func (a access) presented(ctx context.Context) (*x509.Certificate, error) {
	dialer := tls.Dialer{Config: a.options().TLSConfig}
	connection, err := dialer.DialContext(ctx, "tcp", a.address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// rotate spoils the stored certificate, which is the quickest way to another: the operator issues one of the same
// authority, and the server takes it over without a restart.
func rotate(c *cluster, access access) time.Duration {
	c.t.Helper()
	before, err := access.presented(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("patch", "secret", cacheName+"-tls", "-n", c.caches, "--type=merge", "-p", `{"data":{"tls.crt":"AAAA"}}`)
	// Secrets are not watched; any news of the cache has the operator look at them.
	c.kubectl("annotate", "gcache", cacheName, "-n", c.caches, "--overwrite", "looked-at="+fmt.Sprint(time.Now().Unix()))
	return c.until("another certificate is presented", 3*time.Minute, func(ctx context.Context) (bool, string) {
		now, err := access.presented(ctx)
		return err == nil && !now.Equal(before), fmt.Sprint(err)
	})
}

// checkSecrecy looks for the password wherever somebody without the right to read Secrets could see it.
func checkSecrecy(c *cluster, access access) {
	c.t.Helper()
	for what, args := range map[string][]string{
		"the log":   {"logs", cachePod(c).Name, "-c", "cache"},
		"events":    {"get", "events", "-o", "yaml"},
		"the cache": {"get", "gcache", "-o", "yaml"},
		"the pod":   {"get", "pods", "-o", "yaml"},
		"settings":  {"get", "configmaps", "-o", "yaml"},
	} {
		text := c.kubectl(append([]string{"-n", c.caches}, args...)...)
		if len(text) < 100 || strings.Contains(text, access.password) {
			c.t.Errorf("%s: %d bytes, which may have the password in them", what, len(text))
		}
	}
}

// checkFigures holds what is in force against what is wanted.
func checkFigures(t *testing.T, access access) map[string]string {
	t.Helper()
	figures := access.figures(t)
	for name, want := range map[string]string{
		"maxmemory": "67108864", "maxmemory_policy": "allkeys-lfu", "configured_hz": "33",
	} {
		if figures[name] != want {
			t.Errorf("%s is %s, want %s", name, figures[name], want)
		}
	}
	return figures
}

// kill ends the server, and not its agent, and waits for the next one: it is empty, and all settings are in force when
// it lets somebody in.
func kill(c *cluster, access access) time.Duration {
	c.t.Helper()
	before := access.figures(c.t)
	c.kubectl("exec", "-n", c.caches, cachePod(c).Name, "-c", "cache", "--", "sh", "-c", "kill -9 "+before["process_id"])
	took := c.until("another server answers", time.Minute, func(ctx context.Context) (bool, string) {
		link := redis.NewClient(access.options())
		defer func() { _ = link.Close() }()
		left, err := link.DBSize(ctx).Result()
		return err == nil && left == 0, fmt.Sprintf("%d keys, %v", left, err)
	})
	if after := access.figures(c.t); after["run_id"] == before["run_id"] {
		c.t.Error("the server was not killed: the test shows nothing")
	}
	return took
}

// checkDoor tries what must be refused, and what must not.
func checkDoor(c *cluster, access access) {
	c.t.Helper()
	ask := func(change func(*redis.Options), words ...any) error {
		options := access.options()
		change(options)
		link := redis.NewClient(options)
		defer func() { _ = link.Close() }()
		return link.Do(c.t.Context(), words...).Err()
	}
	nothing := func(*redis.Options) {}
	for name, test := range map[string]struct {
		change func(*redis.Options)
		words  []any
		want   string
	}{
		"a wrong password":      {func(o *redis.Options) { o.Password = "guess" }, []any{"ping"}, "WRONGPASS"},
		"the default user":      {func(o *redis.Options) { o.Username, o.Password = "default", "" }, []any{"ping"}, "NOAUTH"},
		"nobody":                {func(o *redis.Options) { o.Username, o.Password = "", "" }, []any{"ping"}, "NOAUTH"},
		"no TLS":                {func(o *redis.Options) { o.TLSConfig = nil }, []any{"ping"}, "EOF"},
		"a setting":             {nothing, []any{"config", "set", "maxmemory", "0"}, "NOPERM"},
		"users":                 {nothing, []any{"acl", "list"}, "NOPERM"},
		"another server":        {nothing, []any{"replicaof", "no", "one"}, "NOPERM"},
		"the end of the server": {nothing, []any{"shutdown"}, "NOPERM"},
	} {
		if err := ask(test.change, test.words...); err == nil || !strings.Contains(err.Error(), test.want) {
			c.t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
	for _, words := range [][]any{{"set", "a", "b"}, {"keys", "*"}, {"info"}, {"flushdb"}, {"eval", "return 1", "0"}} {
		if err := ask(nothing, words...); err != nil {
			c.t.Errorf("%v: %v", words, err)
		}
	}
}
