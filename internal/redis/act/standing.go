package act

import (
	"context"
	"fmt"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// wordPatience bounds what is said to the server while nobody else may act.
const wordPatience = time.Second

// detach has the server follow nobody.
func (a *Actor) detach(ctx context.Context, standing tenure.Standing) error {
	return a.Authority.Exclude(standing.Serial, func() error {
		ctx, cancel := context.WithTimeout(ctx, wordPatience)
		defer cancel()
		return a.Link.Detach(ctx)
	})
}

// follow makes the server a replica of exactly the copy that is meant. A copy that this may cost is given up only after
// a look at the lease.
func (a *Actor) follow(ctx context.Context, snapshot redis.Snapshot, action redis.Follow) error {
	standing, settings := snapshot.Standing, snapshot.Settings.Wanted
	// Also what comes to nothing was an attempt: the next one comes later, and in another way.
	a.Memory.Change(func(copied redis.Copy) redis.Copy {
		copied.Asked = a.Clock.Now()
		copied.Attempts++
		return copied
	})
	if action.Whole {
		if err := a.Authority.Confirm(ctx, standing.Serial); err != nil {
			return err
		}
	}
	logins, err := a.logins(settings)
	if err != nil {
		return err
	}
	address, password := action.Address, logins.Replication[action.Turn%len(logins.Replication)]
	if address == "" {
		if address, err = a.Names.Find(ctx, action.Upstream.Name); err != nil {
			return fmt.Errorf("find %s: %w", action.Upstream.Name, err)
		}
	}
	return a.Authority.Exclude(standing.Serial, func() error {
		ctx, cancel := context.WithTimeout(ctx, wordPatience)
		defer cancel()
		// While it is not known whether the server has heard, the copy is taken for none of the other's.
		a.Memory.Change(func(copied redis.Copy) redis.Copy {
			copied.Followed, copied.Asked, copied.Back = redis.Followed{}, a.Clock.Now(), time.Time{}
			return copied
		})
		if err := a.Link.Follow(ctx, action.Upstream, address, password); err != nil {
			return err
		}
		a.Memory.Change(func(copied redis.Copy) redis.Copy {
			copied.Followed = redis.Followed{
				Upstream: action.Upstream, Timeline: standing.Timeline, Dataset: standing.SystemIdentifier,
			}
			copied.Goal, copied.Unasked = redis.Goal{}, false
			return copied
		})
		return nil
	})
}

// lead makes the server a primary right after it was asked whether it may.
func (a *Actor) lead(ctx context.Context, snapshot redis.Snapshot, action redis.Lead) error {
	standing, settings := snapshot.Standing, snapshot.Settings.Wanted
	logins, err := a.logins(settings)
	if err != nil {
		return err
	}
	return a.Authority.Exclude(standing.Serial, func() error {
		ctx, cancel := context.WithTimeout(ctx, wordPatience)
		defer cancel()
		if err := a.Authority.MayLead(standing.Serial); err != nil {
			return err
		}
		if err := a.Link.Promote(ctx); err != nil {
			return err
		}
		now, err := a.Link.Replication(ctx)
		if err != nil {
			return err
		}
		if now.Replica {
			return fmt.Errorf("the server is a replica still")
		}
		var incarnation string
		a.Memory.Change(func(copied redis.Copy) redis.Copy {
			incarnation = copied.Incarnation
			return copied.Led(action.Term, action.Timeline, standing.SystemIdentifier, now.Offset, a.Clock.Now())
		})
		return a.Link.Admit(ctx, incarnation, logins)
	})
}

func (a *Actor) admit(ctx context.Context, settings *wire.CacheSettings) error {
	logins, err := a.logins(settings)
	if err != nil {
		return err
	}
	var incarnation string
	a.Memory.Change(func(copied redis.Copy) redis.Copy {
		incarnation = copied.Incarnation
		return copied
	})
	return a.Link.Admit(ctx, incarnation, logins)
}

// yield keeps applications out first: what is written after that is nobody's. The offset that is read then is final for
// them, whatever the servers still say to each other.
func (a *Actor) yield(ctx context.Context) error {
	if err := a.Link.CloseDoor(ctx); err != nil {
		return err
	}
	now, err := a.Link.Replication(ctx)
	if err != nil {
		return err
	}
	a.Memory.Change(func(copied redis.Copy) redis.Copy {
		copied.Yielded, copied.Final, copied.Offset = a.Clock.Now(), now.Offset, now.Offset
		return copied
	})
	return nil
}

func (a *Actor) end(ctx context.Context) error {
	if err := a.Link.End(ctx); err != nil {
		return err
	}
	return a.Runner.Stop(ctx)
}

// flush empties the server. If it is not known where the writes were then, the next pass does it again.
func (a *Actor) flush(ctx context.Context, action redis.Flush) error {
	if err := a.Link.Flush(ctx); err != nil {
		return err
	}
	now, err := a.Link.Replication(ctx)
	if err != nil {
		return err
	}
	a.Memory.Flushed(action.ID, now.Offset)
	return nil
}
