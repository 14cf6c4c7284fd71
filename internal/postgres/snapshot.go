package postgres

import (
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Snapshot is everything that one pass knows. It holds no secret: passwords and keys are compared where they are read,
// and only the result is a fact.
type Snapshot struct {
	Now      time.Time `json:"now"`
	Instance string    `json:"instance"`
	// Runtime is the folder of the socket and of the certificate's copy.
	Runtime string `json:"runtime"`
	// Stopping says that the pod was told to end.
	Stopping bool `json:"stopping,omitempty"`

	Settings    Settings    `json:"settings"`
	Programs    Programs    `json:"programs"`
	Volume      Volume      `json:"volume"`
	Data        Data        `json:"data"`
	Files       []File      `json:"files,omitempty"`
	Certificate Certificate `json:"certificate"`
	Process     Process     `json:"process"`
	Server      Server      `json:"server"`
	Application Application `json:"application"`
}

// Settings is what the operator wants.
type Settings struct {
	// Mounted are the settings that are mounted now, nil if they cannot be read or understood.
	Mounted *wire.Settings `json:"mounted,omitempty"`
	// Problem says why not.
	Problem string `json:"problem,omitempty"`
}

// Programs are PostgreSQL's programs in the image.
type Programs struct {
	Major int `json:"major"`
	// User is the name that the operating system has for the user of this process.
	User string `json:"user"`
	// Problem says why they cannot be used.
	Problem string `json:"problem,omitempty"`
}

// Volume is the volume apart from the data directory.
type Volume struct {
	// Problem says why the volume or the record on it cannot be read. No other fact about the volume holds then.
	Problem string `json:"problem,omitempty"`
	// Lock tells who may write to the volume.
	Lock Lock `json:"lock"`
	// Record is what this or an earlier agent wrote, nil if there is none.
	Record *Record `json:"record,omitempty"`
}

// Lock is the lock on the volume. It is handed down to PostgreSQL, so it is free only when no process of it is left,
// in whatever pod.
type Lock string

// Who holds the lock.
const (
	LockFree   Lock = "free"
	LockOurs   Lock = "ours"
	LockOthers Lock = "others"
)

// Presence tells how much of a data directory is there.
type Presence string

// How much is there. A data directory is made beside its place and moved there when it is complete, so one that lacks
// parts was damaged later.
const (
	DataAbsent    Presence = "absent"
	DataPresent   Presence = "present"
	DataDamaged   Presence = "damaged"
	DataOtherwise Presence = "otherwise" // Something else is in its place.
)

// Data is the data directory.
type Data struct {
	Presence Presence `json:"presence"`
	// Draft says that there is an unfinished data directory beside the place.
	Draft bool `json:"draft,omitempty"`
	// Private says that nobody but the owner may enter it, which PostgreSQL demands.
	Private bool `json:"private,omitempty"`
	// Major is the version that made it.
	Major            int    `json:"major,omitempty"`
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	Timeline         int    `json:"timeline,omitempty"`
	// State is PostgreSQL's own word, such as "shut down" or "in production".
	State string `json:"state,omitempty"`
	// PIDFile says that there is a postmaster.pid.
	PIDFile bool `json:"pidFile,omitempty"`
	// Problem says what is damaged.
	Problem string `json:"problem,omitempty"`
}

// File is a configuration file in the data directory.
type File struct {
	Name string `json:"name"`
	Hash string `json:"hash"`
	// Ours says that an agent wrote it, and not initdb.
	Ours bool `json:"ours,omitempty"`
}

// Certificate is what the server presents.
type Certificate struct {
	// Mounted identifies what is mounted, empty if it cannot be used; Problem says why.
	Mounted string `json:"mounted,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Installed identifies the copy that PostgreSQL reads.
	Installed string `json:"installed,omitempty"`
}

// Process is the server's process.
type Process struct {
	Running bool `json:"running,omitempty"`
	// Leftover counts processes of an ended server that still live.
	Leftover int `json:"leftover,omitempty"`
	// Failures counts the ends in a row that nobody asked for, each soon after the start.
	Failures int `json:"failures,omitempty"`
	// Mark is the mark of the configuration that it was started with.
	Mark string `json:"mark,omitempty"`
	// Ended is when the last one ended, and Exit how.
	Ended time.Time `json:"ended,omitzero"`
	Exit  string    `json:"exit,omitempty"`
	// LastWords are the last failures that the server itself told of, for people. Nothing is decided on them.
	LastWords string `json:"lastWords,omitempty"`
	// Started is when the present or last one was started.
	Started time.Time `json:"started,omitzero"`
	// Reached says that somebody may have spoken with it since: it has opened its doors, or has answered.
	Reached bool `json:"reached,omitempty"`
	// Complaints are what the first process of the server wrote before it opened its doors, at level LOG or FATAL. No
	// tenant can have written them.
	Complaints []string `json:"complaints,omitempty"`
}

// Server is what the server says of itself.
type Server struct {
	// Reachable says that it answers on its socket. No other fact here holds without it.
	Reachable bool `json:"reachable,omitempty"`
	// Problem says why not.
	Problem string `json:"problem,omitempty"`
	// Replica says that it replays a log instead of writing one.
	Replica          bool   `json:"replica,omitempty"`
	Version          string `json:"version,omitempty"`
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	Timeline         int    `json:"timeline,omitempty"`
	LSN              string `json:"lsn,omitempty"`
	// Loaded is the mark of the configuration in force, as written into the file by render.
	Loaded string `json:"loaded,omitempty"`
	// Settings is the hash of the settings in force, written beside the mark.
	Settings string `json:"settings,omitempty"`
	// PendingRestart names parameters that have another value in the file, sorted.
	PendingRestart []string `json:"pendingRestart,omitempty"`
	// Refused names the parameters of the configuration that the server does not accept, in their order; a line that is
	// no parameter at all is an empty name.
	Refused []string `json:"refused,omitempty"`
}

// Application is what exists for the application in a server that is reachable and a primary.
type Application struct {
	// Known says that it could be looked at. No other fact here holds without it.
	Known bool `json:"known,omitempty"`
	// Problem says why not.
	Problem string `json:"problem,omitempty"`
	// NoPassword says why the mounted password cannot be used, empty if it can.
	NoPassword string `json:"noPassword,omitempty"`
	// Role, Login, PasswordMatches: of the owner role.
	Role            bool `json:"role,omitempty"`
	Login           bool `json:"login,omitempty"`
	PasswordMatches bool `json:"passwordMatches,omitempty"`
	Database        bool `json:"database,omitempty"`
	// Owner is who owns the database.
	Owner string `json:"owner,omitempty"`
	// Extensions are those that exist in the database or could, sorted by name.
	Extensions []Extension `json:"extensions,omitempty"`
}

// Extension is one in the application's database.
type Extension struct {
	Name string `json:"name"`
	// Installed is its version, empty if it does not exist; Available the one that the image brings, empty if none.
	Installed string `json:"installed,omitempty"`
	Available string `json:"available,omitempty"`
}
