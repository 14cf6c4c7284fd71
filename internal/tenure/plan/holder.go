package plan

import (
	"cmp"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/quorum"
)

// renewTheLease renews as long as this copy is the holder, whether it leads already or comes back: a successful
// conditional write is what lets it lead (C3). A write in doubt is settled by the same: either the renewal is done and
// the other one never will be, or the other way round.
func renewTheLease(d *draft) bool {
	if !d.holder() || d.Write != nil || d.Stopping && d.Standing.Role == tenure.RoleIdle && d.Yielding == nil {
		return false
	}
	// Whoever gives the lease back does not renew it.
	if d.Engine.Data == tenure.DataChanging || d.Now < d.Rest && d.othersCanElect() {
		return false
	}
	due := d.Right.Renewed.Add(d.Policy.Renew)
	// A right from before a jump of the wall clock may be older than it looks (C1).
	if d.Right.Term != d.Lease.Term || len(d.Doubts) > 0 || d.Jumps.Since(d.Right.Renewed) > 0 {
		due = 0
	}
	if d.Now < due {
		d.again(due.Since(d.Now))
		return false
	}
	if d.Lease.Stale > 0 && d.Reading != nil || d.Lease.Failing != nil && d.recently(d.Tried, d.Policy.Renew/4) {
		return false
	}
	if d.outlived() {
		why := tenure.Why("O3: others may have seen the record that did not stay, and obey none before it")
		d.write(tenure.WriteRecord, why, d.Self(), *d.Lease.Record)
		return false
	}
	d.write(tenure.WriteRenew, "the holder stays", d.Self(), *d.Lease.Record)
	return false
}

// outlived says that a record which this holder has begun to write did not stay: it was never written, or the lease was
// put back to before it. Whoever has seen it takes the one that is there for an old one, so it is written once more, as
// a later one.
func (d *draft) outlived() bool {
	next, there := d.Stored.NextRecord, d.Lease.Record
	return next != nil && there != nil && d.Lease.Holder.Name == d.Name && next.Term == d.Lease.Term &&
		next.Revision > there.Revision && d.Lost() == "" && d.nothingInDoubt()
}

// write begins a conditional write of the version that was seen last.
func (d *draft) write(kind tenure.WriteKind, why tenure.Why, holder wire.Member, record wire.LeaseRecord) {
	record = record.Canonical()
	changes := d.Lease.Record == nil || !sameRecord(record, *d.Lease.Record) || d.outlived()
	if changes {
		record.Revision = d.revision() + 1
	}
	// Whoever writes a lost lease anew changes neither holder nor members nor quorum.
	if kind == tenure.WriteSucceed {
		d.rememberAnew(record.Term)
	} else if changes {
		d.store("both records count until the lease shows which", func(stored *tenure.Stored) {
			stored.NextRecord, stored.NextVersion = &record, d.Lease.Version
			if stored.LastRecord == nil {
				stored.LastRecord = &record
			}
		})
	}
	d.do(tenure.WriteLease{
		Why: why, Kind: kind, Version: d.Lease.Version, Holder: holder, Record: record, Duration: d.offered(),
	})
}

// offered is how long the lease shall last. A shorter one comes in steps (C1): the others go by it as soon as they see
// it, and the watchdog by the last renewal that is known to have arrived until it hears of this one, however long the
// agent stands still in between. Whole seconds are what a lease can say.
func (d *draft) offered() time.Duration {
	if d.Right.Term == 0 {
		return d.Policy.Duration
	}
	left := d.Right.Renewed.Add(d.Right.Duration).Since(d.Now)
	return max(d.Policy.Duration, (left + time.Second - 1).Truncate(time.Second))
}

// revision is the highest of any record that is known.
func (d *draft) revision() int64 {
	var highest int64
	for _, record := range d.Records() {
		highest = max(highest, record.Revision)
	}
	if d.Lease.Record != nil {
		highest = max(highest, d.Lease.Record.Revision)
	}
	return highest
}

// askForPromises begins with the first renewal that failed.
func askForPromises(d *draft) bool {
	held, record := cmp.Or(d.Right.Term, d.Stored.HeldTerm), d.record()
	lost := d.Lost() != ""
	if !lost && (d.Lease.Failing == nil || d.Lease.Exists && d.Lease.Holder != d.Self()) {
		return false
	}
	if held == 0 || record == nil || d.Stored.MaxTerm > held || d.Stored.Fence != nil || d.Stopping {
		return false
	}
	if lost && d.Stored.HeldTerm != held {
		return false // It has not led at that term, and cannot begin to: promises would only keep others from answering.
	}
	for _, possible := range d.Records() {
		for _, member := range possible.Members {
			if member != d.Self() {
				d.send("failsafe: W members that will not answer an election make one impossible", d.promiseEvery(member.Name),
					wire.PeerRequest{
						PeerHeader: wire.PeerHeader{Term: held}, Kind: wire.PeerPromise, To: member, Duration: d.Policy.Duration,
					})
			}
		}
	}
	return false
}

