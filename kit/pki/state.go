package pki

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"slices"
	"sync"
	"time"
)

// State is all material there is. It is a value: nothing in this package changes
// a state that it was given.
type State struct {
	// Authorities are those that are trusted, in the order of their introduction.
	Authorities []Authority
	// Leaves are the current leaves, no two of one name.
	Leaves []Leaf
	// Endorsements are whom those outside trust, see Endorse; none for the authorities themselves.
	Endorsements []Endorsement
}

// Authority is a certificate authority, and what must be remembered about it.
type Authority struct {
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
	// Trusted is when it was introduced into the bundle.
	Trusted time.Time
	// Outstanding is when the last leaf that it has signed ends. It may not be
	// dropped earlier, even when that leaf has long been replaced: some party may
	// present it still.
	Outstanding time.Time
}

// ID identifies the authority in plans: its serial number.
func (a Authority) ID() string { return a.Certificate.SerialNumber.Text(16) }

// Leaf is a certificate that a party presents, with its key.
type Leaf struct {
	// Name is that of its profile.
	Name        string
	Certificate *x509.Certificate
	Key         *ecdsa.PrivateKey
}

// Leaf returns the leaf of that name.
func (s State) Leaf(name string) (Leaf, bool) {
	for _, leaf := range s.Leaves {
		if leaf.Name == name {
			return leaf, true
		}
	}
	return Leaf{}, false
}

// Trust returns the authorities as a pool to verify against.
func (s State) Trust() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, authority := range s.Authorities {
		pool.AddCert(authority.Certificate)
	}
	return pool
}

// Older reports whether something is trusted that was made before the moment: a renewal is over when it does not.
func (s State) Older(moment time.Time) bool {
	return slices.ContainsFunc(s.Authorities, func(authority Authority) bool { return authority.Trusted.Before(moment) })
}

// outstanding is when the last leaf of the authority ends that is known of, be it
// from what the authority remembers or from the leaves at hand.
func (s State) outstanding(authority Authority) time.Time {
	latest := authority.Outstanding
	for _, leaf := range s.Leaves {
		if authority.signed(leaf) && leaf.Certificate.NotAfter.After(latest) {
			latest = leaf.Certificate.NotAfter
		}
	}
	return latest
}

func (a Authority) signed(leaf Leaf) bool { return signatures.hold(a.Certificate, leaf.Certificate) }

// signatures are those that were verified. Nothing else in a plan takes long, and a certificate never changes.
var signatures = memo{known: map[pair]bool{}}

// memo remembers the answers for pairs of certificates, by all of their bytes. When there are too many it begins anew.
type memo struct {
	mu    sync.Mutex
	known map[pair]bool
}

type pair struct{ authority, leaf [sha256.Size]byte }

const mostSignatures = 4096

func (m *memo) hold(authority, leaf *x509.Certificate) bool {
	if len(authority.Raw) == 0 || len(leaf.Raw) == 0 { // It was not parsed, and could be changed.
		return leaf.CheckSignatureFrom(authority) == nil
	}
	asked := pair{sha256.Sum256(authority.Raw), sha256.Sum256(leaf.Raw)}
	m.mu.Lock()
	defer m.mu.Unlock()
	answer, known := m.known[asked]
	if !known {
		answer = leaf.CheckSignatureFrom(authority) == nil
		if len(m.known) >= mostSignatures {
			clear(m.known)
		}
		m.known[asked] = answer
	}
	return answer
}

func (a Authority) validAt(now time.Time) bool { return validAt(a.Certificate, now) }

// validAt reads the limits of a certificate as verifiers do: both are included.
func validAt(certificate *x509.Certificate, now time.Time) bool {
	return !now.Before(certificate.NotBefore) && !now.After(certificate.NotAfter)
}
