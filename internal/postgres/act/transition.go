package act

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
)

// confirmPatience bounds a consistent read of the lease, cutPatience the end of a receiver.
const (
	confirmPatience = 5 * time.Second
	cutPatience     = time.Second
)

// guarded carries out what goes through the authority. These acts do not take their turn: the authority waits for
// nobody, and knows itself which standing is the present one.
func (a *Actor) guarded(ctx context.Context, standing tenure.Standing, action postgres.Action) (ok bool, err error) {
	switch action := action.(type) {
	case postgres.BeginClone:
		return true, a.destroy(ctx, standing, func() error { return a.beginClone(ctx, action) })
	case postgres.BeginDiscard:
		if err := a.nobodyVouches(ctx, action); err != nil {
			return true, err
		}
		return true, a.destroy(ctx, standing, func() error {
			return a.record(ctx, func(record *postgres.Record) {
				*record = postgres.Record{
					DatabaseUID: record.DatabaseUID, Incarnation: record.Incarnation, ClaimUID: record.ClaimUID,
					InProgress: postgres.StepDiscard, Settings: record.Settings,
				}
			})
		})
	case postgres.BeginRewind:
		return true, a.destroy(ctx, standing, func() error {
			if a.Rewinding != nil {
				a.Rewinding(postgres.Essence(standing))
			}
			return a.record(ctx, func(record *postgres.Record) { record.InProgress = postgres.StepRewind })
		})
	case postgres.FollowUpstream:
		return true, a.follow(ctx, standing, action)
	case postgres.StartServer:
		if action.Primary {
			return true, a.startPrimary(standing, action)
		}
		return true, a.exclude(standing, func() error { return a.startReplica(action) })
	case postgres.Promote:
		return true, a.promote(ctx, standing, action)
	}
	return false, nil
}

func (a *Actor) exclude(standing tenure.Standing, act func() error) error {
	if a.Authority == nil {
		return errors.New("there is no authority to ask")
	}
	return a.Authority.Exclude(standing.Serial, act)
}

// destroy is for what cannot be taken back: a consistent read right before shows that another leads.
func (a *Actor) destroy(ctx context.Context, standing tenure.Standing, act func() error) error {
	if a.Authority == nil {
		return errors.New("there is no authority to ask")
	}
	ctx, cancel := context.WithTimeout(ctx, confirmPatience)
	defer cancel()
	if err := a.Authority.Confirm(ctx, standing.Serial); err != nil {
		return fmt.Errorf("confirm who leads: %w", err)
	}
	return a.exclude(standing, func() error {
		if a.Fenced != nil && a.Fenced(standing.Serial) {
			return errFenced
		}
		return act()
	})
}

// nobodyVouches reads the claim of a copy that was put back: what was known may be seconds old, and a user who has
// accepted the copy since must find it there.
func (a *Actor) nobodyVouches(ctx context.Context, action postgres.BeginDiscard) error {
	if action.PutBack == "" {
		return nil
	}
	if a.Ports.ReadClaim == nil {
		return errors.New("there is nobody to ask about the claim")
	}
	ctx, cancel := context.WithTimeout(ctx, confirmPatience)
	defer cancel()
	switch claim, err := a.Ports.ReadClaim(ctx); {
	case err != nil:
		return fmt.Errorf("read the claim of a copy that was put back: %w", err)
	case claim.UID != action.PutBack:
		return fmt.Errorf("the claim is %s, and was %s", claim.UID, action.PutBack)
	case claim.Accepted:
		return errors.New("a user vouches for the copy")
	}
	return nil
}

