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
