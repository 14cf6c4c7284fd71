package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/test/sim/caches"
	"meridian.dev/meridian/test/sim/databases"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/mistakes"
)

// Bug is the name of a flaw.
type Bug string

// Flaw is a rule broken on purpose: in what the loop hears, believes or does, or in the model of the server.
type Flaw struct {
	Bug  Bug
	Rule string // The id of the rule that it breaks.
	// Modes are the modes that it is looked for in, Strict if there are none; Kinds are the faults to look among.
	Modes []tenure.Durability
	Kinds []FaultKind
	Nodes int
	// Blind are invariants of the world that see only the means: without them the consequence must show.
	Blind []rule.Rule

	Event    func(*sloppyLoop, tenure.Event) tenure.Event
	State    func(*sloppyLoop, tenure.Event)
	Snapshot func(*sloppyLoop, *tenure.Snapshot)
	Plan     func(*sloppyLoop, tenure.Snapshot, []tenure.Action) []tenure.Action
	// Points are places of which one each has a fault.
	Points []PointKind
	// Aim makes the schedule, where faults at random find the flaw too seldom; nil if they do, or package swarms has it.
	Aim func(Case, *rand.Rand) Case
	// Gap is how long writes may be unavailable; longer gives the flaw away.
	Gap time.Duration
	// Discards says that a copy which is given up gives the flaw away.
	Discards bool
	// Usurps lets the server lead without a right.
	Usurps bool
	// Cache is what is broken in a cache; Volatile says that the flaw is looked for in one.
	Cache    caches.Flaw
	Volatile bool
	// Pod is what is broken beside the loop of a server; Whole says that the flaw is looked for where that runs.
	Pod   databases.Flaw
	Whole bool
}

// Flaws of the models.
const (
	BugNoWatchdog         Bug = "no watchdog"
	BugReloadIsABarrier   Bug = "a reload is taken for a barrier"
	BugOldSenders         Bug = "k raised without replacing senders"
	BugNoCheckpoint       Bug = "from nobody to a set without a checkpoint"
	BugFenceWithoutProof  Bug = "fenced without proof that the receiver is gone"
	BugIncarnationStays   Bug = "a clone keeps the incarnation"
	BugAnswerBeforeReplay Bug = "answered before replay has ended"
	BugTimelineNotTaken   Bug = "promoted to the next free timeline"
	BugOpenAtOnce         Bug = "gate open at once"
	BugOrphanBackend      Bug = "only the postmaster is killed"
	BugFenceInMemory      Bug = "fence in memory only"
	BugStoreLast          Bug = "what is stored is stored last"
	BugClaimIgnored       Bug = "a volume that was put back counts as what it was"
	BugFollowUnjudged     Bug = "a diverged copy follows by the name of a member"
	BugRouteOfAnyTerm     Bug = "write address taken back by an old term"
)

func flawOf(bug Bug) Flaw {
	for _, flaw := range Flaws() {
		if flaw.Bug == bug {
			return flaw
		}
	}
	return Flaw{Bug: bug}
}

var (
	strictly = []tenure.Durability{tenure.Strict}
	byClock  = []tenure.Durability{tenure.Async}
	// answerThenTake hits whoever has answered, while the write that takes the lease is long on its way.
	answerThenTake = []PointKind{PointAnswer, PointTake}
)

// Flaws are all of them.
func Flaws() []Flaw {
	return slices.Concat(modelFlaws(), quorumFlaws(), leaseFlaws(), electionFlaws(), promiseFlaws(), yieldFlaws(),
		orphanFlaws(), cacheFlaws(), wholeFlaws())
}

func modelFlaws() []Flaw {
	moves := []FaultKind{FaultWish, FaultPowerOff, FaultCut, FaultFreezePod, FaultCutPeers}
	return []Flaw{
		{Bug: BugNoWatchdog, Rule: "tenure.stop-at-the-deadline", Modes: byClock, Kinds: []FaultKind{FaultFreeze, FaultCut}},
		{Bug: BugOrphanBackend, Rule: "tenure.stop-at-the-deadline", Modes: byClock,
			Kinds: []FaultKind{FaultFreeze, FaultCut}},
		{Bug: BugReloadIsABarrier, Rule: "postgres.enforce-the-quorum", Modes: strictly, Nodes: 5, Kinds: moves},
		{Bug: BugOldSenders, Rule: "postgres.enforce-the-quorum", Modes: strictly, Nodes: 5, Kinds: moves},
		{Bug: BugNoCheckpoint, Rule: "postgres.enforce-the-quorum", Modes: strictly, Nodes: 3, Kinds: moves},
		{Bug: BugFenceWithoutProof, Rule: "tenure.fence-before-answering", Modes: strictly, Blind: []rule.Rule{law.Fenced},
			Kinds: []FaultKind{FaultCutAPI, FaultFreeze, FaultFreezePod}},
		{Bug: BugIncarnationStays, Rule: "tenure.count-only-the-own-copy", Modes: strictly, Nodes: 3, Points: answerThenTake,
			Kinds: []FaultKind{FaultFreezePod, FaultCutAPI}},
		{Bug: BugClaimIgnored, Rule: "tenure.count-only-the-own-copy", Modes: strictly,
			Kinds: []FaultKind{FaultPutBack, FaultPowerOff}, Aim: putBackAndLose},
		{Bug: BugAnswerBeforeReplay, Rule: "tenure.tell-only-a-known-position", Modes: strictly,
			Kinds: []FaultKind{FaultAllCrash, FaultPowerOff, FaultCrash}},
		{Bug: BugTimelineNotTaken, Rule: "tenure.reserve-the-next-timeline", Modes: strictly,
			Kinds: []FaultKind{FaultPowerOff, FaultCut, FaultFreezePod}},
		{Bug: BugOpenAtOnce, Rule: "tenure.open-only-with-the-quorum", Modes: strictly,
			Kinds: []FaultKind{FaultPowerOff, FaultKillServer, FaultCrash, FaultCutPeers}},
		{Bug: BugFenceInMemory, Rule: "tenure.fence-before-answering", Modes: strictly, Points: answerThenTake,
			Blind: []rule.Rule{law.EnoughFenced}, Kinds: []FaultKind{FaultFreezePod, FaultCutAPI, FaultCrash}},
		{Bug: BugFollowUnjudged, Rule: "postgres.follow-only-a-judged-history", Modes: strictly, Nodes: 3,
			Blind: []rule.Rule{law.OneTimeline, law.SameWAL, law.LeadOnce},
			Kinds: []FaultKind{FaultCut, FaultPowerOff}, Aim: divergeAndLose},
		{Bug: BugRouteOfAnyTerm, Rule: "tenure.route-only-for-the-own-term",
			Kinds: []FaultKind{FaultCut, FaultFreeze, FaultCutAPI}},
	}
}

