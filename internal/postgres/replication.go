package postgres

import (
	"errors"
	"fmt"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Replication is what a server takes from and gives to others.
type Replication struct {
	// Receiving says that a replica has a receiver that streams. Received is how far the log is flushed, Replayed how far
	// it is replayed, Ahead where the sender was when it last told. They are 0 while unknown.
	Receiving bool   `json:"receiving,omitempty"`
	Received  uint64 `json:"received,omitempty"`
	Replayed  uint64 `json:"replayed,omitempty"`
	Ahead     uint64 `json:"ahead,omitempty"`
	// Age is how old the last replayed transaction is, and means something while there is more to replay.
	Age time.Duration `json:"age,omitempty"`
	// Flushed is how far a primary has flushed its log.
	Flushed uint64 `json:"flushed,omitempty"`
	// Twin is since when the segment that a primary writes was seen to be there for an earlier timeline too; zero if it
	// is not.
	Twin time.Time `json:"twin,omitzero"`
	// Recovered is where its recovery had ended, or a little later.
	Recovered uint64 `json:"recovered,omitempty"`
	// Led is since when this start of a primary was seen to lead.
	Led time.Time `json:"led,omitzero"`
	// Senders are those that send the log.
	Senders []Sender `json:"senders,omitempty"`
	// Slots are the places that are kept for others, Busy those that are in use.
	Slots []string `json:"slots,omitempty"`
	Busy  []string `json:"busy,omitempty"`
	// Lost are the slots whose log is not kept any more. Since is where the log of each of the others begins.
	Lost  []string          `json:"lost,omitempty"`
	Since map[string]uint64 `json:"since,omitempty"`
	// Holding are the slots that hold an xmin: vacuum removes no row that was visible then.
	Holding []string `json:"holding,omitempty"`
	// Idle is how long each slot was seen to be used by nobody. Former are those of members that are none any more.
	Idle   map[string]time.Duration `json:"idle,omitempty"`
	Former []string                 `json:"former,omitempty"`
	// Place is how far the copy of a replica has come, nil while unknown.
	Place *tenure.Position `json:"place,omitempty"`
	// Strayed is a timeline that a replica has gone over to, or will, and that is no part of the history of its upstream,
	// although the copy has no record of it; of one that is to lead, such a one that does not begin where the copy ends;
	// 0 if there is none.
	Strayed int `json:"strayed,omitempty"`
	// Roles says that the roles of the agents exist.
	Roles bool `json:"roles,omitempty"`
	// Sessions counts those of applications.
	Sessions int `json:"sessions,omitempty"`
	// Names is synchronous_standby_names as a new session has shown it, and Loaded when it had, on the clock since boot:
	// whatever process was begun later has it from its first moment. The server tells when it was loaded by the wall
	// clock, which can be set.
	Names  string         `json:"names,omitempty"`
	Loaded tenure.Instant `json:"loaded,omitempty"`
}

// Sender is one session that sends the log.
type Sender struct {
	PID    int         `json:"pid"`
	Member wire.Member `json:"member"`
	// Joining says that this copy has no place here yet, and does not count (B2).
	Joining bool `json:"joining,omitempty"`
	// Timeline is the one that its name tells, 0 if it tells none: for that it was judged (B3).
	Timeline int    `json:"timeline,omitempty"`
	Stream   bool   `json:"stream,omitempty"`
	Flushed  uint64 `json:"flushed,omitempty"`
	Priority int    `json:"priority,omitempty"`
	// Began is when its process was begun, on the clock since boot, or a little earlier; 0 if that is not known.
	Began tenure.Instant `json:"began,omitempty"`
}

// Counts says that it goes by a name that the primary of a timeline waits for, if it is a member.
func (s Sender) Counts(timeline int) bool {
	return !s.Joining && (s.Timeline == 0 || s.Timeline == timeline)
}

// Near is how many bytes a replica may lack and still count as near.
const Near = 16 << 20

// Upstream is what another server says of itself.
type Upstream struct {
	// Of is whom it was asked of, and Term the term that it led then. Nothing else holds for another one.
	Of   wire.Member `json:"of,omitzero"`
	Term int64       `json:"term,omitempty"`
	// Known says that there was an answer, Problem why not.
	Known   bool   `json:"known,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Leads says that it writes a log of its own, and is no replica.
	Leads bool `json:"leads,omitempty"`
	// ByTimeline says that it counts members by names that tell its timeline.
	ByTimeline       bool    `json:"byTimeline,omitempty"`
	SystemIdentifier string  `json:"systemIdentifier,omitempty"`
	LSN              uint64  `json:"lsn,omitempty"`
	History          History `json:"history,omitempty"`
	// Open says that it has let applications in: enough others have all that it began with (G1). One that cannot tell says
	// so as well.
	Open bool `json:"open,omitempty"`
	// Since is when it first told that it leads in this term.
	Since time.Time `json:"since,omitzero"`
	// At is when it was asked.
	At time.Time `json:"at,omitzero"`
}

// Positions are those up to which other instances have the WAL of an upstream.
type Positions struct {
	// Of is whom it was asked of, and Term the term that it led then. Nothing else holds for another one.
	Of   wire.Member `json:"of,omitzero"`
	Term int64       `json:"term,omitempty"`
	// LSN is how far the upstream itself had come, Slots how far the replicas had that streamed from it, by their slots.
	LSN   uint64            `json:"lsn,omitempty"`
	Slots map[string]uint64 `json:"slots,omitempty"`
	// Gone is the end of the WAL that this copy asked for and that the upstream does not have any more, by the server's
	// own answer to an attempt to stream it; 0 if it was not asked, or has it. WAL that is removed does not come back.
	Gone uint64 `json:"gone,omitempty"`
	// At is when it was asked.
	At time.Time `json:"at,omitzero"`
}

// Quorum is how far the wished quorum has come into force (B1).
type Quorum struct {
	// Setting is the one in force, for certain; nil while none is.
	Setting *tenure.Setting `json:"setting,omitempty"`
	// Barrier is where the log ended when that was certain: what an earlier one acknowledged ends there.
	Barrier uint64 `json:"barrier,omitempty"`
	// Replace are the senders that may still go by an earlier one.
	Replace []int `json:"replace,omitempty"`
	// Checkpoint says that one is needed, so that sessions learn of the first quorum.
	Checkpoint bool `json:"checkpoint,omitempty"`
}

// JobKind is what a job does.
type JobKind string

// The jobs.
const (
	JobClone      JobKind = "clone"
	JobRewind     JobKind = "rewind"
	JobDiscard    JobKind = "discard"
	JobStop       JobKind = "stop"
	JobCheckpoint JobKind = "checkpoint"
	JobExtension  JobKind = "extension"
	JobAsk        JobKind = "ask"
	JobDrain      JobKind = "drain"
	JobPositions  JobKind = "positions"
	// JobRestore makes the first data out of a repository of backups.
	JobRestore JobKind = "restore"
)

// ErrEarly is of a rewind that did nothing: pg_rewind 15 goes by the last checkpoints, and takes the new primary to be
// on an earlier timeline until that has written the first one of its own.
var ErrEarly = errors.New("pg_rewind can do nothing before the first checkpoint of the primary's timeline")

// ErrVain is of a rewind that did nothing although its source was ready.
var ErrVain = errors.New("pg_rewind takes the copy to be a part of the primary's history, although its WAL is not")

// Job is something that takes long.
type Job struct {
	Kind JobKind `json:"kind"`
	// For is what it was begun for: it is given up when that is not wanted any more.
	For     string `json:"for,omitempty"`
	Running bool   `json:"running,omitempty"`
	// Problem is why the last one failed, Failures how many did in a row, Ended when the last one did.
	Problem  string `json:"problem,omitempty"`
	Failures int    `json:"failures,omitempty"`
	// Early says that it did nothing, because something was not ready that will be, and Vain that nothing was the matter.
	Early bool      `json:"early,omitempty"`
	Vain  bool      `json:"vain,omitempty"`
	Ended time.Time `json:"ended,omitzero"`
	// NotYet says that the last one failed before it began, because its source did not let it in.
	NotYet bool `json:"notYet,omitempty"`
	// Refused says of a restore that only a change of what is asked for, of the mounted keys or of the repository helps,
	// and Outside that this is the target. Step is what it does now, with why it waits.
	Refused bool   `json:"refused,omitempty"`
	Outside bool   `json:"outside,omitempty"`
	Step    string `json:"step,omitempty"`
	// Began is when the present or last one began, Done and Total are bytes, of a clone.
	Began time.Time `json:"began,omitzero"`
	Done  int64     `json:"done,omitempty"`
	Total int64     `json:"total,omitempty"`
	// LSN is where the WAL of the sessions ended that a drain has ended: it is flushed up to there.
	LSN uint64 `json:"lsn,omitempty"`
}

// Essence is what a long act under a standing is about: it goes on as long as this stays the same, whatever else of the
// standing changes.
func Essence(standing tenure.Standing) string {
	return fmt.Sprintf("%s %d %s", standing.Role, standing.Term, standing.Upstream)
}

// JobOf returns the job of a kind, or one that was never begun.
func (s Snapshot) JobOf(kind JobKind) Job {
	for _, job := range s.Jobs {
		if job.Kind == kind {
			return job
		}
	}
	return Job{Kind: kind}
}

// Parting is what the checkpoint is for that is written before this start of the server gives its place away.
func (s Snapshot) Parting() string {
	return fmt.Sprintf("yield %s %s", s.Process.Start, s.Standing.Prepare)
}

// Prepared is the Prepare of the standing if the server is ready to stop, 0 if it is not. A checkpoint that failed is
// not tried again: the stop writes what is left.
func (s Snapshot) Prepared() tenure.Instant {
	if checkpoint := s.JobOf(JobCheckpoint); checkpoint.Running || checkpoint.For != s.Parting() {
		return 0
	}
	return s.Standing.Prepare
}

// Primary says that a server runs that is a primary or is about to be.
func (s Snapshot) Primary() bool { return s.Process.Running && !s.Data.Standby }

// KnownStart is LeadingStart, or what it was when the server last answered: one that is slow for a moment is the same.
func (s Snapshot) KnownStart() string {
	if start := s.LeadingStart(); start != "" || s.Server.Reachable || !s.Primary() {
		return start
	}
	return s.Remembered
}

// LeadingStart identifies the start of a primary, empty if none can be spoken with: a promotion is one as well.
func (s Snapshot) LeadingStart() string {
	if !s.Process.Running || !s.Server.Reachable || s.Server.Replica {
		return ""
	}
	return fmt.Sprintf("%s-%d", s.Process.Start, s.Server.Timeline)
}
