package render

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// HasPolicy says that the spec asks for a NetworkPolicy.
func HasPolicy(spec v1alpha1.GeoDatabaseSpec) bool {
	return spec.Network.Policy != v1alpha1.NetworkNone
}

// policy lets clients reach PostgreSQL, which asks for a password, and only the instances and the operator reach the
// agents, which ask for a certificate anyway. The kubelet needs no word for its probes. Where the instances may call is
// said only if the spec asks for it: functions and foreign tables may call anywhere.
func policy(design database.Design) *networkingv1.NetworkPolicy {
	own := map[string]string{database.LabelDatabase: design.Name}
	instances := networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: own}}
	made := &networkingv1.NetworkPolicy{
		ObjectMeta: meta(design, database.PodsName(design.Name), "route"),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: own},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{
					Ports: service.OpenPorts(wire.PortPostgres),
					From:  service.Clients(design.Spec.Network.Clients, instances),
				},
				{
					Ports: service.OpenPorts(wire.PortAgent),
					From:  []networkingv1.NetworkPolicyPeer{instances, operators(design)},
				},
			},
		},
	}
	if design.Spec.Network.Egress == v1alpha1.EgressNeeded {
		made.Spec.PolicyTypes = append(made.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		made.Spec.Egress = service.NeededEgress(instances, wire.PortPostgres)
	}
	return made
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
