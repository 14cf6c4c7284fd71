package cloud_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup/store/cloud"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func writeCredentials(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		must(t, os.WriteFile(filepath.Join(folder, name), []byte(content+"\n"), 0o600))
	}
}

// writeAuthority makes an authority that is its own server certificate.
func writeAuthority(t *testing.T) (certificate, key string) {
	t.Helper()
	folder := t.TempDir()
	certificate, key = filepath.Join(folder, "tls.crt"), filepath.Join(folder, "tls.key")
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	content, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	must(t, err)
	must(t, os.WriteFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: content}), 0o600))
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	return certificate, key
}

// tokenServer gives a token to everybody who comes with an assertion.
func tokenServer(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if strings.Count(request.PostFormValue("assertion"), ".") != 2 {
			answer.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = answer.Write([]byte(`{"access_token": "a-token", "expires_in": 3600}`))
	}))
	t.Cleanup(server.Close)
	return server.URL + "/token"
}

// accountKey is made once, because that takes a while.
var accountKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

func serviceAccount(t *testing.T, tokens string) string {
	t.Helper()
	key := accountKey()
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	content, err := json.Marshal(map[string]string{
		"client_email": "a@b", "private_key_id": "1", "token_uri": tokens,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})),
	})
	must(t, err)
	return string(content)
}

// publicKey is that of the account in a folder of credentials.
func publicKey(t *testing.T, folder string) *rsa.PublicKey {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(folder, cloud.ServiceAccountFile))
	must(t, err)
	var account struct {
		Key string `json:"private_key"`
	}
	must(t, json.Unmarshal(content, &account))
	block, _ := pem.Decode([]byte(account.Key))
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	must(t, err)
	return &parsed.(*rsa.PrivateKey).PublicKey
}

func verify(key *rsa.PublicKey, sum [sha256.Size]byte, signature []byte) error {
	return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature)
}
