//go:build cluster

package test

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
)

// The policies of the test: nothing goes out or in, and then name service, and one server that one other may ask.
const (
	denyAll = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: deny},
  spec: {podSelector: {}, policyTypes: [Ingress, Egress]}}`
	letNames = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: names},
  spec: {podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 53, protocol: UDP}, {port: 53}]}]}}`
	letServe = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: serve},
  spec: {podSelector: {matchLabels: {statefulset.kubernetes.io/pod-name: pg-1}}, policyTypes: [Ingress],
    ingress: [{ports: [{port: 5432}],
      from: [{podSelector: {matchLabels: {statefulset.kubernetes.io/pod-name: pg-0}}}]}]}}`
	letAsk = `{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: ask},
  spec: {podSelector: {matchLabels: {statefulset.kubernetes.io/pod-name: pg-0}}, policyTypes: [Egress],
    egress: [{ports: [{port: 5432}], to: [{podSelector: {}}]}]}}`
)

// TestPoliciesAreEnforced takes everything away from three pods on three nodes, gives some of it back, and asks between
// all of them each time. The kubelet's probes and `kubectl exec` go on, and so does the host's own way to the pods.
func TestPoliciesAreEnforced(t *testing.T) {
	ns := postgres(t)
	expect := func(step string, open func(from, to int) bool) {
		t.Helper()
		eventually(t, step, func() error {
			// All at once: who is not let through waits for seconds, and who is shows that those were long enough.
			wrong := make([]error, 3*3)
			var asking sync.WaitGroup
			for from := range 3 {
				for to := range 3 {
					asking.Go(func() {
						host := fmt.Sprintf("pg-%d.pg.%s.svc.cluster.local", to, ns)
						if _, err := sql(t, ns, fmt.Sprintf("pg-%d", from), host, "select 1"); (err == nil) != open(from, to) {
							wrong[3*from+to] = fmt.Errorf("pg-%d asks pg-%d: %w", from, to, errors.Join(err, errWrong))
						}
					})
				}
			}
			asking.Wait()
			return errors.Join(wrong...)
		})
	}
	expect("before any policy", func(int, int) bool { return true })
	apply(t, ns, denyAll)
	// Who asks itself needs no network: its own name is in its /etc/hosts, and its own address is its own.
	expect("no way out, not even to names", func(from, to int) bool { return from == to })
	apply(t, ns, letNames)
	expect("names alone", func(from, to int) bool { return from == to })
	apply(t, ns, letAsk)
	expect("one may call, and nobody may be called", func(from, to int) bool { return from == to })
	apply(t, ns, letServe)
	expect("one may call one", func(from, to int) bool { return from == to || (from == 0 && to == 1) })
	_, address := podOn(t, ns, "node1")
	if err := dial(net.JoinHostPort(address, "5432")); err != nil {
		t.Errorf("the host is bound by the policies of pods: %v", err)
	}
	kubectl(t, "-n", ns, "delete", "networkpolicies", "--all")
	expect("after all policies", func(int, int) bool { return true })
}

var errWrong = errors.New("not as the policies say")
