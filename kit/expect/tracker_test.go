package expect_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"meridian.dev/meridian/kit/expect"
)

// clock is a hand-moved clock.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) Advance(by time.Duration) { c.now = c.now.Add(by) }

// view is a cache that is moved by hand. The key of a position is "Kind/namespace", that of an object
// "Kind/namespace/name".
type view struct {
	mu        sync.Mutex
	positions map[string]string
	objects   map[string]expect.Sight
	live      map[string]bool
}

func newView() *view {
	return &view{positions: map[string]string{}, objects: map[string]expect.Sight{}, live: map[string]bool{}}
}

func (v *view) Look(kind schema.GroupVersionKind, key types.NamespacedName) expect.Sight {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.live[kind.Kind] {
		return expect.Sight{}
	}
	place := kind.Kind + "/" + key.Namespace
	sight := v.objects[place+"/"+key.Name]
	sight.Cached, sight.Position = true, v.positions[place]
	return sight
}

func (v *view) stand(place, position string) { v.positions[place] = position }

func (v *view) show(obj *corev1.Pod) {
	v.objects["Pod/"+obj.Namespace+"/"+obj.Name] = expect.Sight{
		Found: true, UID: obj.UID, ResourceVersion: obj.ResourceVersion, Terminating: obj.DeletionTimestamp != nil,
	}
}

func (v *view) hide(namespace, name string) { delete(v.objects, "Pod/"+namespace+"/"+name) }

func pod(namespace, name, uid, rv string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: rv,
	}}
}

func terminating(obj *corev1.Pod) *corev1.Pod {
	obj.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	return obj
}

func owner(name string) expect.Owner {
	return expect.Owner{
		NamespacedName: types.NamespacedName{Namespace: "a", Name: name}, UID: types.UID(name + "-uid"),
	}
}

// bench is a tracker whose owner "one" has been confirmed by a live read of nothing.
type bench struct {
	*expect.Tracker
	*view
	*clock
}

func newBench() bench {
	b := bench{view: newView(), clock: &clock{now: time.Unix(1000, 0)}}
	b.Tracker = expect.New(b.view, scheme.Scheme, expect.Options{Now: b.clock.Now})
	b.Confirm(owner("one"))
	return b
}

func (b bench) want(t *testing.T, who expect.Owner, answer expect.Answer, cause expect.Cause) {
	t.Helper()
	got := b.Check(who)
	if got.Answer != answer || got.Cause != cause {
		t.Errorf("Check = %s %q (%s), want %s %q", got.Answer, got.Cause, got.Reason, answer, cause)
	}
	if (got.Reason == "") != (answer == expect.ReadCache) {
		t.Errorf("Check = %s with the reason %q", got.Answer, got.Reason)
	}
	if (got.Recheck > 0) != (answer == expect.Wait) {
		t.Errorf("Check = %s with a recheck after %s", got.Answer, got.Recheck)
	}
}

