//go:build cluster

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"meridian.dev/meridian/test/e2e/checks"
)

var (
	failoverRuns    = flag.Int("runs", 1, "how often each fault is tried")
	failoverFaults  = flag.String("faults", "short", "short, all, or names of faults with commas between")
	failoverRepairs = flag.String("repairs", "", "only repairs whose name has this in it")
)

// fault is something that goes wrong, and what may be expected then.
type fault struct {
	name string
	// short says that it is in the list of every run.
	short bool
	// gap is the promise: how long writes may be unavailable. Hold is how long the fault lasts before it is undone.
	gap, hold time.Duration
	// after is how long all must have been well before it: a server that ends again soon is started with a pause.
	after time.Duration
	// moves says that another instance must lead afterwards; quiet that no client may notice anything; mute that
	// nobody is there to write the status; node that it takes the whole node.
	moves, quiet, mute, node bool
	// once says that a second time soon after it takes longer on purpose.
	once bool
	// do does it, and returns how to undo it.
	do func(*failover) (undo func())
}

// faults are those of the table of the design. Two that are not in the short list happen in every run all the same: the
// primary is moved under traffic by TestRolling, and its agent killed under traffic by TestBackup.
var faults = []fault{
	{name: "switchover", moves: true, gap: 2 * time.Second, do: (*failover).askSwitchover},
	{name: "pod delete", short: true, moves: true, gap: 2 * time.Second, do: (*failover).deletePod},
	{
		name: "node drained", node: true, moves: true, gap: 2 * time.Second, hold: 10 * time.Second,
		do: (*failover).drainNode,
	},
	{
		name: "kill -9 postmaster", short: true, gap: 5 * time.Second, after: 12 * time.Second,
		do: (*failover).killPostmaster,
	},
	{name: "kill -9 agent", gap: 5 * time.Second, do: (*failover).killAgent},
	{
		name: "freeze postgres 30 s", moves: true, gap: 13 * time.Second, hold: 30 * time.Second,
		do: (*failover).freezeServer,
	},
	{name: "freeze pod 30 s", moves: true, gap: 13 * time.Second, hold: 30 * time.Second, do: (*failover).freezePod},
	{
		name: "node power-off", short: true, node: true, moves: true, gap: 13 * time.Second, hold: 20 * time.Second,
		do: (*failover).stopNode,
	},
	{
		name: "node cut from all", short: true, node: true, moves: true, gap: 13 * time.Second, hold: 30 * time.Second,
		do: (*failover).cutNode,
	},
	{
		name: "node cut from its peers", node: true, moves: true, once: true, gap: 20 * time.Second, hold: 40 * time.Second,
		do: (*failover).cutNodeFromPeers,
	},
	{
		name: "node cut from API", node: true, quiet: true, gap: time.Second, hold: 30 * time.Second,
		do: (*failover).cutNodeFromAPI,
	},
	{name: "API server away 60 s", quiet: true, gap: time.Second, hold: 60 * time.Second, do: (*failover).stopAPI},
	{
		name: "API away 60 s and a replica dead", quiet: true, gap: time.Second, hold: 60 * time.Second,
		do: (*failover).stopAPIWithADeadReplica,
	},
	{
		name: "operator away and node power-off", moves: true, mute: true, gap: 13 * time.Second, hold: 20 * time.Second,
		do: (*failover).stopNodeAlone,
	},
	{
		name: "node power-off under silent connections", node: true, moves: true, gap: 13 * time.Second,
		hold: 20 * time.Second, do: (*failover).stopNodeUnderSilence,
	},
	{
		name: "pod delete with a stopped checkpointer", moves: true, gap: 2 * time.Second, hold: 30 * time.Second,
		do: (*failover).deletePodWithoutCheckpoints,
	},
	{
		name: "node drained with a stopped checkpointer", node: true, moves: true, gap: 2 * time.Second,
		hold: 30 * time.Second, do: (*failover).drainNodeWithoutCheckpoints,
	},
	{
		name: "diverged former primary follows", node: true, moves: true, mute: true, gap: 5 * time.Minute,
		do: (*failover).followDiverged,
	},
}

// noticing is how long the status may say what is not so any more.
const noticing = 8 * time.Second

// result is what came out of one run.
type result struct {
	checks.Verdict
	truth checks.Truth
	// mute says that for a while nobody was there to write the status: the operator was away, or was on the same node.
	mute bool
	// invalid says why the run shows nothing, empty if it does.
	invalid string
	// idle and stolen are what part of the processors was left, and what part the machine did not get, in percent.
	idle, stolen int
}

// row is a line of the table.
type row struct {
	fault   fault
	results []result
}

// TestFailover does each fault to a database of three instances under traffic, and prints the table.
func TestFailover(t *testing.T) {
	chosen := choose(t)
	f := newFailover(t)
	f.checkPostGIS()
	if *failoverFaults == "all" {
		f.measureIdle()
	}
	var rows []row
	for _, one := range chosen {
		line := row{fault: one}
		for run := range *failoverRuns {
			if one.once && run > 0 {
				break
			}
			line.results = append(line.results, f.tryOnce(one, run+1))
		}
		rows = append(rows, line)
	}
	if *failoverFaults == "all" {
		f.checkDurability()
	}
	f.checkCopies()
	f.checkSegments()
	printRows(t, f, rows)
}

