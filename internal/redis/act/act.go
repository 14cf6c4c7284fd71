// Package act carries out a plan, one action after the other, and stops at the first that fails: the next pass decides
// anew from what is there then. It decides nothing. Start reading at Actor.Do.
package act

import (
	"context"
	"fmt"

	"meridian.dev/meridian/internal/redis"
)

// Actor carries out actions on one instance.
type Actor struct {
	Mounts redis.Mounts
	Runner redis.Runner
	Link   redis.Link
	// Before is told of each action before it begins.
	Before func(redis.Action)
}

// Do carries out the plan.
func (a *Actor) Do(ctx context.Context, plan redis.Plan) redis.Outcome {
	var outcome redis.Outcome
	for _, action := range plan.Actions {
		if a.Before != nil {
			a.Before(action)
		}
		if err := a.one(ctx, action); err != nil {
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

func (a *Actor) one(ctx context.Context, action redis.Action) error {
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
	case redis.SetPolicy:
		return a.Link.SetPolicy(ctx, action.Policy)
	case redis.SetParameter:
		return a.Link.SetParameter(ctx, action.Parameter)
	case redis.ResetParameter:
		return a.Link.ResetParameter(ctx, action.Name)
	case redis.OpenDoor:
		password, err := a.Mounts.Password()
		if err != nil {
			return err
		}
		return a.Link.OpenDoor(ctx, password)
	case redis.ReturnMemory:
		return a.Link.ReturnMemory(ctx)
	default:
		return fmt.Errorf("nobody knows how to %s", action.Verb())
	}
}
