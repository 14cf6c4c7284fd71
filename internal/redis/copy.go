package redis

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Copy is the data in a server: memory is its volume, so it begins and ends with the process. It changes by what is
// seen of the server (See) and by what was done with it (Begun, Followed, Led, Ended), and by nothing else.
type Copy struct {
	// Incarnation is the id of the copy, empty if there is none.
	Incarnation string `json:"incarnation,omitempty"`
	// Begun says that it is the first copy of a dataset, empty on purpose.
	Begun bool `json:"begun,omitempty"`
	// Whole says that it has everything that was written on its timeline up to its offset. What was never whole, or is too
	// old to be served, is no copy.
	Whole bool `json:"whole,omitempty"`
	// Had says that all of the data has come once, and that it has had something to go on from since, however little.
	Had      bool  `json:"had,omitempty"`
	Timeline int   `json:"timeline,omitempty"`
	Offset   int64 `json:"offset,omitempty"`
	// Dataset is what the copy belongs to.
	Dataset string `json:"dataset,omitempty"`
	// Fresh is when it last was known to have everything that its primary had. Apart says that the link to it was down
	// when the server was last looked at, and Back since when it is up again.
	Fresh time.Time `json:"fresh,omitzero"`
	Apart bool      `json:"apart,omitempty"`
	Back  time.Time `json:"back,omitzero"`
	// Goal is how far the primary said that it had come when its link was up. Who has come as far has everything that it
	// had when it was asked.
	Goal Goal `json:"goal,omitzero"`
	// Before is when the server was last looked at and did not take all of the data: what has come since is of later.
	Before time.Time `json:"before,omitzero"`
	// Unasked says that the primary does not tell how far it has come, because it is of a version that cannot. Then its
	// words are counted on: Heard is the last one.
	Unasked bool      `json:"unasked,omitempty"`
	Heard   time.Time `json:"heard,omitzero"`
	// Term is the one that it leads, 0 if it never led, and Recovered where the writes were when that began.
	Term      int64 `json:"term,omitempty"`
	Recovered int64 `json:"recovered,omitempty"`
	// Followed is whom it was last told to follow, and Asked when.
	Followed Followed  `json:"followed,omitzero"`
	Asked    time.Time `json:"asked,omitzero"`
	// Attempts counts how often it was told so.
	Attempts int `json:"attempts,omitempty"`
	// Yielded is when applications were kept out for another primary, zero if they were not, and Final where the writes
	// ended then.
	Yielded time.Time `json:"yielded,omitzero"`
	Final   int64     `json:"final,omitempty"`
}

// Followed is whose writes a copy takes.
type Followed struct {
	Upstream wire.Member `json:"upstream"`
	Timeline int         `json:"timeline"`
	Dataset  string      `json:"dataset"`
}

// Goal is what a primary has said of itself.
type Goal struct {
	Upstream wire.Member `json:"upstream"`
	// Asked is when it was asked, and Offset where it was after that.
	Asked  time.Time `json:"asked"`
	Offset int64     `json:"offset"`
}

// Start identifies this copy as the primary of its timeline.
func (c Copy) Start() string {
	if c.Term == 0 {
		return ""
	}
	return fmt.Sprintf("%s-%d", c.Incarnation, c.Timeline)
}

// GoesOn is the copy under a standing that may be of another term. Every primary has a timeline of its own: the same
// one under a later term is the holder that has written its lost lease anew (O1), and goes on with what it has.
func (c Copy) GoesOn(standing tenure.Standing) Copy {
	leads := standing.Role == tenure.RoleLead || standing.Role == tenure.RoleYield
	if leads && c.Term > 0 && standing.Term > c.Term && standing.Timeline == c.Timeline &&
		standing.SystemIdentifier == c.Dataset {
		c.Term = standing.Term
	}
	return c
}

// Position is how far a whole copy has come.
func (c Copy) Position() tenure.Position {
	return tenure.Position{Timeline: c.Timeline, LSN: uint64(max(c.Offset, 0))}
}

// See takes in what a server says. A replica is whole when the link to its primary is up: then it has all that came
// before. It stays whole when the link breaks, as long as the server has what is before its offset. One that takes all
// of the data anew keeps what it had until that has come, and forgets the offset while it reads it. What has not heard
// of its primary for longer than the bound is too old to be served to anybody. When the link is up again it goes on
// from its offset, and for a moment the server answers with what it had, before all that has come since is in: until
// then the copy is as old as it was. All of the data may have taken long: it is of the moment in which it was asked
// for, and what was written since comes after.
func (c Copy) See(server Replication, now time.Time, bound time.Duration) Copy {
	if c.Incarnation == "" {
		return c
	}
	switch {
	case !server.Replica:
		if c.Term > 0 {
			c.Offset, c.Fresh = server.Offset, now
		}
	case c.Followed == (Followed{}):
	case server.Up && !server.Syncing:
		c = c.inTouch(server, now)
	case server.Offset < c.Offset || server.Syncing && server.Offset == nothing:
		c.Whole, c.Had, c.Offset = false, false, 0
	case c.Whole:
		c.Offset = server.Offset // What came before the link broke.
		if c.reached(server.Offset) {
			c.Fresh, c.Goal = c.Goal.Asked, Goal{}
		}
	case server.Offset != nothing:
		// All of the data has come and the link has broken, between two looks: it goes on from there, however old it is, and
		// also if there was none.
		c.Offset, c.Had = server.Offset, true
	}
	if server.Replica && !server.Up {
		c.Apart, c.Back = true, time.Time{}
	}
	if !server.Syncing {
		c.Before = now
	}
	return c.Aged(now, bound)
}

