package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/kit/pki"
)

// company is an authority of somebody else.
type company struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// found makes an authority with the given change to its certificate, signed by another one, or by itself.
func found(t *testing.T, name string, key crypto.Signer, by *company, change func(*x509.Certificate)) company {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, NotBefore: start.Add(-time.Hour),
		NotAfter: start.Add(10000 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	if change != nil {
		change(template)
	}
	made := company{key: key}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	if made.certificate, err = x509.ParseCertificate(encoded); err != nil {
		t.Fatal(err)
	}
	return made
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (c company) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.certificate.Raw})
}

func (c company) keyPEM(t *testing.T) []byte {
	t.Helper()
	encoded, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

// issuer is the company as an issuer, which itself is a root or has these above it.
func (c company) issuer(t *testing.T, above ...company) *pki.Issuer {
	t.Helper()
	chain, roots := c.pem(), []byte(nil)
	for i, one := range above {
		if i == len(above)-1 {
			roots = one.pem()
		} else {
			chain = append(chain, one.pem()...)
		}
	}
	issuer, err := pki.DecodeIssuer(chain, c.keyPEM(t), roots)
	if err != nil {
		t.Fatal(err)
	}
	return &issuer
}

func TestIssuersOfEveryKind(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ecKey := newKey(t)
	root := found(t, "root", newKey(t), nil, nil)
	middle := found(t, "middle", newKey(t), &root, nil)
	policy := constrained("cities-rw", "cities-rw.gis.svc")
	for about, issuer := range map[string]*pki.Issuer{
		"a root with an RSA key":      found(t, "rsa", rsaKey, nil, nil).issuer(t),
		"a root with an Ed25519 key":  found(t, "ed", edKey, nil, nil).issuer(t),
		"one that a root has signed":  found(t, "one", ecKey, &root, nil).issuer(t, root),
		"one two steps below a root":  found(t, "two", ecKey, &middle, nil).issuer(t, middle, root),
		"one that is for these names": limited(t, "cities-rw", "gis.svc", "localhost").issuer(t),
	} {
		if err := issuer.Check(policy, start, rand.Reader); err != nil {
			t.Errorf("%s: %v", about, err)
			continue
		}
		state := endorsed(t, policy, issuer)
		if err := outside(state, state, "server", "cities-rw", start); err != nil {
			t.Errorf("%s: a client that trusts its root: %v", about, err)
		}
	}
	for block, encode := range map[string]func() []byte{
		"RSA PRIVATE KEY": func() []byte { return x509.MarshalPKCS1PrivateKey(rsaKey) },
		"EC PRIVATE KEY": func() []byte {
			encoded, _ := x509.MarshalECPrivateKey(ecKey)
			return encoded
		},
	} {
		of := company{key: map[bool]crypto.Signer{true: rsaKey, false: ecKey}[block == "RSA PRIVATE KEY"]}
		made := found(t, block, of.key, nil, nil)
		key := pem.EncodeToMemory(&pem.Block{Type: block, Bytes: encode()})
		if _, err := pki.DecodeIssuer(made.pem(), key, nil); err != nil {
			t.Errorf("%s: %v", block, err)
		}
	}
}

// limited is a root that may sign for some names only.
func limited(t *testing.T, names ...string) company {
	t.Helper()
	return found(t, "named", newKey(t), nil, func(template *x509.Certificate) {
		template.PermittedDNSDomains, template.PermittedDNSDomainsCritical = names, true
	})
}

func TestIssuersThatAreRefused(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	root, other := found(t, "root", newKey(t), nil, nil), found(t, "other", newKey(t), nil, nil)
	changed := func(change func(*x509.Certificate)) company { return found(t, "changed", newKey(t), &root, change) }
	well := changed(nil)
	decoded := func(certificate, key, roots []byte) error {
		issuer, err := pki.DecodeIssuer(certificate, key, roots)
		if err != nil {
			return err
		}
		return issuer.Check(constrained("cities-rw", "localhost"), start, rand.Reader)
	}
	checked := func(one company) error { return decoded(one.pem(), one.keyPEM(t), root.pem()) }
	after := func(change func(*x509.Certificate)) error { return checked(changed(change)) }
	if err := checked(well); err != nil {
		t.Fatal(err)
	}
	spoilt := []byte("-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n")
	type cert = x509.Certificate
	over := func(c *x509.Certificate) { c.NotAfter = start.Add(-time.Second) }
	old, ended := found(t, "old", newKey(t), &root, over), found(t, "ended", newKey(t), nil, over)
	late, last := found(t, "late", newKey(t), &old, nil), found(t, "last", newKey(t), &ended, nil)
	tomorrow := start.Add(24 * time.Hour)
	for about, test := range map[string]struct {
		err  error
		part pki.Part
		want string
	}{
		"no certificate":   {decoded(nil, well.keyPEM(t), nil), pki.PartCertificate, "of the type CERTIFICATE"},
		"a spoilt one":     {decoded(spoilt, nil, nil), pki.PartCertificate, "cannot be read"},
		"a key instead":    {decoded(well.keyPEM(t), well.keyPEM(t), nil), pki.PartCertificate, "of the type PRIVATE KEY"},
		"too long":         {decoded(bytes.Repeat(well.pem(), 200), nil, nil), pki.PartCertificate, "longer than 64 KiB"},
		"no key":           {decoded(well.pem(), nil, nil), pki.PartKey, "no PEM block of the type PRIVATE KEY"},
		"another key":      {decoded(well.pem(), other.keyPEM(t), root.pem()), pki.PartKey, "does not belong"},
		"a small key":      {checked(found(t, "small", small, &root, nil)), pki.PartKey, "it has 1024 bits"},
		"no root":          {decoded(well.pem(), well.keyPEM(t), nil), pki.PartRoots, "no certificate of a root"},
		"another root":     {decoded(well.pem(), well.keyPEM(t), other.pem()), pki.PartRoots, "is the root that"},
		"no authority":     {after(func(c *cert) { c.IsCA = false }), pki.PartCertificate, "CA:TRUE"},
		"another usage":    {after(func(c *cert) { c.KeyUsage = x509.KeyUsageCRLSign }), pki.PartCertificate, "keyCert"},
		"no room below it": {after(func(c *cert) { c.MaxPathLenZero = true }), pki.PartCertificate, "pathlen:0"},
		"ended":            {after(func(c *cert) { c.NotAfter = start.Add(-1) }), pki.PartCertificate, "it has ended"},
		"not begun":        {after(func(c *cert) { c.NotBefore = tomorrow }), pki.PartCertificate, "not valid before"},
		"of another root":  {checked(limited(t, "cities-rw")), pki.PartRoots, "is the root that"},
		"below one that ended": {decoded(append(late.pem(), old.pem()...), late.keyPEM(t), root.pem()),
			pki.PartCertificate, "CN=old, which leads to the root, is valid from"},
		"below a root that ended": {decoded(last.pem(), last.keyPEM(t), ended.pem()), pki.PartRoots, "no root is valid"},
		"for clients only": {after(func(c *cert) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		}), pki.PartCertificate, "nobody would accept"},
		"for other hosts": {after(func(c *cert) {
			c.PermittedDNSDomains = []string{"bank.example"}
		}), pki.PartCertificate, "nobody would accept"},
	} {
		part, _ := errors.AsType[*pki.PartError](test.err)
		if part == nil || part.Part != test.part || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: got %v, want the %s and %q", about, test.err, test.part, test.want)
		}
	}
	if at, soon := well.issuer(t, root).Ending(start); soon || at.IsZero() {
		t.Errorf("it ends at %s, soon %t", at, soon)
	}
	if _, soon := well.issuer(t, root).Ending(start.Add(9990 * time.Hour)); !soon {
		t.Error("its end is not told")
	}
}

