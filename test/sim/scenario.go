package sim

import (
	"slices"
	"time"
)

const (
	// Began is when a scenario begins: by then an undisturbed database has settled.
	Began = 12 * time.Second
	began = Began

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
