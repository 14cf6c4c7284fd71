package tenure

import "meridian.dev/meridian/internal/wire"

// State is what the loop keeps in one life of the agent.
type State struct {
	Memory Memory
	// Inbox are requests of peers that wait for a reply, in order.
	Inbox []Request
	// Callers have asked for a switchover, in order.
	Callers []Caller
	// Stored is what is on the volume, as far as Loaded says that this is known.
	Stored Stored
	Loaded bool
}

// Event is something that has happened since the last pass.
type Event interface {
	// Apply changes the state. Self is this instance with its copy.
	Apply(state *State, self wire.Member, now Instant)
}

// LeaseWatched is a change that the API server told of by itself.
type LeaseWatched struct{ View View }

// LeaseRead is the end of a consistent read.
type LeaseRead struct {
	View    View
	Began   Instant
	Problem error
}

// LeaseWritten is the end of a conditional write.
type LeaseWritten struct {
	Verdict Verdict
	View    View
}

// PeerAsked is a request of a peer.
type PeerAsked struct{ Request Request }

// PeerReplied is the reply to a request that was sent at that moment.
type PeerReplied struct {
	Request wire.PeerRequest
	Reply   wire.PeerReply
	Sent    Instant
}

// PeerLost is a request that got no reply.
type PeerLost struct{ Request wire.PeerRequest }

// SwitchoverAsked is somebody's wish for another primary. The plan decides on it, and the caller with this ID is told.
type SwitchoverAsked struct {
	ID         uint64
	Switchover wire.Switchover
}

// RouteSeen is where the write address leads, as a read or a write of it showed. It is not known after one that failed.
type RouteSeen struct {
	Known bool
	// Absent says that there is no such object: this is known too.
	Absent  bool
	Address string
	Term    int64
}

// RouteTouched says that the write address may be another one than was seen last. What it is now, a read shows.
type RouteTouched struct{}

// Labelled is the end of an attempt to label the pod.
type Labelled struct {
	Done bool
	Role string
	Read bool
	Cut  string
	Use  int
}

// CutsSeen is what the pods of members say of not reaching the holder.
type CutsSeen struct{ Cuts []wire.CutOff }

// Apply implements Event.
func (e LeaseWatched) Apply(state *State, _ wire.Member, now Instant) {
	state.Memory.Watched(e.View, now)
}

// Apply implements Event.
func (e LeaseRead) Apply(state *State, _ wire.Member, now Instant) {
	if e.Problem != nil {
		state.Memory.ReadFailed(now)
		return
	}
	state.Memory.ReadDone(e.View, e.Began, now)
}

// Apply implements Event.
func (e LeaseWritten) Apply(state *State, self wire.Member, now Instant) {
	state.Memory.WriteEnded(self, e.Verdict, e.View, now)
}

// Apply implements Event.
func (e PeerAsked) Apply(state *State, self wire.Member, now Instant) {
	state.Memory.Heard(e.Request.PeerRequest, now)
	if e.Request.Kind == wire.PeerTell && e.Request.Record != nil && e.Request.From.Name != self.Name {
		state.told(e.Request.PeerRequest, now)
	}
	state.Inbox = append(state.Inbox, e.Request)
}

// Apply implements Event.
func (e PeerReplied) Apply(state *State, _ wire.Member, now Instant) {
	state.Memory.Replied(e.Request, e.Reply, e.Sent, now)
}

// Apply implements Event.
func (e PeerLost) Apply(state *State, _ wire.Member, _ Instant) { state.Memory.Lost(e.Request) }

// Apply implements Event.
func (e SwitchoverAsked) Apply(state *State, _ wire.Member, _ Instant) {
	state.Callers = append(state.Callers, Caller(e))
}

// Apply implements Event.
func (e RouteSeen) Apply(state *State, _ wire.Member, now Instant) {
	before := state.Memory.Route
	state.Memory.Route = Route{
		Known: e.Known, Absent: e.Absent, Address: e.Address, Term: e.Term, Seen: now,
		Tried: before.Tried, Touched: before.Touched,
	}
}

// Apply implements Event. What is under way may have been answered before the change: only the next look counts as one.
func (RouteTouched) Apply(state *State, _ wire.Member, _ Instant) { state.Memory.Route.Touched = true }

// Apply implements Event.
func (e Labelled) Apply(state *State, _ wire.Member, _ Instant) {
	tried := state.Memory.Labels.Tried
	state.Memory.Labels = Labels{Tried: tried}
	if e.Done {
		state.Memory.Labels = Labels{Known: true, Role: e.Role, Read: e.Read, Cut: e.Cut, Use: e.Use, Tried: tried}
	}
}

// Apply implements Event.
func (e CutsSeen) Apply(state *State, _ wire.Member, _ Instant) { state.Memory.Cuts = e.Cuts }

// told takes the word of a holder about its own lease, which is worth as much as what a watch shows, and in one
// thing as much as a consistent read: that the lease has had this version. A holder tells only of versions that the
// API server has confirmed or shown to it, never of a write in doubt; versions of one lease only grow; so whatever
// an election at an older version wanted to write can never be written any more, however long the message was on its
// way. What it does not show is that the lease still is like this: for that there is the term, which must not be
// below any that this volume has seen, and the consistent read before each election and before a copy is destroyed.
//
// A message of another lease, or about a version that is not newer than the known one, says nothing.
func (s *State) told(request wire.PeerRequest, now Instant) {
	stored, lease := s.Stored, s.Memory.Lease
	switch {
	case !s.Loaded || stored.LeaseUID == "" || request.LeaseUID != stored.LeaseUID:
	case request.DatabaseUID != stored.DatabaseUID || request.Record.DatabaseUID != stored.DatabaseUID:
	case request.Term < stored.MaxTerm || request.Record.Term != request.Term || request.From.Incarnation == "":
	case lease.Known && (lease.UID != request.LeaseUID || !Newer(request.LeaseVersion, lease.Version)):
	default:
		s.Memory.see(View{
			UID: request.LeaseUID, Version: request.LeaseVersion, Holder: request.From, Term: request.Term,
			Record: request.Record, Duration: request.Duration,
		}, now)
		s.Memory.Lease.Vouched = true
	}
}
