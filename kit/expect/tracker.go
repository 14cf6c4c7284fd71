package expect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// DefaultPatience is how long a pass waits for a cache before it reads live instead.
const DefaultPatience = time.Minute

// Bounds of Verdict.Recheck. A caller asks again after as long as it has waited already, within these.
const (
	shortestRecheck = 100 * time.Millisecond
	longestRecheck  = 5 * time.Second
)

// Owner is the object on whose behalf children are written. The UID keeps a recreated owner of the same name apart
// from the one before it.
type Owner struct {
	types.NamespacedName
	UID types.UID
}

// OwnerOf returns the identity of obj as an owner.
func OwnerOf(obj client.Object) Owner {
	return Owner{NamespacedName: client.ObjectKeyFromObject(obj), UID: obj.GetUID()}
}

// Answer says how a pass may read.
type Answer int

const (
	// ReadCache means that the caches show all own writes of the owner.
	ReadCache Answer = iota
	// Wait means that a cache is behind. Skip this pass and ask again after Verdict.Recheck.
	Wait
	// ReadLive means that this pass must read from the API server. Call Tracker.Confirm when it has.
	ReadLive
)

func (a Answer) String() string {
	return [...]string{"ReadCache", "Wait", "ReadLive"}[a]
}

// Cause says why an answer is not ReadCache. It is fit for the reason of an event.
type Cause string

const (
	// CacheBehind means that a cache has not come to an own write yet.
	CacheBehind Cause = "CacheBehind"
	// MemoryEmpty means that nothing is known of the owner: first pass after a start or a gain of leadership.
	MemoryEmpty Cause = "MemoryEmpty"
	// WriteInDoubt means that the outcome of a write is unknown.
	WriteInDoubt Cause = "WriteInDoubt"
)

// Verdict is the answer of Tracker.Check.
type Verdict struct {
	Answer Answer
	// Cause is empty for ReadCache.
	Cause Cause
	// Reason is one sentence for a user, empty for ReadCache.
	Reason string
	// Recheck is set for Wait only.
	Recheck time.Duration
}

// Options adjust a Tracker. The zero value is ready for use, except for a clock in tests.
type Options struct {
	// Now is the clock, time.Now if nil.
	Now func() time.Time
	// Patience is how long to wait for a cache before reading live, DefaultPatience if zero.
	Patience time.Duration
}

// Tracker remembers the own writes of one controller. It is safe for concurrent use.
type Tracker struct {
	view     View
	scheme   *runtime.Scheme
	now      func() time.Time
	patience time.Duration

	mu     sync.Mutex
	owners map[types.NamespacedName]*memory
	counts map[Answer]uint64
}

// memory is what is known of one owner.
type memory struct {
	uid types.UID
	// confirmed is false until a pass has read live. Only then is the absence of expectations meaningful.
	confirmed bool
	// doubt is why the next pass has to read live, empty if it need not.
	doubt   string
	pending map[target]expectation
}

// target is the object that was written.
type target struct {
	kind schema.GroupVersionKind
	key  types.NamespacedName
}

func (t target) String() string {
	return t.kind.Kind + " " + t.key.String()
}

func (t target) compare(other target) int {
	return cmp.Or(cmp.Compare(t.kind.String(), other.kind.String()), cmp.Compare(t.key.String(), other.key.String()))
}

// New returns a Tracker with an empty memory. The scheme names the kinds of typed objects.
func New(view View, scheme *runtime.Scheme, options Options) *Tracker {
	now := options.Now
	if now == nil {
		now = time.Now
	}
	return &Tracker{
		view:     view,
		scheme:   scheme,
		now:      now,
		patience: cmp.Or(options.Patience, DefaultPatience),
		owners:   map[types.NamespacedName]*memory{},
		counts:   map[Answer]uint64{},
	}
}

// Fork returns a tracker that remembers what this one does, and looks at another view with another clock. A simulator
// that goes on from one moment in two ways needs two of them.
func (t *Tracker) Fork(view View, now func() time.Time) *Tracker {
	t.mu.Lock()
	defer t.mu.Unlock()
	forked := New(view, t.scheme, Options{Now: now, Patience: t.patience})
	for owner, known := range t.owners {
		twin := *known
		twin.pending = maps.Clone(known.pending)
		forked.owners[owner] = &twin
	}
	maps.Copy(forked.counts, t.counts)
	return forked
}

// Memory tells in one text all that can make a difference to what the tracker answers: two that tell the same, and look
// at the same caches, answer alike. What the caches show already is left out. It is for simulators that compare.
func (t *Tracker) Memory() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var text strings.Builder
	byName := func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) }
	for _, owner := range slices.SortedFunc(maps.Keys(t.owners), byName) {
		known := t.owners[owner]
		fmt.Fprintf(&text, "%s %s %t %q\n", owner, known.uid, known.confirmed, known.doubt)
		for _, where := range slices.SortedFunc(maps.Keys(known.pending), target.compare) {
			if what := known.pending[where]; !what.seenIn(t.view.Look(where.kind, where.key)) {
				fmt.Fprintf(&text, "%s %+v\n", where, what)
			}
		}
	}
	return text.String()
}

