//go:build cluster

package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/operator"
	"meridian.dev/meridian/internal/webhook"
	"meridian.dev/meridian/kit/pki"
	"meridian.dev/meridian/kit/rbac"
)

const (
	// home is where this test installs an operator of its own, which also works there and nowhere else.
	home = "e2e-webhook"
	// shortCalm is how long the certificate stays as it is, on a machine that is not slow, before its replacement is due.
	shortCalm = 60 * time.Second
)

// TestWebhook installs what deploy/ has, for one namespace, and meets the webhook in the way that users do: kubectl,
// the API server, a real Service, two replicas. It is installed with certificates that were made long ago: an authority
// near its end, its successor, and a leaf of the old one that is due for replacement a minute later. Applies go on
// through all of it, with failurePolicy Fail, so that a failed handshake would be a refused apply.
func TestWebhook(t *testing.T) {
	beside(t)
	c := connect(t)
	c.kubectl("apply", "-f", filepath.Join("deploy", "crds"))
	c.namespace(home)
	seeded, calm := installAged(c)

	database := `{apiVersion: meridian.dev/v1alpha1, kind: GeoDatabase, metadata: {name: cities}, ` +
		`spec: {paused: true, storage: {size: 1Gi}, parameters: {%s}}}`
	output, err := try(c, fmt.Sprintf(database, `no_such_thing: "1"`), "-n", home, "apply", "-f", "-")
	if err == nil || !strings.Contains(output, "spec.parameters.no_such_thing: PostgreSQL 17 has no such parameter") {
		t.Fatalf("bad input by kubectl: %v, %s", err, output)
	}
	t.Logf("kubectl says: %s", strings.TrimSpace(output))
	if output, err := try(c, fmt.Sprintf(database, `work_mem: 1MB`), "-n", home, "apply", "-f", "-"); err != nil {
		t.Fatalf("good input by kubectl: %v, %s", err, output)
	}

	before := pods(c)
	for _, pod := range before {
		if !bytes.Equal(presented(c, pod), leafOf(t, seeded)) {
			t.Errorf("%s does not present the leaf that was stored", pod)
		}
	}
	stream := &applies{c: c}
	c.until("the leaf is replaced", calm+time.Minute, func(context.Context) (bool, string) {
		stream.next()
		return !bytes.Equal(stored(c), leafOf(t, seeded)), fmt.Sprintf("%d applies", stream.count)
	})
	replaced := stream.count
	checkIssuer(t, stored(c), seeded)
	c.until("both replicas present the new leaf", 30*time.Second, func(context.Context) (bool, string) {
		stream.next()
		return bytes.Equal(presented(c, before[0]), stored(c)) && bytes.Equal(presented(c, before[1]), stored(c)), ""
	})
	// The API server keeps its connections. New pods make it shake hands again, with the new leaf.
	rolled := make(chan string, 1)
	go func() {
		output, err := try(c, "", "-n", home, "rollout", "restart", "deployment/meridian-operator")
		rolled <- fmt.Sprint(output, err)
	}()
	c.until("both replicas are new", 2*time.Minute, func(context.Context) (bool, string) {
		stream.next()
		now := pods(c)
		return len(now) == 2 && !strings.Contains(fmt.Sprint(now), before[0]) &&
			!strings.Contains(fmt.Sprint(now), before[1]), fmt.Sprint(now, before)
	})
	t.Log(strings.TrimSpace(<-rolled))
	// A slow machine makes few applies in a minute. The old leaf must have been met; after it, they are made up by count.
	met := stream.count
	for stream.count < max(met+20, 100) {
		stream.next()
	}
	t.Logf("%d good and as many bad applies, %d before the leaf was replaced, %d before both replicas were new",
		stream.count, replaced, met)
	if replaced == 0 {
		t.Error("no apply met the leaf that was stored")
	}
}

// installAged installs it with certificates that were made long ago, and says after how long the leaf is replaced.
// Where the installation itself takes long, it begins once more with other certificates and more time.
func installAged(c *cluster) (pki.State, time.Duration) {
	c.t.Helper()
	begun, calm := time.Now(), shortCalm
	seeded := aged(c.t, begun, calm)
	installWebhook(c, seeded)
	ready := func() {
		c.kubectl("-n", home, "rollout", "status", "deployment/meridian-operator", "--timeout=300s")
	}
	ready()
	if took := time.Since(begun); took > calm/2 {
		calm = 4 * took
		c.t.Logf("the installation took %s: once more, with a leaf that stays for %s", took, calm)
		seeded = aged(c.t, time.Now(), calm)
		reseed(c, seeded)
		c.kubectl("-n", home, "rollout", "restart", "deployment/meridian-operator")
		ready()
	}
	return seeded, calm
}

