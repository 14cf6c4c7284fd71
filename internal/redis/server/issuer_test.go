package server_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/server"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// signer is an authority, or whoever has a certificate of one.
type signer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// signs makes what the authority signs; of nobody, a root.
func (s *signer) signs(t *testing.T, change func(*x509.Certificate)) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "company"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour), BasicConstraintsValid: true,
	}
	change(template)
	parent, by := template, key
	if s != nil {
		parent, by = s.certificate, s.key
	}
	encoded, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	must(t, err)
	certificate, err := x509.ParseCertificate(encoded)
	must(t, err)
	return signer{certificate: certificate, key: key}
}

// authority and party are what the two kinds of certificates have; parties have the common name of whom they claim to
// be.
func authority(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign }

func party(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.Subject.CommonName, c.DNSNames = name, []string{"tiles"}
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
	}
}

// presents is what a party shows: its certificate and that of the authority.
func (s *signer) presents(by signer) tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{s.certificate.Raw, by.certificate.Raw}, PrivateKey: s.key}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// vouched mounts what the operator stores for a cache with an issuer of the user's own, and returns what applications
// are told and what instances trust.
func vouched(t *testing.T, folder string, company signer) (outside, bundle []byte) {
	t.Helper()
	top, topKey, err := pki.Leaf{Certificate: company.certificate, Key: company.key}.Encode()
	must(t, err)
	issuer, err := pki.DecodeIssuer(top, topKey, nil)
	must(t, err)
	policy := pki.Policy{
		Name: "tiles", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour, Settle: time.Minute,
		Backdate: time.Hour, Constrain: true, Leaves: []pki.Profile{{
			Name: "instance", CommonName: "meridian:instance", DNSNames: []string{"tiles"}, Usage: pki.Server | pki.Client,
		}},
	}
	state, err := pki.Decide(pki.State{}, time.Now(), policy).Apply(pki.State{}, rand.Reader)
	must(t, err)
	state, _, _, err = pki.Endorse(state, time.Now(), policy, pki.Wish{Issuer: &issuer, First: true})
	must(t, err)
	leaf, _ := state.Leaf("instance")
	certificate, key, err := leaf.Encode()
	must(t, err)
	write(t, filepath.Join(folder, wire.KeyCertificate), string(certificate)+string(state.Path(leaf)))
	write(t, filepath.Join(folder, wire.KeyPrivateKey), string(key))
	write(t, filepath.Join(folder, wire.KeyAuthority), string(state.Bundle()))
	return state.Outside(), state.Bundle()
}

// trusting is a client of the server with these roots.
func trusting(roots []byte) *tls.Config {
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "tiles", MinVersion: tls.VersionTLS12}
	config.RootCAs.AppendCertsFromPEM(roots)
	return config
}

