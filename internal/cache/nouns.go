package cache

import "meridian.dev/meridian/internal/service"

// What is known of objects that the spec asks for, of Secrets, and of the write address.

type (
	Child        = service.Child
	State        = service.State
	Secret       = service.Secret
	Certificates = service.Certificates
	Route        = service.Route
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