// reseed puts other certificates into the place of those that it was installed with.
func reseed(c *cluster, seeded pki.State) {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: webhook.Name}}
	configuration := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: webhook.ConfigurationName(home)},
	}
	for object, change := range map[client.Object]func(){
		secret: func() { secret.Data = secretOf(c, seeded).Data },
		configuration: func() {
			for i := range configuration.Webhooks {
				configuration.Webhooks[i].ClientConfig.CABundle = seeded.Bundle()
			}
		},
	} {
		if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			c.t.Fatal(err)
		}
		change()
		if err := c.Update(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
}

// aged are certificates as they would be now if the webhook had been installed long ago, and looked at in between.
func aged(t *testing.T, now time.Time, calm time.Duration) pki.State {
	t.Helper()
	policy := webhook.Policy(home)
	lead := policy.LeafLifetime + 3*policy.Settle
	state := pki.State{}
	for _, moment := range []time.Time{
		now.Add(-2*policy.Settle - (policy.AuthorityLifetime - lead)), // the first authority
		now.Add(calm - policy.LeafLifetime*2/3),                       // the leaf that is due after calm
		now.Add(-2 * policy.Settle),                                   // the successor, which has settled by now
	} {
		next, err := pki.Decide(state, moment, policy).Apply(state, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		state = next
	}
	plan := pki.Decide(state, now, policy)
	if len(state.Authorities) != 2 || len(plan.Steps) != 0 || plan.Again.Sub(now) > calm+time.Second {
		t.Fatalf("%d authorities, %v, again at %v: the test is not set up as it says",
			len(state.Authorities), plan.Steps, plan.Again)
	}
	return state
}

func leafOf(t *testing.T, state pki.State) []byte {
	t.Helper()
	leaf, found := state.Leaf("webhook")
	if !found {
		t.Fatal("there is no leaf")
	}
	return leaf.Certificate.Raw
}

// checkIssuer: the new leaf is of the authority that came last, and the old one is trusted as well.
func checkIssuer(t *testing.T, leaf []byte, seeded pki.State) {
	t.Helper()
	certificate, err := x509.ParseCertificate(leaf)
	if err != nil {
		t.Fatal(err)
	}
	if err := certificate.CheckSignatureFrom(seeded.Authorities[1].Certificate); err != nil {
		t.Errorf("the new leaf is not of the second authority: %v", err)
	}
}

// installWebhook applies deploy/ with three changes: the namespace, the scope, and failurePolicy Fail.
func installWebhook(c *cluster, seeded pki.State) {
	c.t.Helper()
	objects := []client.Object{secretOf(c, seeded)}
	roles, err := operator.Rights(home, true).Objects(rbac.Installation{
		Name: home, Home: home, ServiceAccount: operator.Name, Namespaces: []string{home},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, role := range roles {
		objects = append(objects, role.(client.Object))
	}
	objects = append(objects, manifests(c)...)
	for _, object := range objects {
		switch object := object.(type) {
		case *appsv1.Deployment:
			container := &object.Spec.Template.Spec.Containers[0]
			container.Args = append(container.Args, "--namespaces="+home)
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			wanted := webhook.Configuration(home, []string{home})
			for i := range object.Webhooks {
				object.Webhooks[i].NamespaceSelector = wanted.Webhooks[i].NamespaceSelector
				object.Webhooks[i].FailurePolicy = new(admissionregistrationv1.Fail)
				object.Webhooks[i].ClientConfig.CABundle = seeded.Bundle()
			}
		}
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatalf("create %T %s: %v", object, object.GetName(), err)
		}
		if object.GetNamespace() == "" {
			c.t.Cleanup(func() {
				if err := c.Delete(context.Background(), object); err != nil {
					c.t.Error(err)
				}
			})
		}
	}
}

func secretOf(c *cluster, seeded pki.State) *corev1.Secret {
	c.t.Helper()
	authorities, err := pki.EncodeAuthorities(seeded.Authorities)
	if err != nil {
		c.t.Fatal(err)
	}
	leaf, _ := seeded.Leaf("webhook")
	certificate, key, err := leaf.Encode()
	if err != nil {
		c.t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: webhook.Name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{
			"authorities": authorities, "ca.crt": seeded.Bundle(), "tls.crt": certificate, "tls.key": key,
		},
	}
}

// manifests are the objects of deploy/ but for definitions and rights, with another namespace.
func manifests(c *cluster) []client.Object {
	c.t.Helper()
	var objects []client.Object
	for _, name := range []string{"operator.yaml", "webhook.yaml"} {
		content, err := os.ReadFile(filepath.Join(c.root, "deploy", name))
		if err != nil {
			c.t.Fatal(err)
		}
		moved := strings.ReplaceAll(string(content), operatorNamespace, home)
		reader := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(moved)))
		for {
			document, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				c.t.Fatal(err)
			}
			object, err := decode(c.Scheme(), document)
			if err != nil {
				c.t.Fatalf("read %s: %v", name, err)
			}
			switch object.(type) {
			case *corev1.Namespace, *rbacv1.ClusterRole: // Who may read figures is the same for all installations.
			default:
				objects = append(objects, object)
			}
		}
	}
	return objects
}

