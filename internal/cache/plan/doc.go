// Package plan decides what is done for a cache: Decide is a function from a Snapshot to a Plan and nothing else. It
// has no clock, no client and no logger, and never fails.
//
// rules.go is the table of contents of the product: a literal list, safety first. What no plan may ever do is in the
// package invariant beside this one, which is asked before every write. testdata holds the stories that the rules were
// made for.
//
// Start reading at rules.
package plan
