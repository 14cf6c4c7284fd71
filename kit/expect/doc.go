// Package expect answers one question before a controller acts: do the caches already show what this
// controller itself has written?
//
// A controller reads from caches, and caches live in the past. A pass that starts before the cache has
// taken in the previous pass's own create sees one child too few and creates another, again and again.
// Conditional writes do not help there, because a create has nothing to be conditional on. The cure is to
// remember, per owner, the resourceVersion of every write, and to start the next pass of that owner only when
// the cache of that kind and namespace has come so far.
//
// # The promises
//
//   - It never blocks: [Tracker.Check] answers from memory at once. The caller requeues and serves other owners.
//   - It never affects another owner: each owner has its own memory.
//   - It never freezes: after [Options.Patience] the answer becomes [ReadLive], so that the pass reads from
//     the API server instead of the cache. What is still missing stays expected, so the pass after that
//     one waits again rather than acting on the same stale cache.
//   - An empty memory is never mistaken for "nothing is pending": an owner that has not been confirmed by a live
//     read since the process started, or since [Tracker.Reset] on a gain of leadership, gets [ReadLive] first.
//   - A write whose outcome is unknown, a request that timed out for example, is told by [Tracker.Doubt] and has
//     the same answer.
//   - Memory is bounded by the children of living owners: what has been seen is dropped, and
//     [Tracker.Forget] drops an owner.
//
// # How the position of a cache is known
//
// Since Kubernetes 1.35 resourceVersions of one resource may be compared. The store of a client-go informer knows the
// last one that it has taken in: the version of the list after a list, of the object after each add,
// update and delete, of the bookmark after a bookmark. It is set under the same lock as the content, after the
// content, so a store that stands at 120 shows everything up to 120. Three things follow and are relied upon here:
//
//   - It holds per store. One store for all namespaces has one position; one store per namespace has
//     one each, and an event in namespace a says nothing about namespace b. [Caches] is therefore keyed by both.
//   - The store tells nothing (an empty string) before its first list, when the client-go feature gate AtomicFIFO is
//     off, or when a transform strips the resourceVersion.
//   - A delete that is carried out at once has no resourceVersion that the client could learn, so a delete is
//     expected on the object: gone, or marked for deletion.
//
// Where the position is unknown or versions do not compare, the object itself is looked at: a write has been seen when
// the cached object has that version or a later one.
//
// # What it may not do
//
// The package starts no goroutine, reads no clock but the one it is given, and writes nothing. It does not replace
// preconditions on writes, it complements them: see package apply for those.
//
// Start reading at [Tracker.Check]. The sibling package loop calls it at the start of every pass.
package expect
