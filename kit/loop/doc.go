// Package loop runs control loops of one shape:
//
//	resource ─► observe ─► Snapshot ─► decide ─► Plan ─► act ─► Outcome ─► report ─► status, events
//	            (reads)     (facts)    (pure)   (data) (writes)  (data)     (pure)
//
// A controller that reads, decides and writes in turns cannot be tested without a cluster, cannot be dry-run, and acts
// in its second half on what its first half has made stale. Here the stages are functions with types between them, and
// the runner does what is the same for all loops:
//
//   - A pass starts only when the caches show the loop's own writes, or reads live: see package expect. The stage is
//     handed a reader and need not know which of the two it is.
//   - A plan is checked against invariants before anything is written. A violation refuses the whole plan.
//   - Before a plan is carried out, it is confirmed: the process still leads, and the object still asks for the same.
//     One that was stopped for a while, and overtaken, must not undo what its successor has done.
//   - The status is written once per pass, only if it changed, and only over the version that was read.
//   - Errors are classified once: a conflict is a quiet retry, a terminal error waits for a change, anything else
//     backs off.
//   - A pass waits only by a named [Hold] with its own recheck time.
//   - A pass has a deadline, a panic of a stage is an error with the name of the stage, and every stage is measured.
//
// # What it may not do
//
// The runner decides nothing about the resource, starts no goroutine, reads no clock but the one it is given (deadlines
// are those of the context), and logs at the borders of stages only, to the logger in the context. A returned error is
// not logged as well.
//
// Start reading at [Loop.Reconcile], which is the list of steps, then [Stages].
package loop