func decode(kinds *runtime.Scheme, document []byte) (client.Object, error) {
	text, err := yaml.ToJSON(document)
	if err != nil {
		return nil, err
	}
	var head metav1.TypeMeta
	if err := yaml.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	made, err := kinds.New(head.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	object := made.(client.Object)
	return object, yaml.Unmarshal(text, object)
}

// try runs kubectl and returns what it printed both ways.
func try(c *cluster, input string, args ...string) (string, error) {
	command := exec.CommandContext(c.t.Context(), filepath.Join(c.root, "bin", "sandbox"),
		append([]string{"kubectl"}, args...)...)
	command.Dir, command.Stdin = c.root, strings.NewReader(input)
	output, err := command.CombinedOutput()
	return string(output), err
}

// pods are the names of the replicas that are ready and stay.
func pods(c *cluster) []string {
	c.t.Helper()
	var list corev1.PodList
	if err := c.List(c.t.Context(), &list, client.InNamespace(home),
		client.MatchingLabels{"app.kubernetes.io/component": "operator"}); err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, pod := range list.Items {
		for _, one := range pod.Status.Conditions {
			if one.Type == corev1.PodReady && one.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				names = append(names, pod.Name)
			}
		}
	}
	return names
}

// stored is the leaf in the Secret.
func stored(c *cluster) []byte {
	c.t.Helper()
	var secret corev1.Secret
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: home, Name: webhook.Name}, &secret); err != nil {
		c.t.Fatal(err)
	}
	block, _ := pem.Decode(secret.Data[corev1.TLSCertKey])
	if block == nil {
		c.t.Fatal("there is no certificate in the Secret")
	}
	return block.Bytes
}

var forwarded = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)

// presented is the leaf that a replica shows in a handshake.
func presented(c *cluster, pod string) []byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	forward := exec.CommandContext(ctx, filepath.Join(c.root, "bin", "sandbox"), "kubectl", "-n", home,
		"port-forward", "--address", "127.0.0.1", "pod/"+pod, fmt.Sprintf(":%d", webhook.Port))
	forward.Dir = c.root
	output, err := forward.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := forward.Start(); err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = forward.Wait()
	}()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		c.t.Fatalf("forward a port to %s: %v", pod, err)
	}
	port := forwarded.FindStringSubmatch(line)
	if port == nil {
		c.t.Fatalf("forward a port to %s: %s", pod, line)
	}
	// Only what is presented is looked at; whether it is trusted is for the API server to say.
	dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
	connection, err := dialer.DialContext(ctx, "tcp", "127.0.0.1:"+port[1])
	if err != nil {
		c.t.Fatalf("shake hands with %s: %v", pod, err)
	}
	defer func() { _ = connection.Close() }()
	return connection.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
}

// applies is a stream of changes: each good one must be taken, each bad one refused by the rule that it breaks.
type applies struct {
	c     *cluster
	count int
	// late counts the calls that were not answered in time: a machine that stands still for seconds says nothing about
	// certificates.
	late int
}

// mostLate is more than a machine that is merely busy comes to.
const mostLate = 3

func (a *applies) next() {
	a.c.t.Helper()
	a.count++
	if err := a.set("work_mem", fmt.Sprintf("%dkB", 1000+a.count)); err != nil {
		a.c.t.Fatalf("good apply %d is refused: %v", a.count, err)
	}
	err := a.set("no_such_thing", fmt.Sprint(a.count))
	if err == nil || !strings.Contains(err.Error(), "spec.parameters.no_such_thing") {
		a.c.t.Fatalf("bad apply %d: %v", a.count, err)
	}
}

func (a *applies) set(parameter, value string) error {
	patch := fmt.Sprintf(`{"spec":{"parameters":{%q:%q}}}`, parameter, value)
	for {
		database := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: "cities"}}
		err := a.c.Patch(a.c.t.Context(), database, client.RawPatch("application/merge-patch+json", []byte(patch)))
		if err == nil || a.late == mostLate || !strings.Contains(err.Error(), "context deadline exceeded") {
			return err
		}
		a.late++
		a.c.t.Logf("apply %d was not answered in time, and is tried again: %v", a.count, err)
	}
}
