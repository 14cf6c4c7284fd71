package postgres

import (
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Snapshot is everything that one pass knows. It holds no secret: passwords and keys are compared where they are read,
// and only the result is a fact.
type Snapshot struct {
	Now      time.Time `json:"now"`
	Instance string    `json:"instance"`
	// Runtime is the folder of the socket and of the certificate's copy.
	Runtime string `json:"runtime"`
	// Database is the name of the GeoDatabase. Listen and Port are where the server listens, if not everywhere and at
	// the usual port.
	Database string `json:"database,omitempty"`
	Listen   string `json:"listen,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	// Stopping says that the pod was told to end.
	Stopping bool `json:"stopping,omitempty"`

	// Standing is what the instance is told to be.
	Standing tenure.Standing `json:"standing,omitzero"`
	// Fenced is the highest serial number of a standing by which this instance takes nothing from a primary any more
	// (F1).
	Fenced uint64 `json:"fenced,omitempty"`

	Settings    Settings    `json:"settings"`
	Programs    Programs    `json:"programs"`
	Volume      Volume      `json:"volume"`
	Data        Data        `json:"data"`
	Files       []File      `json:"files,omitempty"`
	Certificate Certificate `json:"certificate"`
	Process     Process     `json:"process"`
	Server      Server      `json:"server"`
	Application Application `json:"application"`
	// Upstream is what the instance that is to be followed says of itself.
	Upstream Upstream `json:"upstream,omitzero"`
	// Positions is what the upstream last said of how far the others are.
	Positions Positions `json:"positions,omitzero"`
	// Places are how far other members have come, by what their agents told a moment ago of copies that are whole.
	Places []tenure.Place `json:"places,omitempty"`
	// Quorum is how far the wished quorum has come into force.
	Quorum Quorum `json:"quorum,omitzero"`
	// Jobs are what takes long and goes on beside the passes.
	Jobs []Job `json:"jobs,omitempty"`
	// Trouble is what keeps this copy from leading, empty if nothing does: it stays until the agent ends or is told of
	// another term.
	Trouble string `json:"trouble,omitempty"`
	// Promoting says that this start of the server was told to become a primary.
	Promoting bool `json:"promoting,omitempty"`
	// Rewinding is what this process wrote the marker of a rewind for, empty if it did not: a rewind that an earlier one
	// began may have left anything.
	Rewinding string `json:"rewinding,omitempty"`
	// Marked is when it wrote that: a rewind of before is not the one that the marker is for.
	Marked time.Time `json:"marked,omitzero"`
	// Remembered is the start of the primary that this process was when it last answered, empty if it was none.
	Remembered string `json:"remembered,omitempty"`
	// Asked is since when this start of the server has wanted to give its place away for a restart, zero if it has not.
	Asked time.Time `json:"asked,omitzero"`
	// AskedLast is when it last said so.
	AskedLast time.Time `json:"askedLast,omitzero"`
	// Foreign is what a member has told this start of a primary of WAL that the primary does not have, empty if none has:
	// a position of another timeline was counted as flushed (B3).
	Foreign string `json:"foreign,omitempty"`
	// Repository is what is known of the repository of backups.
	Repository Repository `json:"repository,omitzero"`
	// Hung says that the server, as a primary, did not write for several seconds.
	Hung bool `json:"hung,omitempty"`
}

// Repository is what is known of the repository of backups.
type Repository struct {
	// Kept says that there is one: WAL is kept for it.
	Kept bool `json:"kept,omitempty"`
	// Confirmed is up to where it has the WAL of this primary, 0 while that is not known.
	Confirmed uint64 `json:"confirmed,omitempty"`
	// Unshipped says that this copy may have WAL that the repository lacks, and that it is worth to wait (K4).
	Unshipped bool `json:"unshipped,omitempty"`
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
	// Libraries are those of wire.Preloadable that the image has.
	Libraries []string `json:"libraries,omitempty"`
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
	// Log is the volume of the log, nil if the log lies with the data.
	Log *LogVolume `json:"log,omitempty"`
	// Room is how much there is.
	Room Room `json:"room,omitzero"`
	// Claim is what the API server says of the claim that the volume came with.
	Claim Claim `json:"claim,omitzero"`
}

// LogVolume is a volume of its own for the log. What lies there must be the log of the copy beside it (V7).
type LogVolume struct {
	// DatabaseUID and Incarnation are the copy whose log it was made for, empty if it is for none yet.
	DatabaseUID string `json:"databaseUID,omitempty"`
	Incarnation string `json:"incarnation,omitempty"`
	// Stray says that there is a log without a word of whose it is.
	Stray bool `json:"stray,omitempty"`
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
	// Timeline is the highest that the control file tells of.
	Timeline int `json:"timeline,omitempty"`
	// Checkpointed is the timeline of the last checkpoint, 0 if it is not known.
	Checkpointed int `json:"checkpointed,omitempty"`
	// Standby says that a server would start as a replica.
	Standby bool `json:"standby,omitempty"`
	// End is how far the copy has come, by its log: known while no server runs.
	End *tenure.Position `json:"end,omitempty"`
	// Consistent is how much of the log a server must have replayed before it can let anybody in, by the control file, and
	// Short says that this copy has less, and that no server has come so far since.
	Consistent uint64 `json:"consistent,omitempty"`
	Short      bool   `json:"short,omitempty"`
	// Floors are what a replica must have at least of some parameters, by what its primary had.
	Floors []Floor `json:"floors,omitempty"`
	// State is PostgreSQL's own word, such as "shut down" or "in production".
	State string `json:"state,omitempty"`
	// PIDFile says that there is a postmaster.pid, or the lock of a socket, which says the same.
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
	// Lent are the names under which it is lent to the server to take the log of another. A new pod has none, whatever is
	// on the volume.
	Lent []string `json:"lent,omitempty"`
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
	// Start identifies this start of the server.
	Start string `json:"start,omitempty"`
	// Restart is the token of the settings that it was started by, empty if there was none.
	Restart string `json:"restart,omitempty"`
	// Lost says that the server's log tells that the upstream does not have the WAL any more that this server needs. It is
	// a reason to ask the upstream, and no proof: tenants have a part in the text. LostAtStart says that it was told
	// before any session was let in, which is proof.
	Lost        bool `json:"lost,omitempty"`
	LostAtStart bool `json:"lostAtStart,omitempty"`
	// Consistent says that the server which runs has replayed all that its copy needs to be one. It may let nobody in yet.
	Consistent bool `json:"consistent,omitempty"`
	// LetsIn says that the server has told that it lets sessions in.
	LetsIn bool `json:"letsIn,omitempty"`
	// Silent is for how long the server of a replica has been consistent and has not let anybody in yet: a snapshot of its
	// primary does not name all subtransactions, and only more WAL, or a promotion, ends that.
	Silent time.Duration `json:"silent,omitempty"`
	// CancelledWaits counts commits that are on this server and may be on no other, because their wait for replicas was
	// cancelled, since the agent began.
	CancelledWaits int64 `json:"cancelledWaits,omitempty"`
	// Complaints are what the first process of the server wrote before it opened its doors, at level LOG or FATAL. No
	// tenant can have written them.
	Complaints []string `json:"complaints,omitempty"`
}

// Pauses between starts of a server that ends by itself: the first is immediate, each next twice as long.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// Pause is how long a server that ended by itself is not started again.
func (p Process) Pause() time.Duration {
	length := firstPause
	for failures := p.Failures; failures > 2 && length < longestPause; failures-- {
		length *= 2
	}
	return min(length, longestPause)
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
	// Proven is the mark that a new session shows, which knows what the first process has loaded, with rules of access.
	Proven string `json:"proven,omitempty"`
	// Open says that these rules let applications in.
	Open bool `json:"open,omitempty"`
	// Replication is what it takes from and gives to other servers.
	Replication Replication `json:"replication,omitzero"`
	// Full says that the configuration in force is that of a full volume.
	Full bool `json:"full,omitempty"`
	// Parameters are those of the file, as far as they are not in force, sorted by name. Compared is the mark of the
	// configuration that they were looked up for, empty if they were not.
	Parameters []Parameter `json:"parameters,omitempty"`
	Compared   string      `json:"compared,omitempty"`
	// Own are the values in force of the parameters that a replica must have at least as high as its primary.
	Own []Floor `json:"own,omitempty"`
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
	// Role says that the owner role is there.
	Role bool `json:"role,omitempty"`
	// Login and PasswordMatches say that the login that is mounted is let in, as the owner, with its password; LoginName
	// is its name, empty for the owner itself, and Rotation its number.
	Login           bool   `json:"login,omitempty"`
	PasswordMatches bool   `json:"passwordMatches,omitempty"`
	LoginName       string `json:"loginName,omitempty"`
	Rotation        int64  `json:"rotation,omitempty"`
	// Next is the login that is made ready, nil if none is.
	Next *NextLogin `json:"next,omitempty"`
	// NotedRotation is the highest that the server was told of: what is mounted may be older.
	NotedRotation int64 `json:"notedRotation,omitempty"`
	Database      bool  `json:"database,omitempty"`
	// Owner is who owns the database.
	Owner string `json:"owner,omitempty"`
	// Extensions are those that exist in the database or could, sorted by name.
	Extensions []Extension `json:"extensions,omitempty"`
	// Libraries are those that the data depends on, with another version than when it was written.
	Libraries []wire.Library `json:"libraries,omitempty"`
	// Versions are those of libraries now, such as "geos=3.11.1 proj=9.1.1", empty without PostGIS; Noted are those that
	// the database was noted to be written with, empty if none were.
	Versions string `json:"versions,omitempty"`
	Noted    string `json:"noted,omitempty"`
}

// NextLogin is a login that is made ready.
type NextLogin struct {
	// Name is empty for the owner itself.
	Name     string `json:"name,omitempty"`
	Rotation int64  `json:"rotation"`
	// Set says that the server knows it with its password, Works that it was let in when it was tried, or that this is a
	// replica, where the server of the primary was tried.
	Set   bool `json:"set,omitempty"`
	Works bool `json:"works,omitempty"`
	// Problem says why it was not let in.
	Problem string `json:"problem,omitempty"`
}

// Parameter is one of the file that is not in force.
type Parameter struct {
	Name string `json:"name"`
	// Current is what is in force, Wanted what the file says.
	Current string `json:"current,omitempty"`
	Wanted  string `json:"wanted,omitempty"`
	// Pending says that it waits for a restart. Otherwise something else has set it.
	Pending bool `json:"pending,omitempty"`
}

// Extension is one in the application's database.
type Extension struct {
	Name string `json:"name"`
	// Installed is its version, empty if it does not exist; Available the one that the image brings, empty if none.
	Installed string `json:"installed,omitempty"`
	Available string `json:"available,omitempty"`
	// Foreign is the role that owns it, if that is no superuser.
	Foreign string `json:"foreign,omitempty"`
	// Closed says that it has brought something of which nobody has said yet who may read it.
	Closed bool `json:"closed,omitempty"`
}
