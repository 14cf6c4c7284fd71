package controller

import "meridian.dev/meridian/kit/rbac"

const (
	meridian = "meridian.dev"
	loopName = "the database loop"
)

// Rights is what the loop may do, and nothing else: roles, the check at start and the audit of tests come from it.
func Rights() rbac.Table {
	read, write := []string{"get", "list", "watch"}, []string{"create", "patch"}
	watched := func(group, resource string, verbs []string, why string) rbac.Row {
		return rbac.Row{
			Scope: rbac.Watched, Group: group, Resource: resource, Verbs: verbs, Why: why, UsedBy: loopName,
		}
	}
	implied := watched(meridian, "geodatabases/finalizers", []string{"update"}, "own children that block its deletion")
	implied.Implied = true
	return rbac.Table{
		watched(meridian, "geodatabases", read, "see which databases are wanted"),
		watched(meridian, "geodatabases", []string{"patch"}, "put the finalizer on a database and take it off"),
		watched(meridian, "geodatabases/status", []string{"patch"}, "report"),
		implied,
		watched("", "configmaps", read, "see the settings of a database"),
		watched("", "configmaps", write, "write the settings of a database"),
		watched("", "services", read, "see the addresses of a database"),
		watched("", "services", write, "write the addresses of a database"),
		watched("", "persistentvolumeclaims", read, "see the volumes of a database"),
		watched("", "persistentvolumeclaims", write, "make and grow the volumes of a database"),
		watched("", "persistentvolumeclaims", []string{"delete"}, "delete volumes when the spec says so"),
		watched("apps", "statefulsets", read, "see the instances of a database"),
		watched("apps", "statefulsets", write, "write the instances of a database"),
		watched("", "pods", read, "see whether instances are well"),
		watched("", "pods", []string{"delete"}, "replace a pod that cannot start"),
		watched("", "secrets", []string{"get"}, "read certificates and credentials by name"),
		watched("", "secrets", write, "make credentials, and make and replace certificates"),
		watched("events.k8s.io", "events", write, "tell what was done"),
		{
			Scope: rbac.Cluster, Group: "storage.k8s.io", Resource: "storageclasses", Verbs: []string{"get"},
			Why: "know whether a volume can grow", UsedBy: loopName,
		},
	}
}
