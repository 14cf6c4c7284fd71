// Package rbac keeps the rights of a program in one table, from which everything
// else follows: the roles that are installed, the check at start that names what
// is missing, and the test that shows that nothing is missing and nothing is too
// much.
//
// Rights that are written as comments beside the code, or by hand into a role,
// drift: the code stops to need one, nobody dares to take it away, and the
// program ends up able to read every Secret of the cluster. A [Row] therefore says
// why a right is needed and by whom, and is one value that can be asked for.
//
// # From table to cluster
//
// An [Installation] says where the program runs and which namespaces it works in:
// all, one, or a list. [Table.Objects] renders the roles and bindings for it, and
// [Table.YAML] prints them. The result is minimal and in a stable order: each
// right once, none that a wider one already gives, none in a namespace that the
// program does not work in.
//
// [Preflight] asks the API server about each right before the program starts to
// work, and returns what is missing as sentences for whoever installed it.
//
// # From traffic to table
//
// A [Recorder] wraps the transport of a client and notes which right each request
// used. It sees what no wrapper of a typed client sees: the list and the watch
// behind a cache, the create that an apply turns into, the sub-resource. After a
// test run [Table.Audit] compares the notes with the table.
//
// # What it may not do
//
// A table has no wildcards, and no verbs that give away rights (bind, escalate,
// impersonate): [Table.Check] refuses them. The package never writes to a cluster.
//
// Table, rendering and audit are pure; only preflight.go and recorder.go talk to
// anyone. Start reading at [Row].
package rbac
