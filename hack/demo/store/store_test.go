package store_test

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/hack/demo/store"
	"meridian.dev/meridian/internal/backup/seal"
)

// TestSecretsFitTogether looks that who trusts what is in one Secret trusts the server with the other, by each of its
// names, that the key is one to write with, and that no two servers have the same.
func TestSecretsFitTogether(t *testing.T) {
	one, other := secrets(t), secrets(t)
	credentials, certificate, key := one[store.Credentials], one[store.Certificate], one["cities-backup-key"]
	pair, err := tls.X509KeyPair([]byte(certificate[corev1.TLSCertKey]), []byte(certificate[corev1.TLSPrivateKeyKey]))
	if err != nil {
		t.Fatal(err)
	}
	trust := x509.NewCertPool()
	if !trust.AppendCertsFromPEM([]byte(credentials[v1alpha1.KeyAuthority])) {
		t.Fatal("there is no authority")
	}
	for name, good := range map[string]bool{
		"store": true, "store.maps.svc": true, "10.96.0.7": true, "store.other.svc": false, "10.96.0.8": false,
	} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: trust, DNSName: name})
		if (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
	keys, err := seal.ParseKeys(key[v1alpha1.KeyIdentity])
	if err != nil || keys.Suffix() == seal.Compressed {
		t.Errorf("the key cannot be written with: %v", err)
	}
	for _, field := range []string{v1alpha1.KeyAccessKeyID, v1alpha1.KeySecretAccessKey} {
		if len(credentials[field]) < 3 {
			t.Errorf("%s is %q", field, credentials[field])
		}
	}
	if credentials[v1alpha1.KeySecretAccessKey] == other[store.Credentials][v1alpha1.KeySecretAccessKey] ||
		key[v1alpha1.KeyIdentity] == other["cities-backup-key"][v1alpha1.KeyIdentity] {
		t.Error("two servers have the same secrets")
	}
}

// TestManifestUsesThem looks that the manifest has the names that are said here.
func TestManifestUsesThem(t *testing.T) {
	content, err := os.ReadFile("../../../" + store.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"secretName: " + store.Certificate, "name: " + store.Credentials, "{name: " + store.Name + "}", store.Bucket,
		"port: 7070", v1alpha1.KeyAccessKeyID, v1alpha1.KeySecretAccessKey,
	} {
		if !strings.Contains(string(content), want) {
			t.Errorf("%s does not have %q", store.Manifest, want)
		}
	}
}

func secrets(t *testing.T) map[string]map[string]string {
	t.Helper()
	made, err := store.Secrets("maps", "cities-backup-key", netip.MustParseAddr("10.96.0.7"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[string]string{}
	for _, one := range made {
		if one.Namespace != "maps" {
			t.Errorf("%s is made in %q", one.Name, one.Namespace)
		}
		found[one.Name] = one.StringData
	}
	return found
}
