//go:build cluster

package api_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// ownObjects are what the account of an agent may write by name: its write address and its pods.
const ownObjects = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %[1]s-rw
  labels:
    meridian.dev/%[2]s: %[1]s
    app.kubernetes.io/managed-by: meridian
    kubernetes.io/service-name: %[1]s-rw
    endpointslice.kubernetes.io/managed-by: meridian.dev
addressType: IPv4
ports: [{name: postgres, port: 5432, protocol: TCP}]
endpoints: []
---
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s-1-0
  labels: {meridian.dev/%[2]s: %[1]s, app.kubernetes.io/managed-by: meridian, meridian.dev/role: replica}
  annotations: {meridian.dev/owner: uid}
spec: {automountServiceAccountToken: false, containers: [{name: database, image: "postgis:17"}]}
`

// attempt is one request of an agent's account, as a merge patch.
type attempt struct {
	resource, name, patch string
	// pod is what the token was made for, empty for one that was asked for by hand.
	pod     string
	account string // cities-agent unless it says otherwise
	refused string
}

// agentAttempts are what agents do, and what somebody with an agent's token would do. All have every right that roles
// can give: what refuses is the policy.
var agentAttempts = map[string]attempt{
	"the primary routes to itself": {
		resource: endpointSlices, name: "cities-rw", pod: "cities-1-0", patch: leadTo("10.1.2.3", "cities-1-0")},
	"the route is closed": {resource: endpointSlices, name: "cities-rw", pod: "cities-1-0",
		patch: `{"metadata":{"annotations":{"meridian.dev/term":"3"}},"endpoints":[]}`},
	"a cache routes to itself": {
		resource: endpointSlices, name: "tiles-rw", pod: "tiles-1-0", account: "tiles-agent",
		patch: leadTo("10.1.2.3", "tiles-1-0"),
	},
	"a pod that is another's": {
		resource: endpointSlices, name: "cities-rw", pod: "cities-1-0", refused: ownPodAlone,
		patch: leadTo("10.1.2.3", "cities-2-0"),
	},
	"a pod of another database, by hand": {
		resource: endpointSlices, name: "cities-rw", patch: leadTo("10.1.2.3", "towns-1-0"), refused: ownPodAlone,
	},
	"two endpoints": {
		resource: endpointSlices, name: "cities-rw", pod: "cities-1-0", refused: ownPodAlone,
		patch: `{"endpoints":[{"addresses":["10.1.2.3"]},{"addresses":["10.1.2.4"]}]}`,
	},
	"no target": {
		resource: endpointSlices, name: "cities-rw", pod: "cities-1-0", refused: ownPodAlone,
		patch: `{"endpoints":[{"addresses":["10.1.2.3"]}]}`,
	},
	"the traffic of another Service": {
		resource: endpointSlices, name: "cities-rw", pod: "cities-1-0", refused: onlyEndpoints,
		patch: `{"metadata":{"labels":{"kubernetes.io/service-name":"towns-rw"}}}`,
	},
	"the label that tells whose it is": {
		resource: endpointSlices, name: "cities-rw", pod: "cities-1-0", refused: onlyEndpoints,
		patch: `{"metadata":{"labels":{"app.kubernetes.io/managed-by":null}}}`,
	},
	"another port": {
		resource: endpointSlices, name: "cities-rw", pod: "cities-1-0", refused: onlyEndpoints,
		patch: `{"ports":[{"name":"postgres","port":80,"protocol":"TCP"}]}`,
	},
	"another annotation": {
		resource: endpointSlices, name: "cities-rw", pod: "cities-1-0", refused: onlyEndpoints,
		patch: `{"metadata":{"annotations":{"meridian.dev/owner":"me"}}}`,
	},
	"another owner": {
		resource: endpointSlices, name: "cities-rw", pod: "cities-1-0", refused: onlyEndpoints,
		patch: `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"b"}]}}`,
	},
	"a pod says what it is": {
		resource: ownPods, name: "cities-1-0", pod: "cities-1-0",
		patch: `{"metadata":{"labels":{"meridian.dev/role":"primary","meridian.dev/read":"true"},
			"annotations":{"meridian.dev/cut-off":"x","meridian.dev/volume-use":"55"}}}`,
	},
	"a pod joins another Service": {
		resource: ownPods, name: "cities-1-0", pod: "cities-1-0", refused: onlyTheseLabels,
		patch: `{"metadata":{"labels":{"app":"web"}}}`,
	},
	"a pod joins another database": {
		resource: ownPods, name: "cities-1-0", pod: "cities-1-0", refused: onlyTheseLabels,
		patch: `{"metadata":{"labels":{"meridian.dev/database":"towns"}}}`,
	},
	"a pod is nobody's": {
		resource: ownPods, name: "cities-1-0", pod: "cities-1-0", refused: onlyTheseLabels,
		patch: `{"metadata":{"labels":null}}`,
	},
	"another image": {
		resource: ownPods, name: "cities-1-0", pod: "cities-1-0", refused: onlyTheseLabels,
		patch: `{"spec":{"containers":[{"name":"database","image":"evil:1"}]}}`,
	},
	"an annotation of the operator": {
		resource: ownPods, name: "cities-1-0", pod: "cities-1-0", refused: onlyTheseLabels,
		patch: `{"metadata":{"annotations":{"meridian.dev/owner":"other"}}}`,
	},
	"a finalizer": {
		resource: ownPods, name: "cities-1-0", pod: "cities-1-0", refused: onlyTheseLabels,
		patch: `{"metadata":{"finalizers":["example.com/stay"]}}`,
	},
	"the pod of a member": {
		resource: ownPods, name: "cities-1-0", pod: "cities-2-0", refused: "an agent changes its own pod alone",
		patch: `{"metadata":{"labels":{"meridian.dev/read":"true"}}}`,
	},
	"somebody who is no agent": {
		resource: ownPods, name: "cities-1-0", account: "builder", patch: `{"metadata":{"labels":{"app":"web"}}}`,
	},
}

const (
	endpointSlices, ownPods = "endpointslices", "pods"
	onlyEndpoints           = "an agent changes only the endpoints"
	ownPodAlone             = "an agent writes one endpoint into its write address"
	onlyTheseLabels         = "an agent changes only these labels and annotations"
)

func leadTo(address, pod string) string {
	return fmt.Sprintf(`{"metadata":{"annotations":{"meridian.dev/term":"3"}},"endpoints":[{"addresses":[%q],
		"conditions":{"ready":true},"targetRef":{"kind":"Pod","namespace":"NAMESPACE","name":%q}}]}`, address, pod)
}

// TestAgentsAreConfined sends what an agent does and what a thief of its token would, each on fresh objects.
func TestAgentsAreConfined(t *testing.T) {
	namespace := newNamespace(t)
	policy := filepath.Join("..", "..", "deploy", "policy.yaml")
	mustKubectl(t, namespace, "", "apply", "-f", policy)
	t.Cleanup(func() { _, _ = kubectl(t, namespace, "", "delete", "-f", policy) })
	mustKubectl(t, namespace, "", "create", "serviceaccount", "default")
	renew := func() {
		mustKubectl(t, namespace, "", "delete", "endpointslices,pods", "--all", "--force", "--grace-period=0")
		mustKubectl(t, namespace, fmt.Sprintf(ownObjects, "cities", "database")+"---"+
			fmt.Sprintf(ownObjects, "tiles", "cache"), "create", "-f", "-")
	}
	renew()
	awaitConfinement(t, namespace)
	for name, one := range agentAttempts {
		t.Run(name, func(t *testing.T) {
			renew()
			err := one.send(t, namespace)
			if (err == nil) != (one.refused == "") || err != nil && !strings.Contains(err.Error(), one.refused) {
				t.Errorf("expected it refused with %q: %v", one.refused, err)
			}
		})
	}
}

func (a attempt) send(t *testing.T, namespace string) error {
	t.Helper()
	config := rest.CopyConfig(server.Config)
	account := a.account
	if account == "" {
		account = "cities-agent"
	}
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + account, Groups: []string{"system:masters"},
	}
	if a.pod != "" {
		config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/pod-name": {a.pod}}
	}
	caller, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Version: "v1", Resource: a.resource}
	if a.resource == endpointSlices {
		resource.Group = "discovery.k8s.io"
	}
	patch := strings.ReplaceAll(a.patch, "NAMESPACE", namespace)
	_, err = caller.Resource(resource).Namespace(namespace).Patch(t.Context(), a.name, types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	return err
}

// awaitConfinement waits until the API server has taken the policy in.
func awaitConfinement(t *testing.T, namespace string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		err := attempt{resource: ownPods, name: "cities-1-0", patch: fmt.Sprintf(
			`{"metadata":{"labels":{"try":"%d"}}}`, time.Now().UnixNano())}.send(t, namespace)
		if err != nil && strings.Contains(err.Error(), onlyTheseLabels) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the policy is not in force after a minute: %v", err)
		}
	}
}
