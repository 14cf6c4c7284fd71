package tenure

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Action is one act with its reason. There is one struct for each verb.
type Action interface {
	// Verb is the act with its object, for people.
	Verb() string
	// Because is why, one sentence, with the id of the rule if it is a matter of safety.
	Because() string
}

// Why is the reason of an action.
type Why string

// Because returns the reason.
func (w Why) Because() string { return string(w) }

// Store puts it on the volume, file and folder, before anything that comes after it in the plan. If it fails, the rest
// of the plan is left.
type Store struct {
	Why
	Stored Stored
}

// ReadLease begins a consistent read of the lease.
type ReadLease struct{ Why }

// WriteLease begins a conditional write of the lease.
type WriteLease struct {
	Why
	Kind WriteKind
	// Version is the version that it demands.
	Version string
	Holder  wire.Member
	Record  wire.LeaseRecord
	// Duration is how long the lease lasts from then on.
	Duration time.Duration
}

// Send begins a request to a peer. The reply goes into the memory when it comes.
type Send struct {
	Why
	Request wire.PeerRequest
}

// Reply answers a request of the inbox, and takes it out.
type Reply struct {
	Why
	ID    uint64
	Reply wire.PeerReply
}

// AnswerBallot fences the server (F1) and then answers: the request with this ID, or with 0 the own ballot. It demands
// that the fence is stored. When the server cannot be fenced, a request is answered with a no.
type AnswerBallot struct {
	Why
	ID    uint64
	Fence Fence
	// Reply is the answer but for the position.
	Reply wire.PeerReply
}

// Conduct makes this the ballot of this instance; nil ends the one it has.
type Conduct struct {
	Why
	Ballot *Ballot
}

// Obey tells the server what to be. The runtime gives the serial number.
type Obey struct {
	Why
	Standing Standing
}

// Arm tells the watchdog until when the server may lead; the moment 0 means not at all: it kills at once. It returns
// when the watchdog has understood. If it fails, the rest of the plan is left.
type Arm struct {
	Why
	Until Instant
	// Jumped is how far the wall clock had jumped, all in all, when this was decided.
	Jumped time.Duration
}

// After is the deadline when the wall clock has jumped so far, all in all. It stays one: 0 would be none.
func (a Arm) After(jumped time.Duration) Instant {
	if a.Until == 0 {
		return 0
	}
	return max(1, a.Until.Add(a.Jumped-jumped))
}

// Kill ends every process of the server at once.
type Kill struct{ Why }

// WriteRoute makes the write address lead here, in the name of a term.
type WriteRoute struct {
	Why
	Address string
	Term    int64
}

// ReadRoute begins to look where the write address leads.
type ReadRoute struct{ Why }

// ProxyTo leads whoever comes to the port of the server on to the same port there. The server has ended.
type ProxyTo struct {
	Why
	To string
}

// WriteLabels labels the own pod.
type WriteLabels struct {
	Why
	Role string
	Read bool
	Cut  string
	Use  int
}

// ReadCuts begins to look what the pods of other instances say of not reaching this one.
type ReadCuts struct {
	Why
	Instances []string
}

// NoteStreamLost notes since when the server takes no log of the holder, nil if it does.
type NoteStreamLost struct {
	Why
	Since *Instant
}

// Yield begins to give the place away, or, with Stop, ends that.
type Yield struct {
	Why
	Stop bool
}

// Prepare notes since when the server makes its stop short while it still serves, nil if it need not.
type Prepare struct {
	Why
	Since *Instant
}

// Rest keeps this instance from standing for a while.
type Rest struct {
	Why
	Until Instant
	// Retreat says that the lease is given back because nobody is reached.
	Retreat bool
}

// NoteQuorumLost notes since when the holder has too few replicas, nil if it has enough.
type NoteQuorumLost struct {
	Why
	Since *Instant
}

// Forget drops a switchover that was asked for.
type Forget struct{ Why }

// Decide tells a caller whether its switchover is carried out, and keeps it in mind if it is.
type Decide struct {
	Why
	Caller Caller
	Reply  wire.SwitchoverReply
}

// Verb implements Action.
func (a Store) Verb() string {
	text := fmt.Sprintf("Store max %d held %d", a.Stored.MaxTerm, a.Stored.HeldTerm)
	if a.Stored.Fence != nil {
		text += " fence " + a.Stored.Fence.Version
	}
	if a.Stored.Promise != nil {
		text += fmt.Sprintf(" promise to %d until %s", a.Stored.Promise.Term, a.Stored.Promise.Until)
	}
	if a.Stored.Anew != nil {
		text += fmt.Sprintf(" anew %v at term %d", a.Stored.Anew.Leases, a.Stored.Anew.Term)
	}
	return text
}

