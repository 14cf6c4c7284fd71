package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// Issuer is an authority of somebody else, such as that of a company, which vouches for ours. It signs certificates of
// our authorities and nothing else: leaves are signed by those, so what the parties trust among themselves is never the
// issuer, and whoever has another certificate of it is nobody to them.
type Issuer struct {
	// Certificate is that of the issuer.
	Certificate *x509.Certificate
	// Path are those between it and a root, in the order in which they have signed, itself included unless it is a root.
	Path []*x509.Certificate
	// Roots are what the others trust.
	Roots []*x509.Certificate

	key crypto.Signer
}

// Part is one of the three texts that an issuer is made of.
type Part string

// The parts.
const (
	PartCertificate Part = "certificate"
	PartKey         Part = "key"
	PartRoots       Part = "roots"
)

// PartError says which part of an issuer is not as it must be.
type PartError struct {
	Part Part
	Err  error
}

func (e *PartError) Error() string { return fmt.Sprintf("the %s: %v", e.Part, e.Err) }

func (e *PartError) Unwrap() error { return e.Err }

func wrong(part Part, format string, args ...any) error {
	return &PartError{Part: part, Err: fmt.Errorf(format, args...)}
}

// largestPart is more than any path or set of roots takes that makes sense.
const largestPart = 64 << 10

// DecodeIssuer reads an issuer from PEM: its certificate with those between it and a root behind it, its key, and the
// roots, which may be missing if the last certificate is a root. It refuses what does not belong together.
func DecodeIssuer(certificate, key, roots []byte) (Issuer, error) {
	chain, err := decodeCertificates(PartCertificate, certificate)
	if err != nil {
		return Issuer{}, err
	}
	issuer := Issuer{Certificate: chain[0]}
	if issuer.key, err = decodeSigner(key); err != nil {
		return Issuer{}, err
	}
	public, known := issuer.key.Public().(interface {
		Equal(key crypto.PublicKey) bool
	})
	if !known || !public.Equal(issuer.Certificate.PublicKey) {
		return Issuer{}, wrong(PartKey, "it does not belong to the certificate")
	}
	trusted := chain
	if len(roots) > 0 {
		if trusted, err = decodeCertificates(PartRoots, roots); err != nil {
			return Issuer{}, err
		}
	}
	for _, one := range trusted {
		if selfSigned(one) {
			issuer.Roots = append(issuer.Roots, one)
		}
	}
	if len(issuer.Roots) == 0 {
		return Issuer{}, wrong(PartRoots, "there is no certificate of a root, which signs itself")
	}
	for _, one := range chain {
		if !selfSigned(one) {
			issuer.Path = append(issuer.Path, one)
		}
	}
	return issuer, nil
}

func decodeCertificates(part Part, text []byte) ([]*x509.Certificate, error) {
	if len(text) > largestPart {
		return nil, wrong(part, "it is longer than %d KiB", largestPart>>10)
	}
	var list []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			return nil, wrong(part, "there is a PEM block of the type %s", block.Type)
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, wrong(part, "it cannot be read: %w", err)
		}
		if err := checkPublic(one); err != nil {
			return nil, wrong(part, "%w", err)
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		return nil, wrong(part, "there is no PEM block of the type %s", certificateBlock)
	}
	return list, nil
}

// decodeSigner reads a key as openssl, cert-manager and others write it. What is wrong with it is not told in detail:
// messages are read by those who may not read keys.
func decodeSigner(text []byte) (crypto.Signer, error) {
	if len(text) > largestPart {
		return nil, wrong(PartKey, "it is longer than %d KiB", largestPart>>10)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, wrong(PartKey, "there is no PEM block of the type %s", keyBlock)
	}
	var check func([]byte) error
	var read func([]byte) (any, error)
	switch block.Type {
	case keyBlock:
		check, read = checkWrapped, x509.ParsePKCS8PrivateKey
	case "EC PRIVATE KEY":
		check = func([]byte) error { return nil }
		read = func(encoded []byte) (any, error) { return x509.ParseECPrivateKey(encoded) }
	case "RSA PRIVATE KEY":
		check = checkRSA
		read = func(encoded []byte) (any, error) { return x509.ParsePKCS1PrivateKey(encoded) }
	default:
		return nil, wrong(PartKey, "its PEM block is of the type %s, not %s", block.Type, keyBlock)
	}
	if err := check(block.Bytes); err != nil {
		return nil, wrong(PartKey, "%w", err)
	}
	key, err := read(block.Bytes)
	if err != nil {
		return nil, wrong(PartKey, "it cannot be read")
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return key, nil
	case *ecdsa.PrivateKey:
		return key, nil
	case ed25519.PrivateKey:
		return key, nil
	}
	return nil, wrong(PartKey, "it is neither RSA nor ECDSA nor Ed25519")
}

