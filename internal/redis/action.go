package redis

import (
	"fmt"
	"strings"

	"meridian.dev/meridian/internal/wire"
)

// Action is one act with its reason. There is one struct for each verb.
type Action interface {
	// Verb is the act with its object, for people. It names no secret.
	Verb() string
	// Because is why, one sentence.
	Because() string
}

// Why is the reason of an action.
type Why string

// Because returns the reason.
func (w Why) Because() string { return string(w) }

// InstallCertificate copies the mounted certificate to where the server reads it, if it is still this one.
type InstallCertificate struct {
	Why
	Identity string
}

// StartServer starts a closed server: nobody but the agent can log in.
type StartServer struct {
	Why
	// Incarnation is the id of the copy that the server begins, empty. The runtime makes a new one if there is none.
	Incarnation string
	Engine      string
	Memory      int64
	Policy      string
	// Fixed are the parameters that can be given at the start only.
	Fixed []wire.Parameter
	// Certificate identifies the copy that it reads.
	Certificate string
}

// StopServer stops the server. What it holds is lost.
type StopServer struct{ Why }

// YieldServer keeps applications out, and notes how far the writes have come.
type YieldServer struct{ Why }

// HearReplicas has the replicas say at once how far they have come, and waits a moment for the first of them.
type HearReplicas struct{ Why }

// EndServer ends a server that has yielded.
type EndServer struct{ Why }

// Follow has the server take the writes of another one, exactly the copy that is meant. What the server has goes if the
// other one cannot go on from there.
type Follow struct {
	Why
	Upstream wire.Member
	// Address is where it was heard from; empty to look its name up.
	Address string
	// Whole says that there is a copy which this may cost.
	Whole bool
	// Turn says which of the passwords of replication to log in with, 0 for the first.
	Turn int
}

// Detach has the server follow nobody. It stays a replica, with all that it has.
type Detach struct{ Why }

// Lead makes the server the primary of a term.
type Lead struct {
	Why
	Term int64
	// Timeline is what the copy is on from then on.
	Timeline int
}

// AdmitReplicas lets the other instances take the writes of this copy, and of no other.
type AdmitReplicas struct{ Why }

// Flush empties the cache, once for each request.
type Flush struct {
	Why
	ID string
}

// CloseDoor keeps applications out, those that are connected too.
type CloseDoor struct{ Why }

// KillLeftover kills what lives of a server that has ended.
type KillLeftover struct{ Why }

// LoadCertificate has the server read its certificate again.
type LoadCertificate struct {
	Why
	Identity string
}

// SetMemory sets how much data the server may keep.
type SetMemory struct {
	Why
	Bytes int64
}

// SetWaiting sets how much may wait for a replica.
type SetWaiting struct {
	Why
	Bytes int64
}

// SetPolicy sets what goes when the memory is full.
type SetPolicy struct {
	Why
	Policy string
}

// SetParameter sets a parameter, and ResetParameter brings one back to what it was when the server started.
type SetParameter struct {
	Why
	Parameter wire.Parameter
}

// ResetParameter is the reverse of SetParameter.
type ResetParameter struct {
	Why
	Name string
}

// OpenDoor lets the application in, with the mounted passwords and no others.
type OpenDoor struct{ Why }

// ReturnMemory has the server give back memory that it does not use.
type ReturnMemory struct{ Why }

// Verb implements Action.
func (InstallCertificate) Verb() string { return "InstallCertificate" }

// Verb implements Action.
func (a StartServer) Verb() string {
	var names []string
	for _, parameter := range a.Fixed {
		names = append(names, parameter.Name)
	}
	text := fmt.Sprintf("StartServer %s with %d bytes", a.Engine, a.Memory)
	if a.Incarnation != "" {
		text += " as " + a.Incarnation
	}
	if len(names) > 0 {
		text += " and " + strings.Join(names, ", ")
	}
	return text
}

// Verb implements Action.
func (StopServer) Verb() string { return "StopServer" }

// Verb implements Action.
func (YieldServer) Verb() string { return "YieldServer" }

// Verb implements Action.
func (HearReplicas) Verb() string { return "HearReplicas" }

// Verb implements Action.
func (EndServer) Verb() string { return "EndServer" }

// Verb implements Action.
func (a Follow) Verb() string {
	text := "Follow " + a.Upstream.String()
	if a.Address == "" {
		text += " by its name"
	}
	if a.Turn > 0 {
		text += fmt.Sprintf(" with password %d", a.Turn+1)
	}
	return text
}

// Verb implements Action.
func (Detach) Verb() string { return "Detach" }

// Verb implements Action.
func (a Lead) Verb() string { return fmt.Sprintf("Lead term %d timeline %d", a.Term, a.Timeline) }

// Verb implements Action.
func (AdmitReplicas) Verb() string { return "AdmitReplicas" }

// Verb implements Action.
func (a Flush) Verb() string { return "Flush " + a.ID }

// Verb implements Action.
func (CloseDoor) Verb() string { return "CloseDoor" }

// Verb implements Action.
func (KillLeftover) Verb() string { return "KillLeftover" }

// Verb implements Action.
func (LoadCertificate) Verb() string { return "LoadCertificate" }

// Verb implements Action.
func (a SetMemory) Verb() string { return fmt.Sprintf("SetMemory to %d bytes", a.Bytes) }

// Verb implements Action.
func (a SetWaiting) Verb() string { return fmt.Sprintf("SetWaiting to %d bytes", a.Bytes) }

// Verb implements Action.
func (a SetPolicy) Verb() string { return "SetPolicy " + a.Policy }

// Verb implements Action.
func (a SetParameter) Verb() string {
	return fmt.Sprintf("SetParameter %s to %s", a.Parameter.Name, a.Parameter.Value)
}

// Verb implements Action.
func (a ResetParameter) Verb() string { return "ResetParameter " + a.Name }

// Verb implements Action.
func (OpenDoor) Verb() string { return "OpenDoor" }

// Verb implements Action.
func (ReturnMemory) Verb() string { return "ReturnMemory" }
