package observe

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Track keeps what is known of the copy between two passes. A fence looks at it too, from another goroutine.
type Track struct {
	mutex   sync.Mutex
	copied  redis.Copy
	bound   time.Duration
	flush   string
	emptied wire.Emptied
	// asked is when the primary was last asked how far it has come, and answered says that it, or nobody, has answered.
	asked    time.Time
	answered bool
	// goals are what the primary has answered and the copy has not come to yet, oldest first.
	goals []redis.Goal
}

// question is whom to ask how far it has come, and when that was asked.
type question struct {
	upstream wire.Member
	at       time.Time
}

const (
	// askEvery is how often a primary is asked, and askPatience how long its answer is waited for.
	askEvery    = time.Second
	askPatience = 5 * time.Second
	// mostGoals is more than a copy that may be read has before it.
	mostGoals = 120
)

// asks says whether the primary is to be asked now. One question is under way at a time.
func (t *Track) asks(snapshot redis.Snapshot) (question, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	patience := askPatience
	if t.answered || t.asked.IsZero() {
		patience = askEvery
	}
	// A link that has just come up is asked about at once.
	again := t.asked.IsZero() || snapshot.Now.Sub(t.asked) >= patience || t.answered && t.copied.Back.After(t.asked)
	if !snapshot.Server.Reachable || !again || !t.copied.Asks(snapshot.Server.Replication) {
		return question{}, false
	}
	t.asked, t.answered = snapshot.Now, false
	return question{t.copied.Followed.Upstream, snapshot.Now}, true
}

// answer takes in what the primary has said, or that it has said nothing.
func (t *Track) answer(to question, offset int64, err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.answered = t.answered || to.at.Equal(t.asked)
	switch {
	case err == nil:
		t.goals = append(t.goals, redis.Goal{Upstream: to.upstream, Asked: to.at, Offset: offset})
		t.goals = t.goals[max(len(t.goals)-mostGoals, 0):]
	case errors.Is(err, redis.ErrUnasked):
		t.copied = t.copied.Refused(to.upstream)
	}
}

// Change replaces what is known by what was done.
func (t *Track) Change(change func(redis.Copy) redis.Copy) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.copied = change(t.copied)
}

// Flushed notes that a request was carried out, and where the writes were after it.
func (t *Track) Flushed(id string, offset int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.emptied = wire.Emptied{ID: id, Timeline: t.copied.Timeline, Offset: uint64(max(offset, 0))}
}

// Ask takes a request to empty the cache.
func (t *Track) Ask(id string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.flush = id
}

// see takes in what the server says, with the latest goal that it has reached.
func (t *Track) see(server redis.Replication, now time.Time) {
	t.goals = slices.DeleteFunc(t.goals, func(goal redis.Goal) bool {
		return goal.Upstream != t.copied.Followed.Upstream
	})
	for len(t.goals) > 0 && server.Offset >= t.goals[0].Offset {
		t.copied = t.copied.Told(t.goals[0])
		t.goals = t.goals[1:]
	}
	t.copied = t.copied.See(server, now, t.bound)
}

// look puts what is known into the snapshot, after what the snapshot itself shows.
func (t *Track) look(snapshot *redis.Snapshot) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	process, standing := snapshot.Process, snapshot.Standing
	switch {
	case process.Running && process.Incarnation != t.copied.Incarnation:
		t.copied, t.emptied = redis.Copy{Incarnation: process.Incarnation}, wire.Emptied{}
	case !process.Running && (standing.Role != tenure.RoleYield || t.copied.Final == 0):
		// Data ends with its process. Of a server that has yielded the end is what is asked for.
		t.copied, t.emptied = redis.Copy{}, wire.Emptied{}
	}
	if process.Running && standing.Role == tenure.RoleBegin && process.Incarnation == standing.Incarnation {
		t.copied.Begun = true
	}
	if standing.Role != tenure.RoleYield {
		t.copied.Yielded, t.copied.Final = time.Time{}, 0
	}
	t.copied = t.copied.GoesOn(standing)
	t.bound = snapshot.Bound()
	if snapshot.Server.Reachable {
		t.see(snapshot.Server.Replication, snapshot.Now)
	} else if process.Running {
		t.copied = t.copied.Aged(snapshot.Now, t.bound)
	}
	if standing.Role != tenure.RoleLead {
		// Whoever leads now is asked in its place: kept, it would empty the cache at some later time.
		t.flush = ""
	}
	snapshot.Copy, snapshot.Flush, snapshot.Emptied = t.copied, t.flush, t.emptied
}

// Fence cuts the server off from every primary and then says how far its copy has come. It looks before and after: what
// happens to the data in between shows in the offset.
func (t *Track) Fence(ctx context.Context, link redis.Replicas, clock redis.Clock) (tenure.Position, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.copied.Term > 0 {
		return tenure.Position{}, errors.New("the server is a primary")
	}
	for _, cut := range []bool{true, false} {
		now, err := link.Replication(ctx)
		if err != nil {
			return tenure.Position{}, err
		}
		t.see(now, clock.Now())
		switch {
		case cut:
			if err := link.Detach(ctx); err != nil {
				return tenure.Position{}, err
			}
		case !now.Replica || now.Host != "":
			return tenure.Position{}, errors.New("the server follows somebody still")
		default:
			t.copied.Offset = now.Offset
		}
	}
	if !t.copied.Whole {
		return tenure.Position{}, errors.New("there is no whole copy here")
	}
	return t.copied.Position(), nil
}