func selfSigned(certificate *x509.Certificate) bool {
	signed, by := certificate.RawTBSCertificate, certificate.SignatureAlgorithm
	return bytes.Equal(certificate.RawSubject, certificate.RawIssuer) &&
		certificate.CheckSignature(by, signed, certificate.Signature) == nil
}

// Check says why the issuer cannot vouch for authorities of the policy, nil if it can: by what its certificate says,
// and by a trial with an authority and leaves that are thrown away.
func (i Issuer) Check(policy Policy, now time.Time, random io.Reader) error {
	certificate := i.Certificate
	switch {
	case !certificate.BasicConstraintsValid || !certificate.IsCA:
		return wrong(PartCertificate, "it is not that of an authority (basicConstraints must say CA:TRUE)")
	case certificate.KeyUsage != 0 && certificate.KeyUsage&x509.KeyUsageCertSign == 0:
		return wrong(PartCertificate, "it may not sign certificates (keyUsage must have keyCertSign)")
	case certificate.MaxPathLen == 0 && certificate.MaxPathLenZero:
		return wrong(PartCertificate, "it may not sign for another authority (basicConstraints must not say pathlen:0)")
	case now.Before(certificate.NotBefore):
		return wrong(PartCertificate, "it is not valid before %s", format(certificate.NotBefore))
	case now.After(certificate.NotAfter):
		return wrong(PartCertificate, "it has ended at %s", format(certificate.NotAfter))
	}
	for _, one := range i.Path {
		if !validAt(one, now) {
			return wrong(PartCertificate, "that of %s, which leads to the root, is valid from %s to %s only", one.Subject,
				format(one.NotBefore), format(one.NotAfter))
		}
	}
	if !slices.ContainsFunc(i.Roots, func(root *x509.Certificate) bool { return validAt(root, now) }) {
		return wrong(PartRoots, "no root is valid now; that of %s is from %s to %s", i.Roots[0].Subject,
			format(i.Roots[0].NotBefore), format(i.Roots[0].NotAfter))
	}
	return i.try(policy, now, random)
}

func (i Issuer) try(policy Policy, now time.Time, random io.Reader) error {
	trial, err := Decide(State{}, now, policy).Apply(State{}, random)
	if err != nil {
		return fmt.Errorf("try the issuer: %w", err)
	}
	cross, err := i.sign(i.cross(trial.Authorities[0], policy, now), trial.Authorities[0])
	if err != nil {
		return wrong(PartCertificate, "it cannot sign: %w", err)
	}
	for _, leaf := range trial.Leaves {
		if !slices.Contains(leaf.Certificate.ExtKeyUsage, x509.ExtKeyUsageServerAuth) {
			continue
		}
		if err := i.verify(leaf.Certificate, cross, now); err != nil {
			return err
		}
	}
	return nil
}

func (i Issuer) verify(leaf, cross *x509.Certificate, now time.Time) error {
	options := x509.VerifyOptions{
		Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, root := range i.Roots {
		options.Roots.AddCert(root)
	}
	for _, one := range append([]*x509.Certificate{cross}, i.Path...) {
		options.Intermediates.AddCert(one)
	}
	_, err := leaf.Verify(options)
	// What the library says more would name the authority of the trial, which is another one each time.
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return wrong(PartRoots, "no certificate in it is the root that the authority leads to")
	}
	if err != nil {
		return wrong(PartCertificate, "nobody would accept what rests on it: %w", err)
	}
	return nil
}

// Ending reports that the issuer ends soon, and whoever replaces it should have done so: less than a fifth of its life
// is left, and no more than 30 days.
func (i Issuer) Ending(now time.Time) (at time.Time, soon bool) {
	at = i.Certificate.NotAfter
	notice := min(at.Sub(i.Certificate.NotBefore)/5, 30*24*time.Hour)
	return at, !now.Before(at.Add(-notice))
}
