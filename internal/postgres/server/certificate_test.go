package server_test

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// TestTheCertificateOfAnotherInstance mounts what belongs to another instance, and half of a pair: the server keeps
// what it has, and the agent presents that too.
func TestTheCertificateOfAnotherInstance(t *testing.T) {
	policy := pki.Policy{Name: "cities", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour,
		Settle: time.Minute, Backdate: time.Hour}
	for _, name := range []string{"one", "two"} {
		policy.Leaves = append(policy.Leaves, pki.Profile{
			Name: name, CommonName: "meridian:instance", DNSNames: []string{"cities-rw", name + ".pods"},
			Usage: pki.Server | pki.Client,
		})
	}
	state, err := pki.Decide(pki.State{}, time.Now(), policy).Apply(pki.State{}, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	mounts := &server.Mounts{
		TLSFolder: filepath.Join(folder, "mounted"), Installed: filepath.Join(folder, "tls"), Host: "one.pods",
	}
	mount := func(certificateOf, keyOf string) {
		t.Helper()
		certified, _ := state.Leaf(certificateOf)
		keyed, _ := state.Leaf(keyOf)
		certificate, _, _ := certified.Encode()
		_, key, _ := keyed.Encode()
		if err := os.MkdirAll(mounts.TLSFolder, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{
			wire.KeyCertificate: certificate, wire.KeyPrivateKey: key, wire.KeyAuthority: state.Bundle(),
		} {
			if err := os.WriteFile(filepath.Join(mounts.TLSFolder, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	mount("two", "two")
	if facts := mounts.Certificate(); facts.Mounted != "" || facts.Problem == "" {
		t.Errorf("the certificate of another instance is taken: %+v", facts)
	}
	if _, err := mounts.Material(); err == nil {
		t.Error("the agent presents the certificate of another instance")
	}
	mount("one", "one")
	own := mounts.Certificate()
	if own.Problem != "" {
		t.Fatalf("the own certificate: %s", own.Problem)
	}
	if err := mounts.InstallCertificate(own.Mounted); err != nil {
		t.Fatal(err)
	}
	for about, parts := range map[string][2]string{
		"of another instance": {"two", "two"}, "with the key of another": {"one", "two"},
	} {
		mount(parts[0], parts[1])
		facts := mounts.Certificate()
		if facts.Mounted != "" || facts.Problem == "" || facts.Installed != own.Mounted {
			t.Errorf("a certificate %s: %+v", about, facts)
		}
		material, err := mounts.Material()
		if err != nil || material.Certificate.Leaf.VerifyHostname("one.pods") != nil {
			t.Errorf("a certificate %s: the agent presents %+v, %v", about, material.Certificate.Leaf, err)
		}
	}
}
