package backup

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"meridian.dev/meridian/internal/postgres"
)

// Owner is whose repository it is: owner.json. It keeps namesakes and copies apart.
type Owner struct {
	Version          int    `json:"version"`
	DatabaseUID      string `json:"databaseUID"`
	Namespace        string `json:"namespace"`
	Name             string `json:"name"`
	SystemIdentifier string `json:"systemIdentifier"`
	SegmentSize      uint64 `json:"segmentSize"`
	Major            int    `json:"major"`
	// Application and ApplicationOwner are the database of the application and its owner.
	Application      string `json:"application,omitempty"`
	ApplicationOwner string `json:"applicationOwner,omitempty"`
}

// Term is a primary's time in office: terms/<term>.json.
type Term struct {
	Term     int64  `json:"term"`
	Timeline int    `json:"timeline"`
	Instance string `json:"instance"`
}

// Backup is a base backup: base/<id>/backup.json. It exists when this object does, which is written last (K2).
type Backup struct {
	Version int    `json:"version"`
	ID      string `json:"id"`
	// For is the wish that it was made for: whoever asks twice gets one.
	For      string `json:"for,omitempty"`
	Timeline int    `json:"timeline"`
	// Start is where recovery begins to read the log, Stop how far it has to read at least.
	Start LSN `json:"start"`
	Stop  LSN `json:"stop"`
	// Size is that of the files, before compression.
	Size  int64  `json:"size"`
	Parts []Part `json:"parts"`
	// Manifest is PostgreSQL's own list of the files with their checksums.
	Manifest Part `json:"manifest"`
	// Settings are those that recovery needs at least as high as they were.
	Settings map[string]string `json:"settings,omitempty"`
	Instance string            `json:"instance,omitempty"`

	// At is when the object was written, by the clock of the store.
	At time.Time `json:"-"`
}

// Part is one object of a base backup.
type Part struct {
	Name  string `json:"name"`
	Files int    `json:"files"`
	Size  int64  `json:"size"` // Before compression.
	// SHA256 is that of the object as it is stored.
	SHA256 string `json:"sha256"`
}

// Catalogue is what a repository holds, from one listing of it.
type Catalogue struct {
	Owner   Owner
	Terms   []Term
	Backups []Backup // The oldest first.
	Drafts  []Draft
	Logs    []Log // By timeline.
	// Verified tells which backups were restored on trial.
	Verified []Verified
	// Objects are all names of the listing, for those who delete.
	Objects []Object
	// Now is when the newest object was written, by the clock of the store: the store's clock is not before it. Ages
	// that are counted from it are never too high, whatever our own clock says (K5).
	Now time.Time
}

// Object is a name in the repository, with what it belongs to.
type Object struct {
	Name string
	At   time.Time
	Size int64
	Key  Key
}

// Draft is a base backup without a backup.json: one that is being written, was given up or is being deleted.
type Draft struct {
	ID string
	At time.Time // Of its newest object.
}

// Verified says that a backup was restored on trial.
type Verified struct {
	Backup string    `json:"backup"`
	At     time.Time `json:"-"`
	// RestoreMilliseconds is how long the restore took, Problem what was wrong, empty if nothing was.
	RestoreMilliseconds int64  `json:"restoreMilliseconds,omitempty"`
	Problem             string `json:"problem,omitempty"`
}

// ErrTooNew is of a repository that a later version has written.
var ErrTooNew = errors.New("the version of the layout is not known: use a newer Meridian")

// Log is what a repository has of one timeline.
type Log struct {
	Timeline int
	// History is nil if the repository does not have it.
	History  postgres.History
	Segments []Segment // By number.
	Tails    []Tail    // By number and begin.
	Gaps     []Gap
}

// Segment is a whole segment of the log.
type Segment struct {
	Number uint64
	At     time.Time
	Name   string // Of the object.
}

// Tail is a piece of a segment that is not complete yet: what lies between two offsets.
type Tail struct {
	Number   uint64
	From, To uint64
	At       time.Time
	Name     string // Of the object.
}

// Gap is a row of segments that the primary no longer had when they were to be shipped. Another member may have filled
// it since.
type Gap struct{ First, Last uint64 }

// File is a file of the log as recovery gets it, and what it is made of: one object, or tails one after the other.
type File struct {
	Timeline int
	Number   uint64
	Whole    string
	Tails    []Tail
	// Valid is how many bytes count. Behind them are zeros, where recovery finds the end of the log: of a timeline that
	// was left, what lies behind the fork belongs to a branch that nobody followed.
	Valid uint64
	// At is when the last object of it was written.
	At time.Time
}

// Log is what there is of a timeline, or nil.
func (c *Catalogue) Log(timeline int) *Log {
	index, found := slices.BinarySearchFunc(c.Logs, timeline, func(log Log, wanted int) int {
		return cmp.Compare(log.Timeline, wanted)
	})
	if !found {
		return nil
	}
	return &c.Logs[index]
}

// Backup is the backup of that id, or nil.
func (c *Catalogue) Backup(id string) *Backup {
	for index := range c.Backups {
		if c.Backups[index].ID == id {
			return &c.Backups[index]
		}
	}
	return nil
}

// LatestTerm is the highest term that has shipped.
func (c *Catalogue) LatestTerm() int64 {
	var latest int64
	for _, term := range c.Terms {
		latest = max(latest, term.Term)
	}
	return latest
}

// Whole finds a whole segment.
func (l *Log) Whole(number uint64) (Segment, bool) {
	if l == nil {
		return Segment{}, false
	}
	index, found := slices.BinarySearchFunc(l.Segments, number, func(segment Segment, wanted uint64) int {
		return cmp.Compare(segment.Number, wanted)
	})
	if !found {
		return Segment{}, false
	}
	return l.Segments[index], true
}

// Cover finds the tails that hold a segment from its begin without a hole, and how far they reach: as few as there can
// be. Tails may overlap: one may cover many before it, and an agent that was restarted may not have known of one that
// was still under way.
func (l *Log) Cover(number uint64) (tails []Tail, reach uint64) {
	if l == nil {
		return nil, 0
	}
	first, _ := slices.BinarySearchFunc(l.Tails, number, compareNumber)
	var best Tail // What leads furthest of all that begin where the cover has reached.
	for _, tail := range l.Tails[first:] {
		if tail.Number != number {
			break
		}
		if tail.From > reach && best.To > reach {
			tails, reach = append(tails, best), best.To
		}
		if tail.From > reach {
			break
		}
		if tail.To > best.To {
			best = tail
		}
	}
	if best.To > reach {
		tails, reach = append(tails, best), best.To
	}
	return tails, reach
}

// Covered says that another tail holds all of one and more.
func (l *Log) Covered(one Tail) bool {
	if l == nil {
		return false
	}
	first, _ := slices.BinarySearchFunc(l.Tails, one.Number, compareNumber)
	return slices.ContainsFunc(l.Tails[first:], func(other Tail) bool {
		return other.Number == one.Number && other.From <= one.From && other.To >= one.To &&
			other.To-other.From > one.To-one.From
	})
}

func compareNumber(tail Tail, wanted uint64) int { return cmp.Compare(tail.Number, wanted) }
