// Package law names what the simulators check, with ids beside those of the loops: what must hold in the world, whoever
// has decided what. It has no code of its own, so that the page of rules can be generated from it.
//
// Start reading at World.
package law

import "meridian.dev/meridian/kit/rule"

func law(id, why string, was ...string) rule.Rule { return rule.Rule{ID: id, Why: why, Was: was} }

// What the simulator of leases checks after every step, of databases and of caches.
var (
	OneWriter = law("sim.one-writer",
		"nobody acknowledges a write after a later term has let applications in, unless the later primary has it", "W1")
	OpenFirst = law("sim.open-before-acknowledging",
		"a primary acknowledges nothing before its gate has opened", "G1")
	LoseNothing = law("sim.lose-no-acknowledged-write",
		"whoever takes the lease or opens has every write that was acknowledged or read", "D1")
	TermsGrow    = law("sim.terms-only-grow", "a write of the lease never takes its term back", "L2")
	LaterTerm    = law("sim.write-no-earlier-term", "what is written into a lease has a term above all before", "O3")
	OneTimeline  = law("sim.one-timeline-a-term", "the timeline does not change within a term", "T1")
	SameWAL      = law("sim.equal-positions-equal-wal", "equal positions mean equal content", "T1")
	LeadOnce     = law("sim.lead-once-on-a-timeline", "no two copies lead on the same timeline", "T1")
	HandOverAll  = law("sim.hand-over-everything", "the target of a switchover has every write", "S1")
	RecoverAlone = law("sim.recover-only-alone", "nobody else leads where a holder recovers its lost lease", "O1")
	RecoverByAll = law("sim.recover-only-with-all-answers",
		"a lost lease is taken only with every member of the last record fenced", "O2")
	NotRestored = law("sim.take-no-restored-lease",
		"nobody takes a lease of which an answer has told that it was restored", "O3")
	EnoughFenced = law("sim.take-only-with-enough-fenced",
		"a take-over has enough members fenced at that very version", "E4")
	Fenced    = law("sim.receive-nothing-behind-a-fence", "nothing reaches a fenced copy", "F1")
	LastCopy  = law("sim.keep-the-last-copy", "the last copy of an acknowledged write is never destroyed", "I2")
	TwoCopies = law("sim.keep-two-copies",
		"a copy is not rewound while it is one of two with an acknowledged write, and another replica takes that write")
	EnoughCopies = law("sim.keep-enough-copies",
		"a member gives its copy up only while as many others as a write quorum have each acknowledged write that it has")
	WholeCopies = law("sim.acknowledge-on-whole-copies",
		"a write is not acknowledged by a copy that was rewound and lacks WAL which its source alone has")
	ForgetNoTerm  = law("sim.forget-no-term", "a volume never forgets a term", "M1")
	RouteForward  = law("sim.route-never-back", "the write address never goes back to an earlier term", "R1")
	KeepPromises  = law("sim.keep-promises", "nobody answers a ballot against its promise", "P1")
	Readable      = law("sim.write-only-readable-records", "what is written into a lease can be read", "A1")
	Storable      = law("sim.store-only-readable-state", "what is stored on a volume can be read again", "A2")
	Settle        = law("sim.settle", "once faults stop, a primary is open and all instances follow it", "L1")
	StaySettled   = law("sim.stay-settled", "a settled world stays settled", "L2")
	BeQuiet       = law("sim.be-quiet-when-settled", "in a settled world nothing is done but renewals", "L3")
	PostgresCheck = law("sim.refuse-no-postgres-plan", "the check of the postgres loop refuses no plan of its own",
		"CHECK-P")
	RewindOnce  = law("sim.rewind-once", "a copy is not rewound again and again", "R3")
	RedisCheck  = law("sim.refuse-no-redis-plan", "the check of the redis loop refuses no plan of its own", "CHECK-R")
	Acknowledge = law("sim.acknowledge-writes", "a settled world acknowledges writes", "L4")
)

// What is checked of caches alone, whose writes may be lost.
var (
	StartAlone  = law("sim.start-no-second-server", "two servers never run in one pod", "R2")
	AnswerFresh = law("sim.answer-nothing-old",
		"no answer lacks a write that was acknowledged longer ago than the stated bound", "V3")
	StayEmptied  = law("sim.bring-no-flushed-value-back", "nobody leads with values from before a flush", "V6")
	LeadWithData = law("sim.lead-only-with-data", "nobody stands or leads without the data", "V1")
	LeadYoung    = law("sim.lead-only-with-a-young-copy", "nobody leads with a copy that is older than two leases", "V4")
	SameHistory  = law("sim.continue-only-the-same-history", "whoever goes on from an offset has the same history", "T1")
	KeepData     = law("sim.keep-data-for-a-primary",
		"no full replica gives its data up for a server that never led, was deposed, or lost its data", "V5")
	BeginAlone = law("sim.begin-only-without-a-young-copy",
		"nobody begins an empty dataset while a member with a young copy is well", "V2")
)

