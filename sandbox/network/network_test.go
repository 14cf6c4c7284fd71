package network

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAddressesAreInTheirRangesAndApart(t *testing.T) {
	seen := map[string]bool{HostAddress: true, ControlAddress: true}
	machines, pods := netip.MustParsePrefix(MachineRange), netip.MustParsePrefix(PodRange)
	for n := 1; n <= MaxNodes; n++ {
		if seen[NodeAddress(n)] {
			t.Errorf("address %s is used twice", NodeAddress(n))
		}
		seen[NodeAddress(n)] = true
		if !machines.Contains(netip.MustParseAddr(NodeAddress(n))) {
			t.Errorf("node %d has %s, outside of %s", n, NodeAddress(n), machines)
		}
		if own := netip.MustParsePrefix(NodePods(n)); !pods.Overlaps(own) || own.Bits() <= pods.Bits() {
			t.Errorf("pods of node %d have %s, outside of %s", n, own, pods)
		}
	}
	for i, one := range Ranges() {
		for _, other := range Ranges()[i+1:] {
			if one.Overlaps(other) {
				t.Errorf("%s and %s overlap", one, other)
			}
		}
	}
}

func TestCutRules(t *testing.T) {
	const frame = `table inet meridian_cut {
	chain arriving { type filter hook prerouting priority -310; iifname "eth0" SOURCE drop; }
	chain departing { type filter hook postrouting priority 310; oifname "eth0" TARGET drop; }
}
`
	for name, test := range map[string]struct {
		from  From
		nodes int
		away  string
		err   string
	}{
		"all":           {from: All, nodes: 3},
		"api":           {from: API, nodes: 3, away: "{ 10.77.0.2 }"},
		"peers":         {from: Peers, nodes: 3, away: "{ 10.77.0.11, 10.244.1.0/24, 10.77.0.13, 10.244.3.0/24 }"},
		"without peers": {from: Peers, nodes: 1, err: "has no peers"},
		"unknown":       {from: "moon", nodes: 3, err: `not from "moon"`},
	} {
		t.Run(name, func(t *testing.T) {
			self := min(2, test.nodes)
			got, err := cutRules(self, test.nodes, test.from)
			if (err != nil) != (test.err != "") || (err != nil && !strings.Contains(err.Error(), test.err)) {
				t.Fatalf("error is %v, want %q in it", err, test.err)
			}
			if err != nil {
				return
			}
			source, target := "", ""
			if test.away != "" {
				source, target = "ip saddr "+test.away, "ip daddr "+test.away
			}
			want := strings.NewReplacer("SOURCE", source, "TARGET", target).Replace(frame)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
		})
	}
}
