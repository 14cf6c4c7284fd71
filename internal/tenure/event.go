package tenure

import "meridian.dev/meridian/internal/wire"

// State is what the loop keeps in one life of the agent.
type State struct {
	Memory Memory
	// Inbox are requests of peers that wait for a reply, in order.
	Inbox []Request
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

// SwitchoverAsked is somebody's wish for another primary.
type SwitchoverAsked struct{ Switchover wire.Switchover }

// RouteSeen is where the write address leads, as a read or a write of it showed. It is not known after one that failed.
type RouteSeen struct {
	Known   bool
	Address string
	Term    int64
}

// Labelled is the end of an attempt to label the pod.
type Labelled struct {
	Done bool
	Role string
	Read bool
}

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
func (e PeerAsked) Apply(state *State, _ wire.Member, now Instant) {
	state.Memory.Heard(e.Request.PeerRequest, now)
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
	wish := e.Switchover
	state.Memory.Asked = &wish
}

// Apply implements Event.
func (e RouteSeen) Apply(state *State, _ wire.Member, _ Instant) {
	tried := state.Memory.Route.Tried
	state.Memory.Route = Route{Known: e.Known, Address: e.Address, Term: e.Term, Tried: tried}
}

// Apply implements Event.
func (e Labelled) Apply(state *State, _ wire.Member, _ Instant) {
	tried := state.Memory.Labels.Tried
	state.Memory.Labels = Labels{Tried: tried}
	if e.Done {
		state.Memory.Labels = Labels{Known: true, Role: e.Role, Read: e.Read, Tried: tried}
	}
}

// Void takes back what was granted before a moment at which the machine may have stood still: nobody knows how long ago
// that was (C1).
func (s *State) Void(jumped Instant) {
	if jumped == 0 {
		return
	}
	if s.Memory.Right.Renewed <= jumped {
		s.Memory.Right = Right{}
	}
	var promises []Promised
	for _, promise := range s.Memory.Promises {
		if promise.Sent > jumped {
			promises = append(promises, promise)
		}
	}
	s.Memory.Promises = promises
}
