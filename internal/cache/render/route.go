package render

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// leaseDuration is how long the primary may be silent before another instance takes over.
const leaseDuration = 10 * time.Second

// writeService selects nothing: the holder of the lease writes where it leads.
func writeService(design cache.Design) *corev1.Service {
	return serviceOf(design, cache.WriteName(design.Name), nil)
}

// readService leads to the replicas whose agents say that they follow; to the primary if there is none.
func readService(design cache.Design) *corev1.Service {
	return serviceOf(design, cache.ReadName(design.Name), map[string]string{
		cache.LabelCache: design.Name, cache.LabelRead: "true",
	})
}

// podsService gives every pod a name, ready or not: agents look for each other when nothing is ready.
func podsService(design cache.Design) *corev1.Service {
	headless := serviceOf(design, cache.PodsName(design.Name), map[string]string{cache.LabelCache: design.Name})
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	headless.Spec.PublishNotReadyAddresses = true
	headless.Spec.Ports = append(headless.Spec.Ports, service.Port("agent", wire.PortAgent))
	return headless
}

func serviceOf(design cache.Design, name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(design, name, "route"),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selector,
			Ports: []corev1.ServicePort{service.Port(portName, wire.PortCache)},
		},
	}
}

// slice is where the write address leads: to nobody, until a holder writes itself into it. What a holder writes is not
// part of it, so nothing of that is ever undone.
func slice(design cache.Design) *discoveryv1.EndpointSlice {
	name, number, protocol := portName, int32(wire.PortCache), corev1.ProtocolTCP
	made := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta(design, cache.WriteName(design.Name), "route"),
		AddressType: discoveryv1.AddressType(design.Family),
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: &protocol}},
	}
	made.Labels[discoveryv1.LabelServiceName] = cache.WriteName(design.Name)
	made.Labels[discoveryv1.LabelManagedBy] = cache.SliceManager
	return made
}

// Lease renders the lease as it is made, once. From then on it belongs to the agents.
func Lease(design cache.Design) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: meta(design, cache.LeaseName(design.Name), "lease")}
}

// budget lets one instance at a time be disrupted: a drain goes on, and finds the next one only when the last is back.
func budget(design cache.Design) *policyv1.PodDisruptionBudget {
	one := intstr.FromInt32(1)
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: meta(design, cache.PodsName(design.Name), "instance"),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one,
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{cache.LabelCache: design.Name}},
		},
	}
}

// agentAccount is who the agents are towards the API server.
func agentAccount(design cache.Design) *corev1.ServiceAccount {
	no := false
	return &corev1.ServiceAccount{
		ObjectMeta: meta(design, cache.AgentName(design.Name), "agent"), AutomountServiceAccountToken: &no,
	}
}

// AgentRules are the rights of the agents of a cache, each by name: its lease, where its write address leads, the
// labels of its pods, and its GeoCache to read.
func AgentRules(design cache.Design) []rbacv1.PolicyRule {
	rule := func(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs,
		}
	}
	var pods []string
	for _, name := range append(append([]string{}, design.Instances...), design.Leaving...) {
		pods = append(pods, cache.PodName(name))
	}
	slices.Sort(pods) // Who is leaving changes nothing.
	rules := []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "leases", []string{cache.LeaseName(design.Name)}, "get", "list", "watch", "update"),
		rule("discovery.k8s.io", "endpointslices", []string{cache.WriteName(design.Name)}, "get", "watch", "update"),
		// OpenShift asks for this of whoever writes an address of the cluster's own network into a slice.
		rule("discovery.k8s.io", "endpointslices/restricted", []string{cache.WriteName(design.Name)}, "create"),
		rule(v1alpha1.GroupVersion.Group, "geocaches", []string{design.Name}, "get"),
	}
	if len(pods) > 0 {
		// Without names the rule would be about all pods.
		rules = append(rules, rule("", "pods", pods, "get", "patch"))
	}
	return rules
}

func role(design cache.Design) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: meta(design, cache.AgentName(design.Name), "agent"), Rules: AgentRules(design)}
}

func roleBinding(design cache.Design) *rbacv1.RoleBinding {
	name := cache.AgentName(design.Name)
	return &rbacv1.RoleBinding{
		ObjectMeta: meta(design, name, "agent"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: design.Namespace}},
	}
}
