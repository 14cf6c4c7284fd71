package cluster

import (
	"context"
	"strings"
	"time"

	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/network"
)

// MachineStatus is what `sandbox status` tells of one machine.
type MachineStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// State is on, off, frozen or cut.
	State string `json:"state"`
	// Services are those of the machine with what is wrong with them, in a few words; empty means well.
	Services []string `json:"services,omitempty"`
}

// Status is the sandbox's state as of now.
type Status struct {
	Config
	Machines []MachineStatus `json:"machines"`
}

// Status looks at every machine. Each question has a time limit, so it answers whatever is broken.
func (c *Cluster) Status(ctx context.Context) (Status, error) {
	config, err := c.running()
	if err != nil {
		return Status{}, err
	}
	status := Status{Config: config}
	status.Machines = append(status.Machines, c.machineStatus(ctx, controlPlane, network.ControlAddress))
	for n := 1; n <= config.Nodes; n++ {
		status.Machines = append(status.Machines, c.machineStatus(ctx, nodeName(n), network.NodeAddress(n)))
	}
	return status, nil
}

func (c *Cluster) machineStatus(ctx context.Context, name, address string) MachineStatus {
	status := MachineStatus{Name: name, Address: address, State: "on"}
	pid := c.pid(name)
	switch {
	case pid == 0:
		status.State = "off"
		return status
	case machine.Frozen(name):
		status.State = "frozen"
		return status
	case network.IsCut(ctx, pid):
		status.State = "cut"
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	states, err := machine.Services(ctx, c.machineDir(name))
	if err != nil {
		status.Services = []string{err.Error()}
	}
	for _, state := range states {
		if trouble := troubleOf(state); trouble != "" {
			status.Services = append(status.Services, state.Name+" "+trouble)
		}
	}
	return status
}

func troubleOf(state machine.State) string {
	switch {
	case state.Held:
		return "stopped"
	case !state.Running:
		return strings.TrimSpace("down " + state.LastExit)
	case !state.Ready:
		return "not ready"
	}
	return ""
}
