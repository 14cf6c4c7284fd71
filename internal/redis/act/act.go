// Package act carries out a plan, one action after the other, and stops at the first that fails: the next pass decides
// anew from what is there then. It decides nothing. Start reading at Actor.Do.
package act

import (
	"context"
	"fmt"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Actor carries out actions on one instance.
type Actor struct {
	Mounts redis.Mounts
	Runner redis.Runner
	Link   redis.Link
	Names  redis.Names
	Clock  redis.Clock
	// Authority is asked before what cannot be taken back.
	Authority tenure.Authority
	// Memory is told of what was done with the copy.
	Memory Memory
	// Before is told of each action before it begins.
	Before func(redis.Action)
}

// Memory is what is known of the copy. Change replaces it, under the lock that a fence takes too.
type Memory interface {
	Change(change func(redis.Copy) redis.Copy)
	Flushed(id string, offset int64)
}

// Do carries out the plan that was made of a snapshot.
func (a *Actor) Do(ctx context.Context, snapshot redis.Snapshot, plan redis.Plan) redis.Outcome {
	var outcome redis.Outcome
	for _, action := range plan.Actions {
		if a.Before != nil {
			a.Before(action)
		}
		if err := a.one(ctx, snapshot, action); err != nil {
			if outcome.Failed == "" {
				outcome.Failed, outcome.Problem = action.Verb(), err.Error()
			}
			if !standsAlone(action) {
				return outcome
			}
			continue
		}
		outcome.Done = append(outcome.Done, action.Verb())
	}
	return outcome
}

// standsAlone tells what may fail without the rest having to wait: a certificate that cannot be loaded does not keep
// the memory from being changed.
func standsAlone(action redis.Action) bool {
	switch action.(type) {
	case redis.LoadCertificate, redis.SetParameter, redis.ResetParameter, redis.ReturnMemory:
		return true
	}
	return false
}

func (a *Actor) one(ctx context.Context, snapshot redis.Snapshot, action redis.Action) error {
	switch action := action.(type) {
	case redis.YieldServer:
		return a.yield(ctx)
	case redis.HearReplicas:
		return a.Link.HearReplicas(ctx)
	case redis.EndServer:
		return a.end(ctx)
	case redis.Follow:
		return a.follow(ctx, snapshot, action)
	case redis.Detach:
		return a.detach(ctx, snapshot.Standing)
	case redis.Lead:
		return a.lead(ctx, snapshot, action)
	case redis.AdmitReplicas:
		return a.admit(ctx, snapshot.Settings.Wanted)
	case redis.CloseDoor:
		return a.Link.CloseDoor(ctx)
	case redis.Flush:
		return a.flush(ctx, action)
	case redis.OpenDoor:
		logins, err := a.logins(snapshot.Settings.Wanted)
		if err != nil {
			return err
		}
		return a.Link.OpenDoor(ctx, logins)
	default:
		return a.keep(ctx, action)
	}
}

// logins are who can log in, by what is mounted now.
func (a *Actor) logins(settings *wire.CacheSettings) (redis.Logins, error) {
	passwords, err := a.Mounts.Passwords()
	return passwords.Logins(settings), err
}

// keep carries out what has nothing to do with who the instance is.
func (a *Actor) keep(ctx context.Context, action redis.Action) error {
	switch action := action.(type) {
	case redis.InstallCertificate:
		return a.Mounts.InstallCertificate(action.Identity)
	case redis.StartServer:
		return a.Runner.Start(action)
	case redis.StopServer:
		return a.Runner.Stop(ctx)
	case redis.KillLeftover:
		return a.Runner.KillLeftover()
	case redis.LoadCertificate:
		return a.Link.LoadCertificate(ctx, action.Identity)
	case redis.SetMemory:
		return a.Link.SetMemory(ctx, action.Bytes)
	case redis.SetWaiting:
		return a.Link.SetWaiting(ctx, action.Bytes)
	case redis.SetPolicy:
		return a.Link.SetPolicy(ctx, action.Policy)
	case redis.SetParameter:
		return a.Link.SetParameter(ctx, action.Parameter)
	case redis.ResetParameter:
		return a.Link.ResetParameter(ctx, action.Name)
	case redis.ReturnMemory:
		return a.Link.ReturnMemory(ctx)
	default:
		return fmt.Errorf("nobody knows how to %s", action.Verb())
	}
}
