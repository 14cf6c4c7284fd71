package tenure

import (
	"context"

	"meridian.dev/meridian/internal/wire"
)

// Engine is what the server and its copy of the data say of themselves, as of a moment not long ago.
type Engine struct {
	// Known says that there are facts at all. Nothing below holds without it.
	Known bool `json:"known,omitempty"`
	// At is when they were read, 0 if that is not told. What stays true (a flushed position, an end) may be old; what
	// changes (who takes the log, whether the server writes) is not decided on when it is.
	At Instant `json:"at,omitempty"`
	// Obeyed is the serial number of the standing that these facts were made under.
	Obeyed uint64 `json:"obeyed,omitempty"`
	Data   Data   `json:"data"`
	// Incarnation and SystemIdentifier identify the copy, empty if there is none.
	Incarnation      string `json:"incarnation,omitempty"`
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	// First is the timeline of a first copy that is complete and was not told to lead yet, 0 if there is none. One that
	// was restored lies above those of what it comes from.
	First int `json:"first,omitempty"`
	// Processes says that any process of the server lives.
	Processes bool `json:"processes,omitempty"`
	// Leading tells of the server that runs as a primary, nil if none does.
	Leading *Leading `json:"leading,omitempty"`
	// Streams says that the server takes the log of the holder it was told to follow, and Lag how many bytes it lacks.
	Streams bool   `json:"streams,omitempty"`
	Lag     uint64 `json:"lag,omitempty"`
	// Stuck says that the holder does not have the WAL any more that this copy needs. The copy is replaced only when
	// others have what it has, so they are asked how far they have come.
	Stuck bool `json:"stuck,omitempty"`
	// Flushed is how far the copy has come, nil while that is not known (I3). It moves: only a fence makes it an answer.
	Flushed *Position `json:"flushed,omitempty"`
	// Final is where a server ended that was told to yield: the end of the last record, with no process left.
	Final *Position `json:"final,omitempty"`
	// CannotLead says why this copy shall not lead now: a full disk, a promotion that failed. Empty if it can.
	CannotLead string `json:"cannotLead,omitempty"`
	// Lost is the copy that was here in this life of the pod and is gone for certain, empty if none is. Only a server that
	// keeps its data in memory has one.
	Lost string `json:"lost,omitempty"`
	// Hung says that the server as a primary does not write any more although its process lives.
	Hung bool `json:"hung,omitempty"`
	// Probed is when that was known last, if it is known apart from the rest: a loop that waits for a disk that stands
	// still looks at nothing. 0 if it is as old as the rest.
	Probed Instant `json:"probed,omitempty"`
	// Emptied is the last request to empty the data that the server has carried out as a primary, nil if none was. Only a
	// server that keeps its data in memory has one.
	Emptied *wire.Emptied `json:"emptied,omitempty"`
	// Use is how full the volume is, in percent, 100 for one that takes no more; 0 while that is not known. Nothing about
	// who leads is decided by it: it is passed on.
	Use int `json:"use,omitempty"`
}

// Data is how much of a copy there is.
type Data string

// How much there is.
const (
	// DataUnknown is before the volume was looked at, and when it cannot be read.
	DataUnknown Data = ""
	// DataNone is an empty volume, or one with the beginnings of a copy that never served anybody. A first copy that is
	// complete and was not told to lead or follow yet is this too, with its Incarnation and SystemIdentifier.
	DataNone Data = "none"
	// DataWhole is a copy that can be started.
	DataWhole Data = "whole"
	// DataChanging is a copy that is being rewound, or was when the agent ended (I2).
	DataChanging Data = "changing"
	// DataPutBack is a copy that may be an older state of the one that was here: it has come back from somewhere else. It
	// is no member, whatever it was, and has no Incarnation (I1).
	DataPutBack Data = "put back"
)

// Leading is a server that runs as a primary.
type Leading struct {
	Term     int64 `json:"term"`
	Timeline int   `json:"timeline"`
	// Start identifies this start of the server: after each one the gate is closed (G1).
	Start string `json:"start"`
	// Recovered is where recovery ended, Flushed where the log ends now.
	Recovered uint64 `json:"recovered"`
	Flushed   uint64 `json:"flushed"`
	// Setting is the quorum that is in force, as every sender of the log has it (B1); nil while it is not sure.
	Setting *Setting `json:"setting,omitempty"`
	// Barrier is where the log ended when Setting was first sure: what an older setting acknowledged ends there.
	Barrier uint64 `json:"barrier,omitempty"`
	// Replicas are those that take the log.
	Replicas []Replica `json:"replicas,omitempty"`
	// Open says that applications are let in.
	Open bool `json:"open,omitempty"`
	// Prepared is the Prepare of the standing that the server is ready for, 0 if it is not.
	Prepared Instant `json:"prepared,omitempty"`
}

