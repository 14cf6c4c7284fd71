// Package promise carries a primary through an outage of the API server: members promise not to answer an election, and
// as long as enough of them do, none can be won. Start reading at AskForPromises.
package promise

import (
	"cmp"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// KeepPromisesAfterBoot lets a promise from before a boot hold for a whole duration more.
func KeepPromisesAfterBoot(d *draft.Draft) bool {
	promise := d.Stored.Promise
	switch {
	case promise == nil:
	case promise.Boot != d.Boot:
		d.Store("the machine was booted since a promise was given, so its end cannot be told: it lasts a whole duration more",
			func(stored *tenure.Stored) {
				longest := max(d.Policy.Duration, promise.Duration)
				stored.Promise = &tenure.Promise{
					Term: promise.Term, Until: d.Now.Add(longest), Boot: d.Boot, Duration: promise.Duration,
				}
			})
	case d.Now < promise.Until:
		d.Again(promise.Until.Since(d.Now))
	case !d.Lease.Exists || d.Lease.Problem != "":
		// Elsewhere it goes with what the lease shows. An agent of an earlier version cannot read it.
		d.Store("a promise that has ended keeps this instance from nothing", func(stored *tenure.Stored) {
			stored.Promise = nil
		})
	}
	return false
}

// AskForPromises begins with the first renewal that failed.
func AskForPromises(d *draft.Draft) bool {
	held, record := cmp.Or(d.Right.Term, d.Stored.HeldTerm), d.Record()
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
				d.Send("failsafe: W members that will not answer an election make one impossible", promiseEvery(d, member.Name),
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
func promiseEvery(d *draft.Draft, name string) time.Duration {
	since := func(sent tenure.Sent) bool {
		return sent.To == name && sent.Kind == wire.PeerPromise && sent.At >= d.Lease.Changed
	}
	if d.Lost() != "" && !slices.ContainsFunc(d.Sent, since) {
		return time.Millisecond
	}
	return d.Policy.Renew / 2
}

// promisesNot says why nothing is promised to whoever asks, empty if it is.
func promisesNot(d *draft.Draft, request tenure.Request) string {
	switch {
	case d.Stored.Fence != nil:
		return "tenure.fence-before-answering: an election was answered here"
	case request.LeaseUID != "" && d.Stored.LeaseUID != "" && request.LeaseUID != d.Stored.LeaseUID &&
		!d.LostToo(request.LeaseUID):
		// The term would be known here before the lease that it is of, and that lease be taken for an old one for ever.
		return "tenure.obey-only-a-successor: " +
			"a lease in the place of the lost one is read before anything is promised by it"
	case d.Stored.MaxTerm > request.Term || d.Concerned() && d.Lease.Term > request.Term:
		return "a higher term was seen here"
	case d.Concerned() && d.Lost() == "" && d.Lease.Term == request.Term && d.Lease.Holder != request.From:
		return "another instance holds this term"
	case d.Engine.Data != tenure.DataWhole:
		return "tenure.tell-only-a-known-position: there is no whole copy here"
	case d.Ballot != nil && d.Ballot.Fencing != nil:
		return "an election is under way here"
	}
	return ""
}

// AnswerPromise promises the holder not to answer an election and not to stand. The promise is on the volume before.
func AnswerPromise(d *draft.Draft, request tenure.Request) {
	if why := promisesNot(d, request); why != "" {
		d.Refuse(request, why)
		return
	}
	promise := tenure.Promise{
		Term: request.Term, Until: d.Now.Add(request.Duration), Boot: d.Boot, Duration: request.Duration,
	}
	if before := d.Stored.Promise; before != nil && before.Boot == d.Boot {
		promise.Until, promise.Duration = max(promise.Until, before.Until), max(promise.Duration, before.Duration)
	}
	if d.Stored.Promise == nil || *d.Stored.Promise != promise || d.Stored.MaxTerm < request.Term {
		d.Store("a promise is on the volume before it is given", func(stored *tenure.Stored) {
			stored.Promise, stored.MaxTerm = &promise, max(stored.MaxTerm, request.Term)
		})
	}
	d.Do(tenure.Reply{
		Why: "the holder cannot reach the API server, and this instance will not disturb it", ID: request.ID,
		Reply: wire.PeerReply{PeerHeader: d.Header(), Yes: true},
	})
	if d.Ballot != nil {
		d.Do(tenure.Conduct{Why: "a promise was given"})
	}
}