// TestSeen walks one write through what a cache may show of it.
func TestSeen(t *testing.T) {
	cases := map[string]struct {
		write func(bench)
		show  func(*view)
		want  expect.Answer
	}{
		"a create that the cache has not come to": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "99") },
			want:  expect.Wait,
		},
		"a create that the cache stands at": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "120") },
			want:  expect.ReadCache,
		},
		"a create that the cache has passed, the object being gone again": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "1000") },
			want:  expect.ReadCache,
		},
		"an event in another namespace proves nothing": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "99"); v.stand("Pod/b", "500") },
			want:  expect.Wait,
		},
		"an event of another kind proves nothing": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "99"); v.stand("Service/a", "500") },
			want:  expect.Wait,
		},
		"versions compare as numbers": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "100")) },
			show:  func(v *view) { v.stand("Pod/a", "99") },
			want:  expect.Wait,
		},
		"without a position, the object tells": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.show(pod("a", "p", "u1", "121")) },
			want:  expect.ReadCache,
		},
		"without a position, the object before the update": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.show(pod("a", "p", "u1", "119")) },
			want:  expect.Wait,
		},
		"without a position, the incarnation before the create": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u2", "120")) },
			show:  func(v *view) { v.show(pod("a", "p", "u1", "110")) },
			want:  expect.Wait,
		},
		"without a position, absence may be the past": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(*view) {},
			want:  expect.Wait,
		},
		"opaque versions, equal": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "x9")) },
			show:  func(v *view) { v.show(pod("a", "p", "u1", "x9")) },
			want:  expect.ReadCache,
		},
		"opaque versions, different": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "x9")) },
			show:  func(v *view) { v.stand("Pod/a", "y1"); v.show(pod("a", "p", "u1", "y1")) },
			want:  expect.Wait,
		},
		"a kind that is read live": {
			write: func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.live["Pod"] = true },
			want:  expect.ReadCache,
		},
		"a delete, the object still shown": {
			write: func(b bench) { b.Deleted(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "500"); v.show(pod("a", "p", "u1", "120")) },
			want:  expect.Wait,
		},
		"a delete, the object marked": {
			write: func(b bench) { b.Deleted(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "500"); v.show(terminating(pod("a", "p", "u1", "130"))) },
			want:  expect.ReadCache,
		},
		"a delete, the object gone": {
			write: func(b bench) { b.Deleted(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "121") },
			want:  expect.ReadCache,
		},
		"a delete, the next incarnation shown": {
			write: func(b bench) { b.Deleted(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "140"); v.show(pod("a", "p", "u2", "140")) },
			want:  expect.ReadCache,
		},
		"a delete, the cache still before the object existed": {
			write: func(b bench) { b.Deleted(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.stand("Pod/a", "99") },
			want:  expect.Wait,
		},
		"a delete without a position, the object gone": {
			write: func(b bench) { b.Deleted(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(*view) {},
			want:  expect.ReadCache,
		},
		"a delete without a position, an older incarnation shown": {
			write: func(b bench) { b.Deleted(owner("one"), pod("a", "p", "u1", "120")) },
			show:  func(v *view) { v.show(pod("a", "p", "u0", "50")) },
			want:  expect.Wait,
		},
		"created and deleted before the cache showed either": {
			write: func(b bench) {
				b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
				b.Deleted(owner("one"), pod("a", "p", "u1", "120"))
			},
			show: func(*view) {},
			want: expect.Wait,
		},
		"deleted and created again": {
			write: func(b bench) {
				b.Deleted(owner("one"), pod("a", "p", "u1", "120"))
				b.Wrote(owner("one"), pod("a", "p", "u2", "125"))
			},
			show: func(v *view) { v.stand("Pod/a", "125"); v.show(pod("a", "p", "u2", "125")) },
			want: expect.ReadCache,
		},
		"one of two writes seen": {
			write: func(b bench) {
				b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
				b.Wrote(owner("one"), pod("a", "q", "u2", "121"))
			},
			show: func(v *view) { v.stand("Pod/a", "120") },
			want: expect.Wait,
		},
		"two updates of one object, the first seen": {
			write: func(b bench) {
				b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
				b.Wrote(owner("one"), pod("a", "p", "u1", "121"))
			},
			show: func(v *view) { v.stand("Pod/a", "120") },
			want: expect.Wait,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			tc.write(b)
			tc.show(b.view)
			cause := expect.CacheBehind
			if tc.want == expect.ReadCache {
				cause = ""
			}
			b.want(t, owner("one"), tc.want, cause)
		})
	}
}

// TestStaleDeletion is the sequence in which a delete must not be ticked off early: the cache stands before the create,
// so the object is absent for the wrong reason, and appears later without its mark.
func TestStaleDeletion(t *testing.T) {
	b := newBench()
	b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
	b.Deleted(owner("one"), pod("a", "p", "u1", "120"))
	b.stand("Pod/a", "119")
	b.want(t, owner("one"), expect.Wait, expect.CacheBehind)
	b.stand("Pod/a", "120")
	b.show(pod("a", "p", "u1", "120"))
	b.want(t, owner("one"), expect.Wait, expect.CacheBehind)
	b.stand("Pod/a", "121")
	b.hide("a", "p")
	b.want(t, owner("one"), expect.ReadCache, "")
}

