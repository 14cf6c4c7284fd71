package design

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// Trial is a restore on trial that is due.
type Trial struct {
	database.TrialWish
	// Why says so in words, NotBefore is when it may begin: after one that has failed the pauses grow.
	Why       string
	NotBefore time.Time
}

const (
	// firstPause is how long after a restore on trial that has failed it is made again, and longestPause how long at most:
	// the pauses double.
	firstPause, longestPause = 10 * time.Minute, 24 * time.Hour
	// mostTries is how often one on request is tried. One of the schedule is tried until it is good.
	mostTries = 5
)

// WishedTrial is the restore on trial that is due, nil if none is, or if nobody knows what there is to restore. A
// request goes before the schedule, and the schedule before what has failed.
func WishedTrial(s database.Snapshot) *Trial {
	backup, catalogue := s.Spec.Backup, s.Catalogue()
	if backup == nil || s.Deleting || s.Spec.Hibernated || !s.Record.Initialised || !somethingToTry(catalogue) {
		return nil
	}
	last, token := s.Backup.Trials.Last, backup.VerifyNow
	if token != "" && token != last.Now {
		return &Trial{
			TrialWish: database.TrialWish{For: "now-" + Shortened(token), Now: token, Try: 1},
			Why:       "spec.backup.verifyNow is " + token,
		}
	}
	schedule, problem := admit.Verify(*backup, s.UID)
	due := schedule.Last(s.Now)
	planned := problem == nil && !due.IsZero()
	wish := "due-" + due.UTC().Format("20060102T150405Z")
	if planned && wish != last.For && due.After(lastTried(s, catalogue)) && OldestBackup(catalogue).Before(due) &&
		TrialsAsked(s).Since.Before(due) {
		return &Trial{
			TrialWish: database.TrialWish{For: wish, Now: last.Now, Try: 1},
			Why:       "it is due since " + due.UTC().Format(time.RFC3339),
		}
	}
	asked := token != "" && last.For == "now-"+Shortened(token) && !last.Outcome.Judged() && last.Try < mostTries
	if !planned && !asked {
		return nil
	}
	return triedAgain(last, catalogue)
}

// TrialsAsked is since when restores on trial are asked for as they are: what is stored, until spec.backup.verify says
// something else.
func TrialsAsked(s database.Snapshot) database.TrialsAsked {
	if s.Spec.Backup == nil {
		return database.TrialsAsked{}
	}
	asked, verify := s.Backup.Trials.Asked, admit.VerifyText(*s.Spec.Backup)
	if asked.Verify != verify {
		asked = database.TrialsAsked{Verify: verify, Since: s.Now.UTC().Truncate(time.Second)}
	}
	return asked
}

func somethingToTry(catalogue *wire.BackupReport) bool {
	return catalogue != nil && catalogue.BackupCount > 0 && len(catalogue.Backups) > 0
}

// triedAgain is the last one once more, nil if it was good, or if another one was since.
func triedAgain(last database.TrialNote, catalogue *wire.BackupReport) *Trial {
	if last.Pod == "" || last.Outcome == database.TrialGood ||
		catalogue.VerifyProblem == "" && catalogue.LastVerified.After(last.At) {
		return nil
	}
	return &Trial{
		TrialWish: database.TrialWish{For: last.For, Now: last.Now, Try: last.Try + 1},
		Why:       fmt.Sprintf("the last one, at %s, was not good", last.At.UTC().Format(time.RFC3339)),
		NotBefore: last.At.Add(min(firstPause<<min(max(last.Try, 1)-1, 20), longestPause)),
	}
}

// lastTried is when a backup was looked at last, whatever came of it.
func lastTried(s database.Snapshot, catalogue *wire.BackupReport) time.Time {
	if last := s.Backup.Trials.Last; last.Outcome.Judged() && last.At.After(catalogue.LastVerified) {
		return last.At
	}
	return catalogue.LastVerified
}

// OldestBackup is when something could be restored first, as far as that is told.
func OldestBackup(catalogue *wire.BackupReport) time.Time {
	oldest := catalogue.Backups[0].At
	if from := catalogue.RecoverableFrom; !from.IsZero() && from.Before(oldest) {
		return from
	}
	return oldest
}

// Shortened is a token as a part of a name.
func Shortened(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:8])
}
