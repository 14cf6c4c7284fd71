package database

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
)

// Plan is what is to be done now. Without actions and holds the database is as its spec wishes.
type Plan struct {
	// Actions are carried out in this order, each independent of the success of the others.
	Actions []Action `json:"actions,omitempty"`
	// Holds are what is waited for, the most important first.
	Holds []Hold `json:"holds,omitempty"`
	// Pending are changes that are asked for and not carried out now, one sentence each.
	Pending []string `json:"pending,omitempty"`
	// Restarts are those of Pending that come from Meridian and not from the spec: nothing is missing without them.
	Restarts []string `json:"restarts,omitempty"`
	// Again is when to look again although nothing has happened.
	Again time.Duration `json:"-"`
	// Design is what the children are rendered from.
	Design Design `json:"-"`
}

// Verb is what an action does.
type Verb string

// The verbs. A new one needs a case in act, a line in status, and a look at the invariants.
const (
	// Create and Update bring a child to what is rendered.
	Create Verb = "Create"
	Update Verb = "Update"
	// Grow raises the size of a claim, and changes nothing else.
	Grow Verb = "Grow"
	// StoreRecord writes the record where it is missing, and changes nothing else.
	StoreRecord Verb = "StoreRecord"
	// CreateBinding makes the Secret for applications, once.
	CreateBinding Verb = "CreateBinding"
	// StoreCertificates carries out what kit/pki decides.
	StoreCertificates Verb = "StoreCertificates"
	// Guard and Release put the finalizer onto the database and take it off.
	Guard   Verb = "Guard"
	Release Verb = "Release"
	// DeleteClaim and DeletePod cannot be undone: act reads live first.
	DeleteClaim Verb = "DeleteClaim"
	DeletePod   Verb = "DeletePod"
)

// Action is one write, and the state of the world that it was decided on.
type Action struct {
	Verb Verb   `json:"verb"`
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
	// UID and ResourceVersion must still be those of the object, empty for one that must not exist.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Why             string `json:"why"`
	// Repair says that the action undoes what somebody else has changed.
	Repair bool `json:"repair,omitempty"`
}

// Hold is a named reason to wait.
type Hold struct {
	// Name is a CamelCase word that becomes the reason of a condition.
	Name string `json:"name"`
	// Message is one sentence for a user.
	Message string `json:"message"`
	// Weight says what the hold means for the conditions.
	Weight Weight `json:"weight"`
	// Recheck is when to look again, zero if an event will come.
	Recheck time.Duration `json:"-"`
}

// Weight says what a hold means.
type Weight string

// The weights.
const (
	// Progressing holds end by themselves.
	Progressing Weight = "Progressing"
	// Degraded holds say that the database works with less than was asked for.
	Degraded Weight = "Degraded"
	// Stalled holds end when a human acts.
	Stalled Weight = "Stalled"
	// Paused is the user's own wish: nothing is wrong and nothing moves.
	Paused Weight = "Paused"
)

// Design is what the children are rendered from: the spec, together with what the world has already fixed. It is a pure
// function of a Snapshot.
type Design struct {
	Identity
	Spec   v1alpha1.GeoDatabaseSpec
	Images Images
	Record Record
	// Primary is the instance that the write Service selects.
	Primary   string
	Instances []InstanceDesign
}

// InstanceDesign is one wanted instance.
type InstanceDesign struct {
	Serial int
	Name   string
	// Size is never below what the claim asks for already: a volume cannot shrink.
	Size resource.Quantity
}
