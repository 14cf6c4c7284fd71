// Package policy enforces NetworkPolicies on the nodes of a sandbox, as the network of a real cluster does: what a
// policy does not allow is dropped without an answer.
//
// On each node an enforcer watches policies, pods and namespaces, and holds one table of the packet filter that says
// whom the pods of that node may call and who may call them. Both ends are asked: the node of the pod that calls, and
// the node of the one that is called. Table is pure, so start reading there.
//
// Three things are left open on purpose. Connections that are open stay open when a policy comes. A pod is open until
// its address is in its status, which takes about a second. And the host and the API server are not bound by policies:
// the one is where tests stand, and the other calls pods for them, as with `kubectl get --raw`. What clients may do is
// tried from pods.
package policy

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"meridian.dev/meridian/sandbox/network"
)

// table is the packet filter's table with the rules of all policies.
const table = "meridian_policies"

// World is what the rules of a node are made of.
type World struct {
	Node       string
	Pods       []*corev1.Pod
	Namespaces []*corev1.Namespace
	Policies   []*networkingv1.NetworkPolicy
}

// way is the direction that a policy speaks of, and the word of the packet filter for the other end.
type way struct {
	kind  networkingv1.PolicyType
	chain string
	other string
}

var (
	inward  = way{kind: networkingv1.PolicyTypeIngress, chain: "in", other: "saddr"}
	outward = way{kind: networkingv1.PolicyTypeEgress, chain: "out", other: "daddr"}
)

// Table writes the rules of the node as one batch, which replaces those of before at once. The same world gives the
// same text.
func Table(world World) (string, error) {
	world.Pods, world.Policies = slices.Clone(world.Pods), slices.Clone(world.Policies)
	slices.SortFunc(world.Pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Status.PodIP, b.Status.PodIP) })
	slices.SortFunc(world.Policies, func(a, b *networkingv1.NetworkPolicy) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var chains strings.Builder
	verdicts := map[string][]string{}
	for _, pod := range world.Pods {
		if pod.Spec.NodeName != world.Node || !hasNetwork(pod) {
			continue
		}
		for _, direction := range []way{inward, outward} {
			rules, bound, err := world.rules(pod, direction)
			if err != nil {
				return "", err
			}
			if !bound {
				continue
			}
			name := direction.chain + "_" + strings.ReplaceAll(pod.Status.PodIP, ".", "_")
			fmt.Fprintf(&chains, "\tchain %s { # %s/%s\n\t\t%s\n\t}\n",
				name, pod.Namespace, pod.Name, strings.Join(append(rules, "drop"), "\n\t\t"))
			verdicts[direction.chain] = append(verdicts[direction.chain], pod.Status.PodIP+" : jump "+name)
		}
	}
	text := "table inet " + table + "\ndelete table inet " + table + "\n"
	if len(verdicts) == 0 {
		return text, nil
	}
	forward := []string{
		"type filter hook forward priority 0; policy accept;",
		"ct state established,related accept",
		"ip saddr { " + network.HostAddress + ", " + network.ControlAddress + " } accept",
	}
	for _, ask := range []struct{ address, chain string }{{"saddr", outward.chain}, {"daddr", inward.chain}} {
		if list := verdicts[ask.chain]; len(list) > 0 {
			forward = append(forward, "ip "+ask.address+" vmap { "+strings.Join(list, ", ")+" }")
		}
	}
	return fmt.Sprintf("%stable inet %s {\n%s\tchain forward {\n\t\t%s\n\t}\n}\n",
		text, table, chains.String(), strings.Join(forward, "\n\t\t")), nil
}

// hasNetwork says that the pod has an address of its own, and will not lose it to another pod.
func hasNetwork(pod *corev1.Pod) bool {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	address, err := netip.ParseAddr(pod.Status.PodIP)
	return err == nil && address.Is4() && !pod.Spec.HostNetwork && !ended
}

