//go:build cluster

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// failoverBound is how old a value may be that a client reads around a failover: twice the lease.
const failoverBound = 20 * time.Second

// counter writes growing numbers through the write address and reads them through both. Each number that is read must
// have been written, and must not be older than the bound. A cache may have forgotten them all.
type counter struct {
	write, read access
	end         context.CancelFunc
	done        sync.WaitGroup

	begun, wrong, cold, reads atomic.Int64
	mutex                     sync.Mutex
	acked                     []time.Time // When each number was acknowledged; the zero time if it was not.
	last                      time.Time
	gap, stalest              time.Duration
}

func startCounter(t *testing.T, c *cluster) *counter {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	l := &counter{write: accessTo(c), end: cancel, last: time.Now(), acked: []time.Time{{}}}
	l.read = l.write
	var service corev1.Service
	key := client.ObjectKey{Namespace: cacheSpace, Name: cacheName + "-ro"}
	if err := c.Get(t.Context(), key, &service); err != nil {
		t.Fatal(err)
	}
	l.read.address = service.Spec.ClusterIP + ":6379"
	l.done.Go(func() { l.count(ctx) })
	for _, from := range []access{l.write, l.read} {
		l.done.Go(func() { l.look(ctx, from) })
	}
	return l
}

// quick gives up soon: what is measured is how soon the next one takes over.
func (a access) quick() *redis.Client {
	options := a.options()
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = 500*time.Millisecond, time.Second, time.Second
	options.DialerRetries = 1
	return redis.NewClient(options)
}

func (l *counter) count(ctx context.Context) {
	for ctx.Err() == nil {
		link := l.write.quick()
		for ctx.Err() == nil {
			number := l.begun.Add(1)
			err := link.Set(ctx, "number", number, 0).Err()
			l.mutex.Lock()
			l.acked = append(l.acked, time.Time{})
			if err == nil {
				l.acked[number] = time.Now()
				l.gap, l.last = max(l.gap, time.Since(l.last)), time.Now()
			}
			l.mutex.Unlock()
			if err != nil {
				break
			}
			time.Sleep(2 * time.Millisecond)
		}
		_ = link.Close()
		time.Sleep(10 * time.Millisecond)
	}
}

func (l *counter) look(ctx context.Context, from access) {
	for ctx.Err() == nil {
		link := from.quick()
		for ctx.Err() == nil {
			asked := time.Now()
			number, err := link.Get(ctx, "number").Int64()
			if errors.Is(err, redis.Nil) {
				l.cold.Add(1)
			} else if err != nil {
				break
			} else {
				l.judge(number, asked)
			}
			time.Sleep(5 * time.Millisecond)
		}
		_ = link.Close()
		time.Sleep(10 * time.Millisecond)
	}
}

// judge looks for the first later number that was acknowledged: from then on this one was out of date.
func (l *counter) judge(number int64, asked time.Time) {
	l.reads.Add(1)
	if number < 1 || number > l.begun.Load() {
		l.wrong.Add(1)
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, at := range l.acked[min(int(number)+1, len(l.acked)):] {
		if !at.IsZero() {
			l.stalest = max(l.stalest, asked.Sub(at))
			return
		}
	}
}

// reset begins to measure anew, and returns the longest time without an acknowledged write.
func (l *counter) reset() time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	gap := l.gap
	l.gap, l.last = 0, time.Now()
	return gap.Round(time.Millisecond)
}

func (l *counter) stop(t *testing.T) string {
	t.Helper()
	l.end()
	l.done.Wait()
	if l.wrong.Load() > 0 {
		t.Errorf("%d answers that nobody has written", l.wrong.Load())
	}
	if l.stalest > failoverBound {
		t.Errorf("an answer was out of date since %v", l.stalest)
	}
	if l.reads.Load() < 1000 || l.begun.Load() < 1000 {
		t.Errorf("only %d reads and %d writes: too few to show anything", l.reads.Load(), l.begun.Load())
	}
	return fmt.Sprintf("%d writes, %d reads, %d wrong, %d cold, the oldest answer out of date since %v",
		l.begun.Load(), l.reads.Load(), l.wrong.Load(), l.cold.Load(), l.stalest.Round(time.Millisecond))
}

// awaitInstances waits until the cache is as wished with so many instances.
func awaitInstances(c *cluster, count int32) time.Duration {
	c.t.Helper()
	what := fmt.Sprintf("the cache has %d instances", count)
	return c.until(what, 2*time.Minute, func(ctx context.Context) (bool, string) {
		cache := getCache(ctx, c)
		ready := condition.IsTrue(cache.Status.Conditions, v1alpha1.ConditionReady)
		return ready && cache.Status.ObservedGeneration == cache.Generation && cache.Status.ReadyReplicas == count &&
			cache.Status.Replicas == count, fmt.Sprintf("%+v", cache.Status)
	})
}