func TestFirstPassReadsLive(t *testing.T) {
	b := newBench()
	b.want(t, owner("two"), expect.ReadLive, expect.MemoryEmpty)
	b.want(t, owner("two"), expect.ReadLive, expect.MemoryEmpty)

	// A write alone is no confirmation.
	b.Wrote(owner("two"), pod("a", "p", "u1", "120"))
	b.want(t, owner("two"), expect.ReadLive, expect.MemoryEmpty)

	// What was read live is the least that the cache has to show.
	b.stand("Pod/a", "130")
	b.Confirm(owner("two"), pod("a", "p", "u1", "120"), pod("a", "q", "u2", "140"))
	b.want(t, owner("two"), expect.Wait, expect.CacheBehind)
	b.stand("Pod/a", "140")
	b.want(t, owner("two"), expect.ReadCache, "")

	// Another incarnation of the owner is another owner.
	again := owner("two")
	again.UID = "second"
	b.want(t, again, expect.ReadLive, expect.MemoryEmpty)
	b.want(t, owner("two"), expect.ReadCache, "")
	b.Confirm(again)
	b.want(t, owner("two"), expect.ReadLive, expect.MemoryEmpty)

	b.Reset()
	b.want(t, owner("one"), expect.ReadLive, expect.MemoryEmpty)
	b.want(t, again, expect.ReadLive, expect.MemoryEmpty)
}

func TestPatience(t *testing.T) {
	b := newBench()
	b.stand("Pod/a", "99")
	b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
	b.Advance(59 * time.Second)
	b.want(t, owner("one"), expect.Wait, expect.CacheBehind)
	if got := b.Check(owner("one")).Recheck; got != time.Second {
		t.Errorf("Recheck = %s, want the second that is left", got)
	}
	b.Advance(time.Second)
	// The pass may fail before it has read: the answer stays until it is confirmed.
	b.want(t, owner("one"), expect.ReadLive, expect.CacheBehind)
	b.want(t, owner("one"), expect.ReadLive, expect.CacheBehind)
	b.Confirm(owner("one"), pod("a", "p", "u1", "120"))

	// The cache is as stale as before, so the next pass must not trust it, and must not read live at once either.
	b.want(t, owner("one"), expect.Wait, expect.CacheBehind)
	b.Advance(time.Minute)
	b.want(t, owner("one"), expect.ReadLive, expect.CacheBehind)
	b.Confirm(owner("one"), pod("a", "p", "u1", "120"))
	b.stand("Pod/a", "120")
	b.want(t, owner("one"), expect.ReadCache, "")
}

// TestMissingAfterLiveRead shows that a child which somebody else removed does not make every pass of a cache without
// positions wait.
func TestMissingAfterLiveRead(t *testing.T) {
	b := newBench()
	b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
	b.Wrote(owner("one"), pod("a", "q", "u2", "121"))
	b.Deleted(owner("one"), pod("a", "q", "u2", "121"))
	b.Advance(time.Minute)
	b.want(t, owner("one"), expect.ReadLive, expect.CacheBehind)
	b.Confirm(owner("one"))
	b.want(t, owner("one"), expect.ReadCache, "")

	// With positions, the cache still has to come so far, and gets its time again.
	b = newBench()
	b.stand("Pod/a", "99")
	b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
	b.Advance(time.Minute)
	b.Confirm(owner("one"))
	b.want(t, owner("one"), expect.Wait, expect.CacheBehind)
}

func TestDoubt(t *testing.T) {
	cases := map[string]func(bench){
		"told":                        func(b bench) { b.Doubt(owner("one"), "create of Pod a/p timed out") },
		"told without words":          func(b bench) { b.Doubt(owner("one"), "") },
		"a write without a version":   func(b bench) { b.Wrote(owner("one"), pod("a", "p", "u1", "")) },
		"a write of unknown kind":     func(b bench) { b.Wrote(owner("one"), &metav1.PartialObjectMetadata{}) },
		"through the owner's ledger":  func(b bench) { b.Of(owner("one")).Doubt("timed out") },
		"a delete without a version":  func(b bench) { b.Of(owner("one")).Deleted(pod("a", "p", "u1", "")) },
		"a ledger write without a rv": func(b bench) { b.Of(owner("one")).Wrote(pod("a", "p", "u1", "")) },
	}
	for name, tell := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench()
			b.stand("Pod/a", "500")
			tell(b)
			b.want(t, owner("one"), expect.ReadLive, expect.WriteInDoubt)
			b.want(t, owner("one"), expect.ReadLive, expect.WriteInDoubt)
			b.Confirm(owner("one"))
			b.want(t, owner("one"), expect.ReadCache, "")
		})
	}
}

