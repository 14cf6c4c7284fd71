package wire

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// PeerVersion is the version of the messages between agents that this program writes and reads.
const PeerVersion = 1

// PathPeer takes a PeerRequest by POST from another agent of the same database, PathSwitchover a Switchover from the
// operator.
const (
	PathPeer       = "/v1/peer"
	PathSwitchover = "/v1/switchover"
)

// SwitchoverReply is the answer to a Switchover: the agent carries it out, or says why not.
type SwitchoverReply struct {
	Accepted bool   `json:"accepted"`
	Why      string `json:"why,omitempty"`
	// Later says that what is in the way passes: the same may be asked again.
	Later bool `json:"later,omitempty"`
}

// Encode returns the JSON of the answer.
func (r SwitchoverReply) Encode() ([]byte, error) { return encode(r) }

// PeerHeader is in every message between agents. A message of another database, of another lease or to another copy
// than was meant is refused.
type PeerHeader struct {
	Version     int    `json:"version"`
	DatabaseUID string `json:"databaseUID"`
	LeaseUID    string `json:"leaseUID"`
	// Term is the highest that the sender knows.
	Term int64 `json:"term"`
	// From is the sender, and Address where it is reached.
	From    Member `json:"from"`
	Address string `json:"address"`
}

// PeerKind is what a request asks.
type PeerKind string

// The requests.
const (
	// PeerAsk asks whether the receiver would answer a ballot. It changes nothing (E3).
	PeerAsk PeerKind = "ask"
	// PeerFence asks for the answer to a ballot: the receiver takes nothing from a primary any more, and says how far it
	// has come (F1).
	PeerFence PeerKind = "fence"
	// PeerPromise asks the receiver not to answer a ballot and not to stand for a duration.
	PeerPromise PeerKind = "promise"
	// PeerPlace asks how far the receiver has come. It changes nothing.
	PeerPlace PeerKind = "place"
	// PeerTell tells of a term, and where the sender is. Whoever does not know the term reads the lease. The holder says
	// with it which version its lease has, with its record, for those that cannot read it.
	PeerTell PeerKind = "tell"
)

var peerKinds = []PeerKind{PeerAsk, PeerFence, PeerPromise, PeerPlace, PeerTell}

// PeerRequest is one request to another agent.
type PeerRequest struct {
	PeerHeader
	Kind PeerKind `json:"kind"`
	// To is the copy that is meant; without an incarnation, whichever the instance has.
	To Member `json:"to"`
	// LeaseVersion is the version of the lease that a ballot is about, or that the holder tells of.
	LeaseVersion string `json:"leaseVersion,omitempty"`
	// Record is the record of the lease at that version, as its holder, the sender, tells of it.
	Record *LeaseRecord `json:"record,omitempty"`
	// Duration is how long a promise shall last, or the lease that the holder tells of.
	Duration time.Duration `json:"duration,omitempty"`
}

// PeerReply is the reply.
type PeerReply struct {
	PeerHeader
	// Yes says that it was done, or would be; Why says why not.
	Yes bool   `json:"yes"`
	Why string `json:"why,omitempty"`
	// Timeline and LSN are the position, of an answer or a place.
	Timeline int    `json:"timeline,omitempty"`
	LSN      uint64 `json:"lsn,omitempty"`
	// CannotLead says that the sender would not take the lease now.
	CannotLead bool `json:"cannotLead,omitempty"`
	// Records are those that the sender knows, and Held is the last term that it held. They are told where the lease that
	// had them is lost.
	Records []LeaseRecord `json:"records,omitempty"`
	Held    int64         `json:"held,omitempty"`
}

// Encode returns the JSON of a request that Check accepts.
func (r PeerRequest) Encode() ([]byte, error) {
	r.Version = PeerVersion
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("encode a request to a peer: %w", err)
	}
	return encode(r)
}

// DecodePeerRequest reads a request.
func DecodePeerRequest(document []byte) (PeerRequest, error) {
	var request PeerRequest
	if err := decode(document, PeerVersion, &request); err != nil {
		return PeerRequest{}, fmt.Errorf("decode a request of a peer: %w", err)
	}
	if err := request.Check(); err != nil {
		return PeerRequest{}, fmt.Errorf("decode a request of a peer: %w", err)
	}
	return request, nil
}

// Check finds what no agent would ask.
func (r PeerRequest) Check() error {
	switch {
	case r.DatabaseUID == "" || r.From.Name == "" || r.To.Name == "":
		return errors.New("databaseUID, from and to must be there")
	case !slices.Contains(peerKinds, r.Kind):
		return fmt.Errorf("kind: %q is unknown", r.Kind)
	case (r.Kind == PeerAsk || r.Kind == PeerFence) && (r.LeaseUID == "" || r.LeaseVersion == ""):
		return errors.New("leaseVersion: a ballot is about a version of a lease")
	case r.Kind == PeerPromise && (r.Duration <= 0 || r.Duration > 10*time.Minute):
		return fmt.Errorf("duration: %s is too short or too long", r.Duration)
	case r.Record != nil && (r.Kind != PeerTell || r.LeaseUID == "" || r.LeaseVersion == "" || r.Record.Term != r.Term):
		return errors.New("record: only a holder tells of one, with the version and the term of its lease")
	case r.Record != nil:
		return r.Record.Check()
	}
	return nil
}

// Encode returns the JSON of a reply.
func (r PeerReply) Encode() ([]byte, error) {
	r.Version = PeerVersion
	return encode(r)
}

// DecodePeerReply reads a reply.
func DecodePeerReply(document []byte) (PeerReply, error) {
	var reply PeerReply
	if err := decode(document, PeerVersion, &reply); err != nil {
		return PeerReply{}, fmt.Errorf("decode the reply of a peer: %w", err)
	}
	return reply, nil
}
