package controller_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/sim"
)

// company is an authority of the user's own, as cert-manager and others store one.
func (w *world) company(name string) map[string][]byte {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(w.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: w.clock.Now().Add(-time.Hour), NotAfter: w.clock.Now().Add(10000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(w.t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	must(w.t, err)
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	return map[string][]byte{
		"tls.crt": root, "ca.crt": root, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}
}

// issuerIs puts an authority into the Secret that the spec names, or takes the Secret away.
func (w *world) issuerIs(data map[string][]byte) {
	w.t.Helper()
	secret := &corev1.Secret{}
	found := w.get("company-ca", secret)
	secret.Namespace, secret.Name, secret.Data = space, "company-ca", maps.Clone(data)
	switch {
	case data == nil:
		must(w.t, w.admin.Delete(w.t.Context(), secret))
	case found:
		must(w.t, w.admin.Update(w.t.Context(), secret))
	default:
		must(w.t, w.admin.Create(w.t.Context(), secret))
	}
}

// trustCompany names the issuer in the spec, with the shortest time between two steps.
func trustCompany(spec *v1alpha1.GeoCacheSpec) {
	spec.Certificates = &v1alpha1.Certificates{
		Issuer: &v1alpha1.CertificateIssuer{Secret: v1alpha1.SecretReference{Name: "company-ca"}},
	}
	spec.Rotate = &v1alpha1.CacheRotate{Overlap: &metav1.Duration{Duration: 10 * time.Second}}
}

// issued is what is stored for applications and for the instances.
type issued struct{ told, shown, parties []byte }

func (w *world) issued() issued {
	var app, leaf corev1.Secret
	if !w.get("tiles", &app) || !w.get("tiles-tls", &leaf) {
		return issued{}
	}
	return issued{told: app.Data["ca.crt"], shown: leaf.Data["tls.crt"], parties: leaf.Data["ca.crt"]}
}

func certificates(text []byte) int { return bytes.Count(text, []byte("BEGIN CERTIFICATE")) }

// accepts is what a client with these roots says about the server, by the name of the write address.
func (w *world) accepts(told []byte, shown issued) error {
	w.t.Helper()
	block, path := pem.Decode(shown.shown)
	leaf, err := x509.ParseCertificate(block.Bytes)
	must(w.t, err)
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: w.clock.Now(),
		DNSName: "tiles." + space + ".svc",
	}
	options.Roots.AppendCertsFromPEM(told)
	options.Intermediates.AppendCertsFromPEM(path)
	_, err = leaf.Verify(options)
	return err
}

// turns settles; after each pass, a client that was told before it and one that was told since verify the server, and
// so does a peer.
func (w *world) turns(what string, done func(issued) bool) {
	w.t.Helper()
	before := w.issued()
	w.settle(what, func() bool {
		now := w.issued()
		for _, told := range [][]byte{before.told, now.told, now.parties} {
			if err := w.accepts(told, now); err != nil {
				w.t.Fatalf("%s: a client refuses the server: %v", what, err)
			}
		}
		before = now
		return done(now)
	})
}

// follow has the cache go from one root to another, in three steps. It returns the shorter of the times between them.
func (w *world) follow(root []byte, path int) time.Duration {
	w.t.Helper()
	was := w.issued()
	w.turns("the next root is told beside that of before", func(now issued) bool {
		return certificates(now.told) == 2 && bytes.Contains(now.told, root)
	})
	told := w.clock.Now()
	w.turns("the path to it is shown", func(now issued) bool {
		return !bytes.Equal(now.shown, was.shown) && certificates(now.shown) == 1+path && w.accepts(root, now) == nil
	})
	shown := w.clock.Now()
	w.turns("it is told of alone", func(now issued) bool { return bytes.Equal(now.told, root) })
	if now := w.issued(); path > 0 && bytes.Contains(now.parties, root) {
		w.t.Error("the instances are told of the issuer")
	}
	return min(shown.Sub(told), w.clock.Now().Sub(shown))
}

// followInTime expects the wanted time between the steps. It is that of passes, and what is compared here is when a
// step was seen: a pass later at most.
func (w *world) followInTime(root []byte, path int) {
	w.t.Helper()
	if least := w.follow(root, path); least < 9*time.Second {
		w.t.Errorf("the steps follow each other after %v", least)
	}
}

// TestIssuer gives a cache an authority of the user's own, spoils and replaces it, and takes it away. At no moment does
// a client refuse the server, nothing that is wrong changes anything, and applications keep their password.
func TestIssuer(t *testing.T) {
	w := newWorld(t)
	w.create("64Mi")
	w.change(func(spec *v1alpha1.GeoCacheSpec) { spec.Replicas = 2 })
	w.settle("it is ready", func() bool { return w.ready("64Mi")() && w.cache().Status.ReadyReplicas == 2 })
	var before, after corev1.Secret
	w.get("tiles", &before)
	ours, company := w.issued().told, w.company("company")
	w.issuerIs(company)
	w.change(trustCompany)
	w.followInTime(company["ca.crt"], 1)
	if err := w.accepts(ours, w.issued()); err != nil {
		t.Errorf("a peer, which trusts our authority, refuses the server: %v", err)
	}
	checkSpoiltIssuer(w, company)

	next := w.company("company, later")
	w.issuerIs(next)
	w.followInTime(next["ca.crt"], 1)

	shown := w.issued().shown
	w.clock.Advance(61 * 24 * time.Hour)
	w.turns("what the issuer has signed is renewed in time", func(now issued) bool {
		return !bytes.Equal(now.shown, shown) && w.ready("64Mi")()
	})
	if now := w.issued(); !bytes.Equal(now.told, next["ca.crt"]) || !bytes.Equal(now.parties, ours) {
		t.Error("the renewal has changed what is trusted")
	}
	w.change(func(spec *v1alpha1.GeoCacheSpec) { spec.Certificates = nil })
	w.followInTime(w.issued().parties, 0)
	var authority corev1.Secret
	if w.get("tiles-ca", &authority); len(authority.Data["endorsements.pem"]) > 0 {
		t.Error("something is left of the issuer")
	}
	if w.get("tiles", &after); !bytes.Equal(after.Data["password"], before.Data["password"]) {
		t.Error("applications have another password")
	}
	w.settle("it is as wished", func() bool { return w.ready("64Mi")() && w.cache().Status.WaitingFor == "" })
	checkWritesNothing(w)
}

func checkWritesNothing(w *world) {
	w.t.Helper()
	before := w.writes
	for range 10 {
		w.play()
		w.pass()
	}
	if w.writes != before {
		w.t.Errorf("%d writes for a cache that is as wished", w.writes-before)
	}
}

// checkSpoiltIssuer puts one thing after another into the Secret that cannot be used. The status says which, and
// nothing else changes.
func checkSpoiltIssuer(w *world, company map[string][]byte) {
	w.t.Helper()
	other := w.company("other")
	var authority corev1.Secret
	w.get("tiles-ca", &authority)
	was, stored := w.issued(), authority.ResourceVersion
	for want, spoilt := range map[string]map[string][]byte{
		"company-ca, key tls.key: it does not belong":    {"tls.key": other["tls.key"]},
		"company-ca, key tls.crt: there is no PEM block": {"tls.crt": []byte("-")},
		"company-ca, key ca.crt: no certificate in it":   {"ca.crt": other["ca.crt"]},
		"the Secret company-ca is not there":             nil,
	} {
		data := maps.Clone(company)
		maps.Copy(data, spoilt)
		if spoilt == nil {
			data = nil
		}
		w.issuerIs(data)
		w.settle(want, func() bool { return strings.Contains(w.stalled(), want) })
		if now := w.issued(); !bytes.Equal(now.told, was.told) || !bytes.Equal(now.shown, was.shown) {
			w.t.Errorf("%s: what is told or shown has changed", want)
		}
		if w.get("tiles-ca", &authority); authority.ResourceVersion != stored {
			w.t.Errorf("%s: the authority was written", want)
		}
		w.issuerIs(company)
		w.settle("it is well again", func() bool { return w.stalled() == "" && w.ready("64Mi")() })
	}
}

// stalled is what the condition says, empty while no human is needed.
func (w *world) stalled() string {
	stalled := condition.Find(w.cache().Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.Reason != "IssuerUnusable" {
		return ""
	}
	return stalled.Message
}

// TestANewCacheWaitsForItsIssuer has nobody trust our authority first: applications are told of the user's from the
// beginning.
func TestANewCacheWaitsForItsIssuer(t *testing.T) {
	w := newWorld(t)
	w.create("64Mi")
	w.change(trustCompany)
	w.settle("its Secret is missed", func() bool { return strings.Contains(w.stalled(), "is not there") })
	for range 5 {
		w.play()
		w.pass()
	}
	if w.get("tiles-ca", &corev1.Secret{}) || w.get("tiles", &corev1.Secret{}) {
		t.Fatal("an authority is made that applications would trust first")
	}
	company := w.company("company")
	w.issuerIs(company)
	w.settle("it is ready", w.ready("64Mi"))
	now := w.issued()
	if !bytes.Equal(now.told, company["ca.crt"]) || certificates(now.shown) != 2 || w.accepts(now.told, now) != nil {
		t.Errorf("%d roots are told, %d certificates shown: %v",
			certificates(now.told), certificates(now.shown), w.accepts(now.told, now))
	}
}

// TestAnInstanceThatDoesNotSayWhatItPresents holds every step of a change up.
func TestAnInstanceThatDoesNotSayWhatItPresents(t *testing.T) {
	w := newWorld(t)
	w.create("64Mi")
	w.settle("it is ready", w.ready("64Mi"))
	was := w.issued()
	w.silent = "tiles-1"
	w.issuerIs(w.company("company"))
	w.change(trustCompany)
	w.settle("it is named", func() bool {
		return strings.Contains(w.cache().Status.WaitingFor, "tiles-1 does not present the stored certificate yet")
	})
	for range 30 {
		w.play()
		w.pass()
	}
	if now := w.issued(); !bytes.Equal(now.told, was.told) || !bytes.Equal(now.shown, was.shown) {
		t.Error("a step was taken")
	}
	w.silent = ""
	w.turns("it goes on", func(now issued) bool { return certificates(now.shown) == 2 && certificates(now.told) == 1 })
}

// TestAWriteGoesWrongOnTheWayToTheIssuer names an issuer again and again. Each time another write goes wrong, in each
// way that there is; no client refuses the server at any moment.
func TestAWriteGoesWrongOnTheWayToTheIssuer(t *testing.T) {
	begin := func(t *testing.T) (*world, []byte) {
		t.Helper()
		w := newWorld(t)
		w.create("64Mi")
		w.settle("it is ready", w.ready("64Mi"))
		company := w.company("company")
		w.issuerIs(company)
		w.change(trustCompany)
		w.writes = 0
		return w, company["ca.crt"]
	}
	whole, root := begin(t)
	whole.follow(root, 1)
	total := whole.writes
	if total < 6 {
		t.Fatalf("only %d writes: the story is too short to show anything", total)
	}
	for _, verdict := range []sim.Verdict{sim.Refused, sim.Applied, sim.Conflicted, sim.CrashBefore, sim.CrashAfter} {
		for number := 1; number <= total; number++ {
			t.Run(fmt.Sprintf("%s at %d", verdict, number), func(t *testing.T) {
				w, root := begin(t)
				count, hit := 0, false
				w.hook = func(sim.Call) sim.Verdict {
					if count++; count == number {
						hit = true
						return verdict
					}
					return sim.Done
				}
				w.follow(root, 1)
				if w.hook = nil; !hit {
					t.Error("nothing went wrong: the test shows nothing")
				}
				w.settle("it is as wished", w.ready("64Mi"))
			})
		}
	}
}

// TestIssuerIsToldLate has the operator end between the write that begins a change of the issuer and that of the Secret
// for applications, for longer than spec.rotate.overlap: applications have all of that time for all that.
func TestIssuerIsToldLate(t *testing.T) {
	w := newWorld(t)
	w.create("64Mi")
	w.settle("it is ready", w.ready("64Mi"))
	company := w.company("company")
	w.issuerIs(company)
	w.change(trustCompany)
	before := w.issued()
	w.settle("a change has begun", func() bool {
		var authority corev1.Secret
		w.get("tiles-ca", &authority)
		return len(authority.Data["endorsements.pem"]) > 0
	})
	if !bytes.Equal(w.issued().told, before.told) {
		t.Fatal("applications were told in the same pass")
	}
	w.clock.Advance(time.Hour)
	w.settle("applications are told", func() bool { return certificates(w.issued().told) == 2 })
	told := w.clock.Now()
	w.settle("the path to it is shown", func() bool { return certificates(w.issued().shown) == 2 })
	if since := w.clock.Now().Sub(told); since < 9*time.Second {
		t.Errorf("servers show a path %v after applications were told of its root", since)
	}
}
