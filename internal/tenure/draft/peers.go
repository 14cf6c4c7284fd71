package draft

import (
	"cmp"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Header is how this instance presents itself to others.
func (d *Draft) Header() wire.PeerHeader {
	term := d.Stored.MaxTerm
	if d.Lost() == "" {
		term = max(term, d.Lease.Term)
	}
	return wire.PeerHeader{
		DatabaseUID: d.DatabaseUID, LeaseUID: d.Stored.LeaseUID, Term: term, From: d.Self(), Address: d.Address,
	}
}

// OthersCanElect says that the other members are enough for an election. If they are not, a lease that is given back
// only waits for this copy.
func (d *Draft) OthersCanElect() bool { return d.AnswersNeeded() < len(d.Lease.Record.Members) }

// Others are the names of all other instances, members or to become members.
func (d *Draft) Others(record wire.LeaseRecord) []string {
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

// AnswersNeeded is how many members must answer.
func (d *Draft) AnswersNeeded() int {
	// The record says what was promised; the own settings may be ahead of it, or behind.
	if d.Policy.Durability == tenure.Async && d.Lease.Record.W == 1 {
		return 1
	}
	return RecordOf(*d.Lease.Record).Answers()
}

// AskForPlaces asks the other members how far they have come.
func (d *Draft) AskForPlaces(every time.Duration) {
	for _, member := range d.Lease.Record.Members {
		if member != d.Self() {
			d.Send("where is it now, and is it there at all?", every, wire.PeerRequest{Kind: wire.PeerPlace, To: member})
		}
	}
}

// RefuseAll says no to everybody.
func RefuseAll(d *Draft, why string) {
	for _, request := range d.Inbox {
		d.Refuse(request, why)
	}
	d.RefuseCallers(why)
}

// RefuseCallers says no to whoever asks for a switchover.
func (d *Draft) RefuseCallers(why string) {
	for _, caller := range d.Callers {
		d.Do(tenure.Decide{Why: tenure.Why(why), Caller: caller, Reply: wire.SwitchoverReply{Why: why, Later: true}})
	}
}

// Refuse says no to a request.
func (d *Draft) Refuse(request tenure.Request, why string) {
	d.Do(tenure.Reply{
		Why: tenure.Why(why), ID: request.ID, Reply: wire.PeerReply{PeerHeader: d.Header(), Why: why},
	})
}

// Misled says why a message is not meant for this copy, empty if it is.
func (d *Draft) Misled(request tenure.Request) string {
	known := cmp.Or(d.Stored.LeaseUID, d.Policy.LeaseUID)
	switch {
	case request.DatabaseUID != d.DatabaseUID:
		return "this instance belongs to another database"
	case request.To.Name != d.Name:
		return "this is the instance " + d.Name
	case request.To.Incarnation != "" && request.To != d.Self():
		return "tenure.count-only-the-own-copy: this instance has another copy than is meant"
	case request.Kind == wire.PeerPromise && d.LostToo(request.LeaseUID):
	case request.LeaseUID != "" && known != "" && request.LeaseUID != known &&
		!(d.Vacant() && request.LeaseUID == d.Lease.UID):
		return "this instance obeys another lease"
	}
	return ""
}

// LostToo says that a lease is one of those in whose place the present one was made: its holder may have obeyed it, and
// this instance never saw it.
func (d *Draft) LostToo(uid string) bool {
	return uid != "" && d.Lease.Exists && (uid == d.Lease.Succeeds || slices.Contains(d.Lease.Before, uid))
}

// HearsOfALaterTerm says that a peer knows of a later term of this lease than it has. If a consistent read since then
// shows none, the lease is lost here too (heedALaterTerm), and no term is given out twice (O3).
func (d *Draft) HearsOfALaterTerm() bool {
	if d.ToldTerm() <= d.Lease.Term {
		return false
	}
	d.Wait(wire.ReasonElection, "a peer tells of a later term of the lease, which is read again")
	return true
}

// AskForCopies asks the other instances whether they have a copy, whichever it is: one that has everything may not have
// had the time to become a member. It reports whether a member is among them, and whether anybody is.
func (d *Draft) AskForCopies(record wire.LeaseRecord) (members, others bool) {
	for _, name := range d.Others(record) {
		d.Send("tenure.begin-only-without-a-copy: "+
			"does it have a copy?", AskEvery, wire.PeerRequest{Kind: wire.PeerPlace, To: wire.Member{Name: name}})
	}
	members = slices.ContainsFunc(record.Members, func(member wire.Member) bool { return member.Name != d.Name })
	return members, len(d.Others(record)) > 0
}

// HeardOut says that each of the other instances has been asked for long enough to have told that it has a copy.
func (d *Draft) HeardOut(record wire.LeaseRecord) bool {
	return !slices.ContainsFunc(d.Others(record), func(name string) bool {
		return !slices.ContainsFunc(d.Sent, func(sent tenure.Sent) bool {
			return sent.To == name && sent.Kind == wire.PeerPlace && sent.Lasts(d.Now) >= HearPatience
		})
	})
}
