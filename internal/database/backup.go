package database

import (
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Backup is what is known of backups and of a restore, beside what the agents report.
type Backup struct {
	// Access is what leads to the repository, Source what leads to the one that the database begins with.
	Access Access `json:"access,omitzero"`
	Source Access `json:"source,omitzero"`
	// Begin is what the database begins with, nil for an empty one, or if BeginProblem says why it is not known.
	Begin        *wire.Restore `json:"begin,omitempty"`
	BeginProblem string        `json:"beginProblem,omitempty"`
	// BeginClaim is the claim that it is on, empty for none.
	BeginClaim string `json:"beginClaim,omitempty"`
	// Settings are those that are stored, nil if there are none or they cannot be read. Now is the spec.backup.now that
	// was carried out last, as it is written beside them.
	Settings *wire.BackupSettings `json:"settings,omitempty"`
	Now      string               `json:"now,omitempty"`
	// Stored names what is stored for the agents: the settings of backups, credentials and keys. Empty: nothing is.
	Stored string `json:"stored,omitempty"`
	// UnwellSince is since when the condition Recoverable has not been True, by the status: for how grave it is, and for
	// nothing else.
	UnwellSince time.Time `json:"unwellSince,omitzero"`
	// Trials is what is known of restores on trial.
	Trials Trials `json:"trials,omitzero"`
}

// Access is the Secret of ours with the credentials and the key of a repository. It is mounted into every pod, there or
// not, so that turning backups on restarts nothing.
type Access struct {
	Secret
	// Missing says what the Secrets lack that the spec names, in a sentence; empty if nothing.
	Missing string `json:"missing,omitempty"`
	// Stale says that ours does not have what those have now, or has something that nobody needs any more.
	Stale bool `json:"stale,omitempty"`
}

// Recoverable is what is claimed about backups.
type Recoverable struct {
	// Status is True, False or Unknown, as of a condition.
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// BaseDone says that the repository has a base backup that was made for a wish, by the word of the primary.
func (s Snapshot) BaseDone(wish string) bool {
	report := s.Catalogue()
	if report == nil {
		return false
	}
	for _, one := range report.Backups {
		if one.For == wish {
			return true
		}
	}
	return false
}

// BaseMaker is the instance that works on a base backup now, empty if none does.
func (s Snapshot) BaseMaker() (instance string, progress wire.BaseProgress) {
	for _, one := range s.Instances {
		told := one.Report.Backup
		if told == nil || told.Base == nil || !one.Report.Reachable {
			continue
		}
		if phase := told.Base.Phase; phase == wire.BaseCopying || phase == wire.BaseCompleting {
			return one.Name, *told.Base
		}
	}
	return "", wire.BaseProgress{}
}

// Catalogue is what the primary's agent says of the repository, nil if it has not read it.
func (s Snapshot) Catalogue() *wire.BackupReport {
	holder, _ := s.Instance(s.Lease.Holder)
	told := holder.Report.Backup
	if !s.Leads(holder.Name) || told == nil || told.Listed.IsZero() {
		return nil
	}
	return told
}
