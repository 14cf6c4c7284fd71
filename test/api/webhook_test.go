//go:build cluster

package api_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/webhook"
	"meridian.dev/meridian/kit/pki"
	"meridian.dev/meridian/kit/rbac"
)

// speed lets six hours pass in a second. The API server has the usual clock, so certificates begin long ago.
const speed = 6 * 3600

var fastLifetimes = &webhook.Lifetimes{
	Authority: 10 * 24 * time.Hour, Leaf: 60 * time.Hour, Settle: 6 * time.Hour, Backdate: 10 * 365 * 24 * time.Hour,
	Interval: 200 * time.Millisecond, Retry: 20 * time.Millisecond,
}

func fastClock() func() time.Time {
	start := time.Now()
	return func() time.Time { return start.Add(time.Since(start) * speed) }
}

// history is what was seen of a rotation.
type history struct {
	authorities, leaves [][]byte
	both                bool // two authorities were trusted at once
	first               []byte
	dropped             bool // the first authority has gone
}

func (h *history) look(t *testing.T, namespace string) {
	t.Helper()
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	key := client.ObjectKey{Name: webhook.ConfigurationName(namespace)}
	if err := cluster.Get(t.Context(), key, &configuration); err != nil {
		t.Fatal(err)
	}
	bundle := configuration.Webhooks[0].ClientConfig.CABundle
	trusted := certificates(bundle)
	for _, authority := range trusted {
		h.authorities = withNew(h.authorities, authority)
	}
	h.both = h.both || len(trusted) > 1
	if h.first == nil && len(trusted) > 0 {
		h.first = trusted[0]
	}
	h.dropped = h.first != nil && !contains(trusted, h.first)

	var secret corev1.Secret
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: webhook.Name},
		&secret); err != nil {
		t.Fatal(err)
	}
	h.leaves = withNew(h.leaves, secret.Data[corev1.TLSCertKey])
}

func certificates(bundle []byte) [][]byte {
	var found [][]byte
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		found = append(found, block.Bytes)
	}
	return found
}

func contains(list [][]byte, one []byte) bool {
	for _, other := range list {
		if bytes.Equal(one, other) {
			return true
		}
	}
	return false
}

func withNew(list [][]byte, one []byte) [][]byte {
	if contains(list, one) {
		return list
	}
	return append(list, one)
}

// TestRotation applies without a pause while leaves and authorities are replaced under two replicas, one of which is
// restarted in between. No apply may be refused because of it, and each bad one must be: with failurePolicy Fail, so
// that a failed handshake shows.
func TestRotation(t *testing.T) {
	t.Parallel()
	installed := newInstallation(t)
	installed.lifetimes, installed.now = fastLifetimes, fastClock()
	failClosed(t, installed.namespace)
	stop := installed.startReplica(t)
	installed.startReplica(t)
	mustKubectl(t, installed.namespace, small, "apply", "-f", "-")

	var seen history
	applies, restarted := 0, false
	deadline := time.Now().Add(3 * time.Minute)
	for ; len(seen.authorities) < 3 || !seen.dropped; applies++ {
		if time.Now().After(deadline) {
			t.Fatalf("after %d applies only %d authorities and %d leaves were seen, first dropped: %t",
				applies, len(seen.authorities), len(seen.leaves), seen.dropped)
		}
		if err := setParameter(t, installed.namespace, "work_mem", fmt.Sprintf("%dkB", 1000+applies)); err != nil {
			t.Fatalf("good apply %d is refused: %v", applies, err)
		}
		err := setParameter(t, installed.namespace, "no_such_thing", fmt.Sprint(applies))
		if err == nil || !strings.Contains(err.Error(), "spec.parameters.no_such_thing: PostgreSQL 17 has no such") {
			t.Fatalf("bad apply %d: %v", applies, err)
		}
		seen.look(t, installed.namespace)
		if !restarted && len(seen.authorities) == 2 {
			stop()
			installed.startReplica(t)
			restarted = true
		}
		time.Sleep(20 * time.Millisecond) // The connection is idle for long enough to be closed.
	}
	t.Logf("%d good and %d bad applies, %d connections, %d authorities, %d leaves",
		applies, applies, installed.balancer.count(), len(seen.authorities), len(seen.leaves))
	if installed.balancer.count() < applies || len(seen.leaves) < 4 || !seen.both || !restarted {
		t.Errorf("the run shows too little: %d connections, %d leaves, two authorities at once: %t, restarted: %t",
			installed.balancer.count(), len(seen.leaves), seen.both, restarted)
	}
	auditRights(t, installed)
}

