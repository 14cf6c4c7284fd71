//go:build cluster

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

const cacheDatabase = "cities"

// TestCacheLife follows a cache with replicas through the life of its database, a real one: an application that knows
// nothing but its environment, an autoscaler, changes of memory under readers, a flush, the loss of the database's
// primary, and with -faults=all sleep and the end.
func TestCacheLife(t *testing.T) {
	beside(t)
	c := connect(t)
	prepareCaches(c)
	database := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: c.caches, Name: cacheDatabase}}
	database.Spec.Instances = 1
	if longRun() {
		database.Spec.Instances = 2
	}
	database.Spec.Storage.Size.Set(1 << 30)
	database.Spec.Storage.Reclaim = v1alpha1.ReclaimDelete
	if err := c.Create(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	made := &v1alpha1.GeoCache{ObjectMeta: metav1.ObjectMeta{Namespace: c.caches, Name: cacheName}}
	made.Spec = v1alpha1.GeoCacheSpec{
		DatabaseRef: v1alpha1.DatabaseRef{Name: cacheDatabase}, Replicas: 2, FollowDatabase: true,
		Memory: new(resource.MustParse("64Mi")),
	}
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	awaitInstances(c, 2)
	scaler := autoscale(c)
	awaitCacheDatabase(c)
	began := time.Now()
	for _, step := range []struct {
		name string
		long bool
		do   func(*testing.T)
	}{
		{"an application by its environment", false, useTheEnvironment},
		{"memory under readers of the replica", false, resizeUnderReaders},
		{"a flush", false, flushByAnnotation},
		{"an autoscaler", false, func(t *testing.T) { checkAutoscaler(t, scaler) }},
		{"the database loses its primary", false, loseThePrimaryOfTheDatabase},
		{"the database sleeps and wakes", true, sleepAndWake},
		{"another password", true, forgetThePassword},
		{"the database is deleted", true, deleteTheDatabase},
	} {
		if step.long && !longRun() {
			continue
		}
		if !t.Run(step.name, step.do) {
			return
		}
		t.Logf("%s: %v", step.name, time.Since(began).Round(time.Second))
		began = time.Now()
	}
}

// longRun says that this run has the time for everything.
func longRun() bool { return *failoverFaults == "all" }

func awaitCacheDatabase(c *cluster) *v1alpha1.GeoDatabase {
	c.t.Helper()
	var database v1alpha1.GeoDatabase
	c.until("the database of the cache is Ready", 5*time.Minute, func(ctx context.Context) (bool, string) {
		err := c.Get(ctx, client.ObjectKey{Namespace: c.caches, Name: cacheDatabase}, &database)
		return err == nil && condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionReady) &&
			database.Status.ObservedGeneration == database.Generation, fmt.Sprintf("%+v %v", database.Status, err)
	})
	return &database
}

// application is a pod that has nothing but the Secret of the database as its environment, and speaks with the database
// and with the cache through the addresses that it finds there.
func application(c *cluster) *corev1.Pod {
	environment := []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: cacheDatabase + "-app"},
	}}}
	container := func(name, image, script string) corev1.Container {
		return corev1.Container{
			Name: name, Image: image, Command: []string{"sh", "-ec", script}, EnvFrom: environment,
			ImagePullPolicy: corev1.PullNever,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: "tmp", MountPath: "/tmp"}},
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.caches, Name: "application"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(1000)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			Containers: []corev1.Container{
				container("database", "localhost/meridian/postgis:17", `
psql "$DATABASE_URL" -v ON_ERROR_STOP=1 -qAt -c "create table greeting (text text)" \
  -c "insert into greeting values ('written')" -c "select 'the primary says ' || text from greeting"
for try in 1 2 3 4 5; do
  psql "$DATABASE_READ_URL" -v ON_ERROR_STOP=1 -qAt -c "select 'the replica says ' || text from greeting" && exit 0
  sleep 1
done
exit 1`),
				container("cache", "localhost/meridian/redis:8", `
printf '%s' "$CACHE_CA" >/tmp/ca.crt
redis-cli -e -u "$CACHE_URL" --cacert /tmp/ca.crt set greeting written
echo "the primary says $(redis-cli -e -u "$CACHE_URL" --cacert /tmp/ca.crt get greeting)"
for try in 1 2 3 4 5; do
  said=$(redis-cli -e -u "$CACHE_READ_URL" --cacert /tmp/ca.crt get greeting)
  [ "$said" = written ] && echo "the replica says $said" && exit 0
  sleep 1
done
exit 1`),
			},
		},
	}
}

