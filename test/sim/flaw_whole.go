package sim

import (
	"cmp"
	"math/rand/v2"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/test/sim/databases"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/mistakes"
)

// wholeFlaws are what a review once found in the loop that runs a server, put back, and rules that the world without
// that loop could not show. Only a world with it, on a server that behaves as PostgreSQL does, can.
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
		{Bug: "a copy is rewound before others have what it has", Rule: "postgres.keep-the-last-copy",
			Pod: databases.Flaw{Hasty: true}, Aim: rewindTooSoon},
		{Bug: "a copy is rewound to WAL that its source has not flushed", Rule: "postgres.rewind-the-copy",
			Pod: databases.Flaw{Unflushed: true}, Aim: rewindAndForget},
		{Bug: "an answer in the middle of a rewind", Rule: "tenure.fence-before-answering",
			Blind: []rule.Rule{law.EnoughFenced}, Pod: databases.Flaw{Midway: true}, Aim: rewindAndLose},
		{Bug: "the lease is transferred before the server has ended", Rule: "tenure.hand-over",
			Blind: []rule.Rule{law.HandOverAll}, Aim: handOverAlive, Snapshot: sees(mistakes.EndedAlready)},
		{Bug: "copies that give way count each other", Rule: "postgres.keep-the-last-copy",
			Pod: databases.Flaw{Mutual: true}, Aim: waitForEachOther},
		{Bug: "a member has two senders", Rule: "postgres.enforce-the-quorum", Nodes: 5, Pod: databases.Flaw{Doubled: true}},
		{Bug: "a replica that waits for a lost timeline is promoted", Rule: "postgres.follow-only-a-judged-history",
			Nodes: 5, Pod: databases.Flaw{Astray: true}},
		{Bug: "a server that lets nobody in is waited for", Rule: "postgres.wait-for-the-server",
			Pod: databases.Flaw{Mute: true}, Aim: silenceAndLose},
		{Bug: "a promise counts from its reply", Rule: "tenure.lead-only-by-right", Modes: byClock, Nodes: 2,
			Aim: hearLate, State: func(l *sloppyLoop, event tenure.Event) {
				mistakes.CountFromTheReply(&l.state.Memory, event, l.ports.Clock.Now())
			}},
		{Bug: "a promise is forgotten by a restart", Rule: "tenure.promise-only-what-is-stored", Modes: byClock, Nodes: 2,
			Blind: []rule.Rule{law.KeepPromises}, Aim: lengthenAndForget, Snapshot: forgetPromise, Plan: promiseInMemory},
	}
	for index := range flaws {
		flaw := &flaws[index]
		aim := flaw.Aim
		flaw.Aim = func(c Case, random *rand.Rand) Case {
			if c = three(c); aim == nil {
				return c // Package swarms has it.
			}
			return aim(c, random)
		}
		flaw.Whole, flaw.Nodes = true, cmp.Or(flaw.Nodes, 3)
		if flaw.Modes == nil {
			flaw.Modes = strictly
		}
		if flaw.Kinds == nil {
			flaw.Kinds = []FaultKind{FaultCut, FaultPowerOff}
		}
	}
	return flaws
}

// promiseInMemory and forgetPromise keep a promise for the life of an agent.
func promiseInMemory(l *sloppyLoop, _ tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	for _, action := range actions {
		if store, ok := action.(tenure.Store); ok && store.Stored.Promise != nil {
			l.promised = true
		}
	}
	return actions
}

func forgetPromise(l *sloppyLoop, s *tenure.Snapshot) {
	if !l.promised {
		s.Stored.Promise = nil
	}
}

// hearLate stops the agent of a holder without its API server while a promise is on its way, for longer than that
// lasts, and keeps it from its peers when it goes on.
func hearLate(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.Lease = 2, 2, 4*time.Second
	frozen := began + 2*time.Second + within(random, 4*time.Second)
	holder := random.IntN(c.Nodes)
	c.Faults = []Fault{
		{Kind: FaultCutAPI, At: began, Node: holder, For: 40 * time.Second},
		{Kind: FaultFreeze, At: frozen, Node: holder, For: 6*time.Second + within(random, 3*time.Second)},
		{Kind: FaultCutPeers, At: frozen + 550*time.Millisecond, Node: holder, For: 20 * time.Second},
	}
	c.Last, c.Unsettled, c.Budget = began+50*time.Second, true, 5*time.Second
	return c
}