func failClosed(t *testing.T, namespace string) {
	t.Helper()
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	key := client.ObjectKey{Name: webhook.ConfigurationName(namespace)}
	if err := cluster.Get(t.Context(), key, &configuration); err != nil {
		t.Fatal(err)
	}
	for i := range configuration.Webhooks {
		configuration.Webhooks[i].FailurePolicy = new(admissionregistrationv1.Fail)
	}
	if err := cluster.Update(t.Context(), &configuration); err != nil {
		t.Fatal(err)
	}
}

func setParameter(t *testing.T, namespace, name, value string) error {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"parameters":{%q:%q}}}`, name, value)
	database := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cities"}}
	return cluster.Patch(t.Context(), database, client.RawPatch("application/merge-patch+json", []byte(patch)))
}

// auditRights shows that the rights of the webhook suffice and that none is too much.
func auditRights(t *testing.T, installed *installation) {
	t.Helper()
	where := rbac.Installation{
		Name: "x", Home: installed.namespace, ServiceAccount: "x", Namespaces: []string{installed.namespace},
	}
	uncovered, unused := webhook.Rights(installed.namespace).Audit(where, installed.recorder.Uses())
	for _, use := range uncovered {
		t.Errorf("used without a right: %s", use)
	}
	for _, right := range unused {
		t.Errorf("not used: %s", right)
	}
}

// TestWebhookAway shows what an operator that is down means for users, as ADR 9 says: the rules of the schema
// still hold, what only the webhook knows is stored, and the reconciler will say so; nobody waits, and everything can
// be repaired.
func TestWebhookAway(t *testing.T) {
	t.Parallel()
	installed := newInstallation(t)
	stop := installed.startReplica(t)
	mustKubectl(t, installed.namespace, small, "apply", "-f", "-")
	awaitTrue(t, "the API server asks the webhook", func() bool {
		return setParameter(t, installed.namespace, "no_such_thing", "1") != nil
	})
	stop()

	begun := time.Now()
	if err := setParameter(t, installed.namespace, "no_such_thing", "1"); err != nil {
		t.Errorf("refused although the webhook is away: %v", err)
	}
	if waited := time.Since(begun); waited > 2*time.Second {
		t.Errorf("an apply took %s while the webhook was away", waited)
	}
	err := setParameter(t, installed.namespace, "archive_command", "true")
	if err == nil || !strings.Contains(err.Error(), "spec.parameters: has a name that Meridian manages") {
		t.Errorf("the rules of the schema do not hold while the webhook is away: %v", err)
	}
	stored := &v1alpha1.GeoDatabase{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: installed.namespace, Name: "cities"},
		stored); err != nil {
		t.Fatal(err)
	}
	problems := admit.Database(stored, nil, admit.Facts{})
	if len(problems) != 1 || problems[0].Field != "spec.parameters.no_such_thing" {
		t.Errorf("the reconciler would find %v", problems)
	}

	installed.startReplica(t)
	awaitTrue(t, "the API server asks the webhook again", func() bool {
		return setParameter(t, installed.namespace, "another_thing", "1") != nil
	})
	repairStored(t, stored)
}

// repairStored does what must work on an object that was stored with a problem, while the webhook is there.
func repairStored(t *testing.T, stored *v1alpha1.GeoDatabase) {
	t.Helper()
	mustKubectl(t, stored.Namespace, "", "annotate", "gdb/cities", "example.com/note=x")
	mustKubectl(t, stored.Namespace, "", "scale", "gdb/cities", "--replicas=5")
	mustKubectl(t, stored.Namespace, "", "patch", "gdb/cities", "--type=merge",
		`-p={"metadata":{"finalizers":["example.com/x"]}}`)
	mustKubectl(t, stored.Namespace, "", "patch", "gdb/cities", "--type=merge", `-p={"spec":{"paused":true}}`)
	if output, ok := kubectl(t, stored.Namespace, "", "patch", "gdb/cities", "--type=merge",
		`-p={"spec":{"parameters":{"jit":"x"}}}`); ok {
		t.Errorf("a second problem is taken: %s", output)
	}
	mustKubectl(t, stored.Namespace, "", "delete", "gdb/cities", "--wait=false")
	mustKubectl(t, stored.Namespace, "", "patch", "gdb/cities", "--type=merge", `-p={"metadata":{"finalizers":null}}`)
	awaitTrue(t, "the database is gone", func() bool { return len(versions(t, stored.Namespace)) == 0 })
}

// TestFacts: what the webhook reads about storage reaches the rules.
func TestFacts(t *testing.T) {
	t.Parallel()
	installed := newInstallation(t)
	failClosed(t, installed.namespace)
	installed.startReplica(t)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: installed.namespace, Name: "cities-1",
			Labels: map[string]string{"meridian.dev/database": "cities"},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			},
		},
	}
	if err := cluster.Create(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	output, ok := kubectl(t, installed.namespace, small, "apply", "-f", "-")
	if ok || !strings.Contains(output, "spec.storage.size: the claim cities-1 has 5Gi already") {
		t.Errorf("a database smaller than the claim that was kept for it: %s", output)
	}
	other := strings.NewReplacer("cities", "roads", "1Gi", "1Gi, class: nowhere").Replace(small)
	output, ok = kubectl(t, installed.namespace, other, "apply", "-f", "-")
	if ok || !strings.Contains(output, `spec.storage.class: there is no storage class "nowhere"`) {
		t.Errorf("a database in a class that does not exist: %s", output)
	}
}

// TestRepair: whatever somebody does to the Secret or the configuration, the webhook works again, or still.
func TestRepair(t *testing.T) {
	t.Parallel()
	installed := newInstallation(t)
	installed.lifetimes = new(*fastLifetimes)
	installed.lifetimes.Backdate = time.Hour
	installed.startReplica(t)
	installed.startReplica(t)
	mustKubectl(t, installed.namespace, small, "apply", "-f", "-")
	// Each time another name: what was stored while the webhook was away is no reason to refuse a change.
	count := 0
	refuses := func() bool {
		count++
		return setParameter(t, installed.namespace, fmt.Sprintf("no_such_thing_%d", count), "1") != nil
	}
	awaitTrue(t, "bad input is refused", refuses)

	mustKubectl(t, installed.namespace, "", "delete", "secret", webhook.Name)
	awaitTrue(t, "there are new certificates", func() bool {
		key := client.ObjectKey{Namespace: installed.namespace, Name: webhook.Name}
		return cluster.Get(t.Context(), key, &corev1.Secret{}) == nil
	})
	awaitTrue(t, "bad input is refused after the Secret was deleted", refuses)

	mustKubectl(t, installed.namespace, "", "patch", "validatingwebhookconfiguration",
		webhook.ConfigurationName(installed.namespace), "--type=json",
		`-p=[{"op":"remove","path":"/webhooks/1/clientConfig/caBundle"}]`)
	awaitTrue(t, "bad input is refused after the bundle was removed", refuses)

	mustKubectl(t, installed.namespace, "", "patch", "secret", webhook.Name, "--type=merge",
		`-p={"data":{"authorities":"bm9uc2Vuc2U="}}`)
	time.Sleep(time.Second) // Several passes meet the nonsense.
	if !refuses() {
		t.Error("nonsense in the Secret stops a webhook that has certificates")
	}
}

// TestAdd runs the webhook in the way that the operator does, inside of a manager.
func TestAdd(t *testing.T) {
	t.Parallel()
	installed := newInstallation(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	installed.balancer.join(listener.Addr().String())
	made, err := manager.New(server.Config, manager.Options{
		Scheme: cluster.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "x", LeaderElectionNamespace: "nowhere",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = webhook.Add(made, webhook.Options{
		Home: installed.namespace, Listener: listener,
		Profile: &pki.Profile{CommonName: "x", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- made.Start(ctx) }()
	mustKubectl(t, installed.namespace, small, "apply", "-f", "-")
	count := 0
	awaitTrue(t, "a replica that is not elected answers", func() bool {
		count++
		return setParameter(t, installed.namespace, fmt.Sprintf("no_such_thing_%d", count), "1") != nil
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the manager ended: %v", err)
	}
}