func useTheEnvironment(t *testing.T) {
	c := connect(t)
	c.until("the Secret has the addresses of the cache", time.Minute, func(ctx context.Context) (bool, string) {
		var secret corev1.Secret
		err := c.Get(ctx, client.ObjectKey{Namespace: c.caches, Name: cacheDatabase + "-app"}, &secret)
		return len(secret.Data["CACHE_URL"]) > 0, fmt.Sprint(slices.Sorted(maps.Keys(secret.Data)), err)
	})
	pod := application(c)
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	said := func(container string) string {
		text, err := c.plain.CoreV1().Pods(c.caches).GetLogs(pod.Name, &corev1.PodLogOptions{Container: container}).
			DoRaw(t.Context())
		return fmt.Sprintf("%s %v", text, err)
	}
	c.until("the application has ended", time.Minute, func(ctx context.Context) (bool, string) {
		err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if pod.Status.Phase == corev1.PodFailed {
			t.Fatalf("the database: %s\nthe cache: %s", said("database"), said("cache"))
		}
		return pod.Status.Phase == corev1.PodSucceeded, fmt.Sprintf("%s %v", pod.Status.Phase, err)
	})
	for _, container := range []string{"database", "cache"} {
		text := said(container)
		if !strings.Contains(text, "the primary says written") || !strings.Contains(text, "the replica says written") {
			t.Errorf("%s: %s", container, text)
		}
	}
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Error(err)
	}
}

// readAccess is the read address.
func readAccess(c *cluster) access {
	c.t.Helper()
	read := accessTo(c)
	var service corev1.Service
	key := client.ObjectKey{Namespace: c.caches, Name: cacheName + "-ro"}
	if err := c.Get(c.t.Context(), key, &service); err != nil {
		c.t.Fatal(err)
	}
	read.address = service.Spec.ClusterIP + ":6379"
	return read
}

// resizeUnderReaders changes the memory both ways: nobody loses a connection, to the primary or to the replica.
func resizeUnderReaders(t *testing.T) {
	c := connect(t)
	traffic, readers := startTraffic(t, accessTo(c)), startReaders(t, readAccess(c))
	for _, memory := range []string{"256Mi", "64Mi"} {
		c.kubectl("patch", "gcache", cacheName, "-n", c.caches, "--type=merge", "-p", `{"spec":{"memory":"`+memory+`"}}`)
		t.Logf("%s in force after %v", memory, awaitCache(c, memory).Round(time.Millisecond))
		if memory == "256Mi" {
			traffic.fill(t, 100<<20)
		}
		for _, from := range []access{accessTo(c), readAccess(c)} {
			wanted := resource.MustParse(memory)
			if has := from.figures(t)["maxmemory"]; has != fmt.Sprint(wanted.Value()) {
				t.Errorf("a server has %s bytes with %s", has, memory)
			}
		}
	}
	t.Log("through the write address: ", traffic.stop(t))
	t.Log("through the read address: ", readers.stop(t))
}

// readers read over connections that live as long as they do.
type readers struct {
	cacheTraffic
}

func startReaders(t *testing.T, from access) *readers {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	r := &readers{cacheTraffic{access: from, end: cancel}}
	for number := range cacheClients {
		r.done.Go(func() {
			link := r.client()
			defer func() { _ = link.Close() }()
			r.each(ctx, fmt.Sprintf("reader %d", number), 1, func(serial int) error {
				return r.read(ctx, link, fmt.Sprintf("traffic:%d:%d", number, serial/10))
			})
		})
	}
	return r
}

