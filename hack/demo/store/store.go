// Package store makes what the S3 server of test/stores/s3 needs to be started in a cluster: credentials, a
// certificate, and a key for the backups that are kept there. All of it is random, so nothing of it can be read in this
// repository.
//
// It writes nothing. Start reading at Secrets.
package store

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/kit/pki"
)

const (
	// Manifest starts the server.
	Manifest = "test/stores/s3/pod.yaml"
	// Name is that of its Service, its Deployment and its claim.
	Name = "store"
	// Bucket is there from the beginning.
	Bucket = "backups"
	// Credentials is the Secret with who may come in, and with the authority of the server.
	Credentials = Name + "-credentials"
	// Certificate is the Secret with the certificate of the server.
	Certificate = Name + "-certificate"

	month = 30 * 24 * time.Hour
)

// Secrets are those that the server is started with, and one called key with an age identity. The addresses are what
// the server is reached at beside its names.
func Secrets(namespace, key string, addresses ...netip.Addr) ([]*corev1.Secret, error) {
	identity, err := seal.NewKey()
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	policy := pki.Policy{
		Name: "S3 server of " + namespace, AuthorityLifetime: 24 * month, LeafLifetime: 11 * month, Settle: time.Minute,
		Backdate: time.Hour, Leaves: []pki.Profile{{
			Name: Name, DNSNames: []string{Name, Name + "." + namespace + ".svc"}, Addresses: addresses, Usage: pki.Server,
		}},
	}
	state, err := pki.Decide(pki.State{}, time.Now(), policy).Apply(pki.State{}, rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, _ := state.Leaf(Name)
	certificate, private, err := leaf.Encode()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	secret := func(name string, kind corev1.SecretType, data map[string]string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: kind, StringData: data,
		}
	}
	return []*corev1.Secret{
		secret(Credentials, corev1.SecretTypeOpaque, map[string]string{
			v1alpha1.KeyAccessKeyID: namespace, v1alpha1.KeySecretAccessKey: rand.Text(),
			v1alpha1.KeyAuthority: string(state.Bundle()),
		}),
		secret(Certificate, corev1.SecretTypeTLS, map[string]string{
			corev1.TLSCertKey: string(certificate), corev1.TLSPrivateKeyKey: string(private),
		}),
		secret(key, corev1.SecretTypeOpaque, map[string]string{v1alpha1.KeyIdentity: identity}),
	}, nil
}
