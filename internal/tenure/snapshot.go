package tenure

import (
	"cmp"
	"fmt"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// Instant is a moment on the clock that goes on while the machine sleeps and that nobody can set: the time since the
// machine was booted (C1).
type Instant time.Duration

// Add returns the moment that is so much later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d) }

// Since returns how long ago the other moment was.
func (i Instant) Since(other Instant) time.Duration { return time.Duration(i - other) }

// String is the moment as a duration.
func (i Instant) String() string { return time.Duration(i).String() }

// Position is how far a copy has come: the timeline of the last record that is flushed, and where it ends (I3).
type Position struct {
	Timeline int    `json:"timeline"`
	LSN      uint64 `json:"lsn"`
}

// Compare orders positions. A later timeline was begun by a later term, which has all that was acknowledged before:
// what an earlier timeline has beyond that was never acknowledged.
func (p Position) Compare(other Position) int {
	return cmp.Or(cmp.Compare(p.Timeline, other.Timeline), cmp.Compare(p.LSN, other.LSN))
}

// String is such as 2:0/15D5A30.
func (p Position) String() string {
	return fmt.Sprintf("%d:%X/%X", p.Timeline, p.LSN>>32, uint32(p.LSN))
}

// Snapshot is everything that one pass knows.
type Snapshot struct {
	Now Instant `json:"now"`
	// Boot identifies the boot of the machine that Now counts from.
	Boot string `json:"boot"`
	// Jumps are the jumps of the wall clock against the clock of Now.
	Jumps Jumps `json:"jumps,omitempty"`
	// Name is this instance, Address where its peers reach its server.
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	// DatabaseUID is the database that the pod belongs to.
	DatabaseUID string `json:"databaseUID"`
	// Fresh is a random id, another one in each pass, for what is to be made new.
	Fresh string `json:"fresh,omitempty"`
	// Stopping says that the pod was told to end.
	Stopping bool `json:"stopping,omitempty"`

	Policy Policy `json:"policy"`
	// Stored is what is on the volume; Problem says why it cannot be read, and nothing is done then.
	Stored  Stored `json:"stored"`
	Problem string `json:"problem,omitempty"`
	Engine  Engine `json:"engine"`
	// Inbox are requests of peers that wait for a reply, in order.
	Inbox []Request `json:"inbox,omitempty"`
	// Callers have asked for a switchover and wait for the verdict, in order.
	Callers []Caller `json:"callers,omitempty"`
	// Guard is the watchdog.
	Guard  Guard `json:"guard"`
	Memory `json:",inline"`
}

// Policy is what the operator wants.
type Policy struct {
	// Known says that the settings could be read. Without them nothing is begun.
	Known bool `json:"known"`
	// LeaseUID is the lease that the operator made for this database.
	LeaseUID string `json:"leaseUID,omitempty"`
	// Initialised says that the operator knows of data.
	Initialised bool `json:"initialised,omitempty"`
	// Durability is Strict, Available or Async.
	Durability Durability `json:"durability"`
	// Volatile says that the data is worth no wait: when every copy is lost, an empty one is begun.
	Volatile bool `json:"volatile,omitempty"`
	// Instances are the names that shall be members.
	Instances []string `json:"instances,omitempty"`
	// Duration is how long the lease lasts, Renew the time between renewals, and Margin what the holder stays below the
	// duration, so that its server is dead when the lease ends.
	Duration time.Duration `json:"duration"`
	Renew    time.Duration `json:"renew"`
	Margin   time.Duration `json:"margin"`
	// MaxFailoverLag bounds what an election may lose in the mode Async, in bytes.
	MaxFailoverLag uint64 `json:"maxFailoverLag,omitempty"`
}

// The longest times of a lease that lasts long.
const (
	longestRenew  = 2 * time.Second
	longestMargin = 2 * time.Second
)

// For makes the policy that of a lease of this duration.
func (p Policy) For(duration time.Duration) Policy {
	p.Duration, p.Renew, p.Margin = duration, min(longestRenew, duration/5), min(longestMargin, duration/5)
	p.Margin = p.below(duration)
	return p
}

// below is what a holder stays below the end of a lease that lasts so long.
func (p Policy) below(duration time.Duration) time.Duration {
	if p.Volatile {
		return duration / 4
	}
	return p.Margin
}

// Head is how long before the end of a lease that lasts so long it counts as ended for the others, if its holder is
// silent. Between the end of a holder's server and the first election lies the whole margin for data that must not be
// lost. Where it may be, a tenth of the duration does, because clocks do not differ by as much: applications have the
// next primary when the lease ends, and not some time after that.
func (p Policy) Head(duration time.Duration) time.Duration {
	if p.Volatile {
		return p.below(duration) - duration/10
	}
	return 0
}

// Durability is what an acknowledged write is worth.
type Durability string

// The modes.
const (
	Strict    Durability = "Strict"
	Available Durability = "Available"
	Async     Durability = "Async"
)

// Lease is the lease as this instance last saw it.
type Lease struct {
	// Known says that it was read in this life of the agent; Exists that there is one.
	Known  bool `json:"known,omitempty"`
	Exists bool `json:"exists,omitempty"`
	// UID and Version are those of the object.
	UID     string `json:"uid,omitempty"`
	Version string `json:"version,omitempty"`
	// Holder is empty if nobody holds it, Record nil if nobody ever did.
	Holder wire.Member       `json:"holder,omitzero"`
	Term   int64             `json:"term,omitempty"`
	Record *wire.LeaseRecord `json:"record,omitempty"`
	// Problem says why the record cannot be understood.
	Problem string `json:"problem,omitempty"`
	// Succeeds is the lease whose place this one was made for, Before are those that were lost before that one, and
	// GivenUp are copies that a user has given up.
	Succeeds string        `json:"succeeds,omitempty"`
	Before   []string      `json:"before,omitempty"`
	GivenUp  []wire.Member `json:"givenUp,omitempty"`
	// Duration is how long the lease lasts without a renewal, as its holder has written.
	Duration time.Duration `json:"duration,omitempty"`
	// Changed is when this version was seen first.
	Changed Instant `json:"changed,omitempty"`
	// Read is when the last consistent read began that returned this version. Zero: none did.
	Read Instant `json:"read,omitempty"`
	// Vouched says that the holder, which wrote it, has told of this version.
	Vouched bool `json:"vouched,omitempty"`
	// Failing is since when the API server does not answer, nil if it does.
	Failing *Instant `json:"failing,omitempty"`
	// Stale is when there was a sign that the lease is not like this any more: a consistent read is due. 0: none was.
	Stale Instant `json:"stale,omitempty"`
}

// Right is what the right to lead comes from, in this life of the agent. See Snapshot.Deadline.
type Right struct {
	// Term is for which term, 0 if there is none.
	Term int64 `json:"term,omitempty"`
	// Renewed is when the last successful write of the lease began, Duration how long the lease lasts by that write.
	Renewed  Instant       `json:"renewed,omitempty"`
	Duration time.Duration `json:"duration,omitempty"`
}

// Write is a write of the lease that was begun.
type Write struct {
	Kind WriteKind `json:"kind"`
	// Version is the version that the write demands.
	Version string           `json:"version"`
	Holder  wire.Member      `json:"holder,omitzero"`
	Record  wire.LeaseRecord `json:"record"`
	// Duration is how long the lease lasts by it.
	Duration time.Duration `json:"duration"`
	Started  Instant       `json:"started"`
	// Ended is when it was given up without an answer: it may have been done or not, or may still be done. It is in
	// doubt until the lease has another version.
	Ended Instant `json:"ended,omitempty"`
}

// WriteKind is what a write of the lease is for.
type WriteKind string

// The writes of the lease.
const (
	WriteBegin    WriteKind = "Begin"    // The first holder, of a database that has no data.
	WriteTake     WriteKind = "Take"     // E4: an election was won.
	WriteRenew    WriteKind = "Renew"    // The holder stays.
	WriteRecord   WriteKind = "Record"   // Q1: the holder changes the record.
	WriteJoin     WriteKind = "Join"     // V7: a copy that is no member takes the lease, because no member has one.
	WriteTransfer WriteKind = "Transfer" // The holder gives the lease to a member that has everything.
	WriteRelease  WriteKind = "Release"  // The holder gives the lease back.
	WriteSucceed  WriteKind = "Succeed"  // O1: the living holder writes a lost lease anew.
	WriteRestore  WriteKind = "Restore"  // O2: an election without a lease was won.
)

// Route is the write address.
type Route struct {
	// Known says that it was read since this instance last led or started, and Seen when it was read or written last.
	Known bool    `json:"known,omitempty"`
	Seen  Instant `json:"seen,omitempty"`
	// Absent says that there is no such object.
	Absent bool `json:"absent,omitempty"`
	// Address is where it leads, empty if nowhere. Term is the term that wrote it.
	Address string `json:"address,omitempty"`
	Term    int64  `json:"term,omitempty"`
	// Writing says that a read or write of it is under way, and Tried when the last one began.
	Writing bool    `json:"writing,omitempty"`
	Tried   Instant `json:"tried,omitempty"`
	// Touched says that somebody may have changed it since the last one began.
	Touched bool `json:"touched,omitempty"`
}

// Begin notes that a read or write of it begins.
func (r *Route) Begin(now Instant) { r.Writing, r.Tried, r.Touched = true, now, false }

// Ushered is where a pod that ends leads those on who still come to it, and since when it does; To is empty if it does
// not.
type Ushered struct {
	To    string  `json:"to,omitempty"`
	Since Instant `json:"since,omitempty"`
}

// Labels are the labels of the own pod, by which the read address finds it.
type Labels struct {
	// Role is primary or replica, Read whether the read address leads here.
	Role string `json:"role,omitempty"`
	Read bool   `json:"read,omitempty"`
	// Cut is what the pod says of a holder that is not reached, a wire.CutOff, empty if it is.
	Cut string `json:"cut,omitempty"`
	// Use is what the pod says of how full its volume is, see wire.AnnotationVolumeUse.
	Use int `json:"use,omitempty"`
	// Known, Writing and Tried are as in Route.
	Known   bool    `json:"known,omitempty"`
	Writing bool    `json:"writing,omitempty"`
	Tried   Instant `json:"tried,omitempty"`
}

// Peer is another instance.
type Peer struct {
	Name string `json:"name"`
	// Address is where it was last heard from, empty if it never was: its name is resolved then.
	Address string `json:"address,omitempty"`
	// Told is the last term that it was told of by this instance.
	Told int64 `json:"told,omitempty"`
	// Heard is when anything was last heard from it.
	Heard Instant `json:"heard,omitempty"`
	// Term is the term of the lease, of this very one, that it has last told of.
	Term int64 `json:"term,omitempty"`
}

// Guard is the watchdog.
type Guard struct {
	Alive bool    `json:"alive,omitempty"`
	Until Instant `json:"until,omitempty"`
}

// Ballot is an election that this instance conducts. It is about exactly one version of the lease (E1).
type Ballot struct {
	LeaseUID string `json:"leaseUID"`
	Version  string `json:"version"`
	// Begun is when it was begun; Fencing since when answers are collected, nil while it only asks.
	Begun   Instant  `json:"begun"`
	Fencing *Instant `json:"fencing,omitempty"`
	// Willing are the members that would answer, this one included.
	Willing []wire.Member `json:"willing,omitempty"`
	// Answers are what was answered, this instance's own included.
	Answers []Answer `json:"answers,omitempty"`
}

// Answer is a member's answer to a ballot: it is fenced, and this is how far it has come.
type Answer struct {
	Member   wire.Member `json:"member"`
	Position Position    `json:"position"`
	// CannotLead says that the member will not take the lease itself.
	CannotLead bool `json:"cannotLead,omitempty"`
	// Address is where its server is reached.
	Address string `json:"address,omitempty"`
	// Records are those that the member knows, Held the last term that it held, Term the highest that it has seen, and
	// LeaseUID the lease that it has obeyed. They are told where the lease is lost.
	Records []wire.LeaseRecord `json:"records,omitempty"`
	Held    int64              `json:"held,omitempty"`
	Term    int64              `json:"term,omitempty"`

	LeaseUID string `json:"leaseUID,omitempty"`
}

// AnswerOf is the answer that a reply gives.
func AnswerOf(reply wire.PeerReply) Answer {
	return Answer{
		Member: reply.From, Position: Position{Timeline: reply.Timeline, LSN: reply.LSN}, CannotLead: reply.CannotLead,
		Address: reply.Address, Records: reply.Records, Held: reply.Held, Term: reply.Term,
		LeaseUID: reply.LeaseUID,
	}
}

// Promised is a promise that the holder was given.
type Promised struct {
	Member wire.Member `json:"member"`
	Term   int64       `json:"term"`
	// Sent is when it was asked for: the promise counts from then (C1). Duration is how long it was asked for.
	Sent     Instant       `json:"sent"`
	Duration time.Duration `json:"duration"`
}

// Place is where a member is whose copy is whole, told without a fence.
type Place struct {
	Member   wire.Member `json:"member"`
	Position Position    `json:"position"`
	// Term is the highest of this lease that the member knew then: it follows nobody of an earlier one any more.
	Term int64 `json:"term,omitempty"`
	// At is when it was asked for.
	At         Instant `json:"at"`
	CannotLead bool    `json:"cannotLead,omitempty"`
}

// Request is a request of a peer that waits for a reply.
type Request struct {
	// ID tells requests apart.
	ID uint64 `json:"id"`
	wire.PeerRequest
}

// Caller is somebody who has asked for a switchover.
type Caller struct {
	// ID tells callers apart.
	ID         uint64          `json:"id"`
	Switchover wire.Switchover `json:"switchover"`
}