func flushByAnnotation(t *testing.T) {
	c := connect(t)
	write, read := redis.NewClient(accessTo(c).options()), redis.NewClient(readAccess(c).options())
	defer func() { _ = errors.Join(write.Close(), read.Close()) }()
	if err := write.Set(t.Context(), "kept", "no", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if size, err := read.DBSize(t.Context()).Result(); err != nil || size == 0 {
		t.Fatalf("%d keys at the replica, %v: this shows nothing", size, err)
	}
	before := getCache(t.Context(), c).Status.Flushed
	c.kubectl("annotate", "gcache", cacheName, "-n", c.caches, "meridian.dev/flush="+time.Now().Format(time.RFC3339))
	took := c.until("the cache was emptied", time.Minute, func(ctx context.Context) (bool, string) {
		cache := getCache(ctx, c)
		return cache.Annotations["meridian.dev/flush"] == "" && cache.Status.Flushed != before,
			fmt.Sprintf("%v %+v", cache.Annotations, cache.Status)
	})
	for name, from := range map[string]*redis.Client{"primary": write, "replica": read} {
		if size, err := from.DBSize(t.Context()).Result(); err != nil || size != 0 {
			t.Errorf("%d keys at the %s, %v", size, name, err)
		}
	}
	_, record, err := agreement(t.Context(), c)
	flushed := getCache(t.Context(), c).Status.Flushed
	if err != nil || record.Emptied == nil || record.Emptied.ID != flushed {
		t.Errorf("the record says %+v of the request %s, %v", record.Emptied, flushed, err)
	}
	t.Logf("empty after %v", took.Round(time.Millisecond))
}

// autoscale makes an autoscaler of the cache. There is nobody who could tell it of any use: what it can find is the
// cache itself, through the scale subresource.
func autoscale(c *cluster) *autoscalingv2.HorizontalPodAutoscaler {
	c.t.Helper()
	scaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.caches, Name: cacheName},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "GeoCache", Name: cacheName,
			},
			MinReplicas: new(int32(2)), MaxReplicas: 3,
			Metrics: []autoscalingv2.MetricSpec{{
				Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{
					Name: corev1.ResourceMemory,
					Target: autoscalingv2.MetricTarget{
						Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80)),
					},
				},
			}},
		},
	}
	if err := c.Create(c.t.Context(), scaler); err != nil {
		c.t.Fatal(err)
	}
	return scaler
}

func checkAutoscaler(t *testing.T, scaler *autoscalingv2.HorizontalPodAutoscaler) {
	c := connect(t)
	c.until("the autoscaler finds its target", time.Minute, func(ctx context.Context) (bool, string) {
		err := c.Get(ctx, client.ObjectKeyFromObject(scaler), scaler)
		reasons := map[autoscalingv2.HorizontalPodAutoscalerConditionType]string{}
		for _, condition := range scaler.Status.Conditions {
			reasons[condition.Type] = string(condition.Status) + " " + condition.Reason
		}
		return reasons[autoscalingv2.AbleToScale] == "True SucceededGetScale" &&
			reasons[autoscalingv2.ScalingActive] == "False FailedGetResourceMetric", fmt.Sprint(reasons, err)
	})
	if scaler.Status.CurrentReplicas != 2 {
		t.Errorf("the autoscaler sees %d instances", scaler.Status.CurrentReplicas)
	}
	selector, err := labels.Parse(getCache(t.Context(), c).Status.Selector)
	if err != nil {
		t.Fatal(err)
	}
	var pods corev1.PodList
	in := client.ListOptions{Namespace: c.caches, LabelSelector: selector}
	if err := c.List(t.Context(), &pods, &in); err != nil || len(pods.Items) != 2 {
		t.Errorf("%s selects %d pods, %v", selector, len(pods.Items), err)
	}
	if err := c.Delete(t.Context(), scaler); err != nil {
		t.Error(err)
	}
	if !longRun() {
		return
	}
	// What it would write.
	c.kubectl("scale", "gcache/"+cacheName, "-n", c.caches, "--replicas=3")
	took := awaitInstances(c, 3)
	c.kubectl("scale", "gcache/"+cacheName, "-n", c.caches, "--replicas=2")
	t.Logf("two instances, three after %v, two after %v", took.Round(time.Millisecond),
		awaitInstances(c, 2).Round(time.Millisecond))
}

// standing is what of the cache must not change when something happens to its database.
func standing(c *cluster) string {
	c.t.Helper()
	holder, record, err := agreement(c.t.Context(), c)
	if err != nil {
		c.t.Fatal(err)
	}
	var pods corev1.PodList
	ours := client.MatchingLabels{"meridian.dev/cache": cacheName}
	if err := c.List(c.t.Context(), &pods, client.InNamespace(c.caches), ours); err != nil {
		c.t.Fatal(err)
	}
	text := fmt.Sprintf("%s term %d", holder, record.Term)
	for _, pod := range pods.Items {
		text += fmt.Sprintf(", %s %d", pod.UID, pod.Status.ContainerStatuses[0].RestartCount)
	}
	return text
}