// promiseEvery is how often a member is asked for its promise: at once, if that was not done since the lease was seen
// to be lost. What it has promised before is not enough for another one (O1).
func (d *draft) promiseEvery(name string) time.Duration {
	since := func(sent tenure.Sent) bool {
		return sent.To == name && sent.Kind == wire.PeerPromise && sent.At >= d.Lease.Changed
	}
	if d.Lost() != "" && !slices.ContainsFunc(d.Sent, since) {
		return time.Millisecond
	}
	return d.Policy.Renew / 2
}

// leadAsTheHolder tells the server to lead while the right to do so holds. The deadline is with the watchdog before the
// server hears of it.
func leadAsTheHolder(d *draft) bool {
	term, record := d.tenure()
	if record == nil || d.Yielding != nil || d.Stopping && !d.leads() {
		return false
	}
	free := d.Lost() == "" && d.Lease.Exists && d.othersCanElect()
	// Whoever has begun to give the lease back ends it, and is not armed again meanwhile.
	if d.Now < d.Rest && free {
		d.giveBack("the lease is being given back")
		return true
	}
	if !d.arm() {
		return false
	}
	if d.endTheTenure(term, *record, free) {
		return true
	}
	if !d.fresh() {
		d.wait(wire.ReasonFactsOld, "the server was last looked at "+d.Now.Since(d.Engine.At).Round(time.Second).String()+
			" ago: what is open stays open, and nothing else is changed")
	}
	standing := d.leading(term, *record)
	if len(standing.Setting.Names) < standing.Setting.K {
		d.wait(wire.ReasonMembership, "Q1: it is not known which members count, and no quorum is enough for all that may be")
		return false
	}
	d.obey("C3: this instance holds the lease", standing)
	return false
}

// endTheTenure is for a holder that shall not go on leading. Free says that others can take its place.
func (d *draft) endTheTenure(term int64, record wire.LeaseRecord, free bool) bool {
	leading := d.Engine.Leading
	if d.Lost() == "" && leading != nil && leading.Term == term && leading.Timeline != record.Timeline {
		d.stall(wire.ReasonTimelineWrong, "T1: the server leads on another timeline than was reserved")
		d.giveBack("T1: a promotion led to another timeline than the reserved one")
		return true
	}
	if d.Now >= d.Rest && d.cutOff() {
		d.retreat()
		return true
	}
	switch why := d.unfit(); {
	case why == "":
		return false
	case d.hangs() && !(free && d.othersTakeOver()):
		return d.bearWithAHungServer(why, free)
	case free:
		d.giveBack(why)
		return true
	}
	return false
}

// hangs says that the server does not write any more, by facts that are not old.
func (d *draft) hangs() bool {
	return d.Engine.Hung && (d.fresh() || d.Engine.Probed > 0 && d.recently(d.Engine.Probed, d.Policy.Renew))
}

// othersTakeOver says that enough other members for an election have answered just now, and that one of them can lead.
func (d *draft) othersTakeOver() bool {
	if d.Policy.Volatile {
		return true
	}
	since := d.Now.Add(-d.Policy.Renew)
	leads := func(place tenure.Place) bool {
		return place.At >= since && place.Member != d.Self() && d.Lease.Record.Has(place.Member) && !place.CannotLead
	}
	return d.Lease.Failing == nil && slices.ContainsFunc(d.Places, leads) && d.othersElectSince(since)
}

// bearWithAHungServer leaves a server alone that does not write while nobody can take its place: it may be that the
// disk is slow, and an end would only add a recovery to that. A cache has no disk to wait for.
func (d *draft) bearWithAHungServer(why tenure.Why, free bool) bool {
	if d.Policy.Volatile {
		d.do(tenure.Kill{Why: why})
		return true
	}
	if free && d.Lease.Failing == nil {
		d.askForPlaces()
		d.again(placeEvery)
	}
	d.wait(wire.ReasonServerNotWriting, "PostgreSQL runs and flushes no WAL, and too few other members answer that could "+
		"take over: it is left running")
	return false
}

