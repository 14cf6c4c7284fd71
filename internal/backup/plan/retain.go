package plan

import (
	"cmp"
	"slices"
	"time"

	"meridian.dev/meridian/internal/backup"
)

// Policy says what is kept.
type Policy struct {
	// Window is how far back a restore must be possible, AtLeast how many backups are kept however old they are.
	Window  time.Duration
	AtLeast int
}

// draftPatience is how long a base backup without a backup.json may have had no new object.
const draftPatience = 24 * time.Hour

// Keep tells the base backups that are kept: those within the window, the one before it from which its begin is
// reached, the newest ones, and the newest that was restored on trial. Ages go by the clock of the store (K5).
func Keep(catalogue *backup.Catalogue, policy Policy) []string {
	begin := catalogue.Now.Add(-policy.Window)
	var kept []string
	keep := func(base backup.Backup) {
		if !slices.Contains(kept, base.ID) {
			kept = append(kept, base.ID)
		}
	}
	// A backup without a window of its own reaches nothing, so it is not counted, and not what the begin rests on.
	usable := Windows(catalogue)
	for index := len(usable) - 1; index >= 0; index-- {
		base := usable[index].Backup
		keep(base)
		if len(kept) >= max(policy.AtLeast, 1) && !base.At.After(begin) {
			break
		}
	}
	for _, base := range catalogue.Backups {
		if base.At.After(begin) {
			keep(base)
		}
	}
	if verified := newestVerified(catalogue); verified != nil {
		keep(*verified)
	}
	slices.Sort(kept)
	return kept
}

func newestVerified(catalogue *backup.Catalogue) *backup.Backup {
	for index := len(catalogue.Backups) - 1; index >= 0; index-- {
		for _, verified := range catalogue.Verified {
			if verified.Backup == catalogue.Backups[index].ID && verified.Problem == "" {
				return &catalogue.Backups[index]
			}
		}
	}
	return nil
}

// Retain tells the objects that are to be deleted, in their order. A backup loses its backup.json first, so that what
// is left of it is a draft to everybody. The log that it needed goes when a later listing no longer shows it: a refused
// deletion then never leaves a backup without its log. Objects that are not known are left alone.
func Retain(catalogue *backup.Catalogue, policy Policy) []string {
	kept := Keep(catalogue, policy)
	if len(kept) == 0 {
		return nil // Nothing is sure to be unneeded: the first backup may be on its way.
	}
	oldest := catalogue.Backups[0].Start
	for _, base := range catalogue.Backups {
		oldest = min(oldest, base.Start)
	}
	needed := uint64(oldest) / catalogue.Owner.SegmentSize
	var deletes []backup.Object
	for _, object := range catalogue.Objects {
		if unneeded(catalogue, object, kept, needed) {
			deletes = append(deletes, object)
		}
	}
	slices.SortStableFunc(deletes, func(a, b backup.Object) int { return cmp.Compare(deletionOrder(a), deletionOrder(b)) })
	var names []string
	for _, object := range deletes {
		names = append(names, object.Name)
	}
	return names
}

func deletionOrder(object backup.Object) int {
	switch object.Key.Kind {
	case backup.KindBackup:
		return 0
	case backup.KindBase:
		return 1
	default:
		return 2
	}
}

func unneeded(catalogue *backup.Catalogue, object backup.Object, kept []string, needed uint64) bool {
	key := object.Key
	switch key.Kind {
	case backup.KindBackup:
		return !slices.Contains(kept, key.ID)
	case backup.KindBase:
		if catalogue.Backup(key.ID) != nil {
			return !slices.Contains(kept, key.ID)
		}
		for _, draft := range catalogue.Drafts {
			if draft.ID == key.ID {
				return draft.At.Before(catalogue.Now.Add(-draftPatience))
			}
		}
		return false
	case backup.KindSegment:
		return key.Number < needed
	case backup.KindTail:
		log := catalogue.Log(key.Timeline)
		_, whole := log.Whole(key.Number)
		return key.Number < needed || whole ||
			log.Covered(backup.Tail{Number: key.Number, From: key.From, To: key.To})
	case backup.KindGap:
		return key.To < needed
	case backup.KindOwner, backup.KindTerm, backup.KindHistory, backup.KindVerified, backup.KindForeign:
	}
	return false
}