// loseThePrimaryOfTheDatabase deletes its pod: with several instances another one takes over, with one it comes back.
func loseThePrimaryOfTheDatabase(t *testing.T) {
	c := connect(t)
	database := awaitCacheDatabase(c)
	before := standing(c)
	traffic := startCounter(t, c)
	traffic.awaitFlow(c)
	traffic.reset()
	cold := traffic.cold.Load() // Nothing was there to be read before the first write.
	var pod corev1.Pod
	key := client.ObjectKey{Namespace: c.caches, Name: database.Status.Primary + "-0"}
	if err := c.Get(t.Context(), key, &pod); err != nil {
		t.Fatal(err)
	}
	uid := pod.UID
	c.kubectl("delete", "pod", key.Name, "-n", c.caches, "--wait=false")
	c.until("the database has another pod", time.Minute, func(ctx context.Context) (bool, string) {
		err := c.Get(ctx, key, &pod)
		return err == nil && pod.UID != uid, fmt.Sprint(err)
	})
	if after := awaitCacheDatabase(c); database.Spec.Instances > 1 && after.Status.Primary == database.Status.Primary {
		t.Errorf("%s is still the primary of the database: this shows nothing", after.Status.Primary)
	}
	gap := traffic.reset()
	t.Logf("longest time without an acknowledged write of the cache %v", gap)
	// A busy machine makes a write late. A cache that was lost would have other pods, or another primary.
	if after := standing(c); after != before || gap > leaseOfACache {
		t.Errorf("the cache was %s and is %s, %v without a write", before, after, gap)
	}
	traffic.end()
	traffic.done.Wait()
	if cold = traffic.cold.Load() - cold; traffic.wrong.Load() > 0 || cold > 0 {
		t.Errorf("%d wrong answers, %d cold ones", traffic.wrong.Load(), cold)
	}
}

func sleepAndWake(t *testing.T) {
	c := connect(t)
	hibernate := func(value string) {
		c.kubectl("patch", "gdb", cacheDatabase, "-n", c.caches, "--type=merge", "-p", `{"spec":{"hibernated":`+value+`}}`)
	}
	hibernate("true")
	slept := c.until("cache and database sleep", 2*time.Minute, func(ctx context.Context) (bool, string) {
		var pods corev1.PodList
		err := c.List(ctx, &pods, client.InNamespace(c.caches))
		ready := condition.Find(getCache(ctx, c).Status.Conditions, v1alpha1.ConditionReady)
		return err == nil && len(pods.Items) == 0 && ready != nil && ready.Reason == "Hibernated",
			fmt.Sprintf("%d pods, %+v, %v", len(pods.Items), ready, err)
	})
	hibernate("false")
	woke := awaitInstances(c, 2)
	awaitCacheDatabase(c)
	link := redis.NewClient(accessTo(c).options())
	defer func() { _ = link.Close() }()
	if size, err := link.DBSize(t.Context()).Result(); err != nil || size != 0 {
		t.Errorf("%d keys after waking, %v", size, err)
	}
	t.Logf("asleep after %v, Ready again after %v", slept.Round(time.Millisecond), woke.Round(time.Millisecond))
}

// forgetThePassword deletes the Secret of the cache: there is another password, and nobody is refused for long.
func forgetThePassword(t *testing.T) {
	c := connect(t)
	before := accessTo(c).password
	c.kubectl("delete", "secret", cacheName, "-n", c.caches)
	c.kubectl("annotate", "gcache", cacheName, "-n", c.caches, "--overwrite", "looked-at="+fmt.Sprint(time.Now().Unix()))
	c.until("there is another password", time.Minute, func(ctx context.Context) (bool, string) {
		var secret corev1.Secret
		err := c.Get(ctx, client.ObjectKey{Namespace: c.caches, Name: cacheName}, &secret)
		return err == nil && string(secret.Data["password"]) != before, fmt.Sprint(err)
	})
	made := time.Now()
	for _, from := range []access{accessTo(c), readAccess(c)} {
		c.until("the new password is taken", 3*time.Minute, func(ctx context.Context) (bool, string) {
			link := from.quick()
			defer func() { _ = link.Close() }()
			_, err := link.Get(ctx, "anything").Result()
			return err == nil || errors.Is(err, redis.Nil), fmt.Sprint(err)
		})
		t.Logf("the new password is taken after %v", time.Since(made).Round(100*time.Millisecond))
	}
	awaitInstances(c, 2)
}

func deleteTheDatabase(t *testing.T) {
	c := connect(t)
	c.kubectl("delete", "gdb", cacheDatabase, "-n", c.caches, "--wait=false")
	took := c.until("the cache has gone with its database", 2*time.Minute, func(ctx context.Context) (bool, string) {
		var cache v1alpha1.GeoCache
		err := c.Get(ctx, client.ObjectKey{Namespace: c.caches, Name: cacheName}, &cache)
		return client.IgnoreNotFound(err) == nil && err != nil, fmt.Sprintf("%+v", cache.Status)
	})
	awaitNoCache(c)
	t.Logf("gone after %v", took.Round(time.Millisecond))
}