// endorsed is the first state of a policy with an issuer.
func endorsed(t *testing.T, policy pki.Policy, issuer *pki.Issuer) pki.State {
	t.Helper()
	state := apply(t, pki.Decide(pki.State{}, start, policy), pki.State{}, seeded())
	return forward(t, state, start, policy, pki.Wish{Issuer: issuer, First: true})
}

func forward(t *testing.T, state pki.State, now time.Time, policy pki.Policy, wish pki.Wish) pki.State {
	t.Helper()
	next, _, _, err := pki.Endorse(state, now, policy, wish)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// outside verifies as a client does that was told what the state says: what a server shows, by a name.
func outside(told, shown pki.State, leaf, name string, now time.Time) error {
	held, _ := shown.Leaf(leaf)
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), DNSName: name, CurrentTime: now,
	}
	if !options.Roots.AppendCertsFromPEM(told.Outside()) {
		return errors.New("nothing was told")
	}
	options.Intermediates.AppendCertsFromPEM(shown.Path(held))
	if _, err := held.Certificate.Verify(options); err != nil {
		return fmt.Errorf("%w (%d told, %d shown)", err, bytes.Count(told.Outside(), []byte("BEGIN")),
			bytes.Count(shown.Path(held), []byte("BEGIN")))
	}
	return nil
}
