package pki_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/pki"
)

var sameMaterial = cmp.Options{
	cmp.Comparer(func(a, b *x509.Certificate) bool { return a.Equal(b) }),
	cmp.Comparer(func(a, b *ecdsa.PrivateKey) bool { return a.Equal(b) }),
}

func TestStoredAndDecoded(t *testing.T) {
	state := begun(t)
	encoded, err := pki.EncodeAuthorities(state.Authorities)
	if err != nil {
		t.Fatal(err)
	}
	authorities, err := pki.DecodeAuthorities(encoded)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state.Authorities, authorities, sameMaterial); diff != "" {
		t.Error(diff)
	}
	back := pki.State{Authorities: authorities}
	for _, leaf := range state.Leaves {
		certificate, key, err := leaf.Encode()
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := pki.DecodeLeaf(leaf.Name, certificate, key)
		if err != nil {
			t.Fatal(err)
		}
		back.Leaves = append(back.Leaves, decoded)
	}
	if diff := cmp.Diff(state.Leaves, back.Leaves, sameMaterial); diff != "" {
		t.Error(diff)
	}
	if plan := pki.Decide(back, start, week()); len(plan.Steps) > 0 {
		t.Errorf("what was stored is not good enough: %v", plan.Steps)
	}
	if strings.Contains(string(state.Bundle()), "PRIVATE") {
		t.Error("the bundle holds a key")
	}
	if _, err := pki.DecodeMaterial(encodedLeaf(t, state, "one", "two", "bundle")); err == nil {
		t.Error("a key of another certificate was taken")
	}
}

// encodedLeaf returns a certificate, a key and a bundle of different leaves.
func encodedLeaf(t *testing.T, state pki.State, of, keyOf, bundle string) (certificate, key, trust []byte) {
	t.Helper()
	one, _ := state.Leaf(of)
	two, _ := state.Leaf(keyOf)
	certificate, _, err := one.Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, key, err = two.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if bundle != "" {
		trust = state.Bundle()
	}
	return certificate, key, trust
}

func TestDecodeRefuses(t *testing.T) {
	state := begun(t)
	good, err := pki.EncodeAuthorities(state.Authorities)
	if err != nil {
		t.Fatal(err)
	}
	leaf, key, _ := encodedLeaf(t, state, "one", "one", "")
	_, other, _ := encodedLeaf(t, state, "one", "two", "")
	leafAsAuthority, err := pki.EncodeAuthorities([]pki.Authority{{
		Certificate: state.Leaves[0].Certificate, Key: state.Leaves[0].Key}})
	if err != nil {
		t.Fatal(err)
	}
	exchange := func(from, to string) []byte { return []byte(strings.Replace(string(good), from, to, 1)) }
	for name, test := range map[string]struct {
		encoded []byte
		want    string
	}{
		"nothing":         {nil, "decode the authorities: EOF"},
		"another version": {exchange(`"version": 1`, `"version": 2`), "the version is 2, not 1"},
		"unknown field":   {exchange(`"version"`, `"unknown": 1, "version"`), "unknown field"},
		"more":            {append(good[:len(good):len(good)], "{}"...), "more behind the end"},
		"no certificate":  {exchange("BEGIN CERTIFICATE", "BEGIN CERT"), "authority 1: there is no PEM block"},
		"spoilt":          {exchange("MII", "AAA"), "decode authority 1: read the certificate"},
		"no authority":    {leafAsAuthority, "authority 1: the certificate is not one of an authority"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := pki.DecodeAuthorities(test.encoded); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	_, foreign, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	foreignKey, err := x509.MarshalPKCS8PrivateKey(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		certificate, key []byte
		want             string
	}{
		"exchanged":     {key, leaf, "there is no PEM block of the type CERTIFICATE"},
		"another key":   {leaf, other, "decode the leaf x: the key does not belong to the certificate"},
		"a key behind":  {append(leaf[:len(leaf):len(leaf)], key...), key, "there is a PEM block of the type PRIVATE KEY"},
		"no key":        {leaf, nil, "there is no PEM block of the type PRIVATE KEY"},
		"a spoilt key":  {leaf, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte{1}}), "read the key"},
		"a foreign key": {leaf, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: foreignKey}), "does not belong"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := pki.DecodeLeaf("x", test.certificate, test.key); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// FuzzDecode feeds arbitrary bytes: whatever is taken can be encoded again, and
// decided about.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version": 1}`), []byte("-----BEGIN CERTIFICATE-----"), []byte(""))
	plan := pki.Decide(pki.State{}, start, week())
	state, err := plan.Apply(pki.State{}, seeded())
	if err != nil {
		f.Fatal(err)
	}
	encoded, err := pki.EncodeAuthorities(state.Authorities)
	if err != nil {
		f.Fatal(err)
	}
	certificate, key, err := state.Leaves[0].Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded, certificate, key)
	f.Fuzz(func(t *testing.T, authorities, certificate, key []byte) {
		var state pki.State
		if decoded, err := pki.DecodeAuthorities(authorities); err == nil {
			state.Authorities = decoded
			if _, err := pki.EncodeAuthorities(decoded); err != nil {
				t.Error(err)
			}
		}
		if leaf, err := pki.DecodeLeaf("one", certificate, key); err == nil {
			state.Leaves = append(state.Leaves, leaf)
		}
		apply(t, pki.Decide(state, start, week()), state, seeded())
	})
}
