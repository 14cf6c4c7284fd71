package expect

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// expectation is one own write that the cache has to show. There is at most one per object, the latest: whoever sees
// the latest has seen those before it.
type expectation struct {
	uid types.UID
	// rv is the version that a write made, or the version that a delete was decided on.
	rv    string
	since time.Time
	// deleted means that the object has to be gone or marked for deletion.
	deleted bool
	// unseen means that the object was deleted before the cache is known to have shown it, so that
	// its absence may be older than its existence.
	unseen bool
	// missing means that a live read after the write did not come across the object: its absence counts as seen.
	missing bool
}

// seenIn reports whether the cache shows the write.
func (e expectation) seenIn(sight Sight) bool {
	if !sight.Cached {
		return true
	}
	if e.deleted {
		return e.deletionSeenIn(sight)
	}
	if reached(sight.Position, e.rv) || sight.Found && reached(sight.ResourceVersion, e.rv) {
		return true
	}
	return e.missing && !sight.Found && !ordered(sight.Position, e.rv)
}

func (e expectation) deletionSeenIn(sight Sight) bool {
	if sight.Found && sight.UID == e.uid {
		return sight.Terminating
	}
	// The object is absent, or another one has its name. Either may be the state before it was created.
	if ordered(sight.Position, e.rv) {
		return reached(sight.Position, e.rv)
	}
	if sight.Found {
		return reached(sight.ResourceVersion, e.rv)
	}
	return !e.unseen
}

// reached reports whether position is at or after version. Versions that cannot be compared reach each other only
// when they are equal.
func reached(position, version string) bool {
	if position == version {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(position, version)
	return err == nil && order >= 0
}

// ordered reports whether the two can be compared at all.
func ordered(position, version string) bool {
	_, err := resourceversion.CompareResourceVersion(position, version)
	return err == nil
}

// waiting is an expectation together with what the cache shows of it, for the words of a verdict.
type waiting struct {
	where target
	what  expectation
	sight Sight
}

func (w waiting) String() string {
	stands := "cannot tell how far it is"
	switch {
	case w.sight.Trouble != "":
		stands = w.sight.Trouble
	case w.sight.Position != "":
		stands = "stands at " + w.sight.Position
	}
	if w.what.deleted {
		return fmt.Sprintf("the cache does not show the deletion of %s yet (%s)", w.where, stands)
	}
	return fmt.Sprintf("the cache does not show %s at resourceVersion %s yet (%s)", w.where, w.what.rv, stands)
}