// tryOnce does a fault once and complains about what must not be.
func (f *failover) tryOnce(one fault, number int) result {
	f.t.Helper()
	result := f.run(one)
	f.t.Logf("%s, run %d: gap %s, acknowledged %d, unknown %d, failed %d, lost %d, overlap %s, registers %s; status: %s; "+
		"processors idle %s, stolen %s", one.name, number, result.Gap.Round(time.Millisecond), result.Acknowledged,
		result.Unknown, result.Failed, len(result.Lost), result.Overlap, result.Registers, result.truth,
		percent(result.idle), percent(result.stolen))
	if problem := result.Bad(); problem != "" {
		f.t.Errorf("%s: %s", one.name, problem)
	}
	if problem := result.Invalid() + result.invalid; problem != "" {
		f.t.Fatalf("%s: this run shows nothing: %s", one.name, problem)
	}
	if !result.mute && result.truth.Worst() > noticing {
		f.t.Errorf("%s: for more than %s the status said what was not so: %s", one.name, noticing, result.truth)
	}
	return result
}

func choose(t *testing.T) []fault {
	t.Helper()
	var chosen []fault
	wanted := strings.Split(*failoverFaults, ",")
	for _, one := range faults {
		for _, name := range wanted {
			if name == "all" || name == "short" && one.short || name == one.name {
				chosen = append(chosen, one)
				break
			}
		}
	}
	if len(chosen) == 0 {
		t.Fatalf("-faults=%s names none", *failoverFaults)
	}
	return chosen
}

func printRows(t *testing.T, f *failover, rows []row) {
	t.Helper()
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	line := func(cells ...any) {
		for _, cell := range cells {
			_, _ = fmt.Fprintf(table, "%v\t", cell)
		}
		_, _ = fmt.Fprintln(table)
	}
	line("FAULT", "RUNS", "GAP MEDIAN", "GAP WORST", "PROMISED", "ACKNOWLEDGED", "LOST", "OVERLAP", "STATUS WRONG",
		"IDLE", "STOLEN")
	for _, row := range rows {
		var gaps []time.Duration
		acknowledged, lost, overlap, wrong := 0, 0, time.Duration(0), time.Duration(0)
		idle, stolen := 100, 0
		for _, result := range row.results {
			gaps = append(gaps, result.Gap)
			acknowledged += result.Acknowledged
			lost += len(result.Lost)
			overlap = max(overlap, result.Overlap)
			idle, stolen = min(idle, result.idle), max(stolen, result.stolen)
			if !result.mute {
				wrong = max(wrong, result.truth.Worst())
			}
		}
		line(row.fault.name, len(gaps), ms(checks.Median(gaps)), ms(checks.Worst(gaps)), ms(row.fault.gap), acknowledged,
			lost, ms(overlap), ms(wrong), percent(idle), percent(stolen))
	}
	_ = table.Flush()
	fmt.Printf("apply to the first accepted write %s, to three instances streaming %s; agent memory %s\n",
		ms(f.firstWrite), ms(f.allStreaming), strings.Join(f.memory, ", "))
	if len(f.idle) > 0 {
		slices.Sort(f.idle)
		fmt.Println("requests to the API server in an idle minute, beyond those without the database: " +
			strings.Join(f.idle, ", "))
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// run is one fault, once: all well, traffic, the fault, writes again, the end of the fault, all well again.
func (f *failover) run(one fault) result {
	f.t.Helper()
	f.renewPods()
	time.Sleep(one.after)
	term, mute := f.term, one.mute || one.node && f.operatorIsOn(f.node)
	f.steer()
	f.startTraffic()
	f.startWitness()
	f.awaitShown(0, checks.FewestWrites/2, checks.FewestReads/2)
	f.awaitSteady("writes are accepted before " + one.name)
	times, before := checks.Times{Fault: f.traffic.Now()}, readTicks(f.t)
	undo := one.do(f)
	if one.moves {
		f.awaitTerm(term)
	}
	if !one.quiet {
		f.c.until("a client notices "+one.name, 30*time.Second, func(context.Context) (bool, string) {
			return f.traffic.Noticed(times.Fault) != "", "none does"
		})
	}
	f.awaitSteady("writes are accepted after " + one.name)
	idle, stolen := readTicks(f.t).share(before)
	if rest := one.hold - (f.traffic.Now() - times.Fault); rest > 0 {
		time.Sleep(rest)
	}
	if undo != nil {
		undo()
	}
	time.Sleep(2 * time.Second)
	f.awaitWell()
	f.awaitSteady("writes are accepted after all is well again")
	times.End = f.traffic.Now()
	noticed := f.traffic.Noticed(times.Fault)
	said := f.witness.stop()
	operations := f.endTraffic(times.Fault)
	result := result{
		Verdict: checks.Judge(operations, f.present(), times), truth: checks.Compare(said, operations, times.End), mute: mute,
		idle: idle, stolen: stolen,
	}
	switch {
	case one.moves && f.term == term:
		result.invalid = "the term is the same as before"
	case !one.moves && f.term != term:
		f.t.Errorf("%s: the primary has moved, which was not needed", one.name)
	case one.quiet && noticed != "":
		f.t.Errorf("%s: clients have noticed it: %s", one.name, noticed)
	}
	return result
}

// awaitSteady waits until writes are accepted and no client sees anything else any more.
func (f *failover) awaitSteady(what string) {
	f.t.Helper()
	f.c.until(what, 90*time.Second, func(context.Context) (bool, string) {
		return f.traffic.Steady(time.Second), "not all are"
	})
}
