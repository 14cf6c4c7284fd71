package cluster

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"

	"meridian.dev/meridian/sandbox/network"
)

// lifetime of all certificates: a sandbox does not get old, and nothing in it rotates.
const lifetime = 365 * 24 * time.Hour

// The authority that the cluster's parts trust, and the one for those who may speak for other users.
const (
	clusterAuthority = "ca"
	frontAuthority   = "front-proxy-ca"
)

// identity is a certificate to be issued. Kubernetes reads the user from the name and the groups from the
// organisation.
type identity struct {
	file     string
	user     string
	groups   []string
	hosts    []string
	issuedBy string
}

// identities lists every certificate of a cluster with the given number of nodes.
func identities(nodes int) []identity {
	const root, front = clusterAuthority, frontAuthority
	list := []identity{
		{file: "apiserver", user: "kube-apiserver", issuedBy: root, hosts: []string{
			network.ControlAddress, network.APIService, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default",
			"kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		}},
		{file: "apiserver-kubelet-client", user: "kube-apiserver-kubelet-client", groups: []string{"system:masters"},
			issuedBy: root},
		{file: "front-proxy-client", user: "front-proxy-client", issuedBy: front},
		{file: "admin", user: "sandbox-admin", groups: []string{"system:masters"}, issuedBy: root},
		{file: "kube-controller-manager", user: "system:kube-controller-manager", issuedBy: root},
		{file: "kube-scheduler", user: "system:kube-scheduler", issuedBy: root},
		{file: "kube-proxy", user: "system:kube-proxy", issuedBy: root},
		{file: "volumes", user: "sandbox-volumes", issuedBy: root},
		{file: "policies", user: "sandbox-policies", issuedBy: root},
	}
	for n := 1; n <= nodes; n++ {
		name := nodeName(n)
		list = append(list,
			identity{file: name, user: "system:node:" + name, groups: []string{"system:nodes"}, issuedBy: root},
			identity{file: name + "-serving", user: "system:node:" + name, groups: []string{"system:nodes"}, issuedBy: root,
				hosts: []string{name, network.NodeAddress(n), "127.0.0.1"}})
	}
	return list
}

// issueAll writes what is missing of authorities, certificates, kubeconfigs and the key that signs tokens of service
// accounts. What is there stays: a restarted cluster must recognise its own.
func (c *Cluster) issueAll(nodes int) error {
	for _, name := range []string{clusterAuthority, frontAuthority} {
		if err := c.issueAuthority(name); err != nil {
			return err
		}
	}
	for _, id := range identities(nodes) {
		if err := c.issue(id); err != nil {
			return err
		}
		if len(id.hosts) == 0 && id.issuedBy == clusterAuthority {
			if err := c.writeKubeconfig(id.file); err != nil {
				return err
			}
		}
	}
	return c.issueTokenKey()
}

func (c *Cluster) issueAuthority(name string) error {
	if exists(c.path("pki", name+".crt")) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key of %s: %w", name, err)
	}
	template := certificate(pkix.Name{CommonName: "sandbox " + name})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	return c.writePair(name, template, template, key, key)
}

func (c *Cluster) issue(id identity) error {
	if exists(c.path("pki", id.file+".crt")) {
		return nil
	}
	authority, signer, err := c.readAuthority(id.issuedBy)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make key of %s: %w", id.file, err)
	}
	template := certificate(pkix.Name{CommonName: id.user, Organization: id.groups})
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(id.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return c.writePair(id.file, template, authority, key, signer)
}

func certificate(subject pkix.Name) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // The kernel's source of randomness does not fail.
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime),
	}
}

// writePair writes the key before the certificate: a certificate that is there says that its key is there too.
func (c *Cluster) writePair(name string, cert, parent *x509.Certificate, key, signer crypto.Signer) error {
	signed, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	if err := c.writeKey(name+".key", key); err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: signed})
	return writeFile(c.path("pki", name+".crt"), block, 0o644)
}

func (c *Cluster) writeKey(file string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode %s: %w", file, err)
	}
	return writeFile(c.path("pki", file), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600)
}

func (c *Cluster) readAuthority(name string) (*x509.Certificate, crypto.Signer, error) {
	var blocks [2]*pem.Block
	for i, suffix := range []string{".crt", ".key"} {
		content, err := os.ReadFile(c.path("pki", name+suffix))
		if err != nil {
			return nil, nil, fmt.Errorf("read authority: %w", err)
		}
		if blocks[i], _ = pem.Decode(content); blocks[i] == nil {
			return nil, nil, fmt.Errorf("authority %s%s is damaged: run 'sandbox down'", name, suffix)
		}
	}
	cert, err := x509.ParseCertificate(blocks[0].Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("parse authority %s: %w", name, err)
	}
	key, err := x509.ParsePKCS8PrivateKey(blocks[1].Bytes)
	if err != nil {
		return nil, nil, fmt.Errorf("parse key of authority %s: %w", name, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("the key of authority %s cannot sign", name)
	}
	return cert, signer, nil
}

func (c *Cluster) issueTokenKey() error {
	public := c.path("pki", "tokens.pub")
	if exists(public) {
		return nil
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("make key for tokens: %w", err)
	}
	if err := c.writeKey("tokens.key", key); err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encode key for tokens: %w", err)
	}
	return writeFile(public, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o644)
}

// writeKubeconfig writes a kubeconfig that holds its certificates itself, so that the file can be copied anywhere.
func (c *Cluster) writeKubeconfig(name string) error {
	var encoded []any
	for _, file := range []string{"ca.crt", name + ".crt", name + ".key"} {
		content, err := os.ReadFile(c.path("pki", file))
		if err != nil {
			return fmt.Errorf("read credentials: %w", err)
		}
		encoded = append(encoded, base64.StdEncoding.EncodeToString(content))
	}
	content := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: sandbox
contexts:
- {name: sandbox, context: {cluster: sandbox, user: %[1]s}}
clusters:
- name: sandbox
  cluster: {server: "https://%[2]s:6443", certificate-authority-data: %[3]s}
users:
- name: %[1]s
  user: {client-certificate-data: %[4]s, client-key-data: %[5]s}
`, append([]any{name, network.ControlAddress}, encoded...)...)
	return writeFile(c.path("pki", name+".kubeconfig"), []byte(content), 0o600)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
