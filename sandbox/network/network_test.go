package network

import (
	"net/netip"
	"os"
	"path/filepath"
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

// TestRefuseRedirects sets what sends and believes redirects, for all, for devices to come and for each that is there,
// and leaves the rest alone.
func TestRefuseRedirects(t *testing.T) {
	root := t.TempDir()
	if err := RefuseRedirects(root); err == nil {
		t.Error("nothing was set, and nobody is told")
	}
	settings := []string{"accept_redirects", "secure_redirects", "send_redirects", "forwarding"}
	for _, device := range []string{"all", "default", "eth0"} {
		folder := filepath.Join(root, "net/ipv4/conf", device)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, setting := range settings {
			if err := os.WriteFile(filepath.Join(folder, setting), []byte("1"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := RefuseRedirects(root); err != nil {
		t.Fatal(err)
	}
	for _, device := range []string{"all", "default", "eth0"} {
		for index, want := range []string{"0", "1", "0", "1"} {
			got, err := os.ReadFile(filepath.Join(root, "net/ipv4/conf", device, settings[index]))
			if err != nil || string(got) != want {
				t.Errorf("%s of %s is %q, want %s: %v", settings[index], device, got, want, err)
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

// TestForgetUnanswered sets it where the kernel has it, and is content where it has not.
func TestForgetUnanswered(t *testing.T) {
	root := t.TempDir()
	if err := ForgetUnanswered(root); err != nil {
		t.Errorf("without the setting: %v", err)
	}
	setting := filepath.Join(root, "net/netfilter/nf_conntrack_tcp_timeout_syn_sent")
	if err := os.MkdirAll(filepath.Dir(setting), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(setting, []byte("120"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ForgetUnanswered(root); err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(setting); err != nil || string(content) != "5" {
		t.Errorf("it is %q, %v", content, err)
	}
}