// divergeAndLose cuts a holder off until another one leads, and lets it come back with its tail while the third member
// is away; then the new holder loses power, and the third member is there again.
func divergeAndLose(c Case, random *rand.Rand) Case {
	c.Nodes, c.Instances, c.WildClocks, c.SlowClock, c.Lag, c.Lease = 3, 3, false, false, false, 4*time.Second
	cut := began + within(random, 5*time.Second)
	heals := cut + 5*time.Second + within(random, 4*time.Second)
	c.Faults = []Fault{
		{Kind: FaultCut, At: cut, Node: Holder, For: heals - cut},
		{Kind: FaultPowerOff, At: heals - within(random, time.Second), Node: Replica - 2*random.IntN(2),
			For: 3 * time.Second},
		{Kind: FaultPowerOff, At: heals + within(random, 3*time.Second), Node: Holder, For: 40 * time.Second},
	}
	c.Last, c.Unsettled, c.Budget = heals+50*time.Second, true, 5*time.Second
	return c
}

// within is a moment of a span.
func within(random *rand.Rand, span time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(span)))
}

func quorumFlaws() []Flaw {
	moves := []FaultKind{FaultWish, FaultPowerOff, FaultCut, FaultFreezePod, FaultVolumeLost, FaultCutPeers}
	return []Flaw{
		{Bug: "a new member is waited for before it is recorded", Rule: "tenure.keep-the-quorum", Modes: strictly, Nodes: 5,
			Kinds: moves, Plan: addToServerFirst},
		{Bug: "a member is recorded as gone before the server knows", Rule: "tenure.keep-the-quorum", Modes: strictly,
			Nodes: 3, Kinds: moves, Plan: plans(mistakes.TakeOutOfRecordFirst)},
		{Bug: "W raised in the record first", Rule: "tenure.keep-the-quorum", Modes: strictly, Nodes: 5, Kinds: moves,
			Plan: plans(mistakes.RaiseRecordFirst)},
		{Bug: "W lowered at the server first", Rule: "tenure.keep-the-quorum", Modes: []tenure.Durability{tenure.Available},
			Nodes: 3, Kinds: []FaultKind{FaultPowerOff, FaultCutPeers, FaultFreezePod, FaultCut}, Plan: lowerServerFirst},
		{Bug: "no catch-up after a barrier", Rule: "tenure.keep-the-quorum", Modes: strictly, Nodes: 3, Kinds: moves,
			Aim: shrinkAndLose,
			Snapshot: func(_ *sloppyLoop, s *tenure.Snapshot) {
				if s.Engine.Leading != nil {
					leading := *s.Engine.Leading
					leading.Barrier = min(leading.Barrier, 1)
					s.Engine.Leading = &leading
				}
			}},
		{Bug: "a take-over leaves out who did not answer", Rule: "tenure.carry-the-quorum-over", Modes: strictly,
			Kinds: moves, Plan: plans(mistakes.DropTheSilent)},
	}
}

func addToServerFirst(l *sloppyLoop, s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	return mistakes.Edit(actions, func(action tenure.Action) []tenure.Action {
		write, ok := action.(tenure.WriteLease)
		if !ok || write.Kind != tenure.WriteRecord || s.Lease.Record == nil ||
			len(write.Record.Members) <= len(s.Lease.Record.Members) || !l.hesitates(4*time.Second) {
			return []tenure.Action{action}
		}
		standing := s.Standing
		standing.Setting.Names = slices.DeleteFunc(slices.Clone(write.Record.Members), func(m wire.Member) bool {
			return m == s.Self()
		})
		return []tenure.Action{tenure.Obey{Standing: standing}}
	})
}

func lowerServerFirst(l *sloppyLoop, s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	return mistakes.Edit(actions, func(action tenure.Action) []tenure.Action {
		write, ok := action.(tenure.WriteLease)
		if !ok || write.Kind != tenure.WriteRecord || s.Lease.Record == nil || write.Record.W >= s.Lease.Record.W ||
			!l.hesitates(8*time.Second) {
			return []tenure.Action{action}
		}
		standing := s.Standing
		standing.Setting.K = write.Record.W - 1
		return []tenure.Action{tenure.Obey{Standing: standing}}
	})
}
