// Package act carries out a plan, one action after the other, and stops at the first that fails: the next pass decides
// anew from what is there then. It decides nothing. Start reading at Actor.Do.
package act

import (
	"context"
	"errors"
	"fmt"

	"meridian.dev/meridian/internal/postgres"
)

// Actor carries out actions on one instance.
type Actor struct {
	Disk   postgres.Disk
	Mounts postgres.Mounts
	Runner postgres.Runner
	SQL    postgres.SQL
	// Incarnation makes a new random id.
	Incarnation func() string
	// Before is told of each action before it begins.
	Before func(postgres.Action)
}

// Do carries out the plan.
func (a *Actor) Do(ctx context.Context, plan postgres.Plan) postgres.Outcome {
	var outcome postgres.Outcome
	for _, action := range plan.Actions {
		if outcome.Kept {
			var skip bool
			if action, skip = withoutNewFiles(action); skip {
				continue
			}
		}
		if a.Before != nil {
			a.Before(action)
		}
		if err := a.one(ctx, action); err != nil {
			// An action inside the application's database stands for itself: the others are still tried.
			if outcome.Failed == "" {
				outcome.Failed, outcome.Problem = action.Verb(), err.Error()
			}
			outcome.Kept = outcome.Kept || spare(action)
			if !standsAlone(action) && !spare(action) {
				return outcome
			}
			continue
		}
		outcome.Done = append(outcome.Done, action.Verb())
	}
	return outcome
}

func standsAlone(action postgres.Action) bool {
	switch action.(type) {
	case postgres.CreateExtension, postgres.UpdateExtension, postgres.SetPassword:
		return true
	}
	return false
}

// spare tells whether the server can do without: a volume that is full must not keep it from starting.
func spare(action postgres.Action) bool {
	switch action := action.(type) {
	case postgres.RecordSettings:
		return action.Spare
	case postgres.WriteFiles:
		return action.Spare
	}
	return false
}

// withoutNewFiles is what becomes of an action when new settings could not be noted or written. Files are never written
// without the note; and a server that starts with the old ones does not count as tried with the new ones.
func withoutNewFiles(action postgres.Action) (instead postgres.Action, skip bool) {
	switch action := action.(type) {
	case postgres.WriteFiles, postgres.Reload:
		return action, true
	case postgres.StartServer:
		action.Mark = ""
		return action, false
	}
	return action, false
}

func (a *Actor) one(ctx context.Context, action postgres.Action) error {
	switch action := action.(type) {
	case postgres.LockVolume:
		return a.Disk.Lock()
	case postgres.ClaimVolume:
		return a.claim(ctx, action)
	case postgres.Initialise:
		return a.initialise(ctx, action)
	case postgres.RecordInitialised:
		return a.record(ctx, func(record *postgres.Record) {
			record.SystemIdentifier, record.InProgress = action.SystemIdentifier, ""
		})
	case postgres.RecordSettings:
		return a.record(ctx, func(record *postgres.Record) { record.Settings = &action.Settings })
	case postgres.RecordRefused:
		return a.record(ctx, func(record *postgres.Record) { record.Refused = &action.Refused })
	case postgres.RecordApplication:
		return a.record(ctx, func(record *postgres.Record) { record.Application = &action.Application })
	case postgres.TightenMode:
		return a.Disk.TightenMode()
	case postgres.KillLeftover:
		return a.Runner.KillLeftover()
	case postgres.RemovePIDFile:
		return a.Disk.RemovePIDFile()
	case postgres.InstallCertificate:
		return a.Mounts.InstallCertificate(action.Identity)
	case postgres.WriteFiles:
		return a.write(action)
	case postgres.StartServer:
		return a.Runner.Start(action.Mark)
	case postgres.StopServer:
		return a.Runner.Stop(ctx)
	case postgres.Reload:
		return a.Runner.Reload()
	default:
		return a.inside(ctx, action)
	}
}

// inside carries out what is done with SQL.
func (a *Actor) inside(ctx context.Context, action postgres.Action) error {
	switch action := action.(type) {
	case postgres.CreateRole:
		return a.withPassword(ctx, action.Name, a.SQL.CreateRole)
	case postgres.SetPassword:
		return a.withPassword(ctx, action.Name, a.SQL.SetPassword)
	case postgres.CreateDatabase:
		return a.SQL.CreateDatabase(ctx, action.Name, action.Owner)
	case postgres.CreateExtension:
		return a.SQL.CreateExtension(ctx, action.Database, action.Name)
	case postgres.UpdateExtension:
		return a.SQL.UpdateExtension(ctx, action.Database, action.Name, action.To)
	default:
		return fmt.Errorf("nobody knows how to %s", action.Verb())
	}
}

// claim looks again: between the observation and the act another pod may have written a record.
func (a *Actor) claim(ctx context.Context, action postgres.ClaimVolume) error {
	volume, data := a.Disk.Look(ctx)
	switch {
	case volume.Problem != "":
		return errors.New(volume.Problem)
	case volume.Lock != postgres.LockOurs:
		return errors.New("the lock of the volume is not ours")
	case volume.Record != nil || data.Presence != postgres.DataAbsent || data.Draft:
		return errors.New("the volume is not empty any more")
	}
	return a.Disk.WriteRecord(postgres.Record{
		DatabaseUID: action.DatabaseUID, Incarnation: a.Incarnation(), InProgress: postgres.StepInitialise,
	})
}

// initialise looks again, because nothing here is harder to take back.
func (a *Actor) initialise(ctx context.Context, action postgres.Initialise) error {
	volume, data := a.Disk.Look(ctx)
	switch {
	case volume.Problem != "":
		return errors.New(volume.Problem)
	case volume.Lock != postgres.LockOurs:
		return errors.New("the lock of the volume is not ours")
	case volume.Record == nil || volume.Record.InProgress != postgres.StepInitialise:
		return errors.New("the record does not say that an initialisation is under way")
	case data.Presence != postgres.DataAbsent:
		return errors.New("there is a data directory already")
	}
	return a.Disk.Initialise(ctx, action)
}

// record changes the record that is on the volume now.
func (a *Actor) record(ctx context.Context, change func(*postgres.Record)) error {
	volume, _ := a.Disk.Look(ctx)
	switch {
	case volume.Problem != "":
		return errors.New(volume.Problem)
	case volume.Record == nil:
		return errors.New("there is no record on the volume")
	case volume.Lock != postgres.LockOurs:
		return errors.New("the lock of the volume is not ours")
	}
	record := *volume.Record
	change(&record)
	return a.Disk.WriteRecord(record)
}

func (a *Actor) write(action postgres.WriteFiles) error {
	for _, file := range action.Files {
		if err := a.Disk.WriteFile(file); err != nil {
			return err
		}
	}
	return nil
}

type setRole func(ctx context.Context, name, password string) error

func (a *Actor) withPassword(ctx context.Context, name string, set setRole) error {
	password, err := a.Mounts.Password()
	if err != nil {
		return err
	}
	return set(ctx, name, password)
}