// TestACertificateOfTheIssuerLeadsNoReplica has a cache with an issuer of the user's own. Applications verify it by the
// issuer's root, also when the path to it is loaded while the server runs. But a primary with a certificate of
// that issuer is followed by no replica, and is not asked how far it has come.
func TestACertificateOfTheIssuerLeadsNoReplica(t *testing.T) {
	company, folder, port := (*signer)(nil).signs(t, authority), issued(t), freePort(t)
	r := start(t, folder, "127.0.0.1", port)
	outside, bundle := vouched(t, folder, company)
	mounts := &server.Mounts{TLSFolder: folder, Installed: filepath.Join(r.link.Runtime, "tls")}
	wanted := mounts.Certificate().Mounted
	must(t, mounts.InstallCertificate(wanted))
	must(t, r.link.LoadCertificate(t.Context(), wanted))
	if facts := r.link.Server(t.Context(), nil, redis.Logins{}); facts.Loaded != wanted {
		t.Errorf("%s is loaded, want %s", facts.Loaded, wanted)
	}
	twin := (*signer)(nil).signs(t, authority)
	for about, try := range map[string]struct {
		roots []byte
		well  bool
	}{
		"an application that trusts the issuer": {outside, true},
		"one that trusts our authority":         {bundle, true},
		"one that trusts another of that name":  {pemOf(t, twin), false},
	} {
		connection, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), trusting(try.roots))
		if err == nil {
			_ = connection.Close()
		}
		if (err == nil) != try.well {
			t.Errorf("%s: %v", about, err)
		}
	}

	impostor := company.signs(t, party("meridian:instance"))
	material, err := mounts.Material()
	must(t, err)
	genuine, forged := make(chan error, 64), make(chan error, 64)
	pretend(t, net.JoinHostPort("127.0.0.2", strconv.Itoa(port)), material.Certificate, genuine)
	pretend(t, net.JoinHostPort("127.0.0.3", strconv.Itoa(port)), impostor.presents(company), forged)
	upstream := wire.Member{Name: "tiles-2", Incarnation: "i2"}
	must(t, r.link.Follow(t.Context(), upstream, "127.0.0.2", known.Own))
	if err := next(t, genuine); err != nil {
		t.Errorf("a replica does not follow a server with a certificate of ours: %v", err)
	}
	must(t, r.link.Follow(t.Context(), upstream, "127.0.0.3", known.Own))
	if err := next(t, forged); err == nil || !strings.Contains(err.Error(), "unknown certificate authority") {
		t.Errorf("a replica follows a server with a certificate of the issuer: %v", err)
	}
	if facts, err := r.link.Replication(t.Context()); err != nil || facts.Up {
		t.Errorf("the replica follows it: %+v, %v", facts, err)
	}
	must(t, r.link.Detach(t.Context()))
	asked := make(chan error, 1)
	r.link.Far(upstream, "127.0.0.3", redis.Logins{Replication: []string{known.Own}}, func(_ int64, err error) {
		asked <- err
	})
	if err := <-asked; err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("an agent asks it how far it has come: %v", err)
	}
}

func pemOf(t *testing.T, one signer) []byte {
	t.Helper()
	encoded, _, err := pki.Leaf{Certificate: one.certificate, Key: one.key}.Encode()
	must(t, err)
	return encoded
}

// pretend listens as a server does, up to the handshake, and tells how each one ended.
func pretend(t *testing.T, address string, as tls.Certificate, ended chan<- error) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	// With TLS 1.2 an objection can be read, and comes before the end of the handshake.
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{as},
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			select {
			case ended <- tls.Server(connection, config).Handshake():
			default:
			}
			_ = connection.Close()
		}
	}()
}

// next is how the next handshake ends.
func next(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("nobody has come")
		return nil
	}
}

// TestACertificateOfTheIssuerCallsNoAgent has an agent of such a cache. It trusts our authority alone, so who has a
// certificate of the issuer calls it neither as an instance nor as the operator.
func TestACertificateOfTheIssuerCallsNoAgent(t *testing.T) {
	company, folder := (*signer)(nil).signs(t, authority), t.TempDir()
	_, bundle := vouched(t, folder, company)
	mounts := &server.Mounts{TLSFolder: folder}
	if stored, err := os.ReadFile(filepath.Join(folder, wire.KeyAuthority)); err != nil || !bytes.Equal(stored, bundle) {
		t.Fatalf("the instance trusts another authority than ours: %v", err)
	}
	material, err := mounts.Material()
	must(t, err)
	instance, operator := company.signs(t, party("meridian:instance")), company.signs(t, party("meridian:operator"))
	for about, try := range map[string]struct {
		presents tls.Certificate
		well     bool
	}{
		"another instance":              {material.Certificate, true},
		"an instance of the issuer":     {instance.presents(company), false},
		"an operator of the issuer":     {operator.presents(company), false},
		"the issuer itself, as a party": {company.presents(company), false},
	} {
		near, far := net.Pipe()
		agent := tls.Server(near, pki.ServerConfig(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}, mounts.Material))
		client := trusting(bundle)
		client.Certificates = []tls.Certificate{try.presents}
		go func() {
			caller := tls.Client(far, client)
			_ = caller.Handshake()
			_, _ = caller.Read(make([]byte, 1))
			_ = far.Close()
		}()
		if err := agent.Handshake(); (err == nil) != try.well {
			t.Errorf("%s: %v", about, err)
		}
		_ = near.Close()
	}
}
