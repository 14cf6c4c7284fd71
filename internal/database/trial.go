package database

import (
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Trials is what is known of restores on trial.
type Trials struct {
	// Pod is the pod of one, nil if there is none of ours.
	Pod *TrialPod `json:"pod,omitempty"`
	// Last is how the last one has ended, as it is written beside the settings of backups.
	Last TrialNote `json:"last,omitzero"`
	// Asked is since when restores on trial are asked for as they are, as it is written beside the settings of backups.
	Asked TrialsAsked `json:"asked,omitzero"`
	// Foreign says whose the pod of that name is, if it is not ours.
	Foreign string `json:"foreign,omitempty"`
	// Refusal is why the API server takes no pod for the one that is due, empty if it does or nobody had to ask; Full says
	// that a quota is used up. Unknown is why it gave no answer.
	Refusal string `json:"refusal,omitempty"`
	Full    bool   `json:"full,omitempty"`
	Unknown string `json:"unknown,omitempty"`
	// Crowd is what other databases leave to them.
	Crowd Crowd `json:"crowd,omitzero"`
}

// TrialsAsked is since when spec.backup.verify says what it says. A moment of the schedule before that was never meant:
// many databases that get a schedule together, such as by another default, would begin together.
type TrialsAsked struct {
	Verify string    `json:"verify"`
	Since  time.Time `json:"since"`
}

// TrialWish is a restore on trial that is to be made.
type TrialWish struct {
	// For tells wishes apart: a moment of the schedule, or a request. Now is the spec.backup.verifyNow that it is for.
	For string `json:"for"`
	Now string `json:"now,omitempty"`
	// Try counts the tries for the same wish, from 1.
	Try int `json:"try"`
}

// TrialPod is a pod that restores on trial.
type TrialPod struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	// Wish is what it was made for.
	Wish     TrialWish `json:"wish"`
	Deleting bool      `json:"deleting,omitempty"`
	// Created is when it was made, Started when its container began, zero if it did not yet.
	Created time.Time `json:"created"`
	Started time.Time `json:"started,omitzero"`
	// UnplacedSince is since when no node takes it, Unplaced why; Stuck is why its containers cannot start.
	UnplacedSince time.Time `json:"unplacedSince,omitzero"`
	Unplaced      string    `json:"unplaced,omitempty"`
	Stuck         string    `json:"stuck,omitempty"`
	// Ended is when its container ended, zero if it did not; Result is what it has left, nil if that cannot be read, and
	// then Problem says how it has ended.
	Ended   time.Time         `json:"ended,omitzero"`
	Result  *wire.TrialResult `json:"result,omitempty"`
	Problem string            `json:"problem,omitempty"`
}

// State says how far it has come.
func (p TrialPod) State(of string) string {
	state, since := "waits for a node and a volume", p.Created
	if !p.Started.IsZero() {
		state, since = "restores", p.Started
	}
	return TrialName(of) + ": " + state + " since " + since.UTC().Format(time.RFC3339)
}

// TrialNote is how a restore on trial has ended.
type TrialNote struct {
	TrialWish `json:",inline"`
	// Pod is the UID of the pod that made it, At is when it ended.
	Pod     string       `json:"pod"`
	At      time.Time    `json:"at"`
	Outcome TrialOutcome `json:"outcome"`
	// Backup was restored within RestoreMilliseconds, if it was.
	Backup              string `json:"backup,omitempty"`
	RestoreMilliseconds int64  `json:"restoreMilliseconds,omitempty"`
	// Problem is what was found, or why it could not be made.
	Problem string `json:"problem,omitempty"`
}

// TrialOutcome is what a restore on trial says about a backup.
type TrialOutcome string

// The outcomes.
const (
	// TrialGood means that the backup is good, TrialBad that something is wrong with it.
	TrialGood TrialOutcome = "Good"
	TrialBad  TrialOutcome = "Bad"
	// TrialFailed means that it could not be made, TrialNoRoom that the cluster had no room for it. Both say nothing about
	// the backup.
	TrialFailed TrialOutcome = "Failed"
	TrialNoRoom TrialOutcome = "NoRoom"
)

// Judged says that the backup was looked at.
func (o TrialOutcome) Judged() bool { return o == TrialGood || o == TrialBad }
