package sim

import (
	"math/rand/v2"
	"time"

	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/test/sim/databases"
	"meridian.dev/meridian/test/sim/law"
)

// wholeFlaws are what a review once found in the loop that runs a server, put back. Only a world with that loop, on a
// server that behaves as PostgreSQL does, can show them.
func wholeFlaws() []Flaw {
	flaws := []Flaw{
		{Bug: "a diverged copy passes for a part of the history", Rule: "postgres.follow-only-a-judged-history",
			Blind: []rule.Rule{law.OneTimeline, law.SameWAL, law.LeadOnce},
			Pod:   databases.Flaw{Unjudged: true}, Aim: divergeAndLose},
		{Bug: "silent connections keep a replica from answering", Rule: "tenure.fence-before-answering",
			Gap: leaseLasts + 3*time.Second, Pod: databases.Flaw{Silent: true}, Aim: stayAndSayNothing},
		{Bug: "standbys keep no WAL for other members", Rule: "postgres.keep-slots", Discards: true,
			Pod: databases.Flaw{NoPlaces: true}, Aim: lagAndFailOver},
		{Bug: "a rewind that did nothing counts as done", Rule: "sim.rewind-once", Pod: databases.Flaw{Early: true},
			Aim: rewindEarly},
	}
	for index := range flaws {
		flaws[index].Whole, flaws[index].Modes, flaws[index].Nodes = true, strictly, 3
		flaws[index].Kinds = []FaultKind{FaultCut, FaultPowerOff}
	}
	return flaws
}

func three(c Case) Case {
	c.Nodes, c.Instances, c.WildClocks, c.SlowClock, c.Lag, c.Lease = 3, 3, false, false, false, leaseLasts
	return c
}

// stayAndSayNothing has connections to all servers that say nothing, while the holder loses power.
func stayAndSayNothing(c Case, random *rand.Rand) Case {
	c = three(c)
	lost := began + time.Duration(random.Int64N(int64(5*time.Second)))
	c.Faults = []Fault{{Kind: FaultPowerOff, At: lost, Node: Holder, For: 50 * time.Second}}
	for node := range c.Nodes {
		c.Faults = append(c.Faults, Fault{Kind: FaultSilent, At: began - time.Second, Node: node, For: 40 * time.Second})
	}
	c.Last = lost + 40*time.Second
	return c
}

// lagAndFailOver keeps a replica from the others while much is written, and takes the holder away before it is back.
func lagAndFailOver(c Case, random *rand.Rand) Case {
	c = three(c)
	within := func(span time.Duration) time.Duration { return time.Duration(random.Int64N(int64(span))) }
	c.Faults = []Fault{
		{Kind: FaultCut, At: began, Node: LastReplica, For: 45 * time.Second},
		{Kind: FaultMuch, At: began + 2*time.Second + within(3*time.Second), Node: Holder, Wish: 4},
		{Kind: FaultPowerOff, At: began + 20*time.Second + within(5*time.Second), Node: Holder, For: 50 * time.Second},
	}
	c.Last = began + 90*time.Second
	return c
}

// rewindEarly cuts a holder off until another one leads, whose first checkpoint takes long.
func rewindEarly(c Case, random *rand.Rand) Case {
	c = three(c)
	c.Lease, c.Major = 4*time.Second, 15
	cut := began + time.Duration(random.Int64N(int64(5*time.Second)))
	c.Faults = []Fault{{Kind: FaultCut, At: cut, Node: Holder, For: 12 * time.Second}}
	for node := range c.Nodes {
		c.Faults = append(c.Faults, Fault{Kind: FaultCheckpoint, At: cut, Node: node, For: 60 * time.Second})
	}
	c.Last = cut + 70*time.Second
	return c
}
