package wire

import "time"

// BackupReport is what an agent tells about backups. What it says of the repository comes from the agent of the
// primary, which alone reads the catalogue; every agent tells what it does itself.
type BackupReport struct {
	// Listed is when the repository was read last, zero if this agent does not read it. What follows, up to
	// LastVerified, counts only then.
	Listed time.Time `json:"listed,omitzero"`
	// RecoverableFrom and RecoverableUntil are the ends of the newest unbroken time that a restore can lead to, by the
	// clock of the store; zero: nothing can be restored yet. RecoverableLSN is the end as a place in the log.
	RecoverableFrom  time.Time `json:"recoverableFrom,omitzero"`
	RecoverableUntil time.Time `json:"recoverableUntil,omitzero"`
	RecoverableLSN   string    `json:"recoverableLSN,omitempty"`
	// Backups are the newest base backups, the oldest first, at most MostBackups; BackupCount is how many there are.
	Backups     []BaseBackup `json:"backups,omitempty"`
	BackupCount int          `json:"backupCount,omitempty"`
	// Size is that of all objects, in bytes.
	Size int64 `json:"size,omitempty"`
	// Gaps are times that cannot be restored to, between two that can; the latest ones, at most MostGaps.
	Gaps []BackupGap `json:"gaps,omitempty"`
	// Locked says that the store refuses to delete what is not needed any more, such as by object lock.
	Locked bool `json:"locked,omitempty"`
	// LastVerified is when a backup was restored on trial last, VerifiedBackup which one, RestoreMilliseconds how long
	// that took, VerifyProblem what was wrong with it, empty if nothing was.
	LastVerified        time.Time `json:"lastVerified,omitzero"`
	VerifiedBackup      string    `json:"verifiedBackup,omitempty"`
	RestoreMilliseconds int64     `json:"restoreMilliseconds,omitempty"`
	VerifyProblem       string    `json:"verifyProblem,omitempty"`

	// Ships says that this agent ships the log. BehindBytes is what is flushed and not in the repository,
	// BehindMilliseconds for how long the oldest of that has waited.
	Ships              bool   `json:"ships,omitempty"`
	BehindBytes        uint64 `json:"behindBytes,omitempty"`
	BehindMilliseconds int64  `json:"behindMilliseconds,omitempty"`
	// Confirmed is up to where the repository has the log, as this agent knows.
	Confirmed string `json:"confirmed,omitempty"`

	// Base is the base backup that this agent makes, or made or failed at last; nil if none.
	Base *BaseProgress `json:"base,omitempty"`
	// Reason is why backups are not as wished, or empty; Message is the same as a sentence.
	Reason  BackupReason `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	// Since is when the reason began.
	Since time.Time `json:"since,omitzero"`
}

// MostBackups and MostGaps are how many of each a report lists.
const (
	MostBackups = 20
	MostGaps    = 5
)

// BaseBackup is a base backup that exists.
type BaseBackup struct {
	// ID is its name in the repository, For the ID of the wish that it was made for.
	ID  string `json:"id"`
	For string `json:"for,omitempty"`
	// At is when it was complete, by the clock of the store.
	At time.Time `json:"at"`
	// Size is that of the files, in bytes, before compression.
	Size     int64  `json:"size"`
	Instance string `json:"instance,omitempty"`
	Verified bool   `json:"verified,omitempty"`
	Start    string `json:"start,omitempty"`
}

// BackupGap is a time that cannot be restored to.
type BackupGap struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

// BaseProgress is how far a base backup has come.
type BaseProgress struct {
	// For is the ID of the wish.
	For string `json:"for"`
	// Phase is what is done now.
	Phase BasePhase `json:"phase"`
	// Done and Total are bytes, an estimate, 0 while unknown.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
	// Started is when the present try began.
	Started time.Time `json:"started,omitzero"`
	// Failures counts the tries that failed in a row, Problem is why the last one did.
	Failures int    `json:"failures,omitempty"`
	Problem  string `json:"problem,omitempty"`
}

// BasePhase is a part of making a base backup.
type BasePhase string

// The phases.
const (
	// BaseWaiting is before a try: after one that failed, or while the repository cannot be used.
	BaseWaiting BasePhase = "waiting"
	// BaseCopying is while the files go into the repository.
	BaseCopying BasePhase = "copying"
	// BaseCompleting is from then on until the log that the backup needs is there too.
	BaseCompleting BasePhase = "completing"
	// BaseDone means that it exists.
	BaseDone BasePhase = "done"
)

// BackupReason is a CamelCase word for why backups are not as wished. It becomes the reason of the condition
// Recoverable, so it has a page in the runbook and is never renamed.
type BackupReason string

// The reasons that agents tell, the gravest first.
const (
	// BackupSettingsUnreadable: the mounted settings of backups cannot be understood.
	BackupSettingsUnreadable BackupReason = "BackupSettingsUnreadable"
	// BackupKeyWrong: the mounted key is none, or opens nothing that is in the repository.
	BackupKeyWrong BackupReason = "KeyWrong"
	// BackupRepositoryForeign: the repository belongs to another database, or to another copy of this one.
	BackupRepositoryForeign BackupReason = "RepositoryForeign"
	// BackupConditionIgnored: the store overwrites what it was told not to.
	BackupConditionIgnored BackupReason = "ConditionIgnored"
	// BackupCredentialsRefused: the store answers, and does not let us in.
	BackupCredentialsRefused BackupReason = "CredentialsRefused"
	// BackupRepositoryAway: the store does not answer.
	BackupRepositoryAway BackupReason = "RepositoryAway"
	// BackupRepositoryDamaged: what is in the repository is not what was written, or is of a later version.
	BackupRepositoryDamaged BackupReason = "RepositoryDamaged"
	// BackupLogGap: log was lost before it could be shipped; a new base backup is needed, and begins by itself.
	BackupLogGap BackupReason = "LogGap"
	// BackupFirstPending: nothing can be restored yet, since no base backup is complete.
	BackupFirstPending BackupReason = "FirstBackupPending"
	// BackupShippingBehind: the log arrives later than it should.
	BackupShippingBehind BackupReason = "ShippingBehind"
	// BackupFailed: a base backup fails again and again.
	BackupFailed BackupReason = "BackupFailed"
)

// public is what anybody may know: no sentence, which may name buckets and hosts.
func (r BackupReport) public() BackupReport {
	r.Message, r.VerifyProblem = "", ""
	if r.Base != nil {
		base := *r.Base
		base.Problem, r.Base = "", &base
	}
	return r
}
