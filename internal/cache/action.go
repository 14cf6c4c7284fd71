package cache

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
	// ResizePod changes the memory of a running pod in place.
	ResizePod struct {
		Bytes int64 `json:"bytes,omitempty"`
	}
	// CreateBinding makes the Secret for applications, once.
	CreateBinding struct{}
	// BeginPassword writes the next password of applications down for the instances.
	BeginPassword struct {
		Token string `json:"token,omitempty"`
	}
	// MovePassword tells the password of that number to applications, when all instances accept it.
	MovePassword struct {
		Number int64 `json:"number,omitempty"`
	}
	// StoreCertificates carries out what kit/pki decides.
	StoreCertificates struct {
		// Issuer says that the next step is taken of a change of whom applications trust.
		Issuer bool `json:"issuer,omitempty"`
	}
	// PublishBundle writes the authorities that are trusted into the Secret for applications, and changes nothing else.
	PublishBundle struct{}
	// CreateLease makes the lease of the agents, once. From then on it is theirs.
	CreateLease struct{}
	// TellPod has the kubelet of a pod look for new settings at once.
	TellPod struct {
		// Hash is that of the settings, together with what names the secrets.
		Hash string `json:"hash,omitempty"`
	}
	// AskFlush asks the agent of the primary to empty the cache.
	AskFlush struct {
		Request string `json:"request,omitempty"`
	}
	// EndFlush takes the user's request away.
	EndFlush struct {
		Request string `json:"request,omitempty"`
	}
	// FollowDatabase has the cache deleted together with its database, or no longer.
	FollowDatabase struct {
		// Database is the UID of the one that is followed, empty for none.
		Database string `json:"database,omitempty"`
	}
)

type (
	// DeletePod deletes a pod that never started. This and what follows cannot be undone: act reads live first.
	DeletePod struct{}
	// RestartPod deletes a pod in which a server runs.
	RestartPod struct{}
	// DeleteSet deletes the StatefulSet of an instance that has left, and with it its pod.
	DeleteSet struct{}
	// DeleteCache deletes the cache itself, after its database: act reads both live first.
	DeleteCache struct {
		// Database is the name of the one that is gone.
		Database string `json:"database,omitempty"`
	}
)

func (Create) step()            {}
func (Update) step()            {}
func (ResizePod) step()         {}
func (CreateBinding) step()     {}
func (BeginPassword) step()     {}
func (MovePassword) step()      {}
func (StoreCertificates) step() {}
func (PublishBundle) step()     {}
func (CreateLease) step()       {}
func (TellPod) step()           {}
func (AskFlush) step()          {}
func (EndFlush) step()          {}
func (FollowDatabase) step()    {}
func (DeletePod) step()         {}
func (RestartPod) step()        {}
func (DeleteSet) step()         {}
func (DeleteCache) step()       {}
