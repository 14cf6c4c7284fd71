// Package act carries out a plan, one action after the other, and stops at the first that fails: the next pass decides
// anew from what is there then. It decides nothing. What takes long it begins as a job beside the passes. Start reading
// at Actor.Do.
package act

import (
	"context"
	"errors"
	"fmt"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
)

// Actor carries out actions on one instance.
type Actor struct {
	Ports postgres.Ports
	// Authority is asked before an act that cannot be taken back.
	Authority tenure.Authority
	Jobs      *Jobs
	// Incarnation makes a new random id.
	Incarnation func() string
	// Before is told of each action before it begins.
	Before func(postgres.Action)
	// Turn runs a short act of a standing, unless another standing has come; without it, every act runs.
	Turn func(serial uint64, act func() error) error
	// Fenced says that by this standing nothing is taken from another server any more.
	Fenced func(serial uint64) bool
	// Yield asks the loop of the lease to give the place away, for the restart with this token.
	Yield func(token string)
	// Asked gets what an upstream said of itself.
	Asked func(postgres.Upstream)
	// Positioned gets what an upstream said of how far the others are.
	Positioned func(postgres.Positions)
	// Rewinding gets what the marker of a rewind was written for.
	Rewinding func(essence string)
	// Promoting gets how far the copy had come right before a promotion, and to which timeline that is.
	Promoting func(reached tenure.Position, timeline int)

	// judged is the essence of the standing for which the copy was found to be a part of the primary's history.
	judged string
}

// errFenced keeps an act of an old standing from undoing a fence.
var errFenced = errors.New("the instance is fenced")

