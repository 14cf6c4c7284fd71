// Package invariant says what no plan for a cache may ever do, whoever has made it. Check is asked before every write.
// It imports nothing of plan: what must never happen is written down a second time, by another way of thinking.
//
// Start reading at invariants in check.go.
package invariant
