//go:build cluster

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// cacheTraffic writes and reads all the time, over connections that live as long as it does. Nothing is tried again: a
// connection that is lost is an error, and so is a second one.
type cacheTraffic struct {
	access  access
	end     context.CancelFunc
	done    sync.WaitGroup
	opened  atomic.Int64
	asked   atomic.Int64
	missing atomic.Int64

	mutex    sync.Mutex
	problems []string
	slowest  time.Duration
}

const (
	cacheClients = 6
	valueSize    = 4 << 10
)

func startTraffic(t *testing.T, access access) *cacheTraffic {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	traffic := &cacheTraffic{access: access, end: cancel}
	t.Cleanup(cancel)
	for number := range cacheClients {
		traffic.done.Go(func() { traffic.run(ctx, number) })
	}
	return traffic
}

// client opens one connection and no other.
func (c *cacheTraffic) client() *redis.Client {
	options := c.access.options()
	options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		c.opened.Add(1)
		return redis.NewDialer(options)(ctx, network, address)
	}
	options.ConnMaxIdleTime, options.ConnMaxLifetime = -1, -1
	return redis.NewClient(options)
}

// run writes values that tell their key, and reads values of before: each must be the one that was written, or gone.
func (c *cacheTraffic) run(ctx context.Context, number int) {
	link := c.client()
	defer func() { _ = link.Close() }()
	c.each(ctx, fmt.Sprintf("client %d", number), 2, func(serial int) error {
		key := fmt.Sprintf("traffic:%d:%d", number, serial)
		if err := link.Set(ctx, key, valueOf(key), 0).Err(); err != nil {
			return err
		}
		return c.read(ctx, link, fmt.Sprintf("traffic:%d:%d", number, rand.IntN(serial+1)))
	})
}

// each takes step after step until the end, or until one fails, and counts so many requests for each.
func (c *cacheTraffic) each(ctx context.Context, who string, requests int64, step func(serial int) error) {
	for serial := 0; ctx.Err() == nil; serial++ {
		begun := time.Now()
		if err := step(serial); err != nil && ctx.Err() == nil {
			c.problem(fmt.Sprintf("%s, step %d: %v", who, serial, err))
			return
		}
		c.asked.Add(requests)
		c.mutex.Lock()
		c.slowest = max(c.slowest, time.Since(begun))
		c.mutex.Unlock()
		time.Sleep(5 * time.Millisecond)
	}
}

func (c *cacheTraffic) read(ctx context.Context, link *redis.Client, key string) error {
	value, err := link.Get(ctx, key).Result()
	switch {
	case errors.Is(err, redis.Nil):
		c.missing.Add(1)
		return nil
	case err != nil:
		return err
	case value != valueOf(key):
		return fmt.Errorf("%s has a value that was never written", key)
	}
	return nil
}

func valueOf(key string) string { return strings.Repeat(key+" ", valueSize/(len(key)+1)+1)[:valueSize] }

func (c *cacheTraffic) problem(text string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.problems = append(c.problems, text)
}

// fill writes so many bytes, beside the rest.
func (c *cacheTraffic) fill(t *testing.T, bytes int) {
	t.Helper()
	link := redis.NewClient(c.access.options())
	defer func() { _ = link.Close() }()
	for written := 0; written < bytes; {
		_, err := link.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for range 100 {
				key := fmt.Sprintf("fill:%d", written)
				pipe.Set(t.Context(), key, valueOf(key), 0)
				written += valueSize
			}
			return nil
		})
		if err != nil {
			t.Fatalf("fill: %v", err)
		}
	}
}

// stop ends the traffic and judges it.
func (c *cacheTraffic) stop(t *testing.T) string {
	t.Helper()
	c.end()
	c.done.Wait()
	for _, problem := range c.problems {
		t.Error(problem)
	}
	if opened := c.opened.Load(); opened != cacheClients {
		t.Errorf("%d connections were opened by %d clients", opened, cacheClients)
	}
	if asked := c.asked.Load(); asked < 1000 {
		t.Errorf("only %d requests: too few to show anything", asked)
	}
	return fmt.Sprintf("%d requests over %d connections, slowest pair %v, %d keys were gone when read",
		c.asked.Load(), c.opened.Load(), c.slowest.Round(time.Millisecond), c.missing.Load())
}
