//go:build cluster

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/test/e2e/checks"
)

// lagStrides is how much WAL the replica lacks when the primary is lost: 512 MiB.
const lagStrides = 32

// TestFailoverWithALaggingReplica loses the primary while one replica lacks half a gigabyte of WAL. The next primary
// has kept the WAL for it: the replica goes on from where it was, with the copy that it had.
func TestFailoverWithALaggingReplica(t *testing.T) {
	if *failoverFaults == "short" {
		t.Skip("it takes minutes; -faults=all does it")
	}
	f := newFailover(t, func(database *v1alpha1.GeoDatabase) {
		database.Spec.Storage.Size.Set(4 << 30)
		database.Spec.Extensions = nil
	})
	f.renewPods()
	primary, lost, term := f.before, f.node, f.term
	replicas := slices.DeleteFunc(f.instances(), func(instance string) bool { return instance == primary })
	lags, next := replicas[0], replicas[1]
	behind := f.pod(lags).Spec.NodeName
	f.steer()
	f.steerThrough(f.pod(next).Spec.NodeName)
	before := f.copyOf(lags)
	f.startTraffic()
	f.awaitSteady("writes are accepted before a replica lags")
	times := checks.Times{Fault: f.traffic.Now()}
	f.c.sandbox("node", "cut", f.number(behind))
	f.writeMuch()
	// Without slots, PostgreSQL keeps no more than wal_keep_size after these.
	for _, instance := range []string{primary, next} {
		f.within(instance, "psql", "-h", "/run/meridian", "-d", "postgres", "-Atc", "checkpoint")
	}
	f.c.sandbox("node", "stop", f.number(lost))
	f.c.sandbox("node", "heal", f.number(behind))
	f.awaitTerm(term)
	f.awaitSteady("writes are accepted after the primary was lost")
	gap := f.traffic.Now() - times.Fault
	f.c.sandbox("node", "start", f.number(lost))
	f.awaitWell()
	times.End = f.traffic.Now()
	verdict := checks.Judge(f.endTraffic(times.Fault), f.present(), times)
	t.Logf("%d MiB behind: %d acknowledged, %d lost, overlap %s, registers %s; longest gap %s, accepted again %s after "+
		"the cut", lagStrides*16, verdict.Acknowledged, len(verdict.Lost), ms(verdict.Overlap), verdict.Registers,
		ms(verdict.Gap), ms(gap))
	if problem := verdict.Bad() + verdict.Invalid(); problem != "" {
		t.Error(problem)
	}
	if after := f.copyOf(lags); after != before {
		t.Errorf("%s has the copy %s, and had %s: it was made anew", lags, after, before)
	}
	f.checkCopies()
}

// copyOf is which copy an instance has, by what its agent has noted beside it.
func (f *failover) copyOf(instance string) string {
	f.t.Helper()
	var record struct {
		Incarnation string `json:"incarnation"`
	}
	text := f.within(instance, "cat", "/var/lib/meridian/agent.json")
	if err := json.Unmarshal([]byte(text), &record); err != nil || record.Incarnation == "" {
		f.t.Fatalf("the record of %s names no copy: %s (%v)", instance, text, err)
	}
	return record.Incarnation
}

func (f *failover) writeMuch() {
	f.t.Helper()
	strides := 0
	f.c.until("half a gigabyte of WAL is written", 5*time.Minute, func(ctx context.Context) (bool, string) {
		err := f.exec(ctx, stride)
		if err == nil {
			strides++
		}
		return strides >= lagStrides, fmt.Sprint(strides, err)
	})
}
