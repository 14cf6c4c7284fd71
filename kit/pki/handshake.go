package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Material is what one party needs for a handshake.
type Material struct {
	// Certificate is what it presents.
	Certificate tls.Certificate
	// Trust is what it verifies the other side against.
	Trust *x509.CertPool
}

// Source returns the current material. It is called for every handshake, by many
// goroutines at once, so it should return what someone else keeps up to date.
type Source func() (Material, error)

// Material returns what the holder of the leaf needs.
func (s State) Material(leaf string) (Material, error) {
	found, ok := s.Leaf(leaf)
	if !ok {
		return Material{}, fmt.Errorf("there is no leaf %q", leaf)
	}
	return Material{
		Certificate: tls.Certificate{
			Certificate: [][]byte{found.Certificate.Raw}, PrivateKey: found.Key, Leaf: found.Certificate,
		},
		Trust: s.Trust(),
	}, nil
}

// DecodeMaterial returns the material that is stored as PEM: the certificate and key
// of Leaf.Encode, and a bundle of State.Bundle.
func DecodeMaterial(certificate, key, bundle []byte) (Material, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return Material{}, fmt.Errorf("decode the certificate: %w", err)
	}
	trust := x509.NewCertPool()
	if !trust.AppendCertsFromPEM(bundle) {
		return Material{}, errors.New("decode the bundle: it holds no certificate")
	}
	return Material{Certificate: pair, Trust: trust}, nil
}

// DecodeMaterialFor does the same, and refuses a certificate that is not for that host. Without a host it takes any.
func DecodeMaterialFor(host string, certificate, key, bundle []byte) (Material, error) {
	material, err := DecodeMaterial(certificate, key, bundle)
	if err != nil || host == "" {
		return material, err
	}
	if material.Certificate.Leaf.VerifyHostname(host) != nil {
		return Material{}, fmt.Errorf("the certificate is not for %s", host)
	}
	return material, nil
}

// ServerConfig returns a configuration for a server that presents, for each new
// connection, what the source returns then. Everything else is taken from base,
// which may be nil, except that TLS 1.3 is demanded where base does not say what is.
// When base.ClientAuth has the certificates of callers verified, then it is against
// the trust of the source.
//
// With client certificates, a server that speaks HTTP/2 must have "h2" in
// base.NextProtos: the configuration is made anew for each connection, so that what
// net/http adds to its copy does not arrive here. For the same reason sessions are
// not resumed: each connection is verified against what is trusted now.
func ServerConfig(base *tls.Config, source Source) *tls.Config {
	config := cloned(base)
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return presented(source)
	}
	if config.ClientAuth < tls.VerifyClientCertIfGiven {
		return config
	}
	config.SessionTicketsDisabled = true
	each := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		material, err := source()
		if err != nil {
			return nil, fmt.Errorf("read the current material: %w", err)
		}
		// Without a pool, the handshake would trust every authority of the system.
		if material.Trust == nil {
			return nil, errors.New("verify the caller: there is nothing to trust")
		}
		// Certificate and trust are from one reading, so that they belong together.
		fresh := each.Clone()
		fresh.GetCertificate = nil
		fresh.Certificates = []tls.Certificate{material.Certificate}
		fresh.ClientCAs = material.Trust
		return fresh, nil
	}
	return config
}

// ClientConfig returns a configuration for a client that verifies the server it
// calls, for each new connection, against the trust that the source returns then,
// and presents the certificate of the source if asked. Everything else is taken from
// base, in which ServerName must be set: it is the name or the address that the
// certificate of the server has to hold.
func ClientConfig(base *tls.Config, source Source) *tls.Config {
	config := cloned(base)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return presented(source)
	}
	// The roots of a configuration cannot change while it is used. So the built-in
	// verification is switched off, and the same is done by verify, which the
	// handshake cannot go without.
	config.InsecureSkipVerify = true
	server, now := config.ServerName, config.Time
	config.VerifyConnection = func(connection tls.ConnectionState) error {
		material, err := source()
		if err != nil {
			return fmt.Errorf("read the current material: %w", err)
		}
		options := x509.VerifyOptions{Roots: material.Trust, DNSName: server, Intermediates: x509.NewCertPool()}
		if now != nil {
			options.CurrentTime = now()
		}
		return verify(connection, options)
	}
	return config
}

func verify(connection tls.ConnectionState, options x509.VerifyOptions) error {
	if options.DNSName == "" {
		return errors.New("verify the server: it is not said which server it should be")
	}
	if options.Roots == nil {
		return errors.New("verify the server: there is nothing to trust")
	}
	if len(connection.PeerCertificates) == 0 {
		return errors.New("verify the server: it presents no certificate")
	}
	for _, certificate := range connection.PeerCertificates[1:] {
		options.Intermediates.AddCert(certificate)
	}
	if _, err := connection.PeerCertificates[0].Verify(options); err != nil {
		return fmt.Errorf("verify the server: %w", err)
	}
	return nil
}

func presented(source Source) (*tls.Certificate, error) {
	material, err := source()
	if err != nil {
		return nil, fmt.Errorf("read the current material: %w", err)
	}
	return &material.Certificate, nil
}

func cloned(base *tls.Config) *tls.Config {
	if base == nil {
		base = &tls.Config{}
	}
	config := base.Clone()
	if config.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS13
	}
	return config
}
