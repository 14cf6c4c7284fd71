package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"time"
)

const (
	certificateBlock = "CERTIFICATE"
	keyBlock         = "PRIVATE KEY"
	// storedVersion is the version of the stored form of authorities.
	storedVersion = 1
)

// Bundle returns the trusted authorities as PEM, for those who verify. It holds no
// keys.
func (s State) Bundle() []byte {
	var bundle bytes.Buffer
	for _, authority := range s.Authorities {
		bundle.Write(encodeCertificate(authority.Certificate))
	}
	return bundle.Bytes()
}

// Encode returns the leaf as PEM: the certificate, and its key in PKCS #8.
func (l Leaf) Encode() (certificate, key []byte, err error) {
	key, err = encodeKey(l.Key)
	if err != nil {
		return nil, nil, err
	}
	return encodeCertificate(l.Certificate), key, nil
}

// DecodeLeaf is the reverse of Leaf.Encode. It refuses a key that does not belong to
// the certificate. What is behind the certificate is no part of the leaf, see State.Path.
// A caller takes a leaf that cannot be decoded for missing: Decide then has a new one
// issued.
func DecodeLeaf(name string, certificate, key []byte) (Leaf, error) {
	behind := Behind(certificate)
	if len(bytes.TrimSpace(behind)) > 0 {
		if _, err := decodeCertificates(PartCertificate, behind); err != nil {
			return Leaf{}, fmt.Errorf("decode the leaf %s: %w", name, err)
		}
	}
	decoded, decodedKey, err := decodePair(certificate[:len(certificate)-len(behind)], key)
	if err != nil {
		return Leaf{}, fmt.Errorf("decode the leaf %s: %w", name, err)
	}
	return Leaf{Name: name, Certificate: decoded, Key: decodedKey}, nil
}

// Behind is what follows the first certificate of a text: State.Path, if the text is what is presented of a leaf.
func Behind(certificate []byte) []byte {
	_, behind := pem.Decode(certificate)
	return behind
}

// storedAuthorities is the form in which authorities are stored.
type storedAuthorities struct {
	Version     int               `json:"version"`
	Authorities []storedAuthority `json:"authorities"`
}

type storedAuthority struct {
	Certificate string    `json:"certificate"`
	Key         string    `json:"key"`
	Trusted     time.Time `json:"trusted"`
	Outstanding time.Time `json:"outstanding"`
}

// EncodeAuthorities returns the authorities in a form to store, keys included: as
// secret as anything can be. Those who verify get State.Bundle instead.
func EncodeAuthorities(authorities []Authority) ([]byte, error) {
	stored := storedAuthorities{Version: storedVersion}
	for _, authority := range authorities {
		key, err := encodeKey(authority.Key)
		if err != nil {
			return nil, fmt.Errorf("encode the authority %s: %w", authority.ID(), err)
		}
		stored.Authorities = append(stored.Authorities, storedAuthority{
			Certificate: string(encodeCertificate(authority.Certificate)), Key: string(key),
			Trusted: authority.Trusted.UTC(), Outstanding: authority.Outstanding.UTC(),
		})
	}
	encoded, err := json.MarshalIndent(stored, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the authorities: %w", err)
	}
	return append(encoded, '\n'), nil
}

// DecodeAuthorities is the reverse of EncodeAuthorities. It refuses whatever it does
// not understand in full. Here a caller must not take what cannot be decoded for
// missing without a word from a human: making all material anew interrupts everyone.
func DecodeAuthorities(encoded []byte) ([]Authority, error) {
	var stored storedAuthorities
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&stored); err != nil {
		return nil, fmt.Errorf("decode the authorities: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode the authorities: there is more behind the end")
	}
	if stored.Version != storedVersion {
		return nil, fmt.Errorf("decode the authorities: the version is %d, not %d", stored.Version, storedVersion)
	}
	var authorities []Authority
	for i, one := range stored.Authorities {
		certificate, key, err := decodePair([]byte(one.Certificate), []byte(one.Key))
		if err == nil && !certificate.IsCA {
			err = errors.New("the certificate is not one of an authority")
		}
		if err != nil {
			return nil, fmt.Errorf("decode authority %d: %w", i+1, err)
		}
		authorities = append(authorities, Authority{Certificate: certificate, Key: key,
			Trusted: one.Trusted, Outstanding: one.Outstanding})
	}
	return authorities, nil
}

func encodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: certificate.Raw})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: encoded}), nil
}

func decodePair(certificate, key []byte) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	block, err := decodeBlock(certificate, certificateBlock)
	if err != nil {
		return nil, nil, err
	}
	decoded, err := x509.ParseCertificate(block)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate: %w", err)
	}
	if block, err = decodeBlock(key, keyBlock); err != nil {
		return nil, nil, err
	}
	anyKey, err := readOwn(block)
	if err != nil {
		return nil, nil, fmt.Errorf("read the key: %w", err)
	}
	decodedKey, ok := anyKey.(*ecdsa.PrivateKey)
	if !ok || !decodedKey.PublicKey.Equal(decoded.PublicKey) {
		return nil, nil, errors.New("the key does not belong to the certificate")
	}
	return decoded, decodedKey, nil
}

// decodeBlock decodes the one PEM block of a text.
func decodeBlock(text []byte, kind string) ([]byte, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("there is no PEM block of the type %s", kind)
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, fmt.Errorf("there is more behind the PEM block of the type %s", kind)
	}
	return block.Bytes, nil
}
