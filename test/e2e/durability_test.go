//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/test/e2e/checks"
	processes "meridian.dev/meridian/test/e2e/faults"
)

// worth is what is expected of a mode when both replicas stand still for longer than the lease lasts.
type worth struct {
	mode v1alpha1.Durability
	// during is what the status says while they stand still; empty if nothing is to be acknowledged then.
	during v1alpha1.Durability
	// pauses says that writes wait for a while before they go on.
	pauses bool
}

var worths = []worth{
	{mode: v1alpha1.DurabilityAvailable, during: v1alpha1.DurabilityAsync, pauses: true},
	{mode: v1alpha1.DurabilityAsync, during: v1alpha1.DurabilityAsync},
	{mode: v1alpha1.DurabilityStrict},
}

// checkDurability has both replicas stand still in each mode: Available pauses and then goes on with one copy, Async
// goes on at once, Strict acknowledges nothing. When they are back every mode is as before, and nothing is lost in any.
func (f *failover) checkDurability() {
	f.t.Helper()
	for _, one := range worths {
		f.patch(fmt.Sprintf(`{"spec":{"durability":%q}}`, one.mode))
		f.awaitDurability(one.mode)
		f.tryDurability(one)
	}
}

func (f *failover) tryDurability(one worth) {
	f.t.Helper()
	f.renewPods()
	f.steer()
	f.startTraffic()
	f.awaitSteady(fmt.Sprintf("writes are accepted with %s", one.mode))
	var frozen []int
	for _, instance := range f.instances() {
		if instance != f.before {
			found, err := processes.Find(f.c.space, instance)
			if err != nil {
				f.t.Fatal(err)
			}
			frozen = append(frozen, found.All()...)
		}
	}
	times := checks.Times{Fault: f.traffic.Now()}
	f.signal(syscall.SIGSTOP, frozen...)
	// Once: when the test has ended, the numbers may be those of other processes.
	thaw := sync.OnceFunc(func() { f.signal(syscall.SIGCONT, frozen...) })
	f.t.Cleanup(thaw)
	if one.during == "" {
		f.checkNothingIsAcknowledged()
	} else {
		f.awaitOneCopy(one)
	}
	thaw()
	f.awaitWell()
	f.awaitDurability(one.mode)
	f.awaitSteady(fmt.Sprintf("writes are accepted with %s and all replicas", one.mode))
	times.End = f.traffic.Now()
	paused := f.traffic.Noticed(times.Fault) != ""
	if one.during != "" {
		f.awaitShown(0, checks.FewestWrites, checks.FewestReads)
	}
	verdict := checks.Judge(f.stopTraffic(), f.present(), times)
	f.t.Logf("%s, both replicas still: gap %s, acknowledged %d, failed %d, unknown %d, lost %d", one.mode,
		verdict.Gap.Round(time.Millisecond), verdict.Acknowledged, verdict.Failed, verdict.Unknown, len(verdict.Lost))
	problem := verdict.Bad()
	if one.during != "" {
		problem += verdict.Invalid() // Where nothing is acknowledged for most of the time, few are.
	}
	if problem != "" {
		f.t.Errorf("%s: %s", one.mode, problem)
	}
	if one.during != "" && paused != one.pauses {
		f.t.Errorf("%s: some writes were not acknowledged: %t, expected %t", one.mode, paused, one.pauses)
	}
}

// awaitOneCopy waits until writes go on without the replicas, and the status says with how many copies.
func (f *failover) awaitOneCopy(one worth) {
	f.t.Helper()
	if one.pauses {
		f.c.until("writes wait for the replicas", 10*time.Second, func(context.Context) (bool, string) {
			return !f.traffic.Steady(time.Second), "they do not"
		})
	}
	f.awaitSteady(fmt.Sprintf("writes go on with one copy, by %s", one.mode))
	f.awaitDurability(one.during)
	time.Sleep(5 * time.Second)
}

// checkNothingIsAcknowledged lets longer pass than the lease lasts.
func (f *failover) checkNothingIsAcknowledged() {
	f.t.Helper()
	// What was on its way to a replica when it stopped may still be acknowledged.
	time.Sleep(time.Second)
	before := f.traffic.Acknowledged()
	time.Sleep(20 * time.Second)
	if more := f.traffic.Acknowledged() - before; more != 0 {
		f.t.Errorf("Strict acknowledged %d writes without a replica", more)
	}
}

func (f *failover) awaitDurability(mode v1alpha1.Durability) {
	f.t.Helper()
	f.c.until(fmt.Sprintf("the status says %s", mode), time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		return database.Status.Durability == mode, string(database.Status.Durability)
	})
}