// lengthenAndForget makes the lease longer, which only the holder hears of; it loses its API server, is given a
// promise, and whoever gave it begins again, out of its reach.
func lengthenAndForget(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.Lease = 2, 2, 4*time.Second
	holder := random.IntN(c.Nodes)
	lost := began + 3*time.Second + within(random, 4*time.Second)
	begins := lost + 2*time.Second + within(random, 2*time.Second)
	c.Faults = []Fault{
		{Kind: FaultSettings, At: began - time.Second, Node: 1 - holder, For: 50 * time.Second},
		{Kind: FaultCutAPI, At: lost, Node: holder, For: 40 * time.Second},
		{Kind: FaultLease, At: lost - within(random, 2*time.Second), Wish: 2},
		{Kind: FaultCutPeers, At: begins, Node: holder, For: 40 * time.Second},
		{Kind: FaultCrash, At: begins + 600*time.Millisecond, Node: 1 - holder},
	}
	c.Last, c.Unsettled, c.Budget = began+50*time.Second, true, 5*time.Second
	return c
}

// rewindAndLose has the holder cut off, and one that lacks what it has acknowledged lose power when it has answered the
// ballot. The holder comes back, and is rewound to the next one when that could not open for long, which loses power in
// the middle of it.
func rewindAndLose(c Case, random *rand.Rand) Case {
	c.Lease = 4 * time.Second
	cut := began + 3*time.Second + within(random, 2*time.Second)
	lost := cut + 22*time.Second + within(random, 4*time.Second)
	c.Last, c.Faults = lost+35*time.Second, []Fault{
		{Kind: FaultPowerOff, At: cut - time.Second - within(random, time.Second), Node: LastReplica, For: 2 * time.Second},
		{Kind: FaultPowerOff, Point: PointAnswer, Node: random.IntN(3), For: 20 * time.Second},
		{Kind: FaultCut, At: cut, Node: Holder, For: 7 * time.Second},
		{Kind: FaultPowerOff, At: lost, Node: Holder, For: 30 * time.Second},
	}
	return c
}

// handOverAlive tells the holder to end while the loop of its server hangs, so that applications stay, and keeps what
// it writes from one of the others while the lease is on its way to that.
func handOverAlive(c Case, random *rand.Rand) Case {
	ends := began + within(random, 2*time.Second)
	c.Last, c.Budget, c.Faults = ends+40*time.Second, 150*time.Second, []Fault{
		{Kind: FaultHang, At: ends, Node: Holder, For: 30 * time.Second},
		{Kind: FaultTerminate, At: ends, Node: Holder},
		{Kind: FaultCutOneWay, At: ends + 10*time.Second + within(random, time.Second), Node: Holder, Other: random.IntN(2),
			For: 20 * time.Second},
	}
	for node := range 3 {
		c.Faults = append(c.Faults, Fault{Kind: FaultLate, Point: PointTransfer, Node: node,
			For: time.Second + within(random, 2*time.Second)})
	}
	return c
}

// rewindTooSoon has the holder cut off, and back when another one leads, while the disk of the third hangs, which was
// off, lacks what those two have acknowledged, and has answered the ballot.
func rewindTooSoon(c Case, random *rand.Rand) Case {
	c.Lease = 4 * time.Second
	cut := began + 3*time.Second + within(random, 2*time.Second)
	heals := cut + 5*time.Second + within(random, 4*time.Second)
	c.Last, c.Faults = heals+30*time.Second, []Fault{
		{Kind: FaultPowerOff, At: cut - time.Second - within(random, time.Second), Node: LastReplica, For: 2 * time.Second},
		{Kind: FaultDisk, Point: PointAnswer, Node: random.IntN(3), For: 12 * time.Second},
		{Kind: FaultCut, At: cut, Node: Holder, For: heals - cut},
	}
	return c
}

