package pki

import (
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
)

// Keys and certificates of others are looked at before anything is computed with them: what RSA takes grows with the
// third power of the size of its numbers, nobody can call a computation back, and whoever writes a Secret chooses them.

const (
	// smallestRSA and largestRSA are the sizes of keys in bits that clients accept today.
	smallestRSA, largestRSA = 2048, 8192
)

var (
	algorithmRSA   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	algorithmECDSA = asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1}
)

// wrapped is the form of PKCS #8. Attributes may follow.
type wrapped struct {
	Version   int
	Algorithm pkix.AlgorithmIdentifier
	Key       []byte
}

// numbersRSA is the form of PKCS #1. Keys of more than two primes have more behind.
type numbersRSA struct {
	Version      int
	N            *big.Int
	E            int
	D, P, Q      *big.Int
	Dp, Dq, Qinv *big.Int `asn1:"optional"`
}

// checkWrapped refuses a key in PKCS #8 that takes too long to read.
func checkWrapped(encoded []byte) error {
	var key wrapped
	if _, err := asn1.Unmarshal(encoded, &key); err != nil {
		return errors.New("it cannot be read")
	}
	if key.Algorithm.Algorithm.Equal(algorithmRSA) {
		return checkRSA(key.Key)
	}
	return nil
}

// checkRSA refuses a key in PKCS #1 that takes too long to read or to sign with: a huge one, and one without what makes
// signing quick.
func checkRSA(encoded []byte) error {
	var key numbersRSA
	if _, err := asn1.Unmarshal(encoded, &key); err != nil {
		return errors.New("it cannot be read")
	}
	if key.Version != 0 {
		return errors.New("it has more than two primes, which few can read")
	}
	if size := key.N.BitLen(); size > largestRSA || size < smallestRSA {
		return checkSize(size)
	}
	for _, part := range []*big.Int{key.D, key.P, key.Q, key.Dp, key.Dq, key.Qinv} {
		switch {
		case part == nil:
			return errors.New("it lacks the exponents and the coefficient that PKCS #1 demands")
		case part.BitLen() > key.N.BitLen():
			return errors.New("one of its numbers is larger than its modulus")
		}
	}
	return nil
}

func checkSize(bits int) error {
	switch {
	case bits > largestRSA:
		return fmt.Errorf("it has %d bits, and clients take %d at most", bits, largestRSA)
	case bits < smallestRSA:
		return fmt.Errorf("it has %d bits, and clients demand %d", bits, smallestRSA)
	}
	return nil
}

// readOwn reads a key as encodeKey writes it.
func readOwn(encoded []byte) (any, error) {
	var key wrapped
	if _, err := asn1.Unmarshal(encoded, &key); err != nil || !key.Algorithm.Algorithm.Equal(algorithmECDSA) {
		return nil, errors.New("it is not of ECDSA in PKCS #8, so it does not belong to the certificate")
	}
	return x509.ParsePKCS8PrivateKey(encoded)
}

// checkPublic refuses a certificate by whose key no signature is verified within reason.
func checkPublic(certificate *x509.Certificate) error {
	key, is := certificate.PublicKey.(*rsa.PublicKey)
	if !is || key.N.BitLen() <= largestRSA {
		return nil
	}
	return fmt.Errorf("that of %s has a key of %d bits, and clients take %d at most", certificate.Subject,
		key.N.BitLen(), largestRSA)
}
