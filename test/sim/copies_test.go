package sim_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"meridian.dev/meridian/test/sim"
)

// The holder is cut off, and is rewound when it is back, while the third member is off: the writes that wait for a
// quorum are not acknowledged by a copy that lacks WAL which the new primary alone has.
func TestARewoundCopyCountsWhenItIsWhole(t *testing.T) {
	const s = time.Second
	for seed := uint64(1); seed <= 40; seed++ {
		random := rand.New(rand.NewPCG(seed, 7))
		within := func(most time.Duration) time.Duration { return time.Duration(random.Int64N(int64(most))) }
		heals := sim.Began + 7*s + within(3*s)
		c := sim.Case{
			Name: "rewound copy that lacks WAL", Seed: seed, Instances: 3, Nodes: 3, Whole: true, Lease: 4 * s,
			Major: []int{15, 17}[seed%2], Last: heals + 20*s, Budget: 150 * s, Loud: true, Faults: []sim.Fault{
				{Kind: sim.FaultCut, At: sim.Began, Node: sim.Holder, For: heals - sim.Began},
				{Kind: sim.FaultPowerOff, At: heals + within(1500*time.Millisecond), Node: sim.LastReplica, For: 6 * s},
			},
		}
		if out := sim.Run(c, false); len(out.Problems) > 0 {
			report(t, c, out)
		}
	}
}

// A fresh copy of a primary whose gate was closed is elected: it has no WAL from before, and three of five copies need
// that. Each of them is a copy that the quorum needs, until one of them gives way to the others.
func TestCopiesThatWaitForEachOther(t *testing.T) {
	const s = time.Second
	given := 0
	for seed := uint64(1); seed <= 8; seed++ {
		c := sim.Case{
			Name: "copies that wait for each other", Seed: seed, Instances: 4, Nodes: 5, Whole: true,
			Last: sim.Began + 50*s, Budget: 150 * s, Loud: true, Faults: []sim.Fault{
				{Kind: sim.FaultPause, At: sim.Began, Node: sim.Holder, For: 20 * s},
				{Kind: sim.FaultPowerOff, At: sim.Began + 6*s, Node: sim.Replica, For: 20 * s},
				{Kind: sim.FaultHang, At: sim.Began - s, Node: sim.LastReplica, For: 16 * s},
				{Kind: sim.FaultWish, At: sim.Began + 2*s, Wish: 5},
				{Kind: sim.FaultPowerOff, At: sim.Began + 13500*time.Millisecond, Node: sim.Holder, For: 20 * s},
			},
		}
		out := sim.Run(c, false)
		if len(out.Problems) > 0 {
			report(t, c, out)
			continue
		}
		given += out.Discards
		t.Logf("seed %d: %d copies given up, %s without writes", seed, out.Discards, out.Gap)
	}
	if given == 0 {
		t.Error("no copy was ever given up")
	}
}
