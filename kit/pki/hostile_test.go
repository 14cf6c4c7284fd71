package pki_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/kit/pki"
)

// number is an odd number of so many bits. That it is no prime is seen by nobody who only reads a key.
func number(t *testing.T, bits int) *big.Int {
	t.Helper()
	made, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), uint(bits)))
	if err != nil {
		t.Fatal(err)
	}
	return made.SetBit(made.SetBit(made, bits-1, 1), 0, 1)
}

// numbers are those of an RSA key in PKCS #1. Dp, Dq and Qinv may be missing, and then are computed.
type numbers struct {
	Version int
	N       *big.Int
	E       int
	D, P, Q *big.Int
	Dp      *big.Int `asn1:"optional"`
	Dq      *big.Int `asn1:"optional"`
	Qinv    *big.Int `asn1:"optional"`
}

// block encodes a key in PKCS #1 or, wrapped, in PKCS #8.
func (n numbers) block(t *testing.T, wrapped bool) []byte {
	t.Helper()
	encoded, err := asn1.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	if !wrapped {
		return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: encoded})
	}
	type algorithm struct {
		ID   asn1.ObjectIdentifier
		Null asn1.RawValue
	}
	encoded, err = asn1.Marshal(struct {
		Version   int
		Algorithm algorithm
		Key       []byte
	}{Algorithm: algorithm{asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, asn1.NullRawValue}, Key: encoded})
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func numbersOf(key *rsa.PrivateKey) numbers {
	return numbers{
		N: key.N, E: key.E, D: key.D, P: key.Primes[0], Q: key.Primes[1], Dp: key.Precomputed.Dp, Dq: key.Precomputed.Dq,
		Qinv: key.Precomputed.Qinv,
	}
}

// TestKeysThatTakeForEver: to read a key of RSA is to compute with it, and the time for that grows with the third power
// of its size. Whoever reads keys of others must not be kept busy by them.
func TestKeysThatTakeForEver(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p, q := number(t, 8192), number(t, 8192)
	huge := numbers{N: new(big.Int).Mul(p, q), E: 65537, D: number(t, 8192), P: p, Q: q}
	factor, bare, third := numbersOf(small), numbersOf(small), numbersOf(small)
	factor.P, factor.Dp, factor.Dq, factor.Qinv = p, nil, nil, nil
	bare.Dp, bare.Dq, bare.Qinv = nil, nil, nil
	third.Version = 1
	made := found(t, "rsa", small, nil, nil)
	for about, test := range map[string]struct {
		key  numbers
		want string
	}{
		"a huge key":        {huge, fmt.Sprintf("it has %d bits, and clients take 8192 at most", huge.N.BitLen())},
		"a huge factor":     {factor, "larger than its modulus"},
		"factors alone":     {bare, "lacks"},
		"more than two":     {third, "more than two primes"},
		"one as it must be": {numbersOf(small), ""},
	} {
		for _, wrapped := range []bool{false, true} {
			began := time.Now()
			_, err := pki.DecodeIssuer(made.pem(), test.key.block(t, wrapped), nil)
			part, _ := errors.AsType[*pki.PartError](err)
			if test.want == "" {
				if err != nil {
					t.Errorf("%s: %v", about, err)
				}
				continue
			}
			if part == nil || part.Part != pki.PartKey || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v after %s, want %q", about, err, time.Since(began), test.want)
			}
		}
	}
	// Whoever may write the Secret of a leaf may put it there as well.
	if _, err := pki.DecodeLeaf("server", made.pem(), huge.block(t, true)); err == nil ||
		!strings.Contains(err.Error(), "not of ECDSA") {
		t.Errorf("a leaf with a huge key: %v", err)
	}
}

// TestCertificatesThatTakeForEver: a signature by a huge key takes minutes to verify.
func TestCertificatesThatTakeForEver(t *testing.T) {
	root, below := found(t, "root", newKey(t), nil, nil), newKey(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: start, NotAfter: start.Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	encoded, err := x509.CreateCertificate(
		rand.Reader, template, root.certificate, &rsa.PublicKey{N: number(t, 20000), E: 65537}, root.key)
	if err != nil {
		t.Fatal(err)
	}
	huge := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: encoded})
	well := found(t, "well", below, &root, nil)
	for part, texts := range map[pki.Part][2][]byte{
		pki.PartCertificate: {append(well.pem(), huge...), root.pem()},
		pki.PartRoots:       {well.pem(), append(root.pem(), huge...)},
	} {
		_, err := pki.DecodeIssuer(texts[0], well.keyPEM(t), texts[1])
		wrong, _ := errors.AsType[*pki.PartError](err)
		if wrong == nil || wrong.Part != part || !strings.Contains(err.Error(), "a key of 20000 bits") {
			t.Errorf("a huge key among the %s: %v", part, err)
		}
	}
}
