package expect_test

import (
	"fmt"
	"time"

	"k8s.io/client-go/kubernetes/scheme"

	"meridian.dev/meridian/kit/expect"
)

// A controller owns "one" and has just created the Pod "p". The cache is late, so the next pass is skipped; when the
// cache has taken the Pod in, the pass may read it.
func Example() {
	caches := newView() // In a controller: expect.NewCaches, with one Watch per cache.
	clock := &clock{now: time.Unix(1000, 0)}
	tracker := expect.New(caches, scheme.Scheme, expect.Options{Now: clock.Now})
	me := owner("one")

	ask := func(when string) {
		verdict := tracker.Check(me)
		fmt.Printf("%s: %s %s\n", when, verdict.Answer, verdict.Reason)
	}

	ask("after a start")
	tracker.Confirm(me) // The pass has read live and found no children.

	created := pod("a", "p", "u1", "120") // As returned by the API server.
	tracker.Of(me).Wrote(created)
	caches.stand("Pod/a", "99")
	ask("cache behind")

	clock.Advance(time.Minute)
	ask("cache stuck")

	caches.stand("Pod/a", "120")
	ask("cache caught up")

	// Output:
	// after a start: ReadLive own writes are unknown before the first live read of a/one
	// cache behind: Wait the cache does not show Pod a/p at resourceVersion 120 yet (stands at 99)
	// cache stuck: ReadLive the cache does not show Pod a/p at resourceVersion 120 yet (stands at 99)
	// cache caught up: ReadCache
}
