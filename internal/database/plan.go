package database

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	// Warnings are what will be wrong if nobody does anything, the most urgent first. Nothing waits for them.
	Warnings []Warning `json:"warnings,omitempty"`
	// Restarts are those of Pending that come from Meridian and not from the spec: nothing is missing without them.
	Restarts []string `json:"restarts,omitempty"`
	// Roll is how far a change that restarts instances has come.
	Roll Roll `json:"-"`
	// Again is when to look again although nothing has happened.
	Again time.Duration `json:"-"`
	// Design is what the children are rendered from.
	Design Design `json:"-"`
}

// Roll is how far a change that restarts instances has come, empty if there is none.
type Roll string

// The stages of such a change.
const (
	// RollHeld means that it waits for other databases.
	RollHeld    Roll = "Held"
	RollRunning Roll = "Running"
	// RollStopped means that it has done harm.
	RollStopped Roll = "Stopped"
)

// The reasons that tell of such a change in the status, also to the next process of the operator.
const (
	ReasonRolling     = "Rolling"
	ReasonRollWaiting = "RollWaiting"
	ReasonRollStopped = "RollStopped"
)

// Verb is what an action does.
type Verb string

// The verbs. A new one needs a case in act, a line in status, and a look at the invariants.
const (
	// Create and Update bring a child to what is rendered.
	Create Verb = "Create"
	Update Verb = "Update"
	// Remove deletes a child that the spec does not ask for any more.
	Remove Verb = "Remove"
	// Grow raises the size of a claim, and changes nothing else.
	Grow Verb = "Grow"
	// StoreRecord writes the record where it is missing, and changes nothing else.
	StoreRecord Verb = "StoreRecord"
	// AdoptClaim gives this database a claim of an earlier one, NoteParting notes on a claim what it takes to come back.
	// Neither changes anything else.
	AdoptClaim  Verb = "AdoptClaim"
	NoteParting Verb = "NoteParting"
	// UnlabelClaim takes the label away by which tools of delivery would take a claim for theirs.
	UnlabelClaim Verb = "UnlabelClaim"
	// CreateBinding makes the Secret for applications, once.
	CreateBinding Verb = "CreateBinding"
	// BindCaches writes the addresses of the caches that there are into it, and changes nothing else.
	BindCaches Verb = "BindCaches"
	// StoreCertificates carries out what kit/pki decides.
	StoreCertificates Verb = "StoreCertificates"
	// BeginLogin writes the next credentials beside the present ones, MoveLogin puts them in their place.
	BeginLogin Verb = "BeginLogin"
	MoveLogin  Verb = "MoveLogin"
	// PublishBundle writes the authorities that are trusted into the Secret for applications, and changes nothing else.
	PublishBundle Verb = "PublishBundle"
	// Guard and Release put the finalizer onto the database and take it off. Guard also stamps it with the installation.
	Guard   Verb = "Guard"
	Release Verb = "Release"
	// CreateLease makes the lease, once, and again, empty, when it is lost; AdoptLease writes into the settings that the
	// agents have taken the new one over. FreeLease takes its finalizer off, and changes nothing else.
	CreateLease Verb = "CreateLease"
	AdoptLease  Verb = "AdoptLease"
	FreeLease   Verb = "FreeLease"
	// SetInstances writes into the settings which instances shall have a copy, and changes nothing else.
	SetInstances Verb = "SetInstances"
	// RestartServer writes into the settings that the server of an instance is to be started anew.
	RestartServer Verb = "RestartServer"
	// ResizePod gives a running container another size.
	ResizePod Verb = "ResizePod"
	// LabelPod gives a running pod the labels and annotations of the user.
	LabelPod Verb = "LabelPod"
	// TellPod writes onto a pod which settings and secrets are stored, so that its kubelet looks at once.
	TellPod Verb = "TellPod"
	// NoteRequest writes down that a requested switchover begins, EndRequest takes the request away.
	NoteRequest Verb = "NoteRequest"
	EndRequest  Verb = "EndRequest"
	// SwitchOver asks the agent of the holder to hand the lease over. It writes nothing.
	SwitchOver Verb = "SwitchOver"
	// DeleteClaim, DeletePod, ReplacePod, RemovePod and DeleteSet cannot be undone: act reads live first. DeletePod is
	// for a pod that never started, ReplacePod for one that works, RemovePod does not wait for the node of the pod.
	DeleteClaim Verb = "DeleteClaim"
	ReplacePod  Verb = "ReplacePod"
	DeletePod   Verb = "DeletePod"
	RemovePod   Verb = "RemovePod"
	DeleteSet   Verb = "DeleteSet"
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
	// Instances are those that SetInstances writes.
	Instances []string `json:"instances,omitempty"`
	// Owner is the database that AdoptClaim takes a claim from, Origin the one that its data knows.
	Owner  string `json:"owner,omitempty"`
	Origin string `json:"origin,omitempty"`
	// Parting is what NoteParting notes.
	Parting *Parting `json:"parting,omitempty"`
	// Hash is that of the settings that TellPod tells of, Secrets names the certificates and credentials.
	Hash    string `json:"hash,omitempty"`
	Secrets string `json:"secrets,omitempty"`
	// Template is the one from which a replaced pod is made again.
	Template string `json:"template,omitempty"`
	// Size is what ResizePod gives.
	Size *Size `json:"size,omitempty"`
	// Lease is the one that AdoptLease names.
	Lease string `json:"lease,omitempty"`
	// Succeeds is the lost lease in whose place a new one is made.
	Succeeds string `json:"succeeds,omitempty"`
	// Before are those that were lost before that one.
	Before []string `json:"before,omitempty"`
	// Token is the word by which the server of the Target is started anew, or that of a rotation.
	Token string `json:"token,omitempty"`
	// Number is that of the credentials that MoveLogin puts in place.
	Number int64 `json:"number,omitempty"`
	// Stay says that a primary does not hand over for it.
	Stay bool `json:"stay,omitempty"`
	// Request and Target are the switchover that is meant, Term the one that it shall end.
	Request string `json:"request,omitempty"`
	Target  string `json:"target,omitempty"`
	Term    int64  `json:"term,omitempty"`
	// Event is the reason of the event that tells of it, if not the usual one of its verb.
	Event string `json:"event,omitempty"`
	// Repair says that the action undoes what somebody else has changed.
	Repair bool `json:"repair,omitempty"`
}

