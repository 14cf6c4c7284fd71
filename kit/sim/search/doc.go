// Package search looks for the schedule that breaks a controller: the stale read, the crash between two writes, the
// second leader, the answer that got lost. It runs reconcilers written for controller-runtime, unchanged, against the
// server of package sim, and decides what happens when.
//
//	scenario := search.Scenario{
//		Name: "roll", Scheme: scheme.Scheme,
//		Programs: []search.Program{{Name: "operator", Start: newReconciler, Watches: watches}},
//		Script:   []search.Step{{Name: "another image", Do: changeImage}},
//		Always:   atMostOneRestart, Finally: everythingIsAsWished,
//	}
//	search.Test(t, scenario, search.Options{})
//
// # A run
//
// A run goes turn by turn. By itself a turn is what a calm world does next: an event reaches a cache, a pass is due, an
// actor (what is modelled of the cluster) moves, garbage is collected, the script goes on, time passes. Everything else
// is a [Decision]: an answer of the API server that is not the usual one, a call that is delayed past others, a leader
// that is overtaken while it writes, a cache that stands still, a crash, another order. A [Schedule] is a list of
// decisions, and the same schedule gives the same trace, bit for bit: [Result.Hash] is compared, so that a reconciler
// that is not deterministic is found out and not searched in vain.
//
// After every version of every object that is ever written, [Scenario.Always] is asked, and before every write of a
// program [Scenario.Calls]. When nothing is left to do, [Scenario.Finally] is asked, and one more pass over everything
// must write nothing. A story that begins in the middle begins in a world that [Settle] has brought to rest.
//
// # The search
//
// [Explore] tries no decision, then each single one: every answer at every call, every call delayed and overtaken, a
// crash at every turn with caches that start in the past, every cache standing still from every turn on; then pairs of
// crashes; then swarms, which are many decisions at random, from one seed each. The first schedule that breaks a rule
// is shrunk to the few decisions that it takes, and told as a story.
//
// A process that begins with a cache of the past looks before that cache moves on: nothing makes a real one wait.
//
// Most faults leave nothing behind. Where a program can be copied ([Program].Fork), schedules share their beginning and
// their crash, and where it tells what it remembers ([Program].Memory), a run ends in a state in which another one has
// been: it would do the same from there on. That makes a search several times as fast and overlooks nothing:
// [Report].Histories is the same as with [Options].Alone.
//
// # What it may not do
//
// It starts one goroutine for each pass, and waits for it: a crash must end a pass wherever it is. Nothing runs at the
// same time. No clock is read but the virtual one; the real one only limits how long a search takes.
//
// Start reading at [Scenario], then [Run] and [Explore].
package search
