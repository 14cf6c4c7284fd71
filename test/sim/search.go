package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
)

const (
	// Began is when a scenario begins: by then an undisturbed database has settled.
	Began      = 12 * time.Second
	began      = Began
	leaseLasts = 10 * time.Second
)

// Scenario is a piece of a database's life, without faults beside those that it is about. Package scenarios has them.
type Scenario struct {
	Case
	// Gap is how long writes may be unavailable in an undisturbed run, 0 if that is not promised.
	Gap time.Duration
}

// HandsOver says that a switchover is asked for, and nothing keeps it from being done. Whoever is named may be the
// primary already.
func (s Scenario) HandsOver() bool {
	return len(s.Faults) > 0 && !slices.ContainsFunc(s.Faults, func(fault Fault) bool {
		return fault.Kind != FaultSwitchover || fault.Other != 0
	})
}

// FaultsAt are the faults that each kind of place can have.
var FaultsAt = map[PointKind][]Fault{
	PointRead: {{Kind: FaultRefused}, {Kind: FaultLate, For: 1500 * time.Millisecond}},
	PointWrite: {{Kind: FaultRefused}, {Kind: FaultApplied}, {Kind: FaultNotApplied},
		{Kind: FaultLate, For: 3 * time.Second}, {Kind: FaultLate, For: 12 * time.Second}},
	PointMessage: {{Kind: FaultLost}, {Kind: FaultReplyLost}, {Kind: FaultLate, For: 900 * time.Millisecond},
		{Kind: FaultLate, For: 6 * time.Second}, {Kind: FaultTwice, For: 4 * time.Second}},
	PointStore: {{Kind: FaultFails}},
	PointTransfer: {{Kind: FaultApplied}, {Kind: FaultAppliedCut, For: 6 * time.Second},
		{Kind: FaultForgotten, For: 12 * time.Second}},
	PointChange: {{Kind: FaultForgotten, For: 12 * time.Second}},
	PointTake: {{Kind: FaultAppliedCut, For: 6 * time.Second}, {Kind: FaultLate, For: 3 * time.Second},
		{Kind: FaultLate, For: 7 * time.Second}},
	PointAnswer: {{Kind: FaultCrash}, {Kind: FaultPowerOff, For: 2 * time.Second},
		{Kind: FaultVolumeLost, For: time.Second}},
	PointRecord: {{Kind: FaultCrash}, {Kind: FaultPowerOff, For: 20 * time.Second}},
	PointLook:   {{Kind: FaultRefused}},
	PointShow:   {{Kind: FaultRefused}, {Kind: FaultApplied}},
	PointFence:  {{Kind: FaultFails}},
	PointAct:    {{Kind: FaultCrash}, {Kind: FaultPowerOff, For: 20 * time.Second}},
	PointBefore: {{Kind: FaultCrash}, {Kind: FaultPowerOff, For: 20 * time.Second},
		{Kind: FaultFreeze, For: 15 * time.Second}},
	PointAfter: {{Kind: FaultCrash}, {Kind: FaultVolumeLost, For: time.Second},
		{Kind: FaultFreezePod, For: 15 * time.Second}},
}

// UsualPoints are the places that swarms draw from, pointKinds all of them.
var (
	UsualPoints = []PointKind{PointRead, PointWrite, PointMessage, PointStore, PointFence, PointBefore, PointAfter,
		PointTake, PointTransfer, PointChange, PointAnswer}
	pointKinds = append(slices.Clone(UsualPoints), PointRecord, PointLook, PointShow, PointAct)
)

// calls are the places where an agent asks something of the API server.
var calls = []PointKind{PointRead, PointWrite, PointTake, PointTransfer, PointChange, PointLook, PointShow}

// lastCalls are writes that are the last thing that a process does, or would have been. Among all places they are
// boundaries of acts like others. A crash at a read is the one after the act before it.
var lastCalls = map[PointKind][]Fault{
	PointWrite: {{Kind: FaultCrashBefore}, {Kind: FaultCrashAfter}},
	PointShow:  {{Kind: FaultCrashBefore}, {Kind: FaultCrashAfter}},
}

// Singles are the cases of a scenario with one more fault, at every place that an undisturbed run of it has.
func Singles(s Scenario) []Case { return s.singlesAt(pointKinds, nil) }

// CallSingles are those at calls of the API server.
func CallSingles(s Scenario) []Case { return s.singlesAt(calls, lastCalls) }

func (s Scenario) singlesAt(kinds []PointKind, more map[PointKind][]Fault) []Case {
	s.Lag = true
	undisturbed := Run(s.Case, false)
	var cases []Case
	// How a database comes to be is searched once, in the scenarios that are about that.
	first := undisturbed.Early
	if len(s.Faults) == 0 {
		first = nil
	}
	for node := range s.Nodes {
		for _, kind := range kinds {
			key := pointKey{node, kind}
			for ordinal := first[key]; ordinal < undisturbed.Points[key]; ordinal++ {
				for _, fault := range slices.Concat(FaultsAt[kind], more[kind]) {
					if !s.bears(fault) {
						continue
					}
					fault.Point, fault.Node, fault.Ordinal = kind, node, ordinal
					c := s.Case
					c.Lag = true
					c.Faults = append(append([]Fault{}, s.Faults...), fault)
					cases = append(cases, c)
				}
			}
		}
	}
	return cases
}

// bears says whether the promise of the scenario covers the fault.
func (s Scenario) bears(fault Fault) bool {
	switch fault.Kind {
	case FaultVolumeLost, FaultPutBack:
		if s.Volatile {
			return fault.Kind == FaultVolumeLost // Another pod, and so another copy, at any time. There is no claim.
		}
		// The last copy, or more copies than the quorum has, may not be lost.
		return s.Instances >= 3 && s.Durability == "" && !s.loses()
	case FaultFreezePod, FaultPause:
		return s.Durability != tenure.Async
	default:
		return true
	}
}

func (s Scenario) loses() bool {
	for _, fault := range s.Faults {
		if fault.Kind == FaultVolumeLost || fault.Kind == FaultPutBack || fault.Kind == FaultWish {
			return true
		}
	}
	return false
}

// Deposing gives the lease to the machine with the slow clock again and again.
func Deposing(nodes int, random *rand.Rand) []Fault {
	var faults []Fault
	for at := began; at < 60*time.Second; at += 4*time.Second + time.Duration(random.Int64N(int64(8*time.Second))) {
		faults = append(faults, Fault{Kind: FaultSwitchover, At: at, Other: nodes})
	}
	return faults
}

// HasKind says that one of the faults is of a kind.
func HasKind(faults []Fault, kind FaultKind) bool {
	for _, fault := range faults {
		if fault.Kind == kind {
			return true
		}
	}
	return false
}

// Shrink leaves out of a failing case what it does not need to fail.
func Shrink(c Case) Case {
	for again := true; again; {
		again = false
		for index := range c.Faults {
			fewer := c
			fewer.Faults = append(append([]Fault{}, c.Faults[:index]...), c.Faults[index+1:]...)
			if len(Run(fewer, false).Problems) > 0 {
				c, again = fewer, true
				break
			}
		}
	}
	return c
}
