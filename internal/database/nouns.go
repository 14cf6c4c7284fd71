package database

import (
	"slices"

	"meridian.dev/meridian/internal/service"
)

type (
	// Child is an object that the spec asks for, as it is.
	Child = service.Child
	// State says how a child differs from what is wanted.
	State = service.State
	// Secret is what is known of a Secret; never its content.
	Secret = service.Secret
	// Certificates is what is known of the authority and of what it has signed.
	Certificates = service.Certificates
	// Certificate is what is known of the certificate of one instance.
	Certificate = service.Certificate
	// Rotation is how far a rotation on request has come.
	Rotation = service.Rotation
	// Route is where the write address leads.
	Route = service.Route
)

// The states of a child.
const (
	Same        = service.Same
	Absent      = service.Absent
	Changed     = service.Changed
	Drifted     = service.Drifted
	Terminating = service.Terminating
	Foreign     = service.Foreign
	Unreadable  = service.Unreadable
)

// The kinds of children.
const (
	KindSettings    = service.KindSettings
	KindSlice       = service.KindSlice
	KindPolicy      = service.KindPolicy
	KindClaim       = service.KindClaim
	KindBudget      = service.KindBudget
	KindRole        = service.KindRole
	KindRoleBinding = service.KindRoleBinding
	KindService     = service.KindService
	KindAccount     = service.KindAccount
	KindSet         = service.KindSet
	KindLease       = service.KindLease
	KindSecret      = service.KindSecret
	KindPod         = service.KindPod
)

// AuthorityLost says that there is no authority any more, although somebody trusts one.
func (s Snapshot) AuthorityLost() bool { return s.Certificates.Lost(s.Binding) }

// CertificateOf is what an instance presents, or will when it has a pod: its own, unless its pod mounts what others
// mount too.
func (s Snapshot) CertificateOf(instance Instance) Certificate {
	if instance.Pod != nil && instance.Pod.Shares {
		return Certificate{Instance: instance.Name, Secret: s.Certificates.Leaf, Identity: s.Certificates.Identity}
	}
	for _, own := range s.Certificates.Own {
		if own.Instance == instance.Name {
			return own
		}
	}
	return Certificate{Instance: instance.Name}
}

// Mounts says that a pod of an instance mounts that Secret of a certificate, or will when it is made.
func (s Snapshot) Mounts(certificate string) bool {
	return slices.ContainsFunc(s.Instances, func(instance Instance) bool {
		if certificate == LeafName(s.Name) {
			return instance.Pod != nil && instance.Pod.Shares || instance.Set != nil && instance.Set.Shares
		}
		return CertificateName(s.Name, instance.Serial) == certificate && (instance.Pod != nil || instance.Set != nil)
	})
}
