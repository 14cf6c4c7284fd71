// Package sim runs the real loops by which agents agree on a primary in a hostile world: one thread, virtual time, and
// models of the API server, network, volumes, clocks, watchdogs and PostgreSQL. What may go wrong is decided before a
// run, by a seed or by an exhaustive list, so that one schedule is one trace, bit for bit.
//
// The loop is internal/tenure/controller as it is in production, on ports of this package. The models say what a real
// server may do at its worst, and never more than that: a replica answers for what it has flushed, senders of the log
// learn of a new setting one by one, what is written to the API server may be applied without an answer, or later.
//
// It may not be imported by production code. Start reading at [Run], then at invariants in truth.go.
package sim