// beginClone is for a volume that has nothing, or whose copy was discarded.
func (a *Actor) beginClone(ctx context.Context, action postgres.BeginClone) error {
	volume, data := a.Ports.Disk.Look(ctx)
	record := volume.Record
	switch {
	case record == nil:
		if err := a.empty(ctx); err != nil {
			return err
		}
		record = &postgres.Record{DatabaseUID: action.DatabaseUID}
	case volume.Problem != "" || volume.Lock != postgres.LockOurs:
		return errors.New("the volume cannot be used: " + volume.Problem)
	case record.InProgress != postgres.StepDiscard && record.InProgress != postgres.StepInitialise:
		return errors.New("the record does not say that the copy is to be replaced")
	case data.Presence != postgres.DataAbsent:
		return errors.New("there is a copy in the place")
	}
	return a.Ports.Disk.WriteRecord(postgres.Record{
		DatabaseUID: record.DatabaseUID, Incarnation: a.Incarnation(), ClaimUID: action.ClaimUID,
		InProgress: postgres.StepClone, Settings: record.Settings,
	})
}

// follow lets the server take the log of another. A copy that was not judged for this primary and term yet is cut off
// from everybody first: only then its end stands still, and shows whether it is a part of the primary's history (B3).
// From then on all that it gets is of that history, so it is not judged again.
func (a *Actor) follow(ctx context.Context, standing tenure.Standing, action postgres.FollowUpstream) error {
	essence := postgres.Essence(standing)
	switch {
	case standing.Role != tenure.RoleFollow:
		a.judged = "" // The log of a fenced member counts for nobody, and may leave the history of the next primary.
	case a.judged != essence:
		a.judged = ""
		if err := a.judge(ctx, action); err != nil {
			return err
		}
		a.judged = essence
	}
	return a.exclude(standing, func() error {
		if a.Fenced != nil && a.Fenced(standing.Serial) {
			return errFenced
		}
		if err := a.Ports.Mounts.LendKey(action.Key); err != nil {
			return err
		}
		if err := a.Ports.Disk.Upstream(action.Text); err != nil {
			return err
		}
		return a.reload()
	})
}

func (a *Actor) judge(ctx context.Context, action postgres.FollowUpstream) error {
	if err := a.cutOff(ctx); err != nil {
		return err
	}
	reached, err := a.Ports.Disk.Position(action.From)
	if err != nil {
		return err
	}
	if !action.History.Holds(reached) {
		return fmt.Errorf("postgres.follow-only-a-judged-history: "+
			"the copy is at %s, which is no part of the history of timeline %d", reached,
			action.History.Timeline())
	}
	return nil
}

// cutOff returns nil only when nothing takes the log of another server any more.
func (a *Actor) cutOff(ctx context.Context) error {
	if err := a.followNobody(postgres.FollowNobody{Text: render.Alone()}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cutPatience)
	defer cancel()
	return a.Ports.Runner.EndReceiver(ctx)
}

func (a *Actor) followNobody(action postgres.FollowNobody) error {
	if err := a.Ports.Mounts.TakeKeysBack(); err != nil {
		return err
	}
	if err := a.Ports.Disk.Upstream(action.Text); err != nil {
		return err
	}
	return a.reload()
}

func (a *Actor) reload() error {
	if !a.Ports.Runner.Look().Running {
		return nil
	}
	return a.Ports.Runner.Reload()
}

func (a *Actor) startReplica(action postgres.StartServer) error {
	if action.Withdraw > 0 {
		if err := a.Ports.Disk.Withdraw(action.Withdraw); err != nil {
			return err
		}
	}
	if err := a.Ports.Disk.Standby(true); err != nil {
		return err
	}
	return a.Ports.Runner.Start(action.Mark, action.Restart)
}

// startPrimary demands the whole configuration: without it, nobody knows which quorum the files name (Q2).
func (a *Actor) startPrimary(standing tenure.Standing, action postgres.StartServer) error {
	if action.Mark == "" {
		return errors.New("the configuration of a primary could not be written")
	}
	return a.lead(standing, func() error {
		if err := a.Ports.Disk.Standby(false); err != nil {
			return err
		}
		return a.Ports.Runner.Start(action.Mark, action.Restart)
	})
}