// Verb implements Action.
func (ReadLease) Verb() string { return "ReadLease" }

// Verb implements Action.
func (a WriteLease) Verb() string {
	text := fmt.Sprintf("WriteLease %s at %s: holder %s term %d w %d of %v", a.Kind, a.Version, a.Holder, a.Record.Term,
		a.Record.W, a.Record.Members)
	if len(a.Record.Succeeds) > 0 {
		text += fmt.Sprintf(" in the place of %v", a.Record.Succeeds)
	}
	return text
}

// Verb implements Action.
func (a Send) Verb() string { return fmt.Sprintf("Send %s to %s", a.Request.Kind, a.Request.To.Name) }

// Verb implements Action.
func (a Reply) Verb() string {
	return fmt.Sprintf("Reply to %d: %t %s", a.ID, a.Reply.Yes, a.Reply.Why)
}

// Verb implements Action.
func (a AnswerBallot) Verb() string {
	if a.ID == 0 {
		return "AnswerBallot of its own at " + a.Fence.Version
	}
	return fmt.Sprintf("AnswerBallot %d at %s", a.ID, a.Fence.Version)
}

// Verb implements Action.
func (a Conduct) Verb() string {
	switch {
	case a.Ballot == nil:
		return "Conduct no ballot"
	case a.Ballot.Fencing != nil:
		return "Conduct ballot at " + a.Ballot.Version + " fencing"
	}
	return "Conduct ballot at " + a.Ballot.Version
}

// Verb implements Action.
func (a Obey) Verb() string {
	s := a.Standing
	if s.Role == RoleFollow || s.Role == RoleCatchUp {
		return fmt.Sprintf("Obey %s %s term %d", s.Role, s.Upstream, s.Term)
	}
	if s.Role == RoleLead {
		text := fmt.Sprintf("Obey Lead term %d timeline %d waiting for %d of %v open %q",
			s.Term, s.Timeline, s.Setting.K, s.Setting.Names, s.OpenStart)
		if s.Prepare > 0 {
			text += " prepare " + s.Prepare.String()
		}
		return text
	}
	return "Obey " + string(s.Role)
}

// Verb implements Action.
func (a Arm) Verb() string { return "Arm until " + a.Until.String() }

// Verb implements Action.
func (Kill) Verb() string { return "Kill" }

// Verb implements Action.
func (a WriteRoute) Verb() string { return fmt.Sprintf("WriteRoute %s term %d", a.Address, a.Term) }

// Verb implements Action.
func (ReadRoute) Verb() string { return "ReadRoute" }

// Verb implements Action.
func (a ProxyTo) Verb() string { return "Proxy to " + a.To }

// Verb implements Action.
func (a WriteLabels) Verb() string {
	text := fmt.Sprintf("WriteLabels %s read %t", a.Role, a.Read)
	if a.Cut != "" {
		text += " cut off"
	}
	if a.Use > 0 {
		text += fmt.Sprintf(" %d%% full", a.Use)
	}
	return text
}

// Verb implements Action.
func (a ReadCuts) Verb() string { return fmt.Sprintf("ReadCuts of %v", a.Instances) }

// Verb implements Action.
func (a NoteStreamLost) Verb() string {
	if a.Since == nil {
		return "Note that the stream is back"
	}
	return "Note the stream as lost since " + a.Since.String()
}

// Verb implements Action.
func (a Yield) Verb() string {
	if a.Stop {
		return "Yield no more"
	}
	return "Yield"
}

// Verb implements Action.
func (a Prepare) Verb() string {
	if a.Since == nil {
		return "Prepare no more"
	}
	return "Prepare since " + a.Since.String()
}

// Verb implements Action.
func (a Rest) Verb() string { return "Rest until " + a.Until.String() }

// Verb implements Action.
func (a NoteQuorumLost) Verb() string {
	if a.Since == nil {
		return "Note that the quorum is back"
	}
	return "Note the quorum as lost since " + a.Since.String()
}

// Verb implements Action.
func (Forget) Verb() string { return "Forget" }

// Verb implements Action.
func (a Decide) Verb() string {
	return fmt.Sprintf("Decide on switchover %s to %q: %t %s", a.Caller.Switchover.ID, a.Caller.Switchover.Target,
		a.Reply.Accepted, a.Reply.Why)
}
