//go:build cluster

package api_test

import (
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	cachenouns "meridian.dev/meridian/internal/cache"
	cacherender "meridian.dev/meridian/internal/cache/render"
	nouns "meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// restrictedEndpoints is what OpenShift's admission asks of whoever writes addresses of its own networks into a slice:
// the right to create endpointslices/restricted.
const restrictedEndpoints = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: restricted-endpoints}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [discovery.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [endpointslices]}
  validations:
  - expression: >-
      !object.endpoints.exists(e, e.addresses.exists(a, a.startsWith('10.'))) ||
      authorizer.group('discovery.k8s.io').resource('endpointslices').subresource('restricted')
      .namespace(request.namespace).name(request.name).check('create').allowed()
    message: endpoint address is not allowed
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: restricted-endpoints}
spec:
  policyName: restricted-endpoints
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: NAMESPACE}}}
`

// TestAgentsRouteOnOpenShift has the accounts of agents write their route with nothing but the rights that they are
// given, and once without the one that OpenShift asks for, which shows that the policy bites.
func TestAgentsRouteOnOpenShift(t *testing.T) {
	namespace := newNamespace(t)
	policy := strings.ReplaceAll(restrictedEndpoints, "NAMESPACE", namespace)
	mustKubectl(t, namespace, policy, "apply", "-f", "-")
	t.Cleanup(func() { _, _ = kubectl(t, namespace, policy, "delete", "-f", "-") })
	database := render.AgentRules(nouns.Design{Identity: nouns.Identity{Name: "cities", Namespace: namespace}})
	cache := cacherender.AgentRules(cachenouns.Design{Identity: cachenouns.Identity{Name: "tiles", Namespace: namespace}})
	routes := map[string]string{"cities": nouns.WriteName("cities"), "tiles": cachenouns.WriteName("tiles")}
	for name, rules := range map[string][]rbacv1.PolicyRule{"cities": database, "tiles": cache} {
		route := routes[name]
		mustKubectl(t, namespace, "", "create", "serviceaccount", name+"-agent")
		mustKubectl(t, namespace, `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: `+route+`},
			addressType: IPv4, endpoints: []}`, "create", "-f", "-")
		var without []rbacv1.PolicyRule
		for _, rule := range rules {
			if rule.Resources[0] != "endpointslices/restricted" {
				without = append(without, rule)
			}
		}
		if len(without) == len(rules) {
			t.Fatalf("the agents of %s have no right to write addresses of the cluster", name)
		}
		give(t, namespace, name, without)
		awaitAnswer(t, func() bool {
			err := routeTo(t, namespace, name, route, "10.1.2.3")
			return err != nil && strings.Contains(err.Error(), "endpoint address is not allowed")
		}, "without the right %s routes all the same", name)
		give(t, namespace, name, rules)
		awaitAnswer(t, func() bool { return routeTo(t, namespace, name, route, "10.1.2.4") == nil },
			"with the right %s does not route", name)
	}
}

// give has the account of the agents hold the rules and nothing else.
func give(t *testing.T, namespace, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	account := name + "-agent"
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account}, Rules: rules}
	if err := cluster.Create(t.Context(), role); apierrors.IsAlreadyExists(err) {
		if err := cluster.Update(t.Context(), role); err != nil {
			t.Fatal(err)
		}
		return
	} else if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account}},
	}); err != nil {
		t.Fatal(err)
	}
}

func routeTo(t *testing.T, namespace, name, route, address string) error {
	t.Helper()
	config := rest.CopyConfig(server.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + name + "-agent",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	caller, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	slices := schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	mine := caller.Resource(slices).Namespace(namespace)
	read, err := mine.Get(t.Context(), route, metav1.GetOptions{})
	if err != nil {
		return err
	}
	read.Object["endpoints"] = []any{map[string]any{"addresses": []any{address}}}
	_, err = mine.Update(t.Context(), read, metav1.UpdateOptions{})
	return err
}

// awaitAnswer gives the API server the time to take a policy or a role in.
func awaitAnswer(t *testing.T, right func() bool, otherwise string, args ...any) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !right(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf(otherwise, args...)
		}
	}
}