// lead runs an act that lets a server lead, right after the right to was confirmed (C3).
func (a *Actor) lead(standing tenure.Standing, act func() error) error {
	if a.Authority == nil {
		return errors.New("there is no authority to ask")
	}
	if err := a.Authority.MayLead(standing.Serial); err != nil {
		return fmt.Errorf("may not lead: %w", err)
	}
	if a.Turn == nil {
		return act()
	}
	return a.Turn(standing.Serial, act)
}

// promote cuts the replica off first, so that it is known how far it has come, and where the new timeline must begin.
func (a *Actor) promote(ctx context.Context, standing tenure.Standing, action postgres.Promote) error {
	if err := a.cutOff(ctx); err != nil {
		return err
	}
	ending, cancel := context.WithTimeout(ctx, cutPatience)
	defer cancel()
	if err := a.Ports.Runner.EndEntering(ending); err != nil {
		return err
	}
	reached, err := a.Ports.Disk.Position(action.From)
	if err != nil {
		return err
	}
	if reached.Timeline >= action.Timeline {
		return fmt.Errorf("the copy is at %s, and was to be promoted to timeline %d", reached, action.Timeline)
	}
	if err := a.goesOn(reached, action.Timeline); err != nil {
		return err
	}
	if err := a.Ports.Disk.Reserve(action.Timeline); err != nil {
		return err
	}
	return a.lead(standing, func() error {
		if a.Promoting != nil {
			a.Promoting(reached, action.Timeline)
		}
		return a.Ports.Runner.Promote()
	})
}

// goesOn refuses a copy whose server may have gone over to a timeline before another that does not begin where the copy
// ends. What was seen may be older than the last history that came, and the server is started again for it.
func (a *Actor) goesOn(reached tenure.Position, before int) error {
	for timeline := reached.Timeline + 1; timeline < before; timeline++ {
		history, err := a.Ports.Disk.History(timeline)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && history.Strays(reached) {
			err = fmt.Errorf("the copy is at %s, and timeline %d does not begin there", reached, timeline)
		}
		if err != nil {
			return fmt.Errorf("promote to timeline %d: %w", before, err)
		}
	}
	return nil
}

// copying begins the long acts. The marker of each is on the volume already.
func (a *Actor) copying(standing tenure.Standing, action postgres.Action) error {
	essence := postgres.Essence(standing)
	copies := a.Ports.Copies
	switch action := action.(type) {
	case postgres.Discard:
		a.Jobs.Begin(postgres.JobDiscard, essence, copies.Discard)
	case postgres.Clone:
		a.Jobs.Begin(postgres.JobClone, essence, func(ctx context.Context) error {
			return copies.Clone(ctx, action.Source, func(done, total int64) {
				a.Jobs.Progress(postgres.JobClone, done, total)
			})
		})
	case postgres.Rewind:
		a.Jobs.Begin(postgres.JobRewind, essence, func(ctx context.Context) error {
			return copies.Rewind(ctx, action.Source)
		})
	case postgres.AskUpstream:
		a.Jobs.Begin(postgres.JobAsk, essence, func(ctx context.Context) error {
			answer, err := copies.Ask(ctx, action.Source)
			if err != nil {
				answer = postgres.Upstream{Problem: err.Error()}
			}
			answer.Of, answer.Term, answer.At = standing.Upstream, standing.Term, a.Ports.Clock.Now()
			a.Asked(answer)
			return err
		})
	case postgres.AskPositions:
		a.Jobs.Begin(postgres.JobPositions, essence, func(ctx context.Context) error {
			began := a.Ports.Clock.Now()
			answer, err := copies.Positions(ctx, action.Source)
			if err != nil {
				return err // What was said before stays true: positions only grow.
			}
			if action.Needs != nil {
				if answer.Gone, err = copies.Gone(ctx, action.Source, *action.Needs); err != nil {
					return err
				}
			}
			answer.Of, answer.Term, answer.At = standing.Upstream, standing.Term, began
			a.Positioned(answer)
			return nil
		})
	}
	return nil
}
