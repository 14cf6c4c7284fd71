package search

import (
	"fmt"
	"time"

	"meridian.dev/meridian/kit/sim"
)

// Settled is a world that has come to rest, in which other stories can begin.
type Settled struct {
	server *sim.Server
	passed time.Duration
}

// Settle runs a scenario calmly to its end, and returns the world that it has come to. The programs that begin there
// begin with empty memory.
func Settle(scenario Scenario) (*Settled, error) {
	r, err := lived(&scenario, follow(Schedule{}), DefaultTurns, nil)
	if err != nil {
		return nil, err
	}
	if r.violation != nil {
		return nil, fmt.Errorf("settle %s: %s\n%s", scenario.Name, r.violation, r.result().Story())
	}
	return &Settled{server: r.server, passed: r.clock.Now().Sub(new(sim.Clock).Now())}, nil
}
