// Package checks judges what traffic has seen: whether an acknowledged write was lost, whether two servers acknowledged
// at once, whether registers behaved like registers, and how long writes did not work. Start reading at Judge.
package checks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"meridian.dev/meridian/test/e2e/traffic"
)

// Verdict is the judgement of one run.
type Verdict struct {
	// Acknowledged, Unknown and Failed count the writes.
	Acknowledged, Unknown, Failed int
	// Lost are acknowledged writes that are not there.
	Lost []int64
	// Overlap is how long an earlier timeline went on acknowledging after a later one had begun to.
	Overlap time.Duration
	// Gap is the longest time without an acknowledgement around the fault.
	Gap time.Duration
	// RegisterReads counts the reads of registers that were answered.
	RegisterReads int
	// Registers says whether the registers behaved: ok, illegal, or unknown if the check took too long.
	Registers string
}

// Times are when the fault was, and when the traffic was ended.
type Times struct{ Fault, End time.Duration }

// Judge looks at the operations of a run and the ids that are in the table afterwards.
func Judge(operations []traffic.Operation, present []int64, times Times) Verdict {
	var verdict Verdict
	there := make(map[int64]bool, len(present))
	for _, id := range present {
		there[id] = true
	}
	for _, operation := range operations {
		if operation.Register != 0 {
			if operation.Read && operation.Fate == traffic.Acknowledged {
				verdict.RegisterReads++
			}
			continue
		}
		switch operation.Fate {
		case traffic.Acknowledged:
			verdict.Acknowledged++
			if !there[operation.ID] {
				verdict.Lost = append(verdict.Lost, operation.ID)
			}
		case traffic.Unknown:
			verdict.Unknown++
		case traffic.Failed:
			verdict.Failed++
		}
	}
	verdict.Overlap, verdict.Gap = Overlap(operations), Gap(operations, times)
	verdict.Registers = Registers(operations)
	return verdict
}

// What a run has to have at least, so that it shows something.
const (
	FewestWrites = 100
	FewestReads  = 10
)

// Invalid says why a run shows nothing, empty if it does: too little traffic, or a fault that nobody could have
// noticed.
func (v Verdict) Invalid() string {
	switch {
	case v.Acknowledged < FewestWrites:
		return fmt.Sprintf("only %d writes were acknowledged", v.Acknowledged)
	case v.RegisterReads < FewestReads:
		return fmt.Sprintf("only %d reads of registers were answered", v.RegisterReads)
	case v.Registers == string(porcupine.Unknown):
		return "the check of the registers did not come to an end"
	}
	return ""
}

// Bad says what must never be, empty if all is well.
func (v Verdict) Bad() string {
	var problems []string
	if len(v.Lost) > 0 {
		problems = append(problems, fmt.Sprintf("%d acknowledged writes are lost, such as %d", len(v.Lost), v.Lost[0]))
	}
	if v.Overlap > 0 {
		problems = append(problems, fmt.Sprintf("two servers acknowledged writes for %s", v.Overlap))
	}
	if v.Registers == string(porcupine.Illegal) {
		problems = append(problems, "a register gave a value that it cannot have had")
	}
	return strings.Join(problems, "; ")
}

// Overlap is how long a timeline went on acknowledging after the first acknowledgement on a later one.
func Overlap(operations []traffic.Operation) time.Duration {
	first, last := map[string]time.Duration{}, map[string]time.Duration{}
	for _, operation := range operations {
		if operation.Fate != traffic.Acknowledged || operation.Timeline == "" {
			continue
		}
		begun, seen := first[operation.Timeline]
		if !seen || operation.End < begun {
			first[operation.Timeline] = operation.End
		}
		// An operation that began before the later timeline acknowledged anything may have been done before it, too.
		last[operation.Timeline] = max(last[operation.Timeline], operation.Begin)
	}
	var overlap time.Duration
	for earlier, end := range last {
		for later, begin := range first {
			if later > earlier {
				overlap = max(overlap, end-begin)
			}
		}
	}
	return overlap
}

// Stretch is a time without an acknowledged insert.
type Stretch struct{ Begin, End time.Duration }

// Length is how long it is.
func (s Stretch) Length() time.Duration { return s.End - s.Begin }

// Gap is the longest time without an acknowledged insert that ends after the fault. The end of the traffic ends it,
// too: a run that is over before writes work again must not look short.
func Gap(operations []traffic.Operation, times Times) time.Duration {
	var longest time.Duration
	for _, one := range Gaps(operations, times, 0) {
		longest = max(longest, one.Length())
	}
	return longest
}

// Gaps are all times of at least that length without an acknowledged insert that end after the fault, up to the end:
// what comes later is there to be counted.
func Gaps(operations []traffic.Operation, times Times, least time.Duration) []Stretch {
	ends := []time.Duration{times.End}
	for _, operation := range operations {
		if operation.Fate == traffic.Acknowledged && operation.Register == 0 {
			ends = append(ends, operation.End)
		}
	}
	slices.Sort(ends)
	var gaps []Stretch
	for index := 1; index < len(ends); index++ {
		gap := Stretch{Begin: max(ends[index-1], 0), End: ends[index]}
		if gap.End > times.Fault && gap.Begin < times.End && gap.Length() >= least {
			gaps = append(gaps, gap)
		}
	}
	return gaps
}

// Registers checks that the history of each register can be put in one order.
func Registers(operations []traffic.Operation) string {
	var history []porcupine.Operation
	clients := map[string]int{}
	const never = int64(1) << 60
	for _, operation := range operations {
		vain := operation.Fate == traffic.Failed || operation.Read && operation.Fate != traffic.Acknowledged
		if operation.Register == 0 || vain {
			continue
		}
		if _, known := clients[operation.Client]; !known {
			clients[operation.Client] = len(clients)
		}
		end := int64(operation.End)
		if operation.Fate == traffic.Unknown {
			end = never // It may be done at any later time, or never.
		}
		history = append(history, porcupine.Operation{
			ClientId: clients[operation.Client], Input: operation, Call: int64(operation.Begin), Return: end, Output: operation,
		})
	}
	return string(porcupine.CheckOperationsTimeout(register, history, 30*time.Second))
}

// register is one row: a read returns what was written last.
var register = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[int][]porcupine.Operation{}
		for _, operation := range history {
			key := operation.Input.(traffic.Operation).Register
			byKey[key] = append(byKey[key], operation)
		}
		var parts [][]porcupine.Operation
		for _, part := range byKey {
			slices.SortFunc(part, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
			parts = append(parts, part)
		}
		return parts
	},
	// The first value is not known: an earlier run may have written.
	Init: func() any { return int64(-1) },
	Step: func(state, input, _ any) (bool, any) {
		operation := input.(traffic.Operation)
		if !operation.Read {
			return true, operation.Value
		}
		if state.(int64) == -1 {
			return true, operation.Value
		}
		return state.(int64) == operation.Value, state
	},
}

// Median and Worst are of the gaps of several runs.
func Median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// Worst is the longest.
func Worst(values []time.Duration) time.Duration { return slices.Max(values) }
