package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// A lease that is gone takes with it who holds it, at which term, and which members count. What the volumes remember of
// that is enough to go on, if one is careful (docs/adr/0012-when-the-lease-is-lost.md):
//
//   - O1: the living holder goes on by promises, as if the API server were away. When there is a lease to write to, it
//     writes its record there, at the next term, while W members have promised: no election can have been won without
//     one of them, and none can be won now. Which lease it writes, at which term, is on its volume before: it may not
//     hear of it, and that lease be lost as well.
//   - O2: without a living holder, all members of the last record must answer, those excepted that a user has given up.
//     Each record was stored by its writer, a member of the one before, ahead of being written: so if all members of
//     the highest record that anybody knows of have answered, there is no later one.
//   - O3: a lease with another UID is obeyed only when its record says that it has taken the place of the one that was
//     obeyed before, at a term above any that was seen, by a consistent read. Its UID is on the volume before anything
//     is done by it.
//
// All of it ends in a conditional write at the one version of the new lease that was seen empty, so that only one of
// all who may try at once gets through.

// mendALostLease lets a holder go on by promises, and writes the lease anew where that is safe.
func mendALostLease(d *draft) bool {
	d.learnWhatWasWritten()
	detail := d.Lost()
	if detail == "" {
		return false
	}
	reason := wire.ReasonLeaseLost
	if d.Lease.Problem != "" {
		reason = wire.ReasonLeaseUnreadable
	}
	d.stall(reason, "the lease cannot be obeyed: "+detail)
	d.readTheLostLease()
	d.answerWithoutALease()
	if d.Ballot != nil && (!d.Vacant() || d.Ballot.LeaseUID != d.Lease.UID || d.Ballot.Version != d.Lease.Version) {
		d.do(tenure.Conduct{Why: "E1: answers are about one version of the lease, and it has another"})
	}
	switch term, may := d.MayLead(); {
	case d.Stopping:
	case d.leads() || may && term >= d.Stored.MaxTerm:
		// The same as if the API server were away: what counts is what the members promise.
		askForPromises(d)
		d.succeed()
		leadAsTheHolder(d)
	case !d.Vacant() || d.recently(d.Lease.Changed, d.lasts()):
		// Whoever held it last and has come back goes on if enough others agree.
		askForPromises(d)
		d.stayWithoutALease()
	default:
		d.stayWithoutALease()
		d.standWithoutALease()
	}
	d.stopAnyway()
	return true
}

// learnWhatWasWritten puts on the volume that this instance has held a lease which it has written anew, if that one is
// lost as well, or was put back, before it was seen.
func (d *draft) learnWhatWasWritten() {
	anew, last := d.Stored.Anew, d.Stored.LastRecord
	if anew == nil || last == nil || d.Right.Term != anew.Term || d.Stored.HeldTerm >= anew.Term || d.Lost() == "" {
		return
	}
	record := d.heir(*last, anew.Term, last.Timeline)
	lease := anew.Leases[len(anew.Leases)-1]
	record.Revision = d.revision() + 1
	record.Succeeds = slices.DeleteFunc(slices.Clone(record.Succeeds), func(uid string) bool { return uid == lease })
	record = record.Canonical()
	d.store("O1: what was written anew was held, although it is lost again", func(stored *tenure.Stored) {
		stored.LeaseUID, stored.LastRecord = lease, &record
		stored.HeldTerm, stored.MaxTerm = anew.Term, max(stored.MaxTerm, anew.Term)
	})
}

// readTheLostLease looks whether it has come back, or another one in its place: what a watch shows is not enough.
func (d *draft) readTheLostLease() {
	d.again(d.Policy.Renew / 2)
	unread := d.Lease.Exists && d.Lease.Read == 0 && d.Now.Since(d.Tried) > d.Policy.Renew/4
	if d.Reading == nil && d.Write == nil && (unread || d.Now.Since(max(d.Lease.Read, d.Tried)) > d.Policy.Renew) {
		d.read("the lease may have come back, or another one in its place")
	}
}

// answerWithoutALease answers what can be answered: a holder may go on, and a ballot about the place of the lost lease
// may be conducted.
func (d *draft) answerWithoutALease() {
	for _, request := range d.Inbox {
		why := d.misled(request)
		switch {
		case why != "":
			d.no(request, why)
		case request.Kind == wire.PeerPromise:
			d.answerPromise(request)
		case request.Kind == wire.PeerAsk:
			why := d.unwillingWithoutALease(request)
			d.do(tenure.Reply{
				Why: "E3: asking has no effect", ID: request.ID,
				Reply: wire.PeerReply{PeerHeader: d.header(), Yes: why == "", Why: why},
			})
		case request.Kind == wire.PeerFence:
			d.answerFenceWithoutALease(request)
		default:
			d.no(request, "the lease is lost")
		}
	}
	d.refuseCallers("the lease is lost")
}

