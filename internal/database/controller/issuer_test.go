//go:build cluster

package controller_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// companySecret is an authority of the user's own, as cert-manager and others store one.
func companySecret(t *testing.T, name string) map[string][]byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10000 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	root := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	return map[string][]byte{
		"tls.crt": root, "ca.crt": root, "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}
}

// issued is what is stored for applications and for the instance.
type issued struct{ told, shown, parties []byte }

func (w *world) issued() issued {
	var app, leaf corev1.Secret
	if !w.get("cities-app", &app) || !w.get("cities-cert1", &leaf) {
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
	if err != nil {
		w.t.Fatal(err)
	}
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: w.now(),
		DNSName: "cities-rw." + space + ".svc",
	}
	options.Roots.AppendCertsFromPEM(told)
	options.Intermediates.AppendCertsFromPEM(path)
	_, err = leaf.Verify(options)
	return err
}

// passesUntil runs passes; after each one, a client that was told before it and one that was told since verify the
// server, and so does a peer.
func (w *world) passesUntil(what string, done func(issued) bool) {
	w.t.Helper()
	before := w.issued()
	w.passUntil(what, func() bool {
		now := w.issued()
		for _, told := range [][]byte{before.told, now.told, now.parties} {
			if err := w.accepts(told, now); err != nil {
				w.t.Fatalf("%s: a client refuses the server: %v", what, err)
			}
		}
		return done(now)
	})
}

func (w *world) passTime(by time.Duration) { w.later += by }

// follow has the database go from one root to another, in three steps.
func (w *world) follow(root []byte, path int) {
	w.t.Helper()
	was := w.issued()
	w.passesUntil("the next root is told beside that of before", func(now issued) bool {
		return certificates(now.told) == 2 && bytes.Contains(now.told, root)
	})
	for range 3 {
		w.pass()
	}
	if now := w.issued(); !bytes.Equal(now.shown, was.shown) {
		w.t.Error("the server shows the next path before applications had time to be told of it")
	}
	w.passTime(11 * time.Second)
	w.passesUntil("the path to it is shown", func(now issued) bool {
		return certificates(now.shown) == 1+path && w.accepts(root, now) == nil && certificates(now.told) == 2
	})
	w.passTime(11 * time.Second)
	w.passesUntil("it is told of alone", func(now issued) bool { return bytes.Equal(now.told, root) })
	if now := w.issued(); path > 0 && bytes.Contains(now.parties, root) {
		w.t.Error("the peers are told of the issuer")
	}
}

// TestIssuer gives a database an authority of the user's own, spoils and replaces it, rotates the certificates below
// it, and takes it away. At no moment does a client refuse the server, and nothing that is wrong changes anything.
func TestIssuer(t *testing.T) {
	w := newWorld(t)
	makeCities(w)
	ours := w.issued().told
	company := companySecret(t, "company")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "company-ca"}, Data: company}
	w.create(secret)
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) {
		d.Spec.Certificates = &v1alpha1.Certificates{
			Issuer: &v1alpha1.CertificateIssuer{Secret: v1alpha1.SecretReference{Name: "company-ca"}},
		}
		d.Spec.Rotate = &v1alpha1.Rotate{Overlap: &metav1.Duration{Duration: 10 * time.Second}}
	})
	w.follow(company["ca.crt"], 1)
	if err := w.accepts(ours, w.issued()); err != nil {
		t.Errorf("a peer, which trusts our authority, refuses the server: %v", err)
	}
	checkSpoiltIssuer(w, company)

	next := companySecret(t, "company, later")
	change(w, "company-ca", &corev1.Secret{}, func(secret *corev1.Secret) { secret.Data = next })
	w.follow(next["ca.crt"], 1)

	told := w.issued().told
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Rotate.Certificates = "today" })
	rotated := func(issued) bool {
		rotations := w.database().Status.Rotations
		return rotations != nil && rotations.Certificates != nil && rotations.Certificates.Done != nil
	}
	w.passesUntil("a new authority is introduced", func(now issued) bool { return certificates(now.parties) == 2 })
	w.passTime(11 * time.Second)
	w.passesUntil("it signs", func(issued) bool { return w.database().Status.Rotations.Certificates.Signs != nil })
	w.passTime(13 * time.Second)
	w.passesUntil("the rotation is done", rotated)
	now := w.issued()
	if !bytes.Equal(now.told, told) || certificates(now.parties) != 1 || bytes.Equal(now.parties, ours) {
		t.Error("the rotation below the issuer has changed what applications are told, or has not changed our authority")
	}

	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Certificates = nil })
	w.follow(w.issued().parties, 0)
	var authority corev1.Secret
	if w.get("cities-ca", &authority); len(authority.Data["endorsements.pem"]) > 0 {
		t.Error("something is left of the issuer")
	}
}