// World is all that the simulator of leases checks.
func World() []rule.Rule {
	return []rule.Rule{
		OneWriter, OpenFirst, LoseNothing, TermsGrow, LaterTerm, OneTimeline, SameWAL, LeadOnce, HandOverAll, RecoverAlone,
		RecoverByAll, NotRestored, EnoughFenced, Fenced, LastCopy, TwoCopies, EnoughCopies, WholeCopies, ForgetNoTerm,
		RouteForward, KeepPromises, Readable, Storable, Settle, StaySettled, BeQuiet, PostgresCheck, RedisCheck, RewindOnce,
		Acknowledge, StartAlone, AnswerFresh, StayEmptied, LeadWithData, LeadYoung, SameHistory, KeepData, BeginAlone,
	}
}

// What the simulator of operators checks at every write and in the end.
var (
	Conditional    = law("lives.write-conditionally", "every write names the version that it was decided on", "L1")
	Allowed        = law("lives.keep-to-the-rights", "nothing is written beyond the generated rights", "L2")
	LeaveStrangers = law("lives.touch-nothing-foreign", "nothing of another owner is touched", "L3")
	TakeNoCopy     = law("lives.remove-no-counted-copy", "an instance that a quorum counts on is not removed", "L4")
	StopOne        = law("lives.stop-one-replica", "a primary is not stopped, and never two instances at a time", "L5")
	KeepClaims     = law("lives.keep-claims", "a claim goes only by the word of the spec, and never the last copy", "L6")
	ReplaceNone    = law("lives.replace-no-volume", "no empty volume takes the place of one that had data", "L7")
	LeaseOnce      = law("lives.create-the-lease-once",
		"the lease is made once, or in the place of the one that was lost", "L8")
	MakeWished  = law("lives.create-only-listed-instances", "an instance is made only if the settings list it", "L9")
	KeepRecord  = law("lives.keep-the-record", "what is known for good stays in the settings", "L10")
	KeepSecrets = law("lives.create-secrets-once",
		"secrets are made once, and again for a new token only, once", "L11")
	GoLast   = law("lives.finish-deletion-first", "a database goes when all is cleaned up that has to be", "L12")
	Fits     = law("lives.fit-the-container", "a server fits into its container", "L13")
	FewMoves = law("lives.restart-no-more-than-needed",
		"each instance ends, and the primary moves, no more often than the change needs", "L14")
	Reach      = law("lives.reach-the-spec", "what the spec asks for is reached", "L15")
	KnownLogin = law("lives.publish-only-a-known-login", "a login is published when every instance knows it", "L16")
	Trusted    = law("lives.present-only-what-is-trusted", "applications trust what servers present", "L17")
	TryBeside  = law("lives.try-beside-the-instances",
		"there is one restore on trial at a time, and nobody takes its pod for an instance", "L18")
	TellTrial = law("lives.tell-how-a-trial-ended",
		"how a restore on trial has ended is written down before its pod goes", "L19")
)

// Lives is all that the simulator of operators checks.
func Lives() []rule.Rule {
	return []rule.Rule{
		Conditional, Allowed, LeaveStrangers, TakeNoCopy, StopOne, KeepClaims, ReplaceNone, LeaseOnce, MakeWished, KeepRecord,
		KeepSecrets, GoLast, Fits, FewMoves, Reach, KnownLogin, Trusted, TryBeside, TellTrial,
	}
}

// What is checked where the loops of agents and operator live together, beside what each of the above checks.
var (
	TellTruth = law("operated.say-ready-only-when-served",
		"the status does not say Ready while nobody lets applications write")
	BelieveRenewals = law("operated.believe-renewals",
		"the status does not call a lease expired that its holder has renewed all along, however old a cache is")
	OperatorCheck = law("operated.refuse-no-plan",
		"the loop of the operator never panics, and its check refuses no plan of its own")
	Modelled = law("operated.model-no-failure", "what the model of the cluster itself does never fails")
)

// Operated is all that is checked there alone.
func Operated() []rule.Rule { return []rule.Rule{TellTruth, BelieveRenewals, OperatorCheck, Modelled} }