// loseThePrimary has three instances, takes the primary away in several ways under traffic, and goes back to one.
func loseThePrimary(t *testing.T, c *cluster) {
	c.kubectl("scale", "gcache/"+cacheName, "-n", cacheSpace, "--replicas=3")
	t.Logf("three instances after %v", awaitInstances(c, 3).Round(time.Millisecond))
	traffic := startCounter(t, c)
	time.Sleep(3 * time.Second)
	for _, fault := range []struct {
		name  string
		cause func(primary string)
	}{
		{"the pod of the primary is deleted", func(primary string) {
			c.kubectl("delete", "pod", primary+"-0", "-n", cacheSpace, "--wait=false")
		}},
		{"the server of the primary is killed", func(primary string) {
			c.kubectl("exec", "-n", cacheSpace, primary+"-0", "-c", "cache", "--", "sh", "-c",
				"kill -9 "+accessTo(c).figures(t)["process_id"])
		}},
		{"the agent of the primary is killed", func(primary string) {
			// From inside, process 1 cannot be killed; but without its watchdog and its server it starts anew.
			c.kubectl("exec", "-n", cacheSpace, primary+"-0", "-c", "cache", "--", "sh", "-c",
				"for p in /proc/[0-9]*; do p=${p#/proc/}; [ $p != 1 ] && [ $p != $$ ] && kill -9 $p; done; true")
		}},
	} {
		before := getCache(t.Context(), c).Status
		traffic.reset()
		fault.cause(before.Primary)
		c.until("another primary", time.Minute, func(ctx context.Context) (bool, string) {
			now := getCache(ctx, c).Status
			return now.Term > before.Term && now.Primary != "", fmt.Sprintf("%+v", now)
		})
		back := awaitInstances(c, 3)
		t.Logf("%s: %v without an acknowledged write; three instances again after %v", fault.name, traffic.reset(),
			back.Round(time.Millisecond))
	}
	traffic.reset()
	c.kubectl("scale", "gcache/"+cacheName, "-n", cacheSpace, "--replicas=1")
	t.Logf("one instance after %v, %v without an acknowledged write", awaitInstances(c, 1).Round(time.Millisecond),
		traffic.reset())
	t.Log(traffic.stop(t))
}

// cacheNodes, when it is set, says that nobody minds if a node loses its power.
const cacheNodes = "MERIDIAN_TEST_NODES"

// TestCacheNodeLost takes the power of the node on which the primary is. The lease has to end before another instance
// may lead, and the node says nothing.
func TestCacheNodeLost(t *testing.T) {
	if os.Getenv(cacheNodes) == "" {
		t.Skip("it takes a node away; set " + cacheNodes + " when nobody else uses the cluster")
	}
	c := connect(t)
	if os.Getenv(cacheOperator) == "" {
		install(c)
	}
	c.namespace(cacheSpace)
	made := &v1alpha1.GeoCache{Spec: v1alpha1.GeoCacheSpec{
		DatabaseRef: v1alpha1.DatabaseRef{Name: "cities"}, Replicas: 3, Memory: new(resource.MustParse("64Mi")),
	}}
	made.Namespace, made.Name = cacheSpace, cacheName
	database := &v1alpha1.GeoDatabase{Spec: v1alpha1.GeoDatabaseSpec{
		Instances: 1, Paused: true, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")},
	}}
	database.Namespace, database.Name = cacheSpace, "cities"
	for _, object := range []client.Object{database, made} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("three instances after %v", awaitInstances(c, 3).Round(time.Millisecond))
	traffic := startCounter(t, c)
	time.Sleep(3 * time.Second)
	before, node := getCache(t.Context(), c).Status, cachePod(c).Spec.NodeName
	traffic.reset()
	c.sandbox("node", "stop", node)
	t.Cleanup(func() { _ = exec.Command(filepath.Join(c.root, "bin", "sandbox"), "node", "start", node).Run() })
	c.until("another primary", time.Minute, func(ctx context.Context) (bool, string) {
		now := getCache(ctx, c).Status
		return now.Term > before.Term && now.Primary != "" && now.Primary != before.Primary, fmt.Sprintf("%+v", now)
	})
	time.Sleep(3 * time.Second)
	gap := traffic.reset()
	t.Logf("the node of the primary lost its power: %v without an acknowledged write", gap)
	if gap > 15*time.Second {
		t.Error("that is longer than a lease and an election")
	}
	c.sandbox("node", "start", node)
	t.Logf("three instances again %v after the power was back", awaitInstances(c, 3).Round(time.Millisecond))
	t.Log(traffic.stop(t))
}