// checkSpoiltIssuer puts one thing after another into the Secret that cannot be used. The status says which, and
// nothing else changes.
func checkSpoiltIssuer(w *world, company map[string][]byte) {
	w.t.Helper()
	other := companySecret(w.t, "other")
	var authority corev1.Secret
	w.get("cities-ca", &authority)
	was, stored := w.issued(), authority.ResourceVersion
	for want, spoilt := range map[string]map[string][]byte{
		"company-ca, key tls.key: it does not belong":    {"tls.key": other["tls.key"]},
		"company-ca, key tls.key: there is no PEM block": {"tls.key": nil},
		"company-ca, key tls.crt: there is no PEM block": {"tls.crt": []byte("-")},
		"company-ca, key ca.crt: no certificate in it":   {"ca.crt": other["ca.crt"]},
		"company-ca, key tls.crt: it may not sign for":   {"tls.crt": was.parties, "tls.key": keyOf(&authority)},
	} {
		change(w, "company-ca", &corev1.Secret{}, func(secret *corev1.Secret) {
			secret.Data = map[string][]byte{}
			for _, from := range []map[string][]byte{company, spoilt} {
				for key, value := range from {
					secret.Data[key] = value
				}
			}
		})
		w.passUntil(want, func() bool { return strings.Contains(w.stalled(), want) })
		if now := w.issued(); !bytes.Equal(now.told, was.told) || !bytes.Equal(now.shown, was.shown) {
			w.t.Errorf("%s: what is told or shown has changed", want)
		}
	}
	secret := &corev1.Secret{}
	w.get("company-ca", secret)
	if err := w.client.Delete(w.t.Context(), secret); err != nil {
		w.t.Fatal(err)
	}
	w.passUntil("it is gone", func() bool { return strings.Contains(w.stalled(), "the Secret company-ca is not there") })
	if w.get("cities-ca", &authority); authority.ResourceVersion != stored {
		w.t.Error("the authority was written")
	}
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "company-ca"}, Data: company})
	w.passUntil("it is well again", func() bool { return w.stalled() == "" })
}

// keyOf is the key of the authority that we have made, which signs for no other authority.
func keyOf(authority *corev1.Secret) []byte {
	text := string(authority.Data["authorities.pem"])
	_, text, _ = strings.Cut(text, `"key": "`)
	text, _, _ = strings.Cut(text, `"`)
	return []byte(strings.ReplaceAll(text, `\n`, "\n"))
}

// stalled is what the condition says, empty while no human is needed.
func (w *world) stalled() string {
	stalled := condition.Find(w.database().Status.Conditions, v1alpha1.ConditionStalled)
	if stalled == nil || stalled.Status != metav1.ConditionTrue || stalled.Reason != "IssuerUnusable" {
		return ""
	}
	return stalled.Message
}

// TestANewDatabaseWaitsForItsIssuer has nobody trust our authority first: applications are told of the user's from
// the beginning.
func TestANewDatabaseWaitsForItsIssuer(t *testing.T) {
	w := newWorld(t)
	w.create(&v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "cities"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: 1, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi"), Class: "fast"},
			Certificates: &v1alpha1.Certificates{
				Issuer: &v1alpha1.CertificateIssuer{Secret: v1alpha1.SecretReference{Name: "company-ca"}},
			},
		},
	})
	w.passUntil("its Secret is missed", func() bool { return strings.Contains(w.stalled(), "is not there") })
	for range 5 {
		w.pass()
	}
	if w.get("cities-ca", &corev1.Secret{}) || w.get("cities-app", &corev1.Secret{}) {
		t.Fatal("an authority is made that applications would trust first")
	}
	company := companySecret(t, "company")
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "company-ca"}, Data: company})
	w.passUntil("applications are told", func() bool { return w.issued().told != nil })
	now := w.issued()
	if !bytes.Equal(now.told, company["ca.crt"]) || certificates(now.shown) != 2 || w.accepts(now.told, now) != nil {
		t.Errorf("%d roots are told, %d certificates shown: %v",
			certificates(now.told), certificates(now.shown), w.accepts(now.told, now))
	}
}
