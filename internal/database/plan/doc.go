// Package plan decides what is done for a database: Decide is a function from a Snapshot to a Plan and nothing else. It
// has no clock, no client and no logger, and never fails.
//
// rules.go is the table of contents of the product: a literal list, safety first. The package invariant beside this one
// says independently of the rules what no plan may ever do; it is asked before every write. testdata holds the stories
// that the rules were made for. Topics that have outgrown a file have a package of their own: draft is what all of them
// work on, storage, roll and access do not know each other.
//
// Start reading at rules.
package plan