// unwillingWithoutALease says why this instance does not answer such a ballot, empty if it would. It must itself have
// seen, by a consistent read, the very version that the ballot is about: so whatever ballot it has answered before is
// about another version, and can come to nothing any more.
func (d *draft) unwillingWithoutALease(request tenure.Request) string {
	term, may := d.MayLead()
	switch {
	case !d.Vacant() || request.LeaseUID != d.Lease.UID || request.LeaseVersion != d.Lease.Version:
		return "O2: this instance does not see a lease to be written anew"
	case may || d.leads():
		return fmt.Sprintf("this instance itself leads at term %d", term)
	case d.Write != nil:
		return "this instance is writing the lease"
	case d.promised():
		return "a promise to the holder is valid"
	case d.Engine.Data != tenure.DataWhole:
		return "I2: there is no whole copy here"
	}
	return ""
}

func (d *draft) answerFenceWithoutALease(request tenure.Request) {
	if why := d.unwillingWithoutALease(request); why != "" {
		d.no(request, why)
		return
	}
	if d.catchingUp() {
		d.no(request, d.ownBallotFirst())
		return
	}
	fence := tenure.Fence{LeaseUID: request.LeaseUID, Version: request.LeaseVersion}
	d.fence("F1: the fence is on the volume before the answer", fence)
	reply := d.testimony()
	reply.CannotLead = d.cannotLead() != ""
	d.do(tenure.AnswerBallot{
		Why: "F1: an answer holds only if nothing is taken from a primary any more", ID: request.ID, Fence: fence,
		Reply: reply,
	})
}

// testimony is what this volume knows of the lease that is lost.
func (d *draft) testimony() wire.PeerReply {
	return wire.PeerReply{PeerHeader: d.header(), Yes: true, Records: d.Testimony(), Held: d.Stored.HeldTerm}
}

// succeed writes the lease anew as the living holder (O1).
func (d *draft) succeed() {
	term, until := d.Promised()
	record := d.Stored.LastRecord
	if !d.Vacant() || d.Write != nil || d.Now >= until || term != d.Stored.HeldTerm || term != d.Stored.MaxTerm ||
		d.Stored.Fence != nil || record == nil || !record.Has(d.Self()) {
		return
	}
	d.write(tenure.WriteSucceed, "O1: the holder writes its lost lease anew, and W members have promised to let it",
		d.Self(), d.heir(*record, d.termAnew(), record.Timeline))
}

// termAnew is the next term that this instance has certainly not written before. The same write again has the same one:
// only one of the two can be done.
func (d *draft) termAnew() int64 {
	next, anew := d.Stored.MaxTerm+1, d.Stored.Anew
	switch {
	case anew == nil:
		return next
	case anew.Version == d.Lease.Version && anew.Leases[len(anew.Leases)-1] == d.Lease.UID:
		return max(next, anew.Term)
	}
	return max(next, anew.Term+1)
}

// rememberAnew puts on the volume which lease is written anew, and for which term.
func (d *draft) rememberAnew(term int64) {
	var leases []string
	before := d.Stored.Anew
	if before != nil {
		leases = slices.DeleteFunc(slices.Clone(before.Leases), func(uid string) bool { return uid == d.Lease.UID })
	}
	next := tenure.Anew{Leases: append(leases, d.Lease.UID), Version: d.Lease.Version, Term: term}
	if before == nil || !reflect.DeepEqual(*before, next) {
		d.store("O1: this instance may not hear of what it writes, and others may see it", func(stored *tenure.Stored) {
			stored.Anew = &next
		})
	}
}

// heir is the record that goes into the new lease. It names every lost lease that is known of, here, to the operator,
// and to those who have answered: whoever has obeyed one of them and no later one shall obey this.
func (d *draft) heir(record wire.LeaseRecord, term int64, timeline int) wire.LeaseRecord {
	record.Term, record.Timeline, record.Switchover = term, timeline, nil
	if d.Lease.UID == d.Stored.LeaseUID {
		return record
	}
	lost := slices.Concat(record.Succeeds, d.Lease.Before, []string{d.Stored.LeaseUID})
	if d.Stored.Anew != nil {
		lost = append(lost, d.Stored.Anew.Leases...)
	}
	if d.Ballot != nil {
		for _, answer := range d.Ballot.Answers {
			lost = append(lost, answer.LeaseUID)
		}
	}
	record.Succeeds = nil
	for _, uid := range append(lost, d.Lease.Succeeds) {
		if uid != "" && uid != d.Lease.UID && !slices.Contains(record.Succeeds, uid) {
			record.Succeeds = append(record.Succeeds, uid)
		}
	}
	return record
}

