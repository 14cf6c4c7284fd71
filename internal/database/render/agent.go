package render

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
)

// account is who the agents are towards the API server.
func account(design database.Design) *corev1.ServiceAccount {
	no := false
	return &corev1.ServiceAccount{
		ObjectMeta: meta(design, database.AgentName(design.Name), "agent"), AutomountServiceAccountToken: &no,
	}
}

// AgentRules are the rights of the agents of a database, each by name: its lease, where its write address leads, the
// labels of its pods, and its claims and its GeoDatabase to read.
func AgentRules(design database.Design) []rbacv1.PolicyRule {
	rule := func(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs,
		}
	}
	var pods []string
	for _, name := range design.Holders() {
		pods = append(pods, database.PodName(name))
	}
	return []rbacv1.PolicyRule{
		rule("coordination.k8s.io", "leases", []string{database.LeaseName(design.Name)}, "get", "list", "watch", "update"),
		rule("discovery.k8s.io", "endpointslices", []string{database.WriteName(design.Name)}, "get", "watch", "update"),
		// OpenShift asks for this of whoever writes an address of the cluster's own network into a slice.
		rule("discovery.k8s.io", "endpointslices/restricted", []string{database.WriteName(design.Name)}, "create"),
		rule("", "pods", pods, "get", "patch"),
		rule("", "persistentvolumeclaims", design.ClaimNames(), "get"),
		rule(v1alpha1.GroupVersion.Group, "geodatabases", []string{design.Name}, "get"),
	}
}

func role(design database.Design) *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: meta(design, database.AgentName(design.Name), "agent"), Rules: AgentRules(design),
	}
}

func roleBinding(design database.Design) *rbacv1.RoleBinding {
	name := database.AgentName(design.Name)
	return &rbacv1.RoleBinding{
		ObjectMeta: meta(design, name, "agent"),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: design.Namespace,
		}},
	}
}