// Check says how the next pass of the owner may read. It drops what has been seen.
func (t *Tracker) Check(owner Owner) Verdict {
	verdict := t.check(owner)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.counts[verdict.Answer]++
	return verdict
}

func (t *Tracker) check(owner Owner) Verdict {
	now := t.now()
	pending, verdict := t.recall(owner)
	if verdict.Answer == ReadLive {
		return verdict
	}

	// The caches are asked without the lock, so that a slow one holds up nobody else, and always in the same order, so
	// that the same state gives the same questions and the same words.
	var unseen *waiting
	for _, where := range slices.SortedFunc(maps.Keys(pending), target.compare) {
		what := pending[where]
		sight := t.view.Look(where.kind, where.key)
		if what.seenIn(sight) {
			t.drop(owner, where, what)
		} else if unseen == nil || what.since.Before(unseen.what.since) {
			unseen = &waiting{where, what, sight}
		}
	}
	if unseen == nil {
		return Verdict{Answer: ReadCache}
	}

	verdict = Verdict{Answer: Wait, Cause: CacheBehind, Reason: unseen.String()}
	waited := now.Sub(unseen.what.since)
	if waited >= t.patience {
		verdict.Answer = ReadLive
		return verdict
	}
	verdict.Recheck = min(max(waited, shortestRecheck), longestRecheck, t.patience-waited)
	return verdict
}

// recall returns a copy of what is pending, or the verdict to read live at once.
func (t *Tracker) recall(owner Owner) (map[target]expectation, Verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.owners[owner.NamespacedName]
	switch {
	case ok && known.uid == owner.UID && known.doubt != "":
		return nil, Verdict{Answer: ReadLive, Cause: WriteInDoubt, Reason: known.doubt}
	case !ok || known.uid != owner.UID || !known.confirmed:
		return nil, Verdict{
			Answer: ReadLive, Cause: MemoryEmpty,
			Reason: "own writes are unknown before the first live read of " + owner.String(),
		}
	}
	return maps.Clone(known.pending), Verdict{}
}

// drop removes an expectation that has been seen, unless a newer one has taken its place meanwhile.
func (t *Tracker) drop(owner Owner, where target, what expectation) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known, ok := t.owners[owner.NamespacedName]; ok && known.uid == owner.UID && known.pending[where] == what {
		delete(known.pending, where)
	}
}

// Wrote remembers that obj was created or updated for the owner. It takes obj as the API server returned it.
func (t *Tracker) Wrote(owner Owner, obj client.Object) {
	t.record(owner, obj, func(expectation) expectation { return expectation{} })
}

// Deleted remembers that obj was deleted for the owner. It takes obj as it was when the delete was decided: the UID
// and resourceVersion of the preconditions.
func (t *Tracker) Deleted(owner Owner, obj client.Object) {
	t.record(owner, obj, func(before expectation) expectation {
		return expectation{deleted: true, unseen: before.rv != "" && !before.deleted && before.uid == obj.GetUID()}
	})
}

// Doubt remembers that the outcome of a write is unknown. The next pass reads live.
func (t *Tracker) Doubt(owner Owner, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.memoryOf(owner).doubt = cmp.Or(why, "the outcome of a write is unknown")
}

// Confirm remembers that a pass has read live, and everything that it read: the owner and its children. From then on
// the caches may be trusted once they show at least the same.
func (t *Tracker) Confirm(owner Owner, read ...client.Object) {
	t.mu.Lock()
	known := t.memoryOf(owner)
	known.confirmed, known.doubt = true, ""
	now := t.now()
	for where, what := range known.pending {
		what.since, what.missing, what.unseen = now, true, false
		known.pending[where] = what
	}
	t.mu.Unlock()
	for _, obj := range read {
		t.Wrote(owner, obj)
	}
}

// Forget drops the memory of an owner that is gone.
func (t *Tracker) Forget(owner types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.owners, owner)
}

// Reset drops all memory, so that every owner is read live once. Call it on a gain of leadership: another
// process has written meanwhile.
func (t *Tracker) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.owners)
}

// record puts the expectation that next makes from the present one in its place.
func (t *Tracker) record(owner Owner, obj client.Object, next func(expectation) expectation) {
	kind, err := apiutil.GVKForObject(obj, t.scheme)
	if err != nil {
		t.Doubt(owner, fmt.Sprintf("the kind of a written %T is unknown: %v", obj, err))
		return
	}
	where := target{kind, client.ObjectKeyFromObject(obj)}
	if obj.GetResourceVersion() == "" {
		t.Doubt(owner, fmt.Sprintf("the resourceVersion of the written %s is unknown", where))
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.memoryOf(owner)
	what := next(known.pending[where])
	what.uid, what.rv, what.since = obj.GetUID(), obj.GetResourceVersion(), t.now()
	known.pending[where] = what
}

// memoryOf returns the memory of the owner, a new and unconfirmed one if there is none of that UID. It needs the lock.
func (t *Tracker) memoryOf(owner Owner) *memory {
	known, ok := t.owners[owner.NamespacedName]
	if !ok || known.uid != owner.UID {
		known = &memory{uid: owner.UID, pending: map[target]expectation{}}
		t.owners[owner.NamespacedName] = known
	}
	return known
}
