//go:build cluster

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

const (
	// leaseOfACache is how long the lease of a primary lasts.
	leaseOfACache = 10 * time.Second
	// failoverBound is how old a value may be that a client reads around a failover: twice the lease.
	failoverBound = 2 * leaseOfACache
)

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

// quiet keeps the library from telling of each connection that it could not open: that is what is measured.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func startCounter(t *testing.T, c *cluster) *counter {
	t.Helper()
	redis.SetLogger(quiet{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	l := &counter{write: accessTo(c), end: cancel, last: time.Now(), acked: []time.Time{{}}}
	l.read = l.write
	var service corev1.Service
	key := client.ObjectKey{Namespace: c.caches, Name: cacheName + "-ro"}
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

// awaitFlow waits until writes have been acknowledged for a while: before that a gap has no end.
func (l *counter) awaitFlow(c *cluster) {
	c.t.Helper()
	steady := 0
	c.until("writes are acknowledged again", time.Minute, func(context.Context) (bool, string) {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if steady++; time.Since(l.last) > 150*time.Millisecond {
			steady = 0
		}
		return steady > 5, fmt.Sprintf("the last one %v ago", time.Since(l.last))
	})
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
