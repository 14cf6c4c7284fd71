package network

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// From says whom a cut node can no longer talk to.
type From string

const (
	// All is everyone outside of the node, the host included.
	All From = "all"
	// API is the control plane only, in both directions.
	API From = "api"
	// Peers are the other nodes and their pods.
	Peers From = "peers"
)

// Froms lists the valid values.
func Froms() []From { return []From{All, API, Peers} }

// table is the packet filter that holds a cut.
const table = "meridian_cut"

// Cut drops packets between node self, whose init is pid, and others. Processes and open connections stay: they see
// silence, not resets. A second cut replaces the first.
func Cut(ctx context.Context, pid, self, nodes int, from From) error {
	rules, err := cutRules(self, nodes, from)
	if err != nil {
		return err
	}
	return filter(ctx, pid, clearRules+rules)
}

// Heal removes a cut; without one it does nothing.
func Heal(ctx context.Context, pid int) error { return filter(ctx, pid, clearRules) }

// clearRules declares the table before deleting it, since deleting what is not there is an error.
const clearRules = "table inet " + table + "\ndelete table inet " + table + "\n"

// cutRules drops arriving packets before anything else looks at them and departing ones after the addresses of
// Services have become addresses of endpoints: so both what the node itself and what its pods send and get is
// caught.
func cutRules(self, nodes int, from From) (string, error) {
	source, target := "", ""
	if from != All {
		away, err := awayFrom(self, nodes, from)
		if err != nil {
			return "", err
		}
		set := "{ " + strings.Join(away, ", ") + " }"
		source, target = "ip saddr "+set, "ip daddr "+set
	}
	return fmt.Sprintf(`table inet %s {
	chain arriving { type filter hook prerouting priority -310; iifname %q %s drop; }
	chain departing { type filter hook postrouting priority 310; oifname %q %s drop; }
}
`, table, inside, source, inside, target), nil
}

func awayFrom(self, nodes int, from From) ([]string, error) {
	var away []string
	switch from {
	case API:
		away = append(away, ControlAddress)
	case Peers:
		for n := 1; n <= nodes; n++ {
			if n != self {
				away = append(away, NodeAddress(n), NodePods(n))
			}
		}
	default:
		return nil, fmt.Errorf("a node can be cut from %v, not from %q", Froms(), from)
	}
	if len(away) == 0 {
		return nil, fmt.Errorf("node %d has no peers to be cut from", self)
	}
	return away, nil
}

func filter(ctx context.Context, pid int, rules string) error {
	cmd := nft(ctx, pid, "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("set the packet filter: %w: %s", err, output)
	}
	return nil
}

// IsCut tells whether the node of process pid has a cut.
func IsCut(ctx context.Context, pid int) bool {
	return nft(ctx, pid, "list", "table", "inet", table).Run() == nil
}

// nft is the packet filter's tool, working in the network of process pid.
func nft(ctx context.Context, pid int, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net", "--target", strconv.Itoa(pid), "nft"}, args...)...)
}
