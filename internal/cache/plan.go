package cache

import (
	"time"

	"meridian.dev/meridian/api/v1alpha1"
)

// Plan is what is to be done now. Without actions and holds the cache is as its spec wishes.
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
	// ResizePod changes the memory of a running pod in place.
	ResizePod Verb = "ResizePod"
	// CreateBinding makes the Secret for applications, once.
	CreateBinding Verb = "CreateBinding"
	// BeginPassword writes the next password of applications down for the instances, MovePassword tells it to applications
	// when all instances accept it.
	BeginPassword Verb = "BeginPassword"
	MovePassword  Verb = "MovePassword"
	// StoreCertificates carries out what kit/pki decides.
	StoreCertificates Verb = "StoreCertificates"
	// DeletePod, RestartPod and DeleteSet cannot be undone: act reads live first. In a pod that is restarted a server
	// runs.
	DeletePod  Verb = "DeletePod"
	RestartPod Verb = "RestartPod"
	DeleteSet  Verb = "DeleteSet"
	// CreateLease makes the lease of the agents, once. From then on it is theirs.
	CreateLease Verb = "CreateLease"
	// TellPod has the kubelet of a pod look for new settings at once.
	TellPod Verb = "TellPod"
	// AskFlush asks the agent of the primary to empty the cache, EndFlush takes the user's request away.
	AskFlush Verb = "AskFlush"
	EndFlush Verb = "EndFlush"
	// FollowDatabase has the cache deleted together with its database, or no longer.
	FollowDatabase Verb = "FollowDatabase"
	// DeleteCache deletes the cache itself, after its database: act reads both live first.
	DeleteCache Verb = "DeleteCache"
)

// Action is one write, and the state of the world that it was decided on.
type Action struct {
	Verb Verb   `json:"verb"`
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
	// UID and ResourceVersion must still be those of the object, empty for one that must not exist.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Bytes is the memory of a ResizePod. Text is the hash of a TellPod, the id of a request, the UID of the database that
	// is followed, or the name of the one that is gone.
	Bytes int64  `json:"bytes,omitempty"`
	Text  string `json:"text,omitempty"`
	// Number is that of the password of a MovePassword, and Text the wish of a BeginPassword.
	Number int64  `json:"number,omitempty"`
	Why    string `json:"why"`
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
	// Degraded holds say that the cache works with less than was asked for.
	Degraded Weight = "Degraded"
	// Stalled holds end when a human acts.
	Stalled Weight = "Stalled"
	// Paused is the user's own wish: nothing is wrong and nothing moves.
	Paused Weight = "Paused"
)

// Outcome is what became of a plan: one result for each action, in the order of the plan.
type Outcome struct {
	Results []Result `json:"results,omitempty"`
}

// Result is what became of one action.
type Result struct {
	Action Action `json:"action"`
	// Done says that the world is now as the action wanted, by this write or by an earlier one that nobody remembers.
	Done bool `json:"done,omitempty"`
	// Wrote says that this pass has written.
	Wrote bool `json:"wrote,omitempty"`
	// Problem is why it was not done, empty if it was.
	Problem string `json:"problem,omitempty"`
	// Unheld are wanted fields that the API server did not take over, although it accepted the write.
	Unheld []string `json:"unheld,omitempty"`
}

// Design is what the children are rendered from: the spec, together with what the world has already fixed. It is a pure
// function of a Snapshot.
type Design struct {
	Identity
	Spec   v1alpha1.GeoCacheSpec
	Images Images
	// LeaseUID is the lease that the settings name. Nothing that reads them is made before.
	LeaseUID string
	// ReplicationAlone is what the settings say of the password of replication.
	ReplicationAlone bool
	// Family is that of the write address, such as IPv4, empty while it has none.
	Family string
	// Instances are the names of the wanted instances, by serial number, and Leaving those that exist beside them.
	Instances, Leaving []string
}

// Memory is the memory for data that the design asks for, in bytes.
func (d Design) Memory() int64 {
	if d.Spec.Memory == nil {
		return 0
	}
	return d.Spec.Memory.Value()
}