// waitForEachOther has a fifth member made from a primary of four that no other one follows yet, and has that one lead:
// it has no WAL from before, which the others need.
func waitForEachOther(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances = 5, 4
	lost := began + within(random, time.Second)
	c.Faults = []Fault{
		{Kind: FaultPause, At: lost, Node: Holder, For: 20 * time.Second},
		{Kind: FaultPowerOff, At: lost + 6*time.Second, Node: Replica, For: 20 * time.Second},
		{Kind: FaultHang, At: lost - time.Second, Node: LastReplica, For: 16 * time.Second},
		{Kind: FaultWish, At: lost + 2*time.Second, Wish: 5},
		{Kind: FaultPowerOff, At: lost + 13500*time.Millisecond, Node: Holder, For: 20 * time.Second},
	}
	c.Last, c.Budget = lost+50*time.Second, 150*time.Second
	return c
}

// silenceAndLose starts both replicas again while a long transaction is open, and has the holder lose power.
func silenceAndLose(c Case, random *rand.Rand) Case {
	starts, lost := began+5*time.Second+within(random, 2*time.Second), began+14*time.Second+within(random, 4*time.Second)
	c.Last, c.Unsettled, c.Budget = lost+40*time.Second, false, time.Minute
	c.Faults = []Fault{
		{Kind: FaultLong, At: began, For: time.Minute},
		{Kind: FaultPowerOff, At: starts, Node: Replica, For: time.Second},
		{Kind: FaultPowerOff, At: starts + within(random, 2*time.Second), Node: LastReplica, For: time.Second},
		{Kind: FaultPowerOff, At: lost, Node: Holder, For: 25 * time.Second},
	}
	return c
}

// rewindAndForget cuts the holder off until another one leads, whose disk hangs while the first is made to fit it, and
// whose machine loses power for a moment before the disk answers.
func rewindAndForget(c Case, random *rand.Rand) Case {
	cut := began + within(random, 2*time.Second)
	hangs := cut + 16*time.Second + within(random, time.Second)
	c.Last, c.Faults = hangs+30*time.Second, []Fault{
		{Kind: FaultCut, At: cut, Node: Holder, For: 16 * time.Second},
		{Kind: FaultDisk, At: hangs, Node: Holder, For: 2700 * time.Millisecond},
		{Kind: FaultPowerOff, At: hangs + 2600*time.Millisecond, Node: Holder, For: 500 * time.Millisecond},
	}
	return c
}

func three(c Case) Case {
	c.Nodes, c.Instances, c.WildClocks, c.SlowClock, c.Lag, c.Lease = 3, 3, false, false, false, leaseLasts
	return c
}

// stayAndSayNothing has connections to all servers that say nothing, while the holder loses power.
func stayAndSayNothing(c Case, random *rand.Rand) Case {
	lost := began + within(random, 5*time.Second)
	c.Faults = []Fault{{Kind: FaultPowerOff, At: lost, Node: Holder, For: 50 * time.Second}}
	for node := range c.Nodes {
		c.Faults = append(c.Faults, Fault{Kind: FaultSilent, At: began - time.Second, Node: node, For: 40 * time.Second})
	}
	c.Last = lost + 40*time.Second
	return c
}

// lagAndFailOver keeps a replica from the others while much is written, and takes the holder away before it is back.
func lagAndFailOver(c Case, random *rand.Rand) Case {
	c.Last, c.Faults = began+90*time.Second, []Fault{
		{Kind: FaultCut, At: began, Node: LastReplica, For: 45 * time.Second},
		{Kind: FaultMuch, At: began + 2*time.Second + within(random, 3*time.Second), Node: Holder, Wish: 4},
		{Kind: FaultPowerOff, At: began + within(random, 5*time.Second) + 20*time.Second, Node: Holder, For: time.Minute},
	}
	return c
}

// rewindEarly cuts a holder off until another one leads, whose first checkpoint takes long.
func rewindEarly(c Case, random *rand.Rand) Case {
	cut := began + within(random, 5*time.Second)
	c.Lease, c.Major, c.Last = 4*time.Second, 15, cut+70*time.Second
	c.Faults = []Fault{{Kind: FaultCut, At: cut, Node: Holder, For: 12 * time.Second}}
	for node := range c.Nodes {
		c.Faults = append(c.Faults, Fault{Kind: FaultCheckpoint, At: cut, Node: node, For: 60 * time.Second})
	}
	return c
}
