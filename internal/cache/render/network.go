package render

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// policy lets clients reach the server, which asks for a password, and only the instances and the operator reach the
// agents, which ask for a certificate anyway. The kubelet needs no word for its probes. Where the instances may call
// is said only if the spec asks for it: a cache whose agents cannot reach the API server ends.
func policy(design cache.Design) *networkingv1.NetworkPolicy {
	own := metav1.LabelSelector{MatchLabels: map[string]string{cache.LabelCache: design.Name}}
	instances := networkingv1.NetworkPolicyPeer{PodSelector: &own}
	operators := networkingv1.NetworkPolicyPeer{
		NamespaceSelector: &metav1.LabelSelector{},
		PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{cache.LabelName: "meridian"}},
	}
	made := &networkingv1.NetworkPolicy{
		ObjectMeta: meta(design, cache.PodsName(design.Name), "route"),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: own, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{
					Ports: service.OpenPorts(wire.PortCache),
					From:  service.Clients(design.Spec.Network.Clients, instances),
				},
				{
					Ports: service.OpenPorts(wire.PortAgent), From: []networkingv1.NetworkPolicyPeer{instances, operators},
				},
			},
		},
	}
	if design.Spec.Network.Egress == v1alpha1.EgressNeeded {
		made.Spec.PolicyTypes = append(made.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		made.Spec.Egress = service.NeededEgress(instances, wire.PortCache)
	}
	return made
}