// tenure is the term that this instance may lead at, and its record; nil if it may not lead.
func (d *draft) tenure() (int64, *wire.LeaseRecord) {
	term, may := d.MayLead()
	record := d.record()
	switch {
	case !may || record == nil || !record.Initialised || record.Term != term:
	case d.Stored.HeldTerm != term || d.Stored.Fence != nil || !d.whole(*record) || d.overtaken(term):
	case d.Lost() == "" && d.Lease.Exists && !d.holder():
	default:
		return term, record
	}
	return term, nil
}

// othersCanElect says that the other members are enough for an election. If they are not, a lease that is given back
// only waits for this copy.
func (d *draft) othersCanElect() bool { return d.answersNeeded() < len(d.Lease.Record.Members) }

// unfit says why the holder shall not go on leading, empty if it shall. Whoever has begun to give the lease back ends
// it.
func (d *draft) unfit() tenure.Why {
	switch {
	case d.hangs():
		return "the server lives and does not write any more"
	case d.Engine.CannotLead != "" && d.Engine.Leading == nil:
		return tenure.Why("the server cannot lead: " + d.Engine.CannotLead)
	case d.unattended() != "" && d.Engine.Leading == nil:
		return tenure.Why("the server cannot lead: " + d.unattended())
	case d.Now < d.Rest:
		return "the lease is being given back"
	}
	return ""
}

// attendedLately is how long the loop of the server may be without a look at it before it counts as hanging. It is
// longer than the pause between two looks ever is.
const attendedLately = 15 * time.Second

// unattended says why nobody would carry out what the server is told, because the loop that does so hangs. It is empty
// if somebody would.
func (d *draft) unattended() string {
	if d.Engine.At == 0 || d.Now.Since(d.Engine.At) < attendedLately {
		return ""
	}
	return "the agent has not looked at it for long"
}

// fresh says that what is known of the server was read not long ago. The gate, the members and the end of a server that
// hangs are not decided on old facts. What does not tell its age is taken as it is.
func (d *draft) fresh() bool {
	return d.Engine.At == 0 || d.Now.Since(d.Engine.At) < d.Policy.Duration/2
}

// leading is the standing of the holder. The quorum to wait for stays what it is, or is that of the record: a take-over
// carries it over unchanged (Q2).
func (d *draft) leading(term int64, record wire.LeaseRecord) tenure.Standing {
	standing := tenure.Standing{
		Role: tenure.RoleLead, Term: term, Timeline: record.Timeline, Initialised: true,
		SystemIdentifier: record.SystemIdentifier, Members: record.Members,
	}
	if d.Preparing != nil {
		standing.Prepare = *d.Preparing
	}
	if record.Emptied != nil {
		standing.Emptied = record.Emptied.ID
	}
	resting := d.resting(record)
	// A holder that has written its lost lease anew goes on where it was: a timeline belongs to one primary (T1).
	if d.Standing.Role == tenure.RoleLead && d.Standing.Timeline == record.Timeline {
		standing.Setting, standing.OpenStart = d.Standing.Setting, d.Standing.OpenStart
	} else {
		standing.Setting = resting
	}
	switch open := d.Engine.Leading; {
	case open == nil:
		// A server that does not answer for a moment stays open: what is named is one start, and no other is let in.
	case open.Start == standing.OpenStart:
	case open.Term == term && d.enough(open.Recovered) && d.fresh():
		standing.OpenStart = open.Start
	default:
		standing.OpenStart = ""
	}
	if standing.OpenStart == "" {
		d.wait(wire.ReasonGateClosed, "G1: enough members must have all of the log before applications are let in")
	}
	return standing
}

// resting is what the server waits for when it starts to lead: as the record says, and, while another record may be in
// force as well, enough for both.
func (d *draft) resting(record wire.LeaseRecord) tenure.Setting {
	setting := settingOf(quorum.Resting(d.Self().String(), recordOf(record)))
	for _, possible := range d.Records() {
		if possible.Term != record.Term {
			continue
		}
		setting.K = max(setting.K, possible.W-1)
		setting.Names = slices.DeleteFunc(setting.Names, func(member wire.Member) bool { return !possible.Has(member) })
	}
	return setting
}

// enough says that W members have the log up to there on the timeline of the holder, under each record that may be in
// force.
func (d *draft) enough(lsn uint64) bool {
	for _, record := range append(d.Records(), *d.record()) {
		count := 0
		for _, member := range record.Members {
			if member == d.Self() || flushed(d.Engine.Leading, member) >= lsn {
				count++
			}
		}
		if count < record.W {
			return false
		}
	}
	return true
}

