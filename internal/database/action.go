package database

import (
	"encoding/json"
	"maps"
)

// Action is one write of one object, and the state of the world that it was decided on.
type Action struct {
	// Do is what is done, with what that takes.
	Do   Step   `json:"-"`
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
	// UID and ResourceVersion must still be those of the object, empty for one that must not exist.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Why             string `json:"why"`
}

// Verb is the name of what is done, for people.
func (a Action) Verb() string { return a.Do.verb() }

// Does says that an action does what the type argument names.
func Does[Verb Step](action Action) bool {
	_, does := action.Do.(Verb)
	return does
}

// MarshalJSON writes the verb and what it takes beside the object.
func (a Action) MarshalJSON() ([]byte, error) {
	type object Action
	fields := map[string]json.RawMessage{}
	for _, part := range []any{a.Do, object(a), map[string]string{"verb": a.Verb()}} {
		text, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		var more map[string]json.RawMessage
		if err := json.Unmarshal(text, &more); err != nil {
			return nil, err
		}
		maps.Copy(fields, more)
	}
	return json.Marshal(fields)
}

// Step is what an action does: one struct for each verb, with what it takes. The linter demands that a switch without
// a default names all of them, so a new one needs a case in act, one in status, and a look at the invariants.
//
//sumtype:decl
type Step interface {
	// verb is also the name of the event's action, and a part of messages.
	verb() string
}

type (
	// Create makes a child as it is rendered.
	Create struct{}
	// Update brings a child to what is rendered.
	Update struct {
		// Repair says that it undoes what somebody else has changed.
		Repair bool `json:"repair,omitempty"`
	}
	// Remove deletes a child that the spec does not ask for any more.
	Remove struct{}
	// Grow raises the size of a claim, and changes nothing else.
	Grow struct{}
	// StoreRecord writes the record where it is missing, and changes nothing else.
	StoreRecord struct{}
	// AdoptClaim gives this database a claim of an earlier one, and changes nothing else.
	AdoptClaim struct {
		// Owner is the database that it takes the claim from, Origin the one that its data knows.
		Owner  string `json:"owner,omitempty"`
		Origin string `json:"origin,omitempty"`
	}
	// NoteParting notes on a claim what it takes to come back, and changes nothing else.
	NoteParting struct {
		Parting *Parting `json:"parting,omitempty"`
	}
	// UnlabelClaim takes the label away by which tools of delivery would take a claim for theirs.
	UnlabelClaim struct{}
)

type (
	// CreateBinding makes the Secret for applications, once.
	CreateBinding struct{}
	// BindCaches writes the addresses of the caches that there are into it, and changes nothing else.
	BindCaches struct{}
	// StoreCertificates carries out what kit/pki decides.
	StoreCertificates struct {
		// Token is that of a rotation, empty for upkeep.
		Token string `json:"token,omitempty"`
	}
	// BeginLogin writes the next credentials beside the present ones.
	BeginLogin struct {
		Token string `json:"token,omitempty"`
	}
	// MoveLogin puts the credentials of that number in the place of the present ones.
	MoveLogin struct {
		Number int64 `json:"number,omitempty"`
	}
	// PublishBundle writes the authorities that are trusted into the Secret for applications, and changes nothing else.
	PublishBundle struct{}
	// StoreAccess writes the mounted Secret with credentials and keys of a repository.
	StoreAccess struct {
		// Begin says that it is the one that the database begins with.
		Begin bool `json:"begin,omitempty"`
	}
	// WantBase writes into the settings of backups which base backup is made next, and changes nothing else.
	WantBase struct {
		// ID is the wish, Instance makes it. Now is the spec.backup.now that it is for, empty for another reason.
		ID       string `json:"id"`
		Instance string `json:"instance"`
		Now      string `json:"now,omitempty"`
	}
	// Guard puts the finalizer onto the database, and stamps it with the installation.
	Guard struct{}
	// Release takes the finalizer off.
	Release struct{}
	// CreateLease makes the lease, once, and again, empty, when it is lost.
	CreateLease struct {
		// Succeeds is the lost lease in whose place a new one is made, Before are those that were lost before that one.
		Succeeds string   `json:"succeeds,omitempty"`
		Before   []string `json:"before,omitempty"`
	}
	// AdoptLease writes into the settings that the agents have taken this lease over.
	AdoptLease struct {
		Lease string `json:"lease,omitempty"`
	}
	// FreeLease takes the finalizer off the lease, and changes nothing else.
	FreeLease struct{}
)

