package database

import "meridian.dev/meridian/internal/service"

type (
	// Decided is what the loop decides in one pass.
	Decided = service.Plan[Step]
	// Action is one write of one object, and what it was decided on.
	Action = service.Action[Step]
	// Outcome is what became of a plan.
	Outcome = service.Outcome[Step]
	// Result is what became of one action.
	Result = service.Result[Step]
)

// Does says that an action does what the type argument names.
func Does[Verb Step](action Action) bool { return service.Does[Verb](action) }

// Step is what an action does: one struct for each verb, with what it takes. The linter demands that a switch without
// a default names all of them, so a new one needs a case in act, one in status, and a look at the invariants.
//
//sumtype:decl
type Step interface{ step() }

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
		// Issuer says that the next step is taken of a change of whom applications trust.
		Issuer bool `json:"issuer,omitempty"`
	}
	// RemoveCertificate deletes the Secret of a certificate that no pod mounts any more.
	RemoveCertificate struct{}
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
	// BeginTrial makes the pod that restores on trial.
	BeginTrial struct {
		TrialWish `json:",inline"`
	}
	// NoteTrial writes beside the settings of backups how a restore on trial has ended, and changes nothing else.
	NoteTrial struct {
		TrialNote `json:",inline"`
	}
	// EndTrial deletes the pod of a restore on trial.
	EndTrial struct{}
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
	// BeginRoll writes onto the settings that a change that restarts instances begins, and changes nothing else.
	BeginRoll struct{}
	// EndRoll takes that away again.
	EndRoll struct{}
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
		// Token is the text of spec.switchover that is done with, empty for a request by annotation.
		Token string `json:"token,omitempty"`
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

func (Create) step()            {}
func (Update) step()            {}
func (Remove) step()            {}
func (Grow) step()              {}
func (StoreRecord) step()       {}
func (AdoptClaim) step()        {}
func (NoteParting) step()       {}
func (UnlabelClaim) step()      {}
func (CreateBinding) step()     {}
func (BindCaches) step()        {}
func (StoreCertificates) step() {}
func (RemoveCertificate) step() {}
func (BeginLogin) step()        {}
func (MoveLogin) step()         {}
func (PublishBundle) step()     {}
func (StoreAccess) step()       {}
func (WantBase) step()          {}
func (BeginTrial) step()        {}
func (NoteTrial) step()         {}
func (EndTrial) step()          {}
func (Guard) step()             {}
func (Release) step()           {}
func (CreateLease) step()       {}
func (AdoptLease) step()        {}
func (FreeLease) step()         {}
func (SetInstances) step()      {}
func (RestartServer) step()     {}
func (BeginRoll) step()         {}
func (EndRoll) step()           {}
func (ResizePod) step()         {}
func (LabelPod) step()          {}
func (TellPod) step()           {}
func (NoteRequest) step()       {}
func (EndRequest) step()        {}
func (SwitchOver) step()        {}
func (DeleteClaim) step()       {}
func (ReplacePod) step()        {}
func (DeletePod) step()         {}
func (RemovePod) step()         {}
func (DeleteSet) step()         {}
