// Package sim is a hostile Kubernetes in memory, for tests of controllers: an API server with the semantics that
// controllers rely on, caches that stand anywhere in the past, and calls that fail, time out or never return, as and
// when a test decides. A reconciler written for controller-runtime is handed a client of it and runs unchanged.
//
//	server, err := sim.New(sim.Options{Scheme: scheme})
//	process, err := server.Start(sim.Life{Name: "operator", Hook: decide})
//	reconciler := &Reconciler{Client: process.Client()}
//
// The same calls in the same order give the same answers, bit for bit: there is no clock but the one that is passed
// in, no random number, no goroutine, and no order of a map in any answer.
//
// # The server
//
// [Server] has one counter of versions, and keeps every state of every object. Versions can be compared; a write that
// changes nothing makes none. It knows UIDs, generations, the status and scale subresources, evictions, preconditions,
// finalizers, grace periods of pods, their resize, selectors, dry runs, JSON, merge and strategic merge patches,
// immutable fields and the defaults of the kinds that operators create most. [BuiltIn] is the table of kinds, and
// [FromDefinition] adds custom resources with their real schema, defaults and CEL rules.
//
// Controllers of the cluster do not run by themselves. [Server.Collect] is one step of the garbage collector and of the
// protection of claims, to be taken whenever the test wants it to have happened.
//
// [Server.Fork] makes a second server with the same past, for next to nothing: many stories can have one beginning.
//
// # Processes, verdicts and caches
//
// A [Process] is one life of a program. Each of its calls to the server is shown to its [Hook], which returns a
// [Verdict]: done, refused, refused but applied, conflict, crash before or after. A hook that lets others act before it
// answers delays the call past them. After a crash nothing that the process does has any effect; who restarts it makes
// a new Process with new memory.
//
// A process reads from its [Cache], in which every kind stands at a version of its own, and moves forward only when
// [Cache.Advance] says so. A new life may begin further in the past than the last one ended. The cache is an
// expect.View.
//
// # How far it can be trusted
//
// TestFidelity (build tag cluster) runs random sequences of operations against this server and a real kube-apiserver,
// and compares every answer and every object after every operation. The known differences are the table `exceptions` in
// fidelity_test.go.
//
// Not there: server-side apply and field ownership; what a resize may not do to a class of service; webhooks, quotas,
// rights, and the budget of an eviction; namespaces that have to exist, or that take their content with them; addresses
// of Services; validation of built-in kinds beyond metadata and immutable fields; watches over a channel
// ([Server.Events] is the log); continued lists and indexes of caches; several versions of one kind; kubelet, scheduler
// and the controllers of workloads. Nothing here decides about verdicts, positions or the order of processes: the
// package search below this one does.
//
// Start reading at [Server], then [Process] and [Cache].
package sim
