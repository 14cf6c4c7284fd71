package service

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/wire"
)

// The ports that instances and the operator call beside their own. Where the API server listens behind the Service
// kubernetes.default, and where the name servers listen behind theirs, depends on the distribution.
var (
	serverPorts = []int{443, 6443, 8443, 16443}
	namePorts   = []int{53, 5353}
)

// OpenPorts lists ports of TCP.
func OpenPorts(numbers ...int) []networkingv1.NetworkPolicyPort {
	return ports(corev1.ProtocolTCP, numbers...)
}

func ports(protocol corev1.Protocol, numbers ...int) []networkingv1.NetworkPolicyPort {
	var list []networkingv1.NetworkPolicyPort
	for _, number := range numbers {
		at := intstr.FromInt(number)
		list = append(list, networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &at})
	}
	return list
}

// Clients are those that may reach a server: everybody, or those that are named and the instances, which replicate.
func Clients(
	named []v1alpha1.NetworkClient, instances networkingv1.NetworkPolicyPeer,
) []networkingv1.NetworkPolicyPeer {
	if len(named) == 0 {
		return nil
	}
	peers := []networkingv1.NetworkPolicyPeer{instances}
	for _, client := range named {
		peer := networkingv1.NetworkPolicyPeer{NamespaceSelector: client.Namespaces, PodSelector: client.Pods}
		if client.CIDR != "" {
			peer.IPBlock = &networkingv1.IPBlock{CIDR: client.CIDR}
		}
		peers = append(peers, peer)
	}
	return peers
}

// NeededEgress is what instances call: each other, name servers, and the API server. Nobody can say by which addresses
// the latter two are reached.
func NeededEgress(instances networkingv1.NetworkPolicyPeer, server int) []networkingv1.NetworkPolicyEgressRule {
	return append([]networkingv1.NetworkPolicyEgressRule{{
		Ports: OpenPorts(server, wire.PortAgent), To: []networkingv1.NetworkPolicyPeer{instances},
	}}, ClusterEgress()...)
}

// ClusterEgress is what everything of Meridian calls: name servers and the API server.
func ClusterEgress() []networkingv1.NetworkPolicyEgressRule {
	return []networkingv1.NetworkPolicyEgressRule{
		{Ports: append(ports(corev1.ProtocolUDP, namePorts...), OpenPorts(namePorts...)...)},
		{Ports: OpenPorts(serverPorts...)},
	}
}
