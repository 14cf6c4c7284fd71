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
	failoverRuns   = flag.Int("runs", 1, "how often each fault is tried")
	failoverFaults = flag.String("faults", "short", "short, all, or names of faults with commas between")
)

// fault is something that goes wrong, and what may be expected then.
type fault struct {
	name string
	// short says that it is in the list of every run.
	short bool
	// gap is the promise: how long writes may be unavailable. Hold is how long the fault lasts before it is undone.
	gap, hold time.Duration
	// moves says that another instance must lead afterwards; quiet that no client may notice anything.
	moves, quiet bool
	// do does it, and returns how to undo it.
	do func(*failover) (undo func())
}

// faults are those of the table of the design.
var faults = []fault{
	{name: "switchover", short: true, moves: true, gap: 2 * time.Second, do: (*failover).askSwitchover},
	{name: "pod delete", short: true, moves: true, gap: 2 * time.Second, do: (*failover).deletePod},
	{name: "kill -9 postmaster", short: true, gap: 5 * time.Second, do: (*failover).killPostmaster},
	{name: "kill -9 agent", short: true, gap: 5 * time.Second, do: (*failover).killAgent},
	{
		name: "freeze postgres 30 s", moves: true, gap: 13 * time.Second, hold: 30 * time.Second,
		do: (*failover).freezeServer,
	},
	{name: "freeze pod 30 s", moves: true, gap: 13 * time.Second, hold: 30 * time.Second, do: (*failover).freezePod},
	{
		name: "node power-off", short: true, moves: true, gap: 13 * time.Second, hold: 20 * time.Second,
		do: (*failover).stopNode,
	},
	{
		name: "node cut from all", short: true, moves: true, gap: 13 * time.Second, hold: 30 * time.Second,
		do: (*failover).cutNode,
	},
	{
		name: "node cut from API", quiet: true, gap: time.Second, hold: 30 * time.Second,
		do: (*failover).cutNodeFromAPI,
	},
	{name: "API server away 60 s", quiet: true, gap: time.Second, hold: 60 * time.Second, do: (*failover).stopAPI},
	{
		name: "API away 60 s and a replica dead", quiet: true, gap: time.Second, hold: 60 * time.Second,
		do: (*failover).stopAPIWithADeadReplica,
	},
	{
		name: "operator away and node power-off", moves: true, gap: 13 * time.Second, hold: 20 * time.Second,
		do: (*failover).stopNodeAlone,
	},
}

// row is a line of the table.
type row struct {
	fault    fault
	verdicts []checks.Verdict
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
		result := row{fault: one}
		for run := range *failoverRuns {
			verdict, shows := f.run(one)
			t.Logf("%s, run %d: gap %s, acknowledged %d, unknown %d, failed %d, lost %d, overlap %s, registers %s",
				one.name, run+1, verdict.Gap.Round(time.Millisecond), verdict.Acknowledged, verdict.Unknown, verdict.Failed,
				len(verdict.Lost), verdict.Overlap, verdict.Registers)
			if problem := verdict.Bad(); problem != "" {
				t.Errorf("%s: %s", one.name, problem)
			}
			if problem := verdict.Invalid() + shows; problem != "" {
				t.Fatalf("%s: this run shows nothing: %s", one.name, problem)
			}
			result.verdicts = append(result.verdicts, verdict)
		}
		rows = append(rows, result)
	}
	f.checkCopies()
	printRows(t, f, rows)
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
	line("FAULT", "RUNS", "GAP MEDIAN", "GAP WORST", "PROMISED", "ACKNOWLEDGED", "LOST", "OVERLAP")
	for _, row := range rows {
		var gaps []time.Duration
		acknowledged, lost, overlap := 0, 0, time.Duration(0)
		for _, verdict := range row.verdicts {
			gaps = append(gaps, verdict.Gap)
			acknowledged += verdict.Acknowledged
			lost += len(verdict.Lost)
			overlap = max(overlap, verdict.Overlap)
		}
		line(row.fault.name, len(gaps), ms(checks.Median(gaps)), ms(checks.Worst(gaps)), ms(row.fault.gap), acknowledged,
			lost, ms(overlap))
	}
	_ = table.Flush()
	fmt.Printf("apply to the first accepted write %s, to three instances streaming %s; agent memory %s\n",
		ms(f.firstWrite), ms(f.allStreaming), strings.Join(f.memory, ", "))
	if len(f.idle) > 0 {
		slices.Sort(f.idle)
		fmt.Println("requests to the API server in an idle minute, the cluster's own included: " + strings.Join(f.idle, ", "))
	}
}

func ms(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }

// run is one fault, once: all well, traffic, the fault, writes again, the end of the fault, all well again.
func (f *failover) run(one fault) (verdict checks.Verdict, invalid string) {
	f.t.Helper()
	f.awaitWell()
	term := f.term
	f.steer()
	f.startTraffic()
	time.Sleep(2 * time.Second)
	at := f.traffic.Now()
	undo := one.do(f)
	if one.moves {
		f.awaitTerm(term)
	}
	f.c.until("writes are accepted after "+one.name, 90*time.Second, func(context.Context) (bool, string) {
		return f.traffic.AcknowledgedSince(f.traffic.Now() - 300*time.Millisecond), "none is"
	})
	if rest := one.hold - (f.traffic.Now() - at); rest > 0 {
		time.Sleep(rest)
	}
	if undo != nil {
		undo()
	}
	time.Sleep(2 * time.Second)
	f.awaitWell()
	verdict = checks.Judge(f.stopTraffic(), f.present(), at)
	switch {
	case one.moves && f.term == term:
		invalid = "the term is the same as before"
	case !one.moves && f.term != term:
		f.t.Errorf("%s: the primary has moved, which was not needed", one.name)
	case !one.quiet && verdict.Unknown+verdict.Failed == 0:
		invalid = "no client has noticed the fault"
	}
	return verdict, invalid
}
