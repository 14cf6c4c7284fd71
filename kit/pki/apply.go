package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"slices"
	"time"
)

const (
	// serialBytes is below the 20 bytes that the standard admits, and well above
	// what makes two equal serial numbers thinkable.
	serialBytes = 16
	// keyBytes is the size of a P-256 key.
	keyBytes = 32
)

// Apply carries the plan out and returns the state that results. It stores nothing.
// The state must be the one for which the plan was made.
//
// All randomness comes from random, which is crypto/rand.Reader outside of tests:
// the same reader gives the same keys, serial numbers and signatures.
func (p Plan) Apply(state State, random io.Reader) (State, error) {
	next := State{
		Authorities: slices.Clone(state.Authorities), Leaves: slices.Clone(state.Leaves), Endorsements: state.Endorsements,
	}
	for _, step := range p.Steps {
		if err := p.apply(&next, step, random); err != nil {
			return State{}, fmt.Errorf("%s %s: %w", step.Verb, step.Subject, err)
		}
	}
	return next, nil
}

func (p Plan) apply(state *State, step Step, random io.Reader) error {
	switch step.Verb {
	case CreateAuthority, IntroduceAuthority:
		authority, err := makeAuthority(step, p.At, random)
		if err != nil {
			return err
		}
		state.Authorities = append(state.Authorities, authority)
	case DropAuthority:
		state.Authorities = slices.DeleteFunc(state.Authorities, func(a Authority) bool { return a.ID() == step.Subject })
	case IssueLeaf:
		return p.issue(state, step, random)
	case RemoveLeaf:
		state.Leaves = slices.DeleteFunc(state.Leaves, func(leaf Leaf) bool { return leaf.Name == step.Subject })
	default:
		return errors.New("the verb is unknown")
	}
	return nil
}

func (p Plan) issue(state *State, step Step, random io.Reader) error {
	at := slices.IndexFunc(state.Authorities, func(a Authority) bool { return a.ID() == p.Issuer })
	if p.Issuer == "" {
		at = len(state.Authorities) - 1
	}
	if at < 0 {
		return errors.New("the authority that should sign is not in the state")
	}
	issuer := &state.Authorities[at]
	leaf, err := makeLeaf(step, *issuer, random)
	if err != nil {
		return err
	}
	issuer.Outstanding = latest(issuer.Outstanding, leaf.Certificate.NotAfter)
	same := func(other Leaf) bool { return other.Name == leaf.Name }
	if old := slices.IndexFunc(state.Leaves, same); old >= 0 {
		state.Leaves[old] = leaf
	} else {
		state.Leaves = append(state.Leaves, leaf)
	}
	return nil
}

func makeAuthority(step Step, now time.Time, random io.Reader) (Authority, error) {
	key, serial, err := draw(random)
	if err != nil {
		return Authority{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		// Each authority has a name of its own, because some verifiers pick the issuer
		// by name alone and would try the wrong one of two.
		Subject:               pkix.Name{CommonName: fmt.Sprintf("%s %s", step.Subject, serial.Text(16)[:8])},
		NotBefore:             step.NotBefore,
		NotAfter:              step.NotAfter,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	constrain(template, step.Profile)
	certificate, err := sign(template, template, key, key)
	if err != nil {
		return Authority{}, err
	}
	return Authority{Certificate: certificate, Key: key, Trusted: now.UTC().Round(0)}, nil
}

func makeLeaf(step Step, issuer Authority, random io.Reader) (Leaf, error) {
	key, serial, err := draw(random)
	if err != nil {
		return Leaf{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: step.Profile.CommonName},
		NotBefore:             step.NotBefore,
		NotAfter:              step.NotAfter,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           step.Profile.Usage.extended(),
		BasicConstraintsValid: true,
		DNSNames:              step.Profile.DNSNames,
	}
	for _, address := range step.Profile.Addresses {
		template.IPAddresses = append(template.IPAddresses, net.IP(address.Unmap().AsSlice()))
	}
	certificate, err := sign(template, issuer.Certificate, key, issuer.Key)
	if err != nil {
		return Leaf{}, err
	}
	return Leaf{Name: step.Subject, Certificate: certificate, Key: key}, nil
}

// sign signs without a source of randomness, which makes the signature that of
// RFC 6979: as strong, and the same each time.
func sign(template, parent *x509.Certificate, holder, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	encoded, err := x509.CreateCertificate(nil, template, parent, &holder.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(encoded)
	if err != nil {
		return nil, fmt.Errorf("read the signed certificate: %w", err)
	}
	return certificate, nil
}

// draw draws a key and a serial number. The standard library would take the bytes
// of the key from the system whatever it is given, so they are drawn here: uniform,
// until they are a valid key, which the first ones are but for one time in 2^32.
func draw(random io.Reader) (*ecdsa.PrivateKey, *big.Int, error) {
	serial := make([]byte, serialBytes)
	if _, err := io.ReadFull(random, serial); err != nil {
		return nil, nil, fmt.Errorf("draw a serial number: %w", err)
	}
	// The first bit makes the number positive; the second gives all of them the same
	// length.
	serial[0] = serial[0]&0x7f | 0x40
	for range 128 {
		scalar := make([]byte, keyBytes)
		if _, err := io.ReadFull(random, scalar); err != nil {
			return nil, nil, fmt.Errorf("draw a key: %w", err)
		}
		if key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), scalar); err == nil {
			return key, new(big.Int).SetBytes(serial), nil
		}
	}
	return nil, nil, errors.New("draw a key: the source of randomness is broken")
}

// extended returns the usage in the words of certificates.
func (u Usage) extended() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if u&Server != 0 {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	if u&Client != 0 {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	return usages
}