// stayWithoutALease lets a replica go on with the holder that it follows: that one's writes need it.
func (d *draft) stayWithoutALease() {
	follows := d.Standing.Role == tenure.RoleFollow && d.Stored.Fence == nil
	if !follows && (d.Standing.Role != tenure.RoleCatchUp || d.Ballot == nil) {
		d.obey("the lease is lost", d.idle())
	}
}

// standWithoutALease conducts an election in which all must answer (O2).
func (d *draft) standWithoutALease() {
	all := d.everybody()
	if !d.Vacant() || d.Engine.Data != tenure.DataWhole || d.Engine.Leading != nil || d.promised() ||
		d.cannotLead() != "" || d.Write != nil || !slices.Contains(all, d.Self()) {
		return
	}
	ended := d.Lease.Changed.Add(d.lasts())
	turn := time.Duration(slices.Index(all, d.Self())) * standTurn
	if d.recently(ended, turn) || d.Lease.Read < ended {
		return
	}
	if d.Ballot == nil {
		ballot := tenure.Ballot{
			LeaseUID: d.Lease.UID, Version: d.Lease.Version, Begun: d.Now, Willing: []wire.Member{d.Self()},
		}
		d.do(tenure.Conduct{Why: "O2: the lease is lost, and nobody has written it anew", Ballot: &ballot})
	}
	if d.Ballot.Fencing == nil {
		d.askEverybody(all)
		return
	}
	d.collectEverybody(all)
}

// everybody are the members that must answer: those of every record of the highest term that anybody knows of, without
// the ones that a user has given up. They are sorted.
func (d *draft) everybody() []wire.Member {
	records, _, _ := testimonies(d.Snapshot)
	return required(records, d.Lease.GivenUp)
}

// testimonies are the records that may be the last one, of all that this volume and the answers tell of: those of the
// highest term that anybody has seen in a lease, and those of later ones that were begun. Whether these were written
// nobody knows, so they do not take the place of the others. The highest term comes first, and of that what its holder
// tells. Also the highest term, and the highest timeline of any record or answer.
func testimonies(s tenure.Snapshot) (records []wire.LeaseRecord, term int64, timeline int) {
	told := []tenure.Answer{{Records: s.Testimony(), Held: s.Stored.HeldTerm, Term: s.Stored.MaxTerm}}
	if s.Ballot != nil {
		told = append(told, s.Ballot.Answers...)
	}
	var highest int64
	for _, answer := range told {
		term, timeline = max(term, answer.Term), max(timeline, answer.Position.Timeline)
		for _, record := range answer.Records {
			highest, timeline = max(highest, record.Term), max(timeline, record.Timeline)
		}
	}
	for _, held := range []bool{true, false} {
		for _, answer := range told {
			for _, record := range answer.Records {
				if record.Term >= min(term, highest) && (answer.Held == record.Term) == held {
					records = append(records, record)
				}
			}
		}
	}
	slices.SortStableFunc(records, func(a, b wire.LeaseRecord) int { return cmp.Compare(b.Term, a.Term) })
	return records, max(term, highest), timeline
}