// rules are those of all policies that bind the pod in one direction; what none of them returns is to be dropped.
// That no policy binds the pod is not the same as that they allow nothing.
func (w World) rules(pod *corev1.Pod, direction way) (rules []string, bound bool, err error) {
	rules = []string{"ip " + direction.other + " " + pod.Status.PodIP + " return"} // No policy keeps a pod from itself.
	for _, policy := range w.Policies {
		if policy.Namespace != pod.Namespace || !speaksOf(policy, direction.kind) {
			continue
		}
		selected, err := matches(&policy.Spec.PodSelector, pod.Labels)
		if err != nil {
			return nil, false, fmt.Errorf("policy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
		if !selected {
			continue
		}
		bound = true
		for _, allowed := range allowances(policy, direction) {
			more, err := w.allow(policy.Namespace, pod, direction, allowed)
			if err != nil {
				return nil, false, fmt.Errorf("policy %s/%s: %w", policy.Namespace, policy.Name, err)
			}
			rules = append(rules, more...)
		}
	}
	return rules, bound, nil
}

func speaksOf(policy *networkingv1.NetworkPolicy, kind networkingv1.PolicyType) bool {
	if len(policy.Spec.PolicyTypes) > 0 {
		return slices.Contains(policy.Spec.PolicyTypes, kind)
	}
	return kind == networkingv1.PolicyTypeIngress || len(policy.Spec.Egress) > 0
}

// allowance is a rule of a policy, whichever the direction.
type allowance struct {
	ports []networkingv1.NetworkPolicyPort
	peers []networkingv1.NetworkPolicyPeer
}

func allowances(policy *networkingv1.NetworkPolicy, direction way) []allowance {
	var list []allowance
	if direction == inward {
		for _, rule := range policy.Spec.Ingress {
			list = append(list, allowance{rule.Ports, rule.From})
		}
		return list
	}
	for _, rule := range policy.Spec.Egress {
		list = append(list, allowance{rule.Ports, rule.To})
	}
	return list
}

// allow writes what one rule of a policy lets through. A port with a name is looked up at the pod that is called.
func (w World) allow(namespace string, pod *corev1.Pod, direction way, allowed allowance) ([]string, error) {
	if len(allowed.peers) == 0 {
		return lines("", allowed.ports, pod, direction == inward), nil
	}
	var rules []string
	for _, peer := range allowed.peers {
		if block := peer.IPBlock; block != nil {
			match := "ip " + direction.other + " " + block.CIDR + " "
			if len(block.Except) > 0 {
				match += "ip " + direction.other + " != { " + strings.Join(block.Except, ", ") + " } "
			}
			rules = append(rules, lines(match, allowed.ports, pod, direction == inward)...)
			continue
		}
		others, err := w.selected(namespace, peer)
		if err != nil {
			return nil, err
		}
		for _, other := range others {
			called := pod
			if direction == outward {
				called = other
			}
			rules = append(rules, lines("ip "+direction.other+" "+other.Status.PodIP+" ", allowed.ports, called, true)...)
		}
	}
	return rules, nil
}

// selected lists the pods that a peer of a policy in the namespace means.
func (w World) selected(namespace string, peer networkingv1.NetworkPolicyPeer) ([]*corev1.Pod, error) {
	homes := map[string]bool{namespace: true}
	if peer.NamespaceSelector != nil {
		homes = map[string]bool{}
		for _, home := range w.Namespaces {
			fits, err := matches(peer.NamespaceSelector, home.Labels)
			if err != nil {
				return nil, err
			}
			homes[home.Name] = fits
		}
	}
	var pods []*corev1.Pod
	for _, pod := range w.Pods {
		if !homes[pod.Namespace] || !hasNetwork(pod) {
			continue
		}
		fits := peer.PodSelector == nil
		if !fits {
			var err error
			if fits, err = matches(peer.PodSelector, pod.Labels); err != nil {
				return nil, err
			}
		}
		if fits {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

func matches(selector *metav1.LabelSelector, has map[string]string) (bool, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, fmt.Errorf("read a selector: %w", err)
	}
	return parsed.Matches(labels.Set(has)), nil
}

// lines are one line for each port. Names are known only of the pod that is called, and not of addresses.
func lines(match string, ports []networkingv1.NetworkPolicyPort, called *corev1.Pod, named bool) []string {
	if len(ports) == 0 {
		return []string{match + "return"}
	}
	var list []string
	for _, port := range ports {
		protocol := string(corev1.ProtocolTCP)
		if port.Protocol != nil {
			protocol = string(*port.Protocol)
		}
		word := strings.ToLower(protocol)
		switch {
		case port.Port == nil:
			list = append(list, match+"meta l4proto "+word+" return")
		case port.Port.Type == intstr.String:
			if number := portNamed(called, port.Port.StrVal, protocol); named && number != 0 {
				list = append(list, fmt.Sprintf("%s%s dport %d return", match, word, number))
			}
		case port.EndPort != nil:
			list = append(list, fmt.Sprintf("%s%s dport %d-%d return", match, word, port.Port.IntVal, *port.EndPort))
		default:
			list = append(list, fmt.Sprintf("%s%s dport %d return", match, word, port.Port.IntVal))
		}
	}
	return list
}

func portNamed(pod *corev1.Pod, name, protocol string) int32 {
	for _, container := range append(slices.Clone(pod.Spec.Containers), pod.Spec.InitContainers...) {
		for _, port := range container.Ports {
			spoken := cmp.Or(string(port.Protocol), string(corev1.ProtocolTCP))
			if port.Name == name && spoken == protocol {
				return port.ContainerPort
			}
		}
	}
	return 0
}