func TestOwnersAreApart(t *testing.T) {
	b := newBench()
	b.Confirm(owner("two"))
	b.stand("Pod/a", "99")
	b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
	b.want(t, owner("one"), expect.Wait, expect.CacheBehind)
	b.want(t, owner("two"), expect.ReadCache, "")
	b.Advance(time.Hour)
	b.want(t, owner("one"), expect.ReadLive, expect.CacheBehind)
	b.want(t, owner("two"), expect.ReadCache, "")
	b.Forget(owner("one").NamespacedName)
	b.want(t, owner("one"), expect.ReadLive, expect.MemoryEmpty)
	b.want(t, owner("two"), expect.ReadCache, "")
}

func TestZeroLedger(*testing.T) {
	var ledger expect.Ledger
	ledger.Wrote(pod("a", "p", "u1", "120"))
	ledger.Deleted(pod("a", "p", "u1", "120"))
	ledger.Doubt("nobody listens")
}

func TestReason(t *testing.T) {
	b := newBench()
	b.stand("Pod/a", "99")
	b.Wrote(owner("one"), pod("a", "q", "u2", "121"))
	b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
	want := "the cache does not show Pod a/p at resourceVersion 120 yet (stands at 99)"
	for range 20 {
		if diff := cmp.Diff(want, b.Check(owner("one")).Reason); diff != "" {
			t.Fatalf("of two equally old writes the first by name is told (-want +got):\n%s", diff)
		}
	}
	b = newBench()
	b.Deleted(owner("one"), pod("a", "p", "u1", "120"))
	b.show(pod("a", "p", "u1", "120"))
	want = "the cache does not show the deletion of Pod a/p yet (cannot tell how far it is)"
	if diff := cmp.Diff(want, b.Check(owner("one")).Reason); diff != "" {
		t.Errorf("reason (-want +got):\n%s", diff)
	}
}

func TestRecheckGrows(t *testing.T) {
	b := newBench()
	b.stand("Pod/a", "99")
	b.Wrote(owner("one"), pod("a", "p", "u1", "120"))
	var got []time.Duration
	for range 9 {
		recheck := b.Check(owner("one")).Recheck
		got = append(got, recheck)
		b.Advance(recheck)
	}
	want := []time.Duration{
		100 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond,
		800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond, 5 * time.Second, 5 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rechecks (-want +got):\n%s", diff)
	}
}

func TestMetricsAndBoundedMemory(t *testing.T) {
	b := newBench()
	b.stand("Pod/a", "99")
	for i := range 1000 {
		b.Wrote(owner("one"), pod("a", fmt.Sprintf("p%d", i%10), "u", fmt.Sprint(100+i)))
	}
	b.Check(owner("one"))
	b.Check(owner("two"))
	b.measures(t, measures{wait: 1, live: 1, pending: 10, owners: 1})
	b.stand("Pod/a", "5000")
	b.Check(owner("one"))
	b.measures(t, measures{cached: 1, wait: 1, live: 1, owners: 1})
	b.Forget(owner("one").NamespacedName)
	b.measures(t, measures{cached: 1, wait: 1, live: 1})
}

type measures struct{ cached, wait, live, pending, owners int }

func (b bench) measures(t *testing.T, m measures) {
	t.Helper()
	want := fmt.Sprintf(`
# HELP expect_checks_total Answers to the question whether the caches show all own writes.
# TYPE expect_checks_total counter
expect_checks_total{answer="ReadCache"} %d
expect_checks_total{answer="ReadLive"} %d
expect_checks_total{answer="Wait"} %d
# HELP expect_owners Owners whose writes are remembered.
# TYPE expect_owners gauge
expect_owners %d
# HELP expect_pending_writes Own writes that no cache has been seen to show yet.
# TYPE expect_pending_writes gauge
expect_pending_writes %d
`, m.cached, m.live, m.wait, m.owners, m.pending)
	if err := testutil.CollectAndCompare(b.Tracker, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestConcurrentUse has many workers, each with its own owner, and the race detector as its judge.
func TestConcurrentUse(t *testing.T) {
	b := newBench()
	b.stand("Pod/a", "1000")
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			me := owner(fmt.Sprint("owner", worker))
			b.Confirm(me)
			for i := range 200 {
				b.Wrote(me, pod("a", fmt.Sprint("p", worker), "u", fmt.Sprint(100+i)))
				if got := b.Check(me); got.Answer != expect.ReadCache {
					t.Errorf("owner %d: %+v", worker, got)
				}
			}
			b.Forget(me.NamespacedName)
		})
	}
	workers.Wait()
}
