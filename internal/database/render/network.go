package render

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// HasPolicy says that the spec asks for a NetworkPolicy.
func HasPolicy(spec v1alpha1.GeoDatabaseSpec) bool {
	return spec.Network.Policy != v1alpha1.NetworkNone
}

// policy lets clients reach PostgreSQL, which asks for a password, and only the instances and the operator reach the
// agents, which ask for a certificate anyway. The kubelet needs no word for its probes.
func policy(design database.Design) *networkingv1.NetworkPolicy {
	own := map[string]string{database.LabelDatabase: design.Name}
	open := func(number int) []networkingv1.NetworkPolicyPort {
		protocol, at := corev1.ProtocolTCP, intstr.FromInt(number)
		return []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &at}}
	}
	instances := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: own}}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: meta(design, database.PodsName(design.Name), "route"),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: own},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{Ports: open(wire.PortPostgres), From: clients(design.Spec.Network.Clients, instances)},
				{Ports: open(wire.PortAgent), From: []networkingv1.NetworkPolicyPeer{instances, operators(design)}},
			},
		},
	}
}

// clients are those that may reach PostgreSQL: everybody, or those that are named and the instances, which replicate.
func clients(
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

// operators are the pods of Meridian in the namespace of the installation that works for the database. One that does
// not say where it runs is looked for everywhere.
func operators(design database.Design) networkingv1.NetworkPolicyPeer {
	home := &metav1.LabelSelector{}
	if namespace, _, found := strings.Cut(design.Installation, "/"); found {
		home.MatchLabels = map[string]string{corev1.LabelMetadataName: namespace}
	}
	return networkingv1.NetworkPolicyPeer{
		NamespaceSelector: home,
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{database.LabelName: "meridian"}},
	}
}
