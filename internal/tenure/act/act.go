// Package act carries out the plan of a pass: one switch over the actions, in their order. What must be on the volume
// before an act is there, or the act does not happen. Start reading at Actor.Do.
package act

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// fencePatience is how long it may take to prove that the server takes nothing from a primary (F1).
const fencePatience = time.Second

// Actor acts through the ports.
type Actor struct {
	Ports tenure.Ports
	// Exclusive runs what no other act by a standing may run beside: the change of the standing, and a fence.
	Exclusive func(act func())
	// Publish is called with each change of the standing or of the deadline, before the server hears of it.
	Publish func(state *tenure.State)
	// Before, if it is there, is told of every action right before it is carried out.
	Before func(action tenure.Action)
}

// Do carries out the plan. When something that the rest relies on fails, the rest is left for a later pass.
func (a *Actor) Do(ctx context.Context, decided tenure.Plan, state *tenure.State) error {
	for _, action := range decided.Actions {
		if a.Before != nil {
			a.Before(action)
		}
		if err := a.do(ctx, action, state); err != nil {
			return fmt.Errorf("%s: %w", action.Verb(), err)
		}
	}
	return nil
}

func (a *Actor) do(ctx context.Context, action tenure.Action, state *tenure.State) error {
	now := a.Ports.Clock.Now()
	switch action := action.(type) {
	case tenure.Store:
		return a.store(action.Stored, state)
	case tenure.Arm:
		return a.arm(action, state)
	case tenure.Kill:
		a.Ports.Server.Kill()
	case tenure.Obey:
		a.obey(action.Standing, state)
	case tenure.AnswerBallot:
		return a.answer(ctx, action, state)
	case tenure.Reply:
		a.reply(action.ID, action.Reply, state)
	case tenure.WriteLease:
		if state.Memory.Write != nil {
			return errors.New("another write of the lease is under way")
		}
		a.begin(action, state, now)
	case tenure.Decide:
		a.decide(action, state, now)
	default:
		a.begin(action, state, now)
	}
	return nil
}

// begin notes what is under way from now on, and begins it. The deadline that a write of the lease may bring counts
// from this moment, which is before anything is sent.
func (a *Actor) begin(action tenure.Action, state *tenure.State, now tenure.Instant) {
	memory := &state.Memory
	memory.Note(action, now)
	switch action := action.(type) {
	case tenure.Send:
		a.Ports.Peers.Send(action.Request, addressOf(action.Request.To.Name, memory.Peers), now)
	case tenure.ReadLease:
		a.Ports.Leases.Read(now)
	case tenure.WriteLease:
		a.Ports.Leases.Write(*memory.Write)
	case tenure.ReadRoute:
		a.Ports.Surroundings.ReadRoute()
	case tenure.ProxyTo:
		a.Ports.Door.Usher(action.To)
	case tenure.WriteRoute:
		a.Ports.Surroundings.WriteRoute(action.Address, action.Term)
	case tenure.WriteLabels:
		a.Ports.Surroundings.WriteLabels(action.Role, action.Read, action.Cut, action.Use)
	case tenure.ReadCuts:
		a.Ports.Surroundings.ReadCuts(action.Instances)
	}
}

// store forgets what it knows of the volume when it fails: the write may have been done or not.
func (a *Actor) store(stored tenure.Stored, state *tenure.State) error {
	if err := a.Ports.Volume.Store(stored); err != nil {
		state.Loaded = false
		return err
	}
	if fence := stored.Fence; fence != nil && (state.Stored.Fence == nil || *state.Stored.Fence != *fence) {
		state.Memory.Fenced = a.Ports.Clock.Now()
	}
	state.Stored = stored
	return nil
}

// arm gives the deadline to the watchdog. Where nothing may lead at all, a watchdog that cannot be told so is no reason
// to leave the server alive: the agent ends it itself, and goes on.
//
// The watchdog takes a jump of the wall clock off the deadline that it has. One that it is told after it saw the jump,
// and that was computed before, lacks that: so the clock is looked at again, before and after.
func (a *Actor) arm(action tenure.Arm, state *tenure.State) error {
	jumped := a.Ports.Clock.Jumps().Since(0)
	err := a.Ports.Watchdog.Arm(action.After(jumped))
	// Also after an error: the watchdog may take the deadline all the same, only later.
	for now := a.Ports.Clock.Jumps().Since(0); now > jumped; now = a.Ports.Clock.Jumps().Since(0) {
		jumped = now
		err = a.Ports.Watchdog.Arm(action.After(jumped))
	}
	if err != nil && action.Until > 0 {
		return err
	}
	if err != nil {
		a.Ports.Server.Kill()
	}
	a.Publish(state)
	return nil
}

// obey gives the standing its number. Whoever holds the lock acts by the standing before; whoever gets it after this is
// refused.
func (a *Actor) obey(standing tenure.Standing, state *tenure.State) {
	a.Exclusive(func() {
		standing.Serial = state.Memory.Standing.Serial + 1
		state.Memory.Standing = standing
		a.Publish(state)
		a.Ports.Server.Obey(standing)
	})
}

// answer fences the server, and answers only if that is proven (F1).
func (a *Actor) answer(ctx context.Context, action tenure.AnswerBallot, state *tenure.State) error {
	if !state.Loaded || state.Stored.Fence == nil || *state.Stored.Fence != action.Fence {
		return errors.New("tenure.fence-before-answering: the fence is not on the volume")
	}
	ctx, cancel := context.WithTimeout(ctx, fencePatience)
	defer cancel()
	var position tenure.Position
	var err error
	a.Exclusive(func() { position, err = a.Ports.Server.Fence(ctx) })
	reply := action.Reply
	if err != nil {
		reply.Yes, reply.Why = false, "tenure.fence-before-answering: the server cannot be fenced: "+err.Error()
		a.reply(action.ID, reply, state)
		return err
	}
	reply.Timeline, reply.LSN = position.Timeline, position.LSN
	if action.ID == 0 {
		state.Memory.Answered(tenure.AnswerOf(reply))
		return nil
	}
	a.reply(action.ID, reply, state)
	return nil
}

func (a *Actor) reply(id uint64, reply wire.PeerReply, state *tenure.State) {
	kept := slices.DeleteFunc(slices.Clone(state.Inbox), func(r tenure.Request) bool { return r.ID == id })
	if len(kept) == len(state.Inbox) {
		return
	}
	state.Inbox = kept
	a.Ports.Peers.Reply(id, reply)
}

func (a *Actor) decide(action tenure.Decide, state *tenure.State, now tenure.Instant) {
	state.Callers = slices.DeleteFunc(slices.Clone(state.Callers), func(c tenure.Caller) bool {
		return c.ID == action.Caller.ID
	})
	state.Memory.Note(action, now)
	a.Ports.Peers.Decide(action.Caller.ID, action.Reply)
}

func addressOf(name string, peers []tenure.Peer) string {
	for _, peer := range peers {
		if peer.Name == name {
			return peer.Address
		}
	}
	return ""
}
