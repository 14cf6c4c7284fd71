//go:build cluster

package server_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/postgres/render"
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

func (s *signer) encode(t *testing.T) (certificate, key []byte) {
	t.Helper()
	certificate, key, err := pki.Leaf{Certificate: s.certificate, Key: s.key}.Encode()
	must(t, err)
	return certificate, key
}

// authority and instance are what the two kinds of certificates have.
func authority(c *x509.Certificate) { c.IsCA, c.KeyUsage = true, x509.KeyUsageCertSign }

func instance(c *x509.Certificate) {
	c.Subject.CommonName, c.DNSNames = render.CommonName, []string{"cities-rw", "cities-1-0.cities-pods"}
	c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
}

// TestACertificateOfTheIssuerOpensNothing has a server with an issuer of the user's own, which applications verify by
// the issuer's root. Whoever has other certificates of that issuer, and calls itself an instance, is let in neither
// for replication nor as a server that a replica follows.
func TestACertificateOfTheIssuerOpensNothing(t *testing.T) {
	company := (*signer)(nil).signs(t, authority)
	top, topKey := company.encode(t)
	issuer, err := pki.DecodeIssuer(top, topKey, nil)
	must(t, err)
	policy := pki.Policy{
		Name: "cities", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour, Settle: time.Minute,
		Backdate: time.Hour, Constrain: true, Leaves: []pki.Profile{{
			Name: "one", CommonName: render.CommonName, DNSNames: []string{"cities-rw", "cities-1-0.cities-pods"},
			Usage: pki.Server | pki.Client,
		}},
	}
	state, err := pki.Decide(pki.State{}, time.Now(), policy).Apply(pki.State{}, rand.Reader)
	must(t, err)
	state, _, _, err = pki.Endorse(state, time.Now(), policy, pki.Wish{Issuer: &issuer, First: true})
	must(t, err)
	leaf, _ := state.Leaf("one")
	certificate, key, err := leaf.Encode()
	must(t, err)
	shown := append(certificate, state.Path(leaf)...)
	if bytes.Count(shown, []byte("BEGIN CERTIFICATE")) != 2 {
		t.Fatal("the server shows nothing of the issuer")
	}

	folder := t.TempDir()
	must(t, os.Chmod(filepath.Dir(folder), 0o755))
	must(t, os.Chmod(folder, 0o755))
	write := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, content, 0o600))
		return path
	}
	serveWith(t, folder, map[string][]byte{"tls.crt": shown, "tls.key": key, "ca.crt": state.Bundle()})
	own, outside := write("own.crt", state.Bundle()), write("company.crt", state.Outside())
	twin := company.signs(t, func(c *x509.Certificate) {
		authority(c)
		c.RawSubject = state.Authorities[0].Certificate.RawSubject
	})
	pair := func(name string, certificate, key []byte) string {
		return "sslcert=" + write(name+".crt", certificate) + " sslkey=" + write(name+".key", key)
	}
	forged := func(name string, by *signer) string {
		made := by.signs(t, instance)
		certificate, key := made.encode(t)
		above, _ := by.encode(t)
		return pair(name, append(certificate, above...), key)
	}
	other, root := write("twin.crt", pemOf(twin)), " sslrootcert="+own
	const streams = "user=" + render.RoleReplication + " replication=true "
	for about, try := range map[string]struct{ address, want string }{
		"an application that trusts the issuer":   {"user=app dbname=app sslrootcert=" + outside, ""},
		"one that trusts our authority":           {"user=app dbname=app sslrootcert=" + own, ""},
		"one that trusts another authority":       {"user=app dbname=app sslrootcert=" + other, "verify failed"},
		"a replica":                               {streams + pair("one", shown, key) + root, ""},
		"a replica without a certificate":         {streams + root, "valid client certificate"},
		"a certificate of the issuer":             {streams + forged("forged", &company) + root, "unknown ca"},
		"one of an authority called like ours":    {streams + forged("twins", &twin) + root, "alert"},
		"an application with one of the issuer's": {"user=app dbname=app " + forged("app", &company) + root, "unknown ca"},
	} {
		output, err := psql(try.address, attackPort)
		if (err == nil) != (try.want == "") || !strings.Contains(output, try.want) {
			t.Errorf("%s: %v, want %q: %s", about, err, try.want, output)
		}
	}
	impostor := company.signs(t, instance)
	port := pretend(t, impostor, company)
	if output, err := psql(streams+pair("two", shown, key)+root, port); err == nil ||
		!strings.Contains(output, "certificate verify failed") {
		t.Errorf("a replica follows a server with a certificate of the issuer: %s", output)
	}
}

func pemOf(one signer) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: one.certificate.Raw})
}

// serveWith starts a server with these files and the rules of access that agents write.
func serveWith(t *testing.T, folder string, files map[string][]byte) {
	t.Helper()
	self, err := user.Current()
	must(t, err)
	tlsFolder := filepath.Join(folder, "tls")
	must(t, os.Mkdir(tlsFolder, 0o700))
	rules, _ := render.Files(render.Input{
		Settings: wire.Settings{Application: wire.Application{Database: "app", Owner: "app"}}, User: self.Username,
		Open: true,
	})
	for _, rule := range rules {
		files[rule.Name] = []byte(rule.Text)
	}
	attributes := unprivileged(t, tlsFolder)
	for name, content := range files {
		path := filepath.Join(tlsFolder, name)
		must(t, os.WriteFile(path, content, 0o600))
		if attributes != nil {
			must(t, os.Chown(path, int(attributes.Credential.Uid), int(attributes.Credential.Gid)))
		}
	}
	it := serve(t, "listen_addresses=127.0.0.1", "ssl=on", "wal_level=replica", "password_encryption=scram-sha-256",
		"ssl_cert_file="+filepath.Join(tlsFolder, "tls.crt"), "ssl_key_file="+filepath.Join(tlsFolder, "tls.key"),
		"ssl_ca_file="+filepath.Join(tlsFolder, "ca.crt"), "hba_file="+filepath.Join(tlsFolder, "pg_hba.conf"),
		"ident_file="+filepath.Join(tlsFolder, "pg_ident.conf"))
	it.run("postgres", "postgres", "create role app login password 'secret'")
	it.run("postgres", "postgres", "create role "+render.RoleReplication+" login replication")
	it.run("postgres", "postgres", "create database app owner app")
}

func psql(address string, port int) (string, error) {
	where := fmt.Sprintf("host=cities-rw hostaddr=127.0.0.1 port=%d sslmode=verify-full connect_timeout=10 ", port)
	command := exec.Command("psql", "--no-psqlrc", "--dbname", where+address, "--command", "SHOW server_version")
	command.Env = []string{"PATH=/usr/bin:/bin", "PGPASSWORD=secret", "LC_ALL=C.UTF-8", "HOME=/nonexistent"}
	output, err := command.CombinedOutput()
	return string(output), err
}

// pretend listens as PostgreSQL does, up to the handshake, and presents this certificate.
func pretend(t *testing.T, as, by signer) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{
		Certificate: [][]byte{as.certificate.Raw, by.certificate.Raw}, PrivateKey: as.key,
	}}}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = connection.Read(make([]byte, 8))
			_, _ = connection.Write([]byte("S"))
			_ = tls.Server(connection, config).Handshake()
			_ = connection.Close()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}
