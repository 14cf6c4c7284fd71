package wire

import "time"

// BackupList is what a repository has, as `meridian backups list` prints it in a pod and the plugin shows it. It has no
// secret.
type BackupList struct {
	// Folder is the folder of the database in the repository.
	Folder string `json:"folder"`
	// Now is the clock of the store, as far as its newest object tells; ages go by it.
	Now time.Time `json:"now"`
	// WindowSeconds and AtLeast are what is to be kept.
	WindowSeconds int64          `json:"windowSeconds"`
	AtLeast       int            `json:"atLeast"`
	Backups       []ListedBackup `json:"backups"` // The oldest first.
}

// ListedBackup is a base backup.
type ListedBackup struct {
	ID       string    `json:"id"`
	For      string    `json:"for,omitempty"`
	At       time.Time `json:"at"`
	Instance string    `json:"instance,omitempty"`
	Timeline int       `json:"timeline"`
	// Size is that of the files, Stored that of the objects.
	Size   int64  `json:"size"`
	Stored int64  `json:"stored"`
	Parts  int    `json:"parts"`
	Start  string `json:"start"`
	Stop   string `json:"stop"`
	// From and Until are what can be restored with it, empty if nothing can; the times are by the clock of the store.
	From      string     `json:"from,omitempty"`
	Until     string     `json:"until,omitempty"`
	FromTime  *time.Time `json:"fromTime,omitempty"`
	UntilTime *time.Time `json:"untilTime,omitempty"`
	// Needed is why it cannot be deleted now, empty if it can.
	Needed string `json:"needed,omitempty"`
	// Trials are its restores on trial, the oldest first.
	Trials []ListedTrial `json:"trials,omitempty"`
}

// ListedTrial is a restore on trial.
type ListedTrial struct {
	At                  time.Time `json:"at"`
	RestoreMilliseconds int64     `json:"restoreMilliseconds"`
	// Problem is what was wrong, empty if nothing was.
	Problem string `json:"problem,omitempty"`
}