func required(records []wire.LeaseRecord, givenUp []wire.Member) []wire.Member {
	var all []wire.Member
	for _, record := range records {
		for _, member := range record.Members {
			if !slices.Contains(all, member) && !slices.Contains(givenUp, member) {
				all = append(all, member)
			}
		}
	}
	slices.SortFunc(all, func(a, b wire.Member) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// askEverybody asks who would answer: nobody is fenced before all would.
func (d *draft) askEverybody(all []wire.Member) {
	d.again(askEvery)
	var silent []wire.Member
	for _, member := range all {
		if slices.Contains(d.Ballot.Willing, member) {
			continue
		}
		silent = append(silent, member)
		d.send("E3: would it answer?", askEvery, wire.PeerRequest{
			PeerHeader: wire.PeerHeader{LeaseUID: d.Ballot.LeaseUID}, Kind: wire.PeerAsk, To: member,
			LeaseVersion: d.Ballot.Version,
		})
	}
	if len(silent) > 0 {
		d.stall(wire.ReasonLeaseLost, fmt.Sprintf(
			"O2: without the lease nobody becomes primary before all members have answered, and %v have not; a user can "+
				"give them up by the annotation %s of the lease", silent, wire.AnnotationGivenUp))
		return
	}
	ballot, now := *d.Ballot, d.Now
	ballot.Fencing = &now
	fence := tenure.Fence{LeaseUID: ballot.LeaseUID, Version: ballot.Version}
	d.fence("F1: the own fence is on the volume before any answer", fence)
	d.do(tenure.Conduct{Why: "O2: all members would answer", Ballot: &ballot})
	d.testify(fence)
}

func (d *draft) testify(fence tenure.Fence) {
	d.do(tenure.AnswerBallot{
		Why: "F1: the own position counts only behind the own fence", Fence: fence, Reply: d.testimony(),
	})
}

// collectEverybody takes the lease when all have answered and none has more (O2, E4).
func (d *draft) collectEverybody(all []wire.Member) {
	d.again(askEvery)
	fence := tenure.Fence{LeaseUID: d.Ballot.LeaseUID, Version: d.Ballot.Version}
	var own *tenure.Answer
	var highest tenure.Answer
	missing := false
	for _, member := range all {
		index := slices.IndexFunc(d.Ballot.Answers, func(a tenure.Answer) bool { return a.Member == member })
		switch {
		case index < 0 && member != d.Self():
			missing = true
			d.send("O2: how far has it come?", fenceEvery, wire.PeerRequest{
				PeerHeader: wire.PeerHeader{LeaseUID: d.Ballot.LeaseUID}, Kind: wire.PeerFence, To: member,
				LeaseVersion: d.Ballot.Version,
			})
		case index < 0:
			missing = true
		case member == d.Self():
			own = &d.Ballot.Answers[index]
		case highest.Member == (wire.Member{}) || d.Ballot.Answers[index].Position.Compare(highest.Position) > 0:
			highest = d.Ballot.Answers[index]
		}
	}
	switch {
	case own == nil:
		if d.Now.Since(*d.Ballot.Fencing) >= askEvery {
			d.testify(fence)
		}
	case missing:
	case highest.Member == (wire.Member{}) || own.Position.Compare(highest.Position) >= 0:
		d.restore()
	default:
		d.catchUp(*own, highest, fence)
	}
}

// learnThatItWasPutBack is for a copy that was away when the lease was put back to what it had been then: for it the
// lease looks as it should. Whoever has seen more answers with its records, and nobody else does. An election by the
// quorum of the past could leave out what was acknowledged since, so it ends, and the lease is lost here too (O3).
func (d *draft) learnThatItWasPutBack() bool {
	last := *d.Lease.Record
	for _, answer := range d.Ballot.Answers {
		for _, record := range answer.Records {
			if answer.Member != d.Self() && later(record, last) {
				last = record
			}
		}
	}
	if !later(last, *d.Lease.Record) {
		return false
	}
	why := tenure.Why("O3: an answer tells of a later record, so the lease was put back to what it had been")
	d.store(why, func(stored *tenure.Stored) {
		stored.LastRecord, stored.MaxTerm = &last, max(stored.MaxTerm, last.Term)
	})
	d.do(tenure.Conduct{Why: why})
	return true
}

// heedALaterTerm is for a holder that was away when the lease was put back to its own term: for it the lease looks as
// it should, it would renew it for ever, and nobody would follow. Whatever a member says tells of a later term; if a
// consistent read since then does not, the lease is lost here too (O3).
func heedALaterTerm(d *draft) bool {
	term := d.ToldTerm()
	if !d.Lease.Exists || term <= max(d.Lease.Term, d.Stored.MaxTerm) || d.Lease.Stale > 0 || !d.seenForSure() {
		return false
	}
	d.store("O3: a member tells of a later term, so the lease was put back to what it had been",
		func(stored *tenure.Stored) { stored.MaxTerm = term })
	d.again(time.Millisecond)
	return true
}

func later(record, than wire.LeaseRecord) bool {
	return record.Term > than.Term || record.Term == than.Term && record.Revision > than.Revision
}

// What a copy that is given up has seen nobody knows: it may have led after all that the others know of, and whoever
// is no member may have heard of that. So terms and timelines go on well above, and the more so for each lease that was
// missed, by which a copy may have been given up as well.
const (
	termsGivenUp     = 100
	timelinesGivenUp = 10
)

// restore writes the new lease with the last record, without the members that were given up.
func (d *draft) restore() {
	records, term, timeline := testimonies(d.Snapshot)
	record := records[0]
	unknown := 2 * d.LeasesMissed()
	if len(d.Lease.GivenUp) > 0 {
		unknown++
	}
	term, timeline = term+int64(unknown)*termsGivenUp, timeline+unknown*timelinesGivenUp
	record.Members = slices.DeleteFunc(slices.Clone(record.Members), func(member wire.Member) bool {
		return slices.Contains(d.Lease.GivenUp, member)
	})
	if !record.Has(d.Self()) {
		return
	}
	record.W = min(record.W, len(record.Members))
	d.write(tenure.WriteRestore, "O2: all members have answered, and none has more than this copy", d.Self(),
		d.heir(record, term+1, timeline+1))
}