// inTouch takes in what a server says whose link is up.
func (c Copy) inTouch(server Replication, now time.Time) Copy {
	goesOn := c.Had || c.Offset > 0 // Otherwise it has taken all of the data.
	heard, spokeAgain := c.hear(server, now)
	if !goesOn || c.Apart || spokeAgain || c.Unasked && !c.Whole && c.Back.IsZero() {
		c.Back, c.Goal = now, Goal{}
	}
	caughtUp, fresh := c.reached(server.Offset), c.Goal.Asked
	if c.Unasked {
		caughtUp, fresh = c.Back.IsZero() || heard.Sub(c.Back) >= catchUp, heard
	}
	c.Apart, c.Heard, c.Offset = false, heard, server.Offset
	if goesOn && !c.Whole && !caughtUp {
		return c
	}
	c.Whole, c.Had = true, true
	c.Timeline, c.Dataset = c.Followed.Timeline, c.Followed.Dataset
	switch {
	case caughtUp:
		c.Fresh, c.Goal = fresh, Goal{}
	case !goesOn:
		c.Fresh = c.Before
	}
	return c
}

// hear tells when the last word of the primary came, and whether that was the first one after a silence.
func (c Copy) hear(server Replication, now time.Time) (heard time.Time, spokeAgain bool) {
	heard = now.Add(-server.Quiet)
	if !c.Apart && !c.Heard.IsZero() && server.Offset == c.Offset {
		heard = c.Heard // Every word moves the offset; the server counts by a clock that can be put back.
	}
	return heard, c.Unasked && !c.Heard.IsZero() && heard.Sub(c.Heard) > silence
}

// reached says that the copy has come as far as its primary had when it was asked.
func (c Copy) reached(offset int64) bool {
	return c.Followed != (Followed{}) && c.Goal.Upstream == c.Followed.Upstream && offset >= c.Goal.Offset
}

// Asks says that the primary is to be asked how far it has come. Offsets are about the same writes only while the link
// is up.
func (c Copy) Asks(server Replication) bool {
	return c.Term == 0 && c.Followed != (Followed{}) && server.Replica && server.Up && !server.Syncing
}

// Told is the copy after its primary has said how far it has come. However late that is, it stays true of that copy,
// unless the server was told to follow anew since then: before the link is up again its offset may be about other
// writes.
func (c Copy) Told(goal Goal) Copy {
	if goal.Upstream == c.Followed.Upstream && !goal.Asked.Before(c.Asked) {
		c.Goal, c.Unasked = goal, false
	}
	return c
}

// Refused is the copy after its primary did not say how far it has come, because it cannot.
func (c Copy) Refused(upstream wire.Member) Copy {
	if upstream == c.Followed.Upstream {
		c.Unasked = true
	}
	return c
}

// nothing is the offset of a replica that has no data to go on from. One that has a copy of an empty primary is at 0;
// and the first write moves that by more than one byte.
const nothing = 1

// silence is how long a link of which words are counted on may say nothing until the next ones may be old: a network
// that was cut delivers first what was on its way, and can be cut again before the rest has come. There is a word each
// second.
const silence = 3 * time.Second

// catchUp is how long after such a link has come up a word of the primary must have come until a copy has what it
// lacked: a primary sends all of that first, and there is a word each second. Where a lot is written, or the network is
// slow, that is not enough: therefore the primary is asked.
const catchUp = 2 * time.Second

// Aged is the copy at a later moment, at which nothing was seen of it.
func (c Copy) Aged(now time.Time, bound time.Duration) Copy {
	if c.Term == 0 && c.Whole && now.Sub(c.Fresh) > bound {
		c.Whole = false
	}
	return c
}

// MayLead says that the copy can become the primary of the dataset: it is whole, or it is the empty one that the
// dataset begins with.
func (c Copy) MayLead(dataset string) bool {
	return c.Whole || c.Begun && c.Term == 0 && c.Incarnation == dataset
}

// Led is the copy after it was made the primary.
func (c Copy) Led(term int64, timeline int, dataset string, offset int64, now time.Time) Copy {
	c.Whole, c.Term, c.Timeline, c.Dataset = true, term, timeline, dataset
	c.Offset, c.Recovered, c.Fresh, c.Followed = offset, offset, now, Followed{}
	return c
}
