package policy

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func pod(namespace, name, node, address string, more ...func(*corev1.Pod)) *corev1.Pod {
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "sql", ContainerPort: 5432}},
		}}},
		Status: corev1.PodStatus{PodIP: address, Phase: corev1.PodRunning},
	}
	for _, change := range more {
		change(made)
	}
	return made
}

// here are two pods of a node, two of another one and those that have no network of their own.
func here(t *testing.T, policies ...string) World {
	t.Helper()
	world := World{Node: "n1", Pods: []*corev1.Pod{
		pod("b", "server", "n1", "10.1"), pod("a", "server", "n1", "10.244.1.5"), pod("a", "client", "n2", "10.244.2.6"),
		pod("b", "client", "n2", "10.244.2.7"),
		pod("a", "ended", "n1", "10.244.1.8", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("a", "on-host", "n1", "10.77.0.11", func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
	}}
	for _, name := range []string{"a", "b"} {
		world.Namespaces = append(world.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"name": name},
		}})
	}
	for _, text := range policies {
		read := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: text}}
		if err := yaml.UnmarshalStrict([]byte(text), &read.Spec); err != nil {
			t.Fatal(err)
		}
		world.Policies = append(world.Policies, read)
	}
	return world
}

// chain returns the rules of one chain of the table.
func chain(text, name string) []string {
	_, rest, found := strings.Cut(text, "\tchain "+name+" {")
	if !found {
		return nil
	}
	body, _, _ := strings.Cut(rest, "\n\t}")
	var rules []string
	for _, line := range strings.Split(body, "\n")[1:] {
		rules = append(rules, strings.TrimSpace(line))
	}
	return rules
}

const self = "ip saddr 10.244.1.5 return"

func TestRulesOfAPod(t *testing.T) {
	for name, test := range map[string]struct {
		policies []string
		in, out  []string
	}{
		"without a policy all is open": {},
		"one of another pod binds nobody here": {policies: []string{
			`{podSelector: {matchLabels: {app: client}}, policyTypes: [Ingress, Egress]}`,
		}},
		"deny in": {
			policies: []string{`{podSelector: {}, policyTypes: [Ingress]}`}, in: []string{self, "drop"},
		},
		"deny both ways": {
			policies: []string{`{podSelector: {}, policyTypes: [Ingress, Egress]}`},
			in:       []string{self, "drop"}, out: []string{"ip daddr 10.244.1.5 return", "drop"},
		},
		"everybody at one port": {
			policies: []string{`{podSelector: {}, ingress: [{ports: [{port: 5432}]}]}`},
			in:       []string{self, "tcp dport 5432 return", "drop"},
		},
		"anything from anybody": {
			policies: []string{`{podSelector: {}, ingress: [{}]}`}, in: []string{self, "return", "drop"},
		},
		"pods of the same namespace": {
			policies: []string{`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: client}}}]}]}`},
			in:       []string{self, "ip saddr 10.244.2.6 return", "drop"},
		},
		"pods of another namespace, at a port with a name": {
			policies: []string{`{podSelector: {}, ingress: [{ports: [{port: sql}], from: [
				{namespaceSelector: {matchLabels: {name: b}}, podSelector: {}}]}]}`},
			in: []string{self, "ip saddr 10.244.2.7 tcp dport 5432 return", "drop"},
		},
		"a peer that nobody is": {
			policies: []string{`{podSelector: {}, ingress: [{from: [{podSelector: {matchLabels: {app: nobody}}}]}]}`},
			in:       []string{self, "drop"},
		},
		"addresses with a hole": {
			policies: []string{`{podSelector: {}, egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}],
				ports: [{port: 8000, endPort: 8010}, {protocol: UDP, port: 53}, {protocol: UDP}, {port: sql}]}],
				policyTypes: [Egress]}`},
			out: []string{
				"ip daddr 10.244.1.5 return",
				"ip daddr 10.0.0.0/8 ip daddr != { 10.1.0.0/16 } tcp dport 8000-8010 return",
				"ip daddr 10.0.0.0/8 ip daddr != { 10.1.0.0/16 } udp dport 53 return",
				"ip daddr 10.0.0.0/8 ip daddr != { 10.1.0.0/16 } meta l4proto udp return",
				"drop",
			},
		},
		"what either of two allows": {
			policies: []string{
				`{podSelector: {}, policyTypes: [Ingress]}`,
				`{podSelector: {matchLabels: {app: server}}, ingress: [{ports: [{port: 1}]}]}`,
			},
			in: []string{self, "tcp dport 1 return", "drop"},
		},
		"a port with a name, of the pod that is called": {
			policies: []string{`{podSelector: {}, egress: [{ports: [{port: sql}], to: [{namespaceSelector: {}}]}]}`},
			in:       []string{self, "drop"},
			out: []string{
				"ip daddr 10.244.1.5 return", "ip daddr 10.244.1.5 tcp dport 5432 return",
				"ip daddr 10.244.2.6 tcp dport 5432 return", "ip daddr 10.244.2.7 tcp dport 5432 return", "drop",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := Table(here(t, test.policies...))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.in, chain(text, "in_10_244_1_5")); diff != "" {
				t.Errorf("who may come (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.out, chain(text, "out_10_244_1_5")); diff != "" {
				t.Errorf("where it may go (-want +got):\n%s", diff)
			}
			for _, other := range []string{"10_244_2_6", "10_244_1_8", "10_77_0_11"} {
				if strings.Contains(text, "_"+other+" {") {
					t.Errorf("a chain for %s, which is not of this node or has no network of its own:\n%s", other, text)
				}
			}
			wellFormed(t, text)
		})
	}
}

// TestTableAsksBothEnds shows where the chains are entered from.
func TestTableAsksBothEnds(t *testing.T) {
	text, err := Table(here(t, `{podSelector: {}, policyTypes: [Ingress, Egress]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"type filter hook forward priority 0; policy accept;",
		"ct state established,related accept",
		"ip saddr { 10.77.0.1, 10.77.0.2 } accept",
		"ip saddr vmap { 10.244.1.5 : jump out_10_244_1_5 }",
		"ip daddr vmap { 10.244.1.5 : jump in_10_244_1_5 }",
	}
	if diff := cmp.Diff(want, chain(text, "forward")); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

// TestNoPolicyNoTable shows that the last policy that goes takes the table with it.
func TestNoPolicyNoTable(t *testing.T) {
	text, err := Table(here(t))
	if err != nil {
		t.Fatal(err)
	}
	want := "table inet meridian_policies\ndelete table inet meridian_policies\n"
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// wellFormed asks the packet filter's own tool, where it is there and may be asked.
func wellFormed(t *testing.T, text string) {
	t.Helper()
	if exec.Command("unshare", "--net", "nft", "list", "tables").Run() != nil {
		return
	}
	cmd := exec.Command("unshare", "--net", "nft", "--check", "--file", "-")
	cmd.Stdin = strings.NewReader(text)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("nft: %v: %s\n%s", err, output, text)
	}
}