func flushed(leading *tenure.Leading, member wire.Member) uint64 {
	for _, replica := range leading.Replicas {
		if replica.Member == member {
			return replica.Flushed
		}
	}
	return 0
}

// arm gives the deadline to the watchdog, if it has another one.
func (d *draft) arm() bool {
	_, until := d.Deadline()
	if !d.Guard.Alive {
		d.wait(wire.ReasonGateClosed, "C2: the watchdog is not there yet")
		return false
	}
	// A later deadline may come with the next pass, an earlier one may not.
	if ahead := until.Since(d.Guard.Until); ahead < 0 || ahead >= d.Policy.Renew/4 {
		why := tenure.Why("C2: the watchdog ends the server at the deadline, whatever becomes of this agent")
		d.do(tenure.Arm{Why: why, Until: until, Jumped: d.Jumps.Since(0)})
	}
	return true
}

// killPatience is how long a server may take to die. One that hangs in the kernel dies when that lets go of it.
const killPatience = 2 * time.Second

// giveBack ends the server and releases the lease, if the others can elect. Without a quorum it is released only when
// no process is left. What is not released ends by itself, and is not renewed for as long.
func (d *draft) giveBack(why tenure.Why) {
	if d.Now >= d.Rest {
		d.do(tenure.Rest{Why: why, Until: d.Now.Add(d.Policy.Duration)})
	}
	standing := d.idle()
	standing.OpenReads, standing.Down = false, true
	standing.Serial = d.Standing.Serial
	told := same(standing, d.Standing)
	d.obey(why, standing)
	begun := d.Rest.Add(-d.Policy.Duration)
	gone := told && d.Engine.Obeyed == d.Standing.Serial && !d.Engine.Processes
	stuck := d.Lease.Record.W > 1 && d.Now.Since(begun) >= killPatience
	if !gone {
		d.do(tenure.Kill{Why: why})
		d.again(killPatience / 4)
	}
	d.askForPlaces()
	switch {
	case !(gone || stuck) || d.Write != nil || !d.holder():
	case d.othersElectSince(begun):
		d.write(tenure.WriteRelease, why, wire.Member{}, *d.Lease.Record)
	default:
		d.wait(wire.ReasonQuorumMissing, "too few other members are there to elect without this copy: the lease is not "+
			"given back, and ends by itself")
	}
}

// tellPeers tells each instance that a new holder leads, so that nobody waits for a watch or a name server.
func tellPeers(d *draft) bool {
	record := d.record()
	if record == nil || !d.holder() && d.Lease.Term != d.Stored.HeldTerm+1 {
		return false
	}
	if d.holder() && d.Engine.Leading == nil {
		return false
	}
	if d.Stored.HeldTerm == 0 {
		return false
	}
	tell := wire.PeerRequest{PeerHeader: wire.PeerHeader{Term: d.Lease.Term}, Kind: wire.PeerTell}
	vouches := d.ours() && d.Lease.Term == d.Stored.MaxTerm
	if vouches {
		tell.LeaseVersion, tell.Record, tell.Duration = d.Lease.Version, d.Lease.Record, d.Lease.Duration
	}
	for _, name := range d.others(*record) {
		tell.To = wire.Member{Name: name}
		switch {
		case d.told(name) < d.Lease.Term:
			d.send("others follow at once", time.Second, tell)
		case vouches && !d.follows(name):
			d.send("F2: one that is fenced and cannot read the lease hears of its version here", d.Policy.Renew, tell)
		}
	}
	return false
}

// follows says that an instance takes the log here.
func (d *draft) follows(name string) bool {
	return d.Engine.Leading != nil && slices.ContainsFunc(d.Engine.Leading.Replicas, func(replica tenure.Replica) bool {
		return replica.Member.Name == name
	})
}

func (d *draft) told(name string) int64 {
	for _, peer := range d.Peers {
		if peer.Name == name {
			return peer.Told
		}
	}
	return 0
}

// others are the names of all other instances, members or to become members.
func (d *draft) others(record wire.LeaseRecord) []string {
	var names []string
	add := func(name string) {
		for _, known := range append(names, d.Name) {
			if known == name {
				return
			}
		}
		names = append(names, name)
	}
	for _, member := range record.Members {
		add(member.Name)
	}
	for _, name := range d.Policy.Instances {
		add(name)
	}
	return names
}
