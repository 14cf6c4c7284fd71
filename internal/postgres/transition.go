package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/tenure"
)

// Actions by which an instance becomes what it is told to be. Those that connect to another server or change whom the
// server follows happen under the lock of a fence; those that lead, right after the right to was confirmed; those that
// destroy a copy, after a consistent read has shown that another leads.

// BeginClone notes that a volume without a copy is about to get one, with a new incarnation (I1, I2).
type BeginClone struct {
	Why
	DatabaseUID string
	// ClaimUID is the claim of the volume, empty if it is not known.
	ClaimUID string
}

// BeginDiscard notes that the copy is about to be removed, and Discard removes it.
type BeginDiscard struct {
	Why
	// PutBack is the UID of the claim under which the copy was put back, if that is why. A user may have vouched for the
	// copy since: the claim is read once more right before.
	PutBack string `json:"putBack,omitempty"`
}

// Discard removes the copy.
type Discard struct{ Why }

// Clone copies the data of the upstream.
type Clone struct {
	Why
	Source Source
}

// BeginRewind notes that the copy is about to be made to fit the upstream's (I2), and Rewind does it.
type BeginRewind struct{ Why }

// Rewind makes the copy fit the upstream's.
type Rewind struct {
	Why
	Source Source
}

// RecordRewound notes that it was done.
type RecordRewound struct {
	Why
	// Vain says that it has changed nothing: the copy is what it was before.
	Vain bool
}

// AskUpstream asks the upstream about itself.
type AskUpstream struct {
	Why
	Source Source
}

// AskPositions asks the upstream how far the replicas are that stream from it.
type AskPositions struct {
	Why
	Source Source
	// Needs is where this copy ends, if the upstream is also asked whether it still has the WAL from there on.
	Needs *tenure.Position
}

// FollowUpstream makes the server follow. Key is the name under which the key is lent that the text refers to.
type FollowUpstream struct {
	Why
	Text, Key string
	// History is that of the primary: the copy must be a part of it when it connects (B3). It is empty for the log of a
	// fenced member, which counts for nobody. From is how far the log was replayed.
	History History
	From    uint64
}

// FollowNobody cuts the server off from every other.
type FollowNobody struct {
	Why
	Text string
}

// Promote makes a replica the primary, on exactly this timeline (T1).
type Promote struct {
	Why
	Timeline int
	// From is how far the log was replayed.
	From uint64
}

// KillServer ends every process at once.
type KillServer struct{ Why }

// CreateAgents makes the roles of the agents.
type CreateAgents struct{ Why }

// KeepPlaces keeps places in the log: these slots, and no other one of ours that is not in use.
type KeepPlaces struct {
	Why
	Slots []string
	// Release are slots whose xmin is given up: the rows that they keep from vacuum are released, and the WAL is kept.
	Release []string
	// Positions are those to which slots that nobody uses are advanced, as far as this server has replayed.
	Positions map[string]uint64
}

// EndSessions ends the sessions of applications on a replica.
type EndSessions struct{ Why }

// EndSenders ends senders that may go by an earlier quorum (B1).
type EndSenders struct {
	Why
	Numbers []int
}

// Checkpoint writes one.
type Checkpoint struct {
	Why
	For string
}

// LeaveSegment begins another segment of the log.
type LeaveSegment struct{ Why }

// GiveUp ends a job.
type GiveUp struct {
	Why
	Kind JobKind
}

// Verb implements Action.
func (BeginClone) Verb() string { return "BeginClone" }

// Verb implements Action.
func (BeginDiscard) Verb() string { return "BeginDiscard" }

// Verb implements Action.
func (Discard) Verb() string { return "Discard" }

// Verb implements Action.
func (a Clone) Verb() string { return "Clone of " + a.Source.Host }

// Verb implements Action.
func (BeginRewind) Verb() string { return "BeginRewind" }

// Verb implements Action.
func (a Rewind) Verb() string { return "Rewind to " + a.Source.Host }

// Verb implements Action.
func (RecordRewound) Verb() string { return "RecordRewound" }

// Verb implements Action.
func (a AskUpstream) Verb() string { return "AskUpstream " + a.Source.Host }

// Verb implements Action.
func (a AskPositions) Verb() string { return "AskPositions " + a.Source.Host }

// Verb implements Action.
func (FollowUpstream) Verb() string { return "FollowUpstream" }

// Verb implements Action.
func (FollowNobody) Verb() string { return "FollowNobody" }

// Verb implements Action.
func (a Promote) Verb() string { return fmt.Sprintf("Promote to timeline %d", a.Timeline) }

// Verb implements Action.
func (KillServer) Verb() string { return "KillServer" }

// Verb implements Action.
func (CreateAgents) Verb() string { return "CreateAgents" }

// Verb implements Action.
func (a KeepPlaces) Verb() string {
	text := "KeepPlaces " + strings.Join(a.Slots, " ")
	if len(a.Release) > 0 {
		text += " releasing rows of " + strings.Join(a.Release, " ")
	}
	for _, slot := range slices.Sorted(maps.Keys(a.Positions)) {
		text += fmt.Sprintf(" from %s of %s", FormatLSN(a.Positions[slot]), slot)
	}
	return text
}

// Verb implements Action.
func (EndSessions) Verb() string { return "EndSessions" }

// Verb implements Action.
func (EndSenders) Verb() string { return "EndSenders" }

// Verb implements Action.
func (Checkpoint) Verb() string { return "Checkpoint" }

// Verb implements Action.
func (LeaveSegment) Verb() string { return "LeaveSegment" }

// Verb implements Action.
func (a GiveUp) Verb() string { return "GiveUp " + string(a.Kind) }
