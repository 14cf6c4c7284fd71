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
	watched(group, "geodatabases", read, "see whether the database of a cache exists")
	watched("", "configmaps", read, "see the settings of a cache")
	watched("", "configmaps", write, "write the settings of a cache")
	watched("", "services", read, "see the addresses of a cache")
	watched("", "services", write, "write the addresses of a cache")
	watched("apps", "statefulsets", read, "see the instances of a cache")
	watched("apps", "statefulsets", write, "write the instances of a cache")
	watched("", "pods", read, "see whether instances are well")
	watched("", "pods", []string{"delete"}, "replace a pod that cannot start")
	watched("", "pods/resize", []string{"patch"}, "change the memory of an instance in place")
	watched("", "secrets", []string{"get"}, "read certificates by name")
	watched("", "secrets", write, "make credentials, and make and replace certificates")
	watched("events.k8s.io", "events", write, "tell what was done")
	return table
}
