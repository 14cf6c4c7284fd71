package plan

import (
	"cmp"
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// refuseAll says no to everybody.
func refuseAll(d *draft, why string) {
	for _, request := range d.Inbox {
		d.no(request, why)
	}
	d.refuseCallers(why)
}

func (d *draft) refuseCallers(why string) {
	for _, caller := range d.Callers {
		d.do(tenure.Decide{Why: tenure.Why(why), Caller: caller, Reply: wire.SwitchoverReply{Why: why, Later: true}})
	}
}

func (d *draft) no(request tenure.Request, why string) {
	d.do(tenure.Reply{
		Why: tenure.Why(why), ID: request.ID, Reply: wire.PeerReply{PeerHeader: d.header(), Why: why},
	})
}

// answerPeers answers each request. What an answer promises is on the volume before it.
func answerPeers(d *draft) bool {
	for _, request := range d.Inbox {
		if why := d.misled(request); why != "" {
			d.no(request, why)
			continue
		}
		switch request.Kind {
		case wire.PeerAsk:
			d.answerAsk(request)
		case wire.PeerFence:
			d.answerFence(request)
		case wire.PeerPromise:
			d.answerPromise(request)
		case wire.PeerPlace:
			d.answerPlace(request)
		case wire.PeerTell:
			d.do(tenure.Reply{
				Why: "it was heard", ID: request.ID, Reply: wire.PeerReply{PeerHeader: d.header(), Yes: true},
			})
		}
	}
	return false
}

// misled says why a message is not meant for this copy, empty if it is.
func (d *draft) misled(request tenure.Request) string {
	known := cmp.Or(d.Stored.LeaseUID, d.Policy.LeaseUID)
	switch {
	case request.DatabaseUID != d.DatabaseUID:
		return "this instance belongs to another database"
	case request.To.Name != d.Name:
		return "this is the instance " + d.Name
	case request.To.Incarnation != "" && request.To != d.Self():
		return "I1: this instance has another copy than is meant"
	case request.Kind == wire.PeerPromise && d.lostToo(request.LeaseUID):
	case request.LeaseUID != "" && known != "" && request.LeaseUID != known &&
		!(d.Vacant() && request.LeaseUID == d.Lease.UID):
		return "this instance obeys another lease"
	}
	return ""
}

// lostToo says that a lease is one of those in whose place the present one was made: its holder may have obeyed it, and
// this instance never saw it.
func (d *draft) lostToo(uid string) bool {
	return uid != "" && d.Lease.Exists && (uid == d.Lease.Succeeds || slices.Contains(d.Lease.Before, uid))
}

// unwilling says why this instance does not answer a ballot, empty if it would (E3).
func (d *draft) unwilling(version string) string {
	term, may := d.MayLead()
	switch {
	case may && (d.leads() || d.holder()):
		return fmt.Sprintf("this instance itself leads at term %d", term)
	case d.promised():
		return "a promise to the holder is valid"
	case d.Engine.Data != tenure.DataWhole:
		return "I2: there is no whole copy here"
	case d.predates():
		return "V6: the copy here is from before the cache was emptied"
	case d.Engine.Leading != nil:
		return "the server here still leads"
	case d.Stored.Fence != nil && d.Stored.Fence.Version != version:
		// A fence is replaced only after it was lifted: an older ballot in its place would let the holder of the newer
		// one go on.
		return "F2: another ballot was answered, and its outcome is not known yet"
	case d.Lease.Exists && tenure.Newer(d.Lease.Version, version):
		return "the lease was renewed since"
	case d.Lease.Exists && !d.expired():
		return "the lease was renewed a moment ago"
	case !d.Lease.Known && d.Lease.Failing == nil:
		return "the lease was not read yet"
	case !d.Lease.Known && d.Now.Since(*d.Lease.Failing) < d.Policy.Duration:
		return "it is not known for long enough that nobody renews the lease"
	}
	return ""
}

func (d *draft) answerAsk(request tenure.Request) {
	why := d.unwilling(request.LeaseVersion)
	// Whoever asks has read it. A watch does not show that the lease was put back.
	older := d.Lease.Exists && tenure.Newer(d.Lease.Version, request.LeaseVersion)
	if older && d.Reading == nil && d.Write == nil && !d.recently(max(d.Lease.Read, d.Tried), d.lasts()) {
		d.read("another member asks about an older version: the lease may have been put back")
	}
	d.do(tenure.Reply{
		Why: "E3: asking has no effect", ID: request.ID,
		Reply: wire.PeerReply{PeerHeader: d.header(), Yes: why == "", Why: why},
	})
}

func (d *draft) answerFence(request tenure.Request) {
	if why := d.unwilling(request.LeaseVersion); why != "" {
		d.no(request, why)
		return
	}
	if d.catchingUp() {
		d.no(request, d.ownBallotFirst())
		return
	}
	fence := tenure.Fence{LeaseUID: request.LeaseUID, Version: request.LeaseVersion}
	d.fence("F1: the fence is on the volume before the answer", fence)
	d.do(tenure.AnswerBallot{
		Why: "F1: an answer holds only if nothing is taken from a primary any more", ID: request.ID, Fence: fence,
		Reply: wire.PeerReply{PeerHeader: d.header(), Yes: true, CannotLead: d.cannotLead() != ""},
	})
}

// fence stores the fence, and tells the server that it follows nobody.
func (d *draft) fence(why tenure.Why, fence tenure.Fence) {
	if d.Stored.Fence == nil || *d.Stored.Fence != fence {
		d.store(why, func(stored *tenure.Stored) {
			stored.Fence = &fence
			// A lease that is to take the place of a lost one is obeyed when it has a record, and not before.
			stored.LeaseUID = cmp.Or(stored.LeaseUID, fence.LeaseUID)
		})
	}
	d.obey(why, d.idle())
}

// idle is the standing of a copy that follows nobody.
func (d *draft) idle() tenure.Standing {
	standing := tenure.Standing{Role: tenure.RoleIdle, Term: d.Stored.MaxTerm, OpenReads: d.readable()}
	if record := d.record(); record != nil {
		standing.Initialised, standing.SystemIdentifier = record.Initialised, record.SystemIdentifier
		standing.Members = record.Members
	}
	return standing
}

// cannotLead says why this instance would not take the lease, empty if it would.
func (d *draft) cannotLead() string {
	switch {
	case d.Stopping:
		return "the pod was told to end"
	case d.Lease.Failing != nil:
		return "the API server does not answer here"
	case d.Now < d.Rest:
		return "a promotion has failed a moment ago"
	}
	return cmp.Or(d.Engine.CannotLead, d.unattended())
}

// promisesNot says why nothing is promised to whoever asks, empty if it is.
func (d *draft) promisesNot(request tenure.Request) string {
	switch {
	case d.Stored.Fence != nil:
		return "F1: an election was answered here"
	case request.LeaseUID != "" && d.Stored.LeaseUID != "" && request.LeaseUID != d.Stored.LeaseUID &&
		!d.lostToo(request.LeaseUID):
		// The term would be known here before the lease that it is of, and that lease be taken for an old one for ever.
		return "O3: a lease in the place of the lost one is read before anything is promised by it"
	case d.Stored.MaxTerm > request.Term || d.concerned() && d.Lease.Term > request.Term:
		return "a higher term was seen here"
	case d.concerned() && d.Lost() == "" && d.Lease.Term == request.Term && d.Lease.Holder != request.From:
		return "another instance holds this term"
	case d.Engine.Data != tenure.DataWhole:
		return "I2: there is no whole copy here"
	case d.Ballot != nil && d.Ballot.Fencing != nil:
		return "an election is under way here"
	}
	return ""
}

func (d *draft) answerPromise(request tenure.Request) {
	if why := d.promisesNot(request); why != "" {
		d.no(request, why)
		return
	}
	promise := tenure.Promise{
		Term: request.Term, Until: d.Now.Add(request.Duration), Boot: d.Boot, Duration: request.Duration,
	}
	if before := d.Stored.Promise; before != nil && before.Boot == d.Boot {
		promise.Until, promise.Duration = max(promise.Until, before.Until), max(promise.Duration, before.Duration)
	}
	if d.Stored.Promise == nil || *d.Stored.Promise != promise || d.Stored.MaxTerm < request.Term {
		d.store("a promise is on the volume before it is given", func(stored *tenure.Stored) {
			stored.Promise, stored.MaxTerm = &promise, max(stored.MaxTerm, request.Term)
		})
	}
	d.do(tenure.Reply{
		Why: "the holder cannot reach the API server, and this instance will not disturb it", ID: request.ID,
		Reply: wire.PeerReply{PeerHeader: d.header(), Yes: true},
	})
	if d.Ballot != nil {
		d.do(tenure.Conduct{Why: "a promise was given"})
	}
}

func (d *draft) answerPlace(request tenure.Request) {
	// Where data may be lost, whoever has nothing waits for those that have something: one that could never lead says so.
	stranger := d.Policy.Volatile && d.Lease.Record != nil && !d.Lease.Record.Has(d.Self()) && !d.newcomer()
	reply := wire.PeerReply{PeerHeader: d.header(), CannotLead: d.cannotLead() != "" || stranger}
	if place := d.Engine.Flushed; d.predates() {
		reply.Why = "V6: the copy here is from before the cache was emptied"
	} else if place != nil && d.Engine.Data == tenure.DataWhole && d.Engine.Leading == nil {
		reply.Yes, reply.Timeline, reply.LSN = true, place.Timeline, place.LSN
	} else {
		reply.Why = "how far this copy has come is not known"
	}
	d.do(tenure.Reply{Why: "it was asked", ID: request.ID, Reply: reply})
}