// Do carries out the plan under a standing.
func (a *Actor) Do(ctx context.Context, standing tenure.Standing, plan postgres.Plan) postgres.Outcome {
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
		if err := a.one(ctx, standing, action); err != nil {
			// What stands for itself, such as an action inside the application's database, does not hold up the others.
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
	case postgres.CreateExtension, postgres.UpdateExtension, postgres.GrantExtension, postgres.SetPassword,
		postgres.KeepPlaces, postgres.KeepReserve, postgres.NoteLibraries, postgres.RecordClaim:
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
// without the note; and a server that starts with the old ones does not count as tried with the new ones. It does not
// lead with them: they may name another quorum (Q2).
func withoutNewFiles(action postgres.Action) (instead postgres.Action, skip bool) {
	switch action := action.(type) {
	case postgres.WriteFiles, postgres.Reload, postgres.Promote:
		return action, true
	case postgres.StartServer:
		action.Mark = ""
		return action, false
	}
	return action, false
}

// one carries out an action. What goes through the authority is checked there; the rest takes its turn here.
func (a *Actor) one(ctx context.Context, standing tenure.Standing, action postgres.Action) error {
	if guarded, err := a.guarded(ctx, standing, action); guarded {
		return err
	}
	act := func() error { return a.plain(ctx, standing, action) }
	if a.Turn == nil {
		return act()
	}
	return a.Turn(standing.Serial, act)
}

func (a *Actor) plain(ctx context.Context, standing tenure.Standing, action postgres.Action) error {
	switch action := action.(type) {
	case postgres.LockVolume:
		return a.Ports.Disk.Lock()
	case postgres.ClaimVolume:
		return a.claim(ctx, action)
	case postgres.Initialise:
		return a.initialise(ctx, action)
	case postgres.Restore:
		return a.restore(ctx, standing, action)
	case postgres.TightenMode:
		return a.Ports.Disk.TightenMode()
	case postgres.KillLeftover:
		return a.Ports.Runner.KillLeftover()
	case postgres.KillServer:
		return a.Ports.Runner.Kill()
	case postgres.RemovePIDFile:
		return a.Ports.Disk.RemovePIDFile()
	case postgres.InstallCertificate:
		return a.Ports.Mounts.InstallCertificate(action.Identity)
	case postgres.WriteFiles:
		return a.write(action)
	case postgres.StopServer:
		a.Jobs.Begin(postgres.JobStop, "", func(ctx context.Context) error {
			// A stop that was begun is ended: nobody could take it back.
			return a.Ports.Runner.Stop(context.WithoutCancel(ctx), action.Within)
		})
		return nil
	case postgres.Reload:
		return a.Ports.Runner.Reload()
	case postgres.FollowNobody:
		return a.followNobody(action)
	case postgres.RecordRewound:
		// From now on it is a replica's copy.
		if !action.Vain {
			if err := a.Ports.Disk.Standby(true); err != nil {
				return err
			}
		}
		return a.note(ctx, action)
	case postgres.RecordInitialised, postgres.RecordSettings, postgres.RecordRefused, postgres.RecordApplication,
		postgres.RecordClaim:
		return a.note(ctx, action)
	case postgres.Discard, postgres.Clone, postgres.Rewind, postgres.AskUpstream, postgres.AskPositions:
		return a.copying(standing, action)
	default:
		return a.aside(ctx, action)
	}
}

// aside carries out what touches neither the server nor its files.
func (a *Actor) aside(ctx context.Context, action postgres.Action) error {
	switch action := action.(type) {
	case postgres.GiveUp:
		a.Jobs.GiveUp(action.Kind)
		return nil
	case postgres.SpendReserve:
		return a.Ports.Disk.SpendReserve()
	case postgres.KeepReserve:
		return a.Ports.Disk.KeepReserve()
	case postgres.AskToYield:
		if a.Yield != nil {
			a.Yield(action.Token)
		}
		return nil
	default:
		return a.inside(ctx, action)
	}
}

func (a *Actor) note(ctx context.Context, action postgres.Action) error {
	return a.record(ctx, func(record *postgres.Record) {
		switch action := action.(type) {
		case postgres.RecordInitialised:
			record.SystemIdentifier, record.InProgress = action.SystemIdentifier, ""
		case postgres.RecordSettings:
			record.Settings, record.Kept = &action.Settings, action.Kept
		case postgres.RecordRefused:
			record.Refused = &action.Refused
		case postgres.RecordApplication:
			record.Application = &action.Application
		case postgres.RecordRewound:
			record.InProgress = ""
		case postgres.RecordClaim:
			record.ClaimUID, record.PutBack = action.ClaimUID, action.PutBack
		}
	})
}

// inside carries out what is done with SQL.
func (a *Actor) inside(ctx context.Context, action postgres.Action) error {
	sql := a.Ports.SQL
	switch action := action.(type) {
	case postgres.CreateRole:
		logins, err := a.Ports.Mounts.Logins()
		if err != nil {
			return err
		}
		owner := logins.Present
		owner.Name = action.Name
		return sql.CreateRole(ctx, owner)
	case postgres.SetPassword:
		return a.setPassword(ctx, action)
	case postgres.CreateDatabase:
		return sql.CreateDatabase(ctx, action.Name, action.Owner)
	case postgres.CreateExtension:
		a.Jobs.Begin(postgres.JobExtension, action.Name, func(ctx context.Context) error {
			return sql.CreateExtension(ctx, action.Database, action.Name)
		})
		return nil
	case postgres.UpdateExtension:
		a.Jobs.Begin(postgres.JobExtension, action.Name, func(ctx context.Context) error {
			return sql.UpdateExtension(ctx, action.Database, action.Name, action.To)
		})
		return nil
	case postgres.GrantExtension:
		a.Jobs.Begin(postgres.JobExtension, action.Name, func(ctx context.Context) error {
			return sql.GrantExtension(ctx, action.Database, action.Name)
		})
		return nil
	case postgres.NoteLibraries:
		return sql.NoteLibraries(ctx, action.Database, action.Versions)
	case postgres.CreateAgents:
		return sql.CreateAgents(ctx)
	case postgres.KeepPlaces:
		return sql.KeepPlaces(ctx, action)
	case postgres.EndSessions:
		return sql.EndSessions(ctx)
	case postgres.DrainSessions:
		a.Jobs.Begin(postgres.JobDrain, action.For, func(ctx context.Context) error {
			reached, err := sql.Drain(ctx)
			a.Jobs.Reached(postgres.JobDrain, reached)
			return err
		})
		return nil
	case postgres.EndSenders:
		return sql.EndSenders(ctx, action.Numbers)
	case postgres.LeaveSegment:
		return sql.LeaveSegment(ctx)
	case postgres.Checkpoint:
		a.Jobs.Begin(postgres.JobCheckpoint, action.For, sql.Checkpoint)
		return nil
	default:
		return fmt.Errorf("nobody knows how to %s", action.Verb())
	}
}

// claim looks again: between the observation and the act another pod may have written a record.
func (a *Actor) claim(ctx context.Context, action postgres.ClaimVolume) error {
	if err := a.empty(ctx); err != nil {
		return err
	}
	return a.Ports.Disk.WriteRecord(postgres.Record{
		DatabaseUID: action.DatabaseUID, Incarnation: action.Incarnation, ClaimUID: action.ClaimUID,
		InProgress: postgres.StepInitialise,
	})
}

func (a *Actor) empty(ctx context.Context) error {
	volume, data := a.Ports.Disk.Look(ctx)
	switch {
	case volume.Problem != "":
		return errors.New(volume.Problem)
	case volume.Lock != postgres.LockOurs:
		return errors.New("the lock of the volume is not ours")
	case volume.Record != nil || data.Presence != postgres.DataAbsent || data.Draft:
		return errors.New("the volume is not empty any more")
	}
	return nil
}

func (a *Actor) initialise(ctx context.Context, action postgres.Initialise) error {
	if err := a.unbegun(ctx); err != nil {
		return err
	}
	return a.Ports.Disk.Initialise(ctx, action)
}

// restore begins the first data, which goes on beside the passes.
func (a *Actor) restore(ctx context.Context, standing tenure.Standing, action postgres.Restore) error {
	if err := a.unbegun(ctx); err != nil {
		return err
	}
	if a.Ports.Restores == nil {
		return errors.New("there is nobody who can restore")
	}
	a.Jobs.Begin(postgres.JobRestore, action.Purpose(standing), func(ctx context.Context) error {
		return a.Ports.Restores.Restore(ctx, action, func(progress postgres.RestoreProgress) {
			a.Jobs.Progress(postgres.JobRestore, progress.Done, progress.Total)
			a.Jobs.Step(postgres.JobRestore, progress.Step)
		})
	})
	return nil
}

// unbegun looks again whether the first data is to be made here, because nothing is harder to take back.
func (a *Actor) unbegun(ctx context.Context) error {
	volume, data := a.Ports.Disk.Look(ctx)
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
	return nil
}

// record changes the record that is on the volume now.
func (a *Actor) record(ctx context.Context, change func(*postgres.Record)) error {
	volume, _ := a.Ports.Disk.Look(ctx)
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
	return a.Ports.Disk.WriteRecord(record)
}

func (a *Actor) write(action postgres.WriteFiles) error {
	for _, file := range action.Files {
		if err := a.Ports.Disk.WriteFile(file); err != nil {
			return err
		}
	}
	return nil
}

// setPassword reads the mounted credentials once more: what was planned for others is not done.
func (a *Actor) setPassword(ctx context.Context, action postgres.SetPassword) error {
	logins, err := a.Ports.Mounts.Logins()
	if err != nil {
		return err
	}
	logins = logins.Named(action.Owner)
	login := logins.Present
	if action.Next {
		login = logins.Latest()
	}
	if login.Name != action.Name {
		return errors.New("the mounted credentials have changed in the meantime")
	}
	return a.Ports.SQL.SetLogin(ctx, login, action.Owner)
}