// Warning is something that is not wrong yet.
type Warning struct {
	// Name is a CamelCase word that becomes the reason of a condition, Message one sentence for a user.
	Name    string `json:"name"`
	Message string `json:"message"`
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

// BeingMade ends the message of a hold about copies that were never there: it is no reason to warn anybody.
const BeingMade = "; the others are being made"

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
	// Background holds take their time on purpose: nothing is missing meanwhile, and the database is ready.
	Background Weight = "Background"
)

// Design is what the children are rendered from: the spec, together with what the world has already fixed. It is a pure
// function of a Snapshot.
type Design struct {
	Identity
	Spec   v1alpha1.GeoDatabaseSpec
	Images Images
	Record Record
	// Installation is the operator that works for the database.
	Installation string
	// LeaseUID is the lease by which the agents agree, empty while there is none.
	LeaseUID string
	// LostBefore are the leases that were lost before that one, as far as they are known, the oldest first.
	LostBefore []string
	// Parting is what the claims keep of a database that was deleted, until there are settings again.
	Parting *Parting
	// Classes are those of claims, by name, that are in another class than the spec names.
	Classes map[string]string
	// Modes are the access modes of claims, by name, that have others than Meridian asks for.
	Modes map[string][]corev1.PersistentVolumeAccessMode
	// Family is that of the addresses behind the write address, empty while it is not known.
	Family string
	// Instances are those that shall have a copy, as it is written down.
	Instances []InstanceDesign
	// Growth is what the volumes come to by themselves.
	Growth Growth
	// Restarts are the servers that were asked to start anew, as it is written down.
	Restarts []Restart
	// Memory is what the settings count on while a container has less than the spec asks for, nil otherwise.
	Memory *resource.Quantity
	// Leaving are instances that are no longer wanted and still there.
	Leaving []string
}

// Growth is what the volumes of a database come to by themselves.
type Growth struct {
	// Size is what is in force for all volumes: that of the spec, or what they have grown to.
	Size resource.Quantity
	// Why says which volume fills, if Size is a new step; empty otherwise.
	Why string
	// Moving says that a volume is on its way to what was asked for before.
	Moving bool
	// Limited says that a step is due and the limit does not allow it.
	Limited bool
}

// InstanceDesign is one wanted instance.
type InstanceDesign struct {
	Serial int
	Name   string
	// Size is never below what the claim asks for already: a volume cannot shrink.
	Size resource.Quantity
	// LogSize is that of the volume of the log, nil if the log lies with the data.
	LogSize *resource.Quantity
	// Restart is the spec.restart for which its pod is made. One that is taken out of the spec stays as it was.
	Restart string
	// Template is the name of the template that its pod is made from, see render.Template.
	Template string
	// Stopped says that it shall have no pod.
	Stopped bool
}

// ClaimSize is what the claim of that name shall ask for.
func (d Design) ClaimSize(claim string) (resource.Quantity, bool) {
	owner, log := ClaimOwner(claim)
	for _, instance := range d.Instances {
		switch {
		case instance.Name != owner:
		case !log:
			return instance.Size, true
		case instance.LogSize != nil:
			return *instance.LogSize, true
		}
	}
	return resource.Quantity{}, false
}

// Wants says that the instance shall have a copy.
func (d Design) Wants(instance string) bool {
	return slices.ContainsFunc(d.Instances, func(wanted InstanceDesign) bool { return wanted.Name == instance })
}

// Names are those of the instances that shall have a copy.
func (d Design) Names() []string {
	var names []string
	for _, instance := range d.Instances {
		names = append(names, instance.Name)
	}
	return names
}