// Setting is the quorum that the server waits for: K of the named members have each acknowledged write, besides the
// server itself.
type Setting struct {
	Names []wire.Member `json:"names,omitempty"`
	K     int           `json:"k"`
}

// Replica is one that takes the log of a primary.
type Replica struct {
	Member wire.Member `json:"member"`
	// Flushed is how far it has stored the log of this timeline.
	Flushed uint64 `json:"flushed"`
	// Near says that it streams and lacks little.
	Near bool `json:"near,omitempty"`
}

// Role is what an instance is told to be.
type Role string

// The roles.
const (
	// RoleIdle runs, if there is data, without a primary: it takes nothing and gives nothing.
	RoleIdle Role = "Idle"
	// RoleBegin makes the first data of a database, and serves nobody.
	RoleBegin Role = "Begin"
	// RoleFollow takes the log of a primary, after a clone or a rewind if need be.
	RoleFollow Role = "Follow"
	// RoleCatchUp takes the log of a fenced member up to its position, in the middle of an election.
	RoleCatchUp Role = "CatchUp"
	// RoleLead is the primary.
	RoleLead Role = "Lead"
	// RoleYield lets nobody in and stops.
	RoleYield Role = "Yield"
)

// Standing is what the engine shall be. It is a whole: what it does not say is not so.
type Standing struct {
	// Serial grows with each change. Whoever acts by an older one is refused.
	Serial uint64 `json:"serial"`
	Role   Role   `json:"role"`
	// Term is the term that this is about.
	Term int64 `json:"term,omitempty"`
	// Timeline is the one to lead on, exactly (T1), or that the holder leads on.
	Timeline int `json:"timeline,omitempty"`
	// Upstream is whom to take the log from, and UpstreamAddress where that is.
	Upstream        wire.Member `json:"upstream,omitzero"`
	UpstreamAddress string      `json:"upstreamAddress,omitempty"`
	// Until is how far to catch up.
	Until *Position `json:"until,omitempty"`
	// Incarnation is the id of the copy to begin.
	Incarnation string `json:"incarnation,omitempty"`
	// Initialised and SystemIdentifier are those of the record: a copy of anything else is not this database.
	Initialised      bool   `json:"initialised,omitempty"`
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	// Members are the recorded ones. Their place in the log is kept for them.
	Members []wire.Member `json:"members,omitempty"`
	// W is how many copies an acknowledged write has at least, by the record; 0 if that is not known.
	W int `json:"w,omitempty"`
	// Setting is the quorum to put in force. A server that leads has it in its files before it starts (Q2).
	Setting Setting `json:"setting,omitzero"`
	// OpenStart is the start of a primary that applications are let in to (G1). Another start of the server, even under
	// the same standing, lets nobody in.
	OpenStart string `json:"openStart,omitempty"`
	// Prepare tells a primary that goes on serving to make its stop short, because it will soon be told to yield; it is
	// since when, 0 if it will not.
	Prepare Instant `json:"prepare,omitempty"`
	// OpenReads lets applications in to a replica: no write address leads to it.
	OpenReads bool `json:"openReads,omitempty"`
	// Emptied is the last request to empty the data that is recorded, by its id.
	Emptied string `json:"emptied,omitempty"`
	// Down says that no server is to be started: the place is being given back, and that ends with the last process.
	Down bool `json:"down,omitempty"`
}

// Server is the engine as the loop uses it. None of its methods but Fence takes long, and Fence takes a second at most.
type Server interface {
	// Facts returns the latest facts.
	Facts() Engine
	// Obey tells the server what to be from now on. From its return on nothing is done by an older standing.
	Obey(Standing)
	// Fence cuts the server off from every primary, proves it, and only then reads the position (F1). It fails rather
	// than to answer without proof. The fence is on the volume before.
	Fence(ctx context.Context) (Position, error)
	// Kill ends every process of the server at once.
	Kill()
}

// Authority is what the loop of the server may ask in return, right before an act that cannot be taken back.
type Authority interface {
	// MayLead returns nil if a server may lead under the standing with this serial number: it is the present one, the
	// right to lead holds, and the watchdog knows until when (C2, C3).
	MayLead(serial uint64) error
	// Confirm returns nil if a consistent read of the lease, begun now, shows the holder and the term of the standing
	// with this serial number (I2).
	Confirm(ctx context.Context, serial uint64) error
	// Exclude runs the act unless the standing with this serial number is not the present one any more. While it runs,
	// the standing does not change and no fence begins: only short acts belong here.
	Exclude(serial uint64, act func() error) error
	// Places returns how far other members have come, by what they have told a moment ago. It may be asked at any time.
	Places() []Place
}
