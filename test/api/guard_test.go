//go:build cluster

package api_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const guardedLease = `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata:
  name: %[1]s-primary
  labels:
    meridian.dev/%[2]s: %[1]s
    app.kubernetes.io/managed-by: meridian
    app.kubernetes.io/component: lease
    app.kubernetes.io/instance: %[1]s
  annotations: {meridian.dev/record: '{"term":1}'}
spec: {holderIdentity: %[1]s-1, leaseTransitions: 1}
`

const plainLease = `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: other}
spec: {holderIdentity: somebody}
`

// TestLeasesAreGuarded has humans, agents and the cluster itself write and delete leases. All have every right that
// roles can give: what refuses is the policy.
func TestLeasesAreGuarded(t *testing.T) {
	namespace := newNamespace(t)
	policy := filepath.Join("..", "..", "deploy", "policy.yaml")
	mustKubectl(t, namespace, "", "apply", "-f", policy)
	t.Cleanup(func() { _, _ = kubectl(t, namespace, "", "delete", "-f", policy) })
	const human = "system:admin"
	hold := []string{"patch", "lease", "cities-primary", "--type=merge", "-p", `{"spec":{"holderIdentity":"me"}}`}
	remove := []string{"delete", "lease", "cities-primary", "--wait=false"}
	account := func(name string) string { return "system:serviceaccount:" + namespace + ":" + name }
	cases := []struct {
		name, user string
		verb       []string
		unguarded  bool
		refused    string
	}{
		{name: "a human takes the lease", user: human, verb: hold, refused: "written by the agents alone"},
		{name: "an agent renews it", user: account("cities-agent"), verb: hold},
		{name: "an agent of another database", user: account("towns-agent"), verb: hold, refused: "the agents alone"},
		{
			name: "an agent of the same name elsewhere", user: "system:serviceaccount:elsewhere:cities-agent", verb: hold,
			refused: "the agents alone",
		},
		{
			name: "a human writes the record", user: human, refused: "the agents alone",
			verb: []string{"annotate", "--overwrite", "lease", "cities-primary", `meridian.dev/record={}`},
		},
		{
			name: "a human takes the label away", user: human, refused: "the agents alone",
			verb: []string{"label", "lease", "cities-primary", "app.kubernetes.io/managed-by-"},
		},
		{
			name: "a human gives a copy up", user: human,
			verb: []string{"annotate", "lease", "cities-primary", "meridian.dev/given-up=cities-2/abc"},
		},
		{name: "a human deletes it", user: human, verb: remove, refused: "goes when the GeoDatabase is deleted"},
		{name: "an agent deletes it", user: account("cities-agent"), verb: remove, refused: "goes when the GeoDatabase"},
		{name: "the cluster deletes it", user: "system:serviceaccount:kube-system:generic-garbage-collector", verb: remove},
		{name: "a repair by hand", user: human, verb: hold, unguarded: true},
		{name: "a deletion by hand", user: human, verb: remove, unguarded: true},
		{
			name: "a human takes a cache's lease", user: human, refused: "the agents alone",
			verb: []string{"patch", "lease", "tiles-primary", "--type=merge", "-p", `{"spec":{"holderIdentity":"me"}}`},
		},
		{name: "a human deletes a cache's lease", user: human, verb: []string{"delete", "lease", "tiles-primary"}},
		{
			name: "a lease of somebody else", user: human,
			verb: []string{"patch", "lease", "other", "--type=merge", "-p", `{"spec":{"holderIdentity":"me"}}`},
		},
	}
	awaitGuard(t, namespace)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			makeLeases(t, namespace)
			if c.unguarded {
				mustKubectl(t, namespace, "", "annotate", "lease", "cities-primary", "meridian.dev/unguarded=yes")
			}
			output, ok := kubectl(t, namespace, "", append(c.verb, "--as="+c.user, "--as-group=system:masters")...)
			if ok != (c.refused == "") || !strings.Contains(output, c.refused) {
				t.Errorf("allowed %t, expected it refused with %q: %s", ok, c.refused, output)
			}
		})
	}
}

// TestGuardIsLiftedByFew has a user with the role edit, which may patch leases, try to lift the guard.
func TestGuardIsLiftedByFew(t *testing.T) {
	namespace := newNamespace(t)
	policy := filepath.Join("..", "..", "deploy", "policy.yaml")
	mustKubectl(t, namespace, "", "apply", "-f", policy)
	t.Cleanup(func() { _, _ = kubectl(t, namespace, "", "delete", "-f", policy) })
	mustKubectl(t, namespace, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leases}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: unguard}
rules:
- {apiGroups: [meridian.dev], resources: [geodatabases], resourceNames: [cities], verbs: [unguard]}
`, "create", "-f", "-")
	for _, user := range []string{"tenant", "keeper"} {
		mustKubectl(t, namespace, "", "create", "rolebinding", user, "--role=leases", "--user="+user)
	}
	mustKubectl(t, namespace, "", "create", "rolebinding", "unguard", "--role=unguard", "--user=keeper")
	awaitGuard(t, namespace)
	lift := []string{"annotate", "--overwrite", "lease", "cities-primary", "meridian.dev/unguarded=yes"}
	hold := []string{"patch", "lease", "cities-primary", "--type=merge", "-p", `{"spec":{"holderIdentity":"me"}}`}
	makeLeases(t, namespace)
	output, ok := kubectl(t, namespace, "", append(lift, "--as=tenant")...)
	if ok || !strings.Contains(output, "takes the right to unguard geodatabases") {
		t.Errorf("a tenant lifts the guard: %s", output)
	}
	if output, ok := kubectl(t, namespace, "", append(hold, "--as=tenant")...); ok {
		t.Errorf("a tenant holds the lease: %s", output)
	}
	// Rights are taken in a moment after they were given.
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		output, ok := kubectl(t, namespace, "", append(lift, "--as=keeper")...)
		if ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("who has the right cannot lift the guard: %s", output)
		}
	}
	mustKubectl(t, namespace, "", append(hold, "--as=keeper")...)
}

// makeLeases makes all of them anew.
func makeLeases(t *testing.T, namespace string) {
	t.Helper()
	mustKubectl(t, namespace, "", "annotate", "--overwrite", "leases", "--all", "meridian.dev/unguarded=yes")
	mustKubectl(t, namespace, "", "delete", "leases", "--all")
	manifests := fmt.Sprintf(guardedLease, "cities", "database") + "---" + fmt.Sprintf(guardedLease, "tiles", "cache") +
		"---" + plainLease
	mustKubectl(t, namespace, manifests, "create", "-f", "-")
}

// awaitGuard waits until the API server has taken the policy in. Every try writes another record: one that changes
// nothing is allowed to everyone. No try has to pass, as the policy can come into force before any of them.
func awaitGuard(t *testing.T, namespace string) {
	t.Helper()
	makeLeases(t, namespace)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		record := fmt.Sprintf(`{"metadata":{"annotations":{"meridian.dev/record":"%d"}}}`, time.Now().UnixNano())
		output, passes := kubectl(t, namespace, "", "patch", "lease", "cities-primary", "--type=merge", "-p", record)
		if !passes && strings.Contains(output, "written by the agents alone") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy is not in force after a minute: %s", output)
		}
	}
}
