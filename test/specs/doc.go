// Package specs changes specs at random, by the schema of their kind: to something valid, and to something that is
// nearly so. The tests of the API server and the lives of the operator let a user make such changes one after another,
// and hold what becomes of them against what is promised: each is reached, held for a named reason or refused by the
// name of a field, and whoever takes one back is where they were.
//
// Start reading at [Kind.Change].
package specs
