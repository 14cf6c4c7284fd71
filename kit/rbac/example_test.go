package rbac_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	authorizationv1 "k8s.io/api/authorization/v1"

	"meridian.dev/meridian/kit/rbac"
)

// table is what a small program needs.
var table = rbac.Table{
	{Scope: rbac.Watched, Resource: "pods", Verbs: []string{"list", "watch"},
		Why: "see which Pods exist", UsedBy: "observe"},
	{Scope: rbac.Watched, Resource: "services", Verbs: []string{"list", "watch"},
		Why: "see which Services exist", UsedBy: "observe"},
	{Scope: rbac.Watched, Resource: "pods", Verbs: []string{"create", "delete"},
		Why: "have as many Pods as wished", UsedBy: "act"},
	{Scope: rbac.Cluster, Group: "storage.k8s.io", Resource: "storageclasses", Verbs: []string{"get"},
		Why: "know whether a volume can grow", UsedBy: "observe"},
	{Scope: rbac.Home, Group: "coordination.k8s.io", Resource: "leases", Verbs: []string{"update"},
		Names: []string{"gardener"}, Why: "act alone", UsedBy: "election"},
}

func ExampleTable_YAML() {
	text, err := table.YAML(rbac.Installation{
		Name: "gardener", Home: "garden-system", ServiceAccount: "gardener", Namespaces: []string{"roses"},
	})
	fmt.Println(string(text), err)
	// Output:
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: ClusterRole
	// metadata:
	//   name: gardener
	// rules:
	// - apiGroups:
	//   - storage.k8s.io
	//   resources:
	//   - storageclasses
	//   verbs:
	//   - get
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: ClusterRoleBinding
	// metadata:
	//   name: gardener
	// roleRef:
	//   apiGroup: rbac.authorization.k8s.io
	//   kind: ClusterRole
	//   name: gardener
	// subjects:
	// - kind: ServiceAccount
	//   name: gardener
	//   namespace: garden-system
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: Role
	// metadata:
	//   name: gardener
	//   namespace: garden-system
	// rules:
	// - apiGroups:
	//   - coordination.k8s.io
	//   resourceNames:
	//   - gardener
	//   resources:
	//   - leases
	//   verbs:
	//   - update
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: RoleBinding
	// metadata:
	//   name: gardener
	//   namespace: garden-system
	// roleRef:
	//   apiGroup: rbac.authorization.k8s.io
	//   kind: Role
	//   name: gardener
	// subjects:
	// - kind: ServiceAccount
	//   name: gardener
	//   namespace: garden-system
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: Role
	// metadata:
	//   name: gardener
	//   namespace: roses
	// rules:
	// - apiGroups:
	//   - ""
	//   resources:
	//   - pods
	//   verbs:
	//   - list
	//   - watch
	//   - create
	//   - delete
	// - apiGroups:
	//   - ""
	//   resources:
	//   - services
	//   verbs:
	//   - list
	//   - watch
	// ---
	// apiVersion: rbac.authorization.k8s.io/v1
	// kind: RoleBinding
	// metadata:
	//   name: gardener
	//   namespace: roses
	// roleRef:
	//   apiGroup: rbac.authorization.k8s.io
	//   kind: Role
	//   name: gardener
	// subjects:
	// - kind: ServiceAccount
	//   name: gardener
	//   namespace: garden-system
	//  <nil>
}

// readOnly answers like an API server on which only reading is allowed.
type readOnly struct{}

func (readOnly) Review(_ context.Context, question authorizationv1.ResourceAttributes) (
	authorizationv1.SubjectAccessReviewStatus, error) {
	allowed := question.Verb == "get" || question.Verb == "list" || question.Verb == "watch"
	return authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}, nil
}

func ExamplePreflight() {
	in := rbac.Installation{Home: "garden-system", Namespaces: []string{"tulips", "roses"}}
	missing, err := rbac.Preflight(context.Background(), readOnly{}, table, in)
	for _, one := range missing {
		fmt.Println(one)
	}
	fmt.Println(err)
	// Output:
	// may not create, delete pods in namespace "roses": act needs this to have as many Pods as wished
	// may not create, delete pods in namespace "tulips": act needs this to have as many Pods as wished
	// may not update leases.coordination.k8s.io "gardener" in namespace "garden-system": election needs this to act alone
	// <nil>
}

// A test runs the program against an API server, and audits the table afterwards.
func ExampleRecorder() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	var recorder rbac.Recorder
	client := &http.Client{Transport: recorder.Wrap(http.DefaultTransport)}
	for _, path := range []string{
		"/api/v1/namespaces/roses/pods", "/api/v1/namespaces/roses/pods?watch=true",
		"/api/v1/namespaces/roses/secrets/thorn",
	} {
		response, err := client.Get(server.URL + path)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = response.Body.Close()
	}

	uncovered, unused := table[:3].Audit(rbac.Installation{Namespaces: []string{"roses"}}, recorder.Uses())
	for _, use := range uncovered {
		fmt.Println("not in the table:", use)
	}
	for _, one := range unused {
		fmt.Println(one)
	}
	// Output:
	// not in the table: get secrets "thorn" in namespace "roses"
	// nothing was seen to list services, although observe is said to need this to see which Services exist
	// nothing was seen to watch services, although observe is said to need this to see which Services exist
	// nothing was seen to create pods, although act is said to need this to have as many Pods as wished
	// nothing was seen to delete pods, although act is said to need this to have as many Pods as wished
}
