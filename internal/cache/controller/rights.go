package controller

import "meridian.dev/meridian/kit/rbac"

// Rights is what the loop may do, and nothing else: roles, the check at start and the audit of tests come from it.
func Rights() rbac.Table {
	const group, user = "meridian.dev", "the cache loop"
	read, write := []string{"get", "list", "watch"}, []string{"create", "patch"}
	var table rbac.Table
	watched := func(group, resource string, verbs []string, why string) {
		table = append(table, rbac.Row{
			Scope: rbac.Watched, Group: group, Resource: resource, Verbs: verbs, Why: why, UsedBy: user,
		})
	}
	watched(group, "geocaches", read, "see which caches are wanted")
	watched(group, "geocaches/status", []string{"patch"}, "report")
	watched(group, "geocaches/finalizers", []string{"update"}, "own children that block its deletion")
	table[len(table)-1].Implied = true
	watched(group, "geocaches", []string{"patch"}, "take requests away, and bind a cache to its database")
	watched(group, "geocaches", []string{"delete"}, "have a cache end with its database")
	watched(group, "geodatabases", read, "see whether the database of a cache exists")
	watched("", "configmaps", read, "see the settings of a cache")
	watched("", "configmaps", write, "write the settings of a cache")
	watched("", "services", read, "see the addresses of a cache")
	watched("", "services", write, "write the addresses of a cache")
	watched("apps", "statefulsets", read, "see the instances of a cache")
	watched("apps", "statefulsets", write, "write the instances of a cache")
	watched("", "pods", read, "see whether instances are well")
	watched("apps", "statefulsets", []string{"delete"}, "remove instances that are no longer wanted")
	watched("", "pods", []string{"patch"}, "tell a pod that there are new settings")
	watched("", "pods", []string{"delete"}, "replace a pod that cannot start")
	watched("coordination.k8s.io", "leases", read, "see who the primary is")
	watched("coordination.k8s.io", "leases", []string{"create"}, "make the lease of a cache")
	watched("discovery.k8s.io", "endpointslices", read, "see where the write address leads")
	watched("discovery.k8s.io", "endpointslices", write, "make the write address, which leads to nobody at first")
	watched("networking.k8s.io", "networkpolicies", read, "see who may reach the instances")
	watched("networking.k8s.io", "networkpolicies", write, "write who may reach the instances")
	watched("policy", "poddisruptionbudgets", read, "see how many instances may be disrupted")
	watched("policy", "poddisruptionbudgets", write, "write how many instances may be disrupted")
	watched("", "pods/resize", []string{"patch"}, "change the memory of an instance in place")
	watched("", "secrets", []string{"get"}, "read certificates by name")
	watched("", "secrets", write, "make credentials, and make and replace certificates")
	watched("events.k8s.io", "events", write, "tell what was done")
	watched("", "events", []string{"list"}, "say why a node does not set up a pod")
	return append(table, agentRights(user)...)
}

// agentRights is what it takes to give the agents their rights: the API server lets nobody give what they do not have.
func agentRights(user string) rbac.Table {
	const group = "rbac.authorization.k8s.io"
	var table rbac.Table
	for _, row := range []rbac.Row{
		{Resource: "serviceaccounts", Why: "make the accounts of agents"},
		{Group: group, Resource: "roles", Why: "give agents their rights"},
		{Group: group, Resource: "rolebindings", Why: "bind the rights to the accounts of agents"},
	} {
		row.Scope, row.UsedBy, row.Verbs = rbac.Watched, user, []string{"get", "list", "watch", "create", "patch"}
		table = append(table, row)
	}
	for _, row := range []rbac.Row{
		{Group: "coordination.k8s.io", Resource: "leases", Why: "give it to agents: they agree on the primary"},
		{Group: "discovery.k8s.io", Resource: "endpointslices", Why: "give it to agents: the primary routes to itself"},
	} {
		row.Scope, row.UsedBy, row.Verbs, row.Implied = rbac.Watched, user, []string{"update"}, true
		table = append(table, row)
	}
	return append(table, rbac.Row{
		Scope: rbac.Watched, Group: "discovery.k8s.io", Resource: "endpointslices/restricted", Verbs: []string{"create"},
		Why: "give it to agents: OpenShift asks for it where an address is one of a pod", UsedBy: user, Implied: true,
	})
}