type (
	// SetInstances writes into the settings which instances shall have a copy, and changes nothing else.
	SetInstances struct {
		Instances []string `json:"instances,omitempty"`
	}
	// RestartServer writes into the settings that the server of an instance is to be started anew.
	RestartServer struct {
		// Target is the instance, Token the word by which its server is started anew.
		Target string `json:"target,omitempty"`
		Token  string `json:"token,omitempty"`
		// Stay says that a primary does not hand over for it.
		Stay bool `json:"stay,omitempty"`
	}
	// ResizePod gives a running container another size.
	ResizePod struct {
		Size Size `json:"size"`
	}
	// LabelPod gives a running pod the labels and annotations of the user.
	LabelPod struct{}
	// TellPod writes onto a pod which settings and secrets are stored, so that its kubelet looks at once.
	TellPod struct {
		// Hash is that of the settings, Secrets names the certificates and credentials; empty for what it knows.
		Hash    string `json:"hash,omitempty"`
		Secrets string `json:"secrets,omitempty"`
		// Backup names what is stored for backups.
		Backup string `json:"backup,omitempty"`
	}
	// NoteRequest writes down that a requested switchover begins.
	NoteRequest struct {
		// Request and Target are the switchover that is meant, Term the one that it shall end.
		Request string `json:"request,omitempty"`
		Target  string `json:"target,omitempty"`
		Term    int64  `json:"term,omitempty"`
	}
	// EndRequest takes the request away.
	EndRequest struct {
		Request string `json:"request,omitempty"`
		// Event is the reason of the event that tells of it.
		Event string `json:"event,omitempty"`
	}
	// SwitchOver asks the agent of the holder to hand the lease over. It writes nothing.
	SwitchOver struct {
		For Purpose `json:"for"`
		// Request and Target are the switchover that is meant, Term the one that it shall end.
		Request string `json:"request,omitempty"`
		Target  string `json:"target,omitempty"`
		Term    int64  `json:"term,omitempty"`
	}
)

// Purpose is what a holder is asked to hand over for.
type Purpose string

// The purposes.
const (
	// ForRequest is the wish of a user.
	ForRequest Purpose = "request"
	// ForLeaving has an instance go that is lost or no longer wanted, ForRestart has one restarted.
	ForLeaving Purpose = "leave"
	ForRestart Purpose = "roll"
)

type (
	// DeleteClaim deletes a claim. This and what follows cannot be undone: act reads live first.
	DeleteClaim struct{}
	// ReplacePod deletes a pod that works, to be made again from the template.
	ReplacePod struct {
		Template string `json:"template,omitempty"`
	}
	// DeletePod deletes a pod that never started.
	DeletePod struct{}
	// RemovePod deletes a pod without waiting for its node.
	RemovePod struct{}
	// DeleteSet deletes the StatefulSet of an instance that has left, and with it its pod.
	DeleteSet struct{}
)

func (Create) verb() string            { return "Create" }
func (Update) verb() string            { return "Update" }
func (Remove) verb() string            { return "Remove" }
func (Grow) verb() string              { return "Grow" }
func (StoreRecord) verb() string       { return "StoreRecord" }
func (AdoptClaim) verb() string        { return "AdoptClaim" }
func (NoteParting) verb() string       { return "NoteParting" }
func (UnlabelClaim) verb() string      { return "UnlabelClaim" }
func (CreateBinding) verb() string     { return "CreateBinding" }
func (BindCaches) verb() string        { return "BindCaches" }
func (StoreCertificates) verb() string { return "StoreCertificates" }
func (BeginLogin) verb() string        { return "BeginLogin" }
func (MoveLogin) verb() string         { return "MoveLogin" }
func (PublishBundle) verb() string     { return "PublishBundle" }
func (StoreAccess) verb() string       { return "StoreAccess" }
func (WantBase) verb() string          { return "WantBase" }
func (Guard) verb() string             { return "Guard" }
func (Release) verb() string           { return "Release" }
func (CreateLease) verb() string       { return "CreateLease" }
func (AdoptLease) verb() string        { return "AdoptLease" }
func (FreeLease) verb() string         { return "FreeLease" }
func (SetInstances) verb() string      { return "SetInstances" }
func (RestartServer) verb() string     { return "RestartServer" }
func (ResizePod) verb() string         { return "ResizePod" }
func (LabelPod) verb() string          { return "LabelPod" }
func (TellPod) verb() string           { return "TellPod" }
func (NoteRequest) verb() string       { return "NoteRequest" }
func (EndRequest) verb() string        { return "EndRequest" }
func (SwitchOver) verb() string        { return "SwitchOver" }
func (DeleteClaim) verb() string       { return "DeleteClaim" }
func (ReplacePod) verb() string        { return "ReplacePod" }
func (DeletePod) verb() string         { return "DeletePod" }
func (RemovePod) verb() string         { return "RemovePod" }
func (DeleteSet) verb() string         { return "DeleteSet" }
