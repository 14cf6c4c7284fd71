package database

import "meridian.dev/meridian/internal/service"

type (
	// Child is an object that the spec asks for, as it is.
	Child = service.Child
	// State says how a child differs from what is wanted.
	State = service.State
	// Secret is what is known of a Secret; never its content.
	Secret = service.Secret
	// Certificates is what is known of the authority and of what it has signed.
	Certificates = service.Certificates
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
