package controller

import "meridian.dev/meridian/kit/rbac"

const (
	meridian = "meridian.dev"
	loopName = "the database loop"
)

// Rights is what the loop may do, and nothing else: roles, the check at start and the audit of tests come from it.
func Rights() rbac.Table {
	read, write := []string{"get", "list", "watch"}, []string{"create", "patch"}
	implied := watched(meridian, "geodatabases/finalizers", []string{"update"}, "own children that block its deletion")
	implied.Implied = true
	return append(rbac.Table{
		watched(meridian, "geodatabases", read, "see which databases are wanted"),
		watched(meridian, "geodatabases", []string{"patch"},
			"put the finalizer on a database and take it off, and take requests away"),
		watched(meridian, "geodatabases/status", []string{"patch"}, "report"),
		implied,
		watched(meridian, "geocaches", []string{"list", "watch"}, "see which caches a database has"),
		watched("", "configmaps", read, "see the settings of a database"),
		watched("", "configmaps", write, "write the settings of a database"),
		watched("", "services", read, "see the addresses of a database"),
		watched("", "services", write, "write the addresses of a database"),
		watched("discovery.k8s.io", "endpointslices", read, "see where the write address leads"),
		watched("discovery.k8s.io", "endpointslices", write, "make the write address, which leads to nobody at first"),
		watched("coordination.k8s.io", "leases", read, "see who the primary is"),
		watched("coordination.k8s.io", "leases", write, "make the lease of a database, and let it go at the end"),
		watched("networking.k8s.io", "networkpolicies", read, "see who may reach the instances"),
		watched("networking.k8s.io", "networkpolicies", write, "write who may reach the instances"),
		watched("networking.k8s.io", "networkpolicies", []string{"delete"}, "remove a policy that the spec does not want"),
		watched("policy", "poddisruptionbudgets", read, "see how many instances may be disrupted"),
		watched("policy", "poddisruptionbudgets", write, "write how many instances may be disrupted"),
		watched("", "persistentvolumeclaims", read, "see the volumes of a database"),
		watched("", "persistentvolumeclaims", write, "make and grow the volumes of a database"),
		watched("", "persistentvolumeclaims", []string{"delete"}, "delete volumes when the spec says so"),
		watched("apps", "statefulsets", read, "see the instances of a database"),
		watched("apps", "statefulsets", write, "write the instances of a database"),
		watched("apps", "statefulsets", []string{"delete"}, "remove instances that are no longer wanted"),
		watched("", "pods", read, "see whether instances are well"),
		watched("", "pods", []string{"patch"}, "tell a pod that there are new settings"),
		watched("", "pods", []string{"create"}, "ask whether a pod would be taken, and make the one that restores on trial"),
		watched("", "pods/resize", []string{"patch"}, "change CPU and memory of a running instance"),
		watched("", "pods", []string{"delete"}, "replace a pod that cannot start, and end a restore on trial"),
		watched("", "secrets", []string{"get"}, "read certificates and credentials by name"),
		watched("", "secrets", write, "make credentials, and make and replace certificates"),
		watched("", "secrets", []string{"delete"}, "remove the certificate of an instance that is gone"),
		watched("events.k8s.io", "events", write, "tell what was done"),
		watched("", "events", []string{"list"}, "say why a node does not set up a pod"),
		{
			Scope: rbac.Cluster, Group: "storage.k8s.io", Resource: "storageclasses", Verbs: []string{"get", "list"},
			Why: "know whether a volume can be made and can grow", UsedBy: loopName,
		},
		{
			Scope: rbac.Cluster, Resource: "nodes", Verbs: []string{"get"},
			Why: "know whether the node of an instance is lost", UsedBy: loopName,
		},
		{
			Scope: rbac.Cluster, Resource: "persistentvolumes", Verbs: []string{"get"},
			Why: "know whether a volume is lost together with its node", UsedBy: loopName,
		},
	}, agentRights()...)
}

// agentRights is what it takes to give the agents their rights: the API server lets nobody give what they do not have.
func agentRights() rbac.Table {
	read, write := []string{"get", "list", "watch"}, []string{"create", "patch"}
	const rbacGroup = "rbac.authorization.k8s.io"
	table := rbac.Table{
		watched("", "serviceaccounts", read, "see the accounts of agents"),
		watched("", "serviceaccounts", write, "make the accounts of agents"),
		watched(rbacGroup, "roles", read, "see the rights of agents"),
		watched(rbacGroup, "roles", write, "give agents their rights"),
		watched(rbacGroup, "rolebindings", read, "see whose rights they are"),
		watched(rbacGroup, "rolebindings", write, "bind the rights to the accounts of agents"),
	}
	for _, given := range []rbac.Row{
		watched("coordination.k8s.io", "leases", []string{"update"}, "give it to agents: they agree on the primary"),
		watched("discovery.k8s.io", "endpointslices", []string{"update"}, "give it to agents: the primary routes to itself"),
		watched("discovery.k8s.io", "endpointslices/restricted", []string{"create"},
			"give it to agents: OpenShift asks for it where an address is one of a pod"),
	} {
		given.Implied = true
		table = append(table, given)
	}
	return table
}

func watched(group, resource string, verbs []string, why string) rbac.Row {
	return rbac.Row{
		Scope: rbac.Watched, Group: group, Resource: resource, Verbs: verbs, Why: why, UsedBy: loopName,
	}
}
