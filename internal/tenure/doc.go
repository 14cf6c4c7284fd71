// Package tenure holds the nouns of the loop by which the agents of a database agree on who is its primary: what was
// observed ([Snapshot]), what shall be done about it ([Plan] of [Action] and [Hold]). It knows leases, terms, members
// and positions, and nothing of PostgreSQL or Redis: the server is an [Engine], which tells facts and obeys a
// [Standing].
//
// Two loops run in an agent. This one decides who the instance is, and is never held up: what takes long (a write to
// the API server, a message to a peer) is begun in one pass and seen in a later one. The loop of the server decides how
// to become that, and may take its time over a clone.
//
// The rules have the ids of the design of high availability (Q1 … G1) in plan, and the invariants beside them are
// written independently of the rules. Start reading at [Snapshot], then plan/phases.go and plan/rules.go, which name
// each rule and the package of its protocol. No rule changes the snapshot but by an action; [Snapshot.After] says what
// an action changes in it.
package tenure
