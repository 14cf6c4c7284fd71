// Package draft is a plan in the making: the snapshot as it is after the actions so far, those actions, and what all
// protocols ask of the two. It is pure, and decides nothing: the packages beside it do. Start reading at Draft.
package draft

import (
	"cmp"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Draft is a plan in the making. The snapshot in it is as it is when the actions so far were carried out: a later rule
// sees what an earlier one has put before it, such as what will be on the volume by then. No rule changes it but by an
// action.
type Draft struct {
	tenure.Snapshot
	Plan tenure.Plan
	// Obeyed says that the plan tells the server something new: no facts are about that yet.
	Obeyed bool
}

const (
	// AskEvery is how often a peer is asked again.
	AskEvery = 300 * time.Millisecond
	// StandTurn is how long each member lets those before it go first: votes cannot split, but requests can be spared.
	StandTurn = 200 * time.Millisecond
	// HighestPatience is how long the member that has most is given to take the lease itself.
	HighestPatience = 2 * time.Second
	// HearPatience is how long answers are waited for where none is needed.
	HearPatience = time.Second
	// PlaceEvery is how often the members are asked how far they have come.
	PlaceEvery = 100 * time.Millisecond
	// ClosePatience is how long a pod that ends tries to close the write address.
	ClosePatience = time.Second
)

// PlaceLasts is how long the word of a member counts that it has a copy.
const PlaceLasts = 2 * time.Second

// FirstTurn is how long each instance lets those before it go first.
const FirstTurn = 300 * time.Millisecond

// attendedLately is how long the loop of the server may be without a look at it before it counts as hanging. It is
// longer than the pause between two looks ever is.
const attendedLately = 15 * time.Second

// Do adds an action: from here on the snapshot is as it is after that.
func (d *Draft) Do(action tenure.Action) {
	d.Plan.Actions = append(d.Plan.Actions, action)
	d.Snapshot = d.After(action)
}

// Wait adds a hold.
func (d *Draft) Wait(reason wire.Reason, detail string) {
	d.Plan.Holds = append(d.Plan.Holds, tenure.Hold{Reason: reason, Detail: detail})
}

// Stall adds a hold that needs a human.
func (d *Draft) Stall(reason wire.Reason, detail string) {
	d.Plan.Holds = append(d.Plan.Holds, tenure.Hold{Reason: reason, Detail: detail, Stalled: true})
}

// Store puts it on the volume, and lets the later rules see it there.
func (d *Draft) Store(why tenure.Why, change func(*tenure.Stored)) {
	stored := d.Stored
	stored.DatabaseUID = d.DatabaseUID
	change(&stored)
	d.Do(tenure.Store{Why: why, Stored: stored})
}

// Obey tells the server what to be, if it is not that already.
func (d *Draft) Obey(why tenure.Why, standing tenure.Standing) {
	standing.Serial = d.Standing.Serial
	if Same(standing, d.Standing) {
		return
	}
	d.Obeyed = true
	d.Do(tenure.Obey{Why: why, Standing: standing})
}

// Again brings the next look forward.
func (d *Draft) Again(in time.Duration) {
	in = max(in, time.Millisecond)
	if d.Plan.Again == 0 || in < d.Plan.Again {
		d.Plan.Again = in
	}
}

// Send sends a request, unless the same was sent a moment ago.
func (d *Draft) Send(why tenure.Why, every time.Duration, request wire.PeerRequest) {
	for _, sent := range d.Sent {
		if sent.To == request.To.Name && sent.Kind == request.Kind && d.Now.Since(sent.At) < every {
			d.Again(every - d.Now.Since(sent.At))
			return
		}
	}
	term, lease := request.Term, request.LeaseUID
	request.PeerHeader = d.Header()
	request.Term, request.LeaseUID = max(term, request.Term), cmp.Or(lease, request.LeaseUID)
	d.Do(tenure.Send{Why: why, Request: request})
	d.Again(every)
}

// Same says whether two standings are the same.
func Same(a, b tenure.Standing) bool {
	return a.Serial == b.Serial && a.Role == b.Role && a.Term == b.Term && a.Timeline == b.Timeline &&
		a.Upstream == b.Upstream && a.UpstreamAddress == b.UpstreamAddress && equal(a.Until, b.Until) &&
		a.Incarnation == b.Incarnation && a.Initialised == b.Initialised && a.SystemIdentifier == b.SystemIdentifier &&
		slices.Equal(a.Members, b.Members) && slices.Equal(a.Setting.Names, b.Setting.Names) &&
		a.Setting.K == b.Setting.K && a.OpenStart == b.OpenStart && a.OpenReads == b.OpenReads &&
		a.Down == b.Down && a.Prepare == b.Prepare && a.Emptied == b.Emptied && a.W == b.W
}

func equal[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// ReadLease begins a consistent read, and lets the later rules wait for it.
func (d *Draft) ReadLease(why tenure.Why) {
	d.Do(tenure.ReadLease{Why: why})
}

// Recently keeps attempts that fail from following each other at once.
func (d *Draft) Recently(at tenure.Instant, every time.Duration) bool {
	if at == 0 || d.Now.Since(at) >= every {
		return false
	}
	d.Again(every - d.Now.Since(at))
	return true
}

// WriteLease begins a conditional write of the version that was seen last.
func (d *Draft) WriteLease(kind tenure.WriteKind, why tenure.Why, holder wire.Member, record wire.LeaseRecord) {
	record = record.Canonical()
	changes := d.Lease.Record == nil || !SameRecord(record, *d.Lease.Record) || d.Outlived()
	if changes {
		record.Revision = d.Revision() + 1
	}
	// Whoever writes a lost lease anew changes neither holder nor members nor quorum.
	if changes && kind != tenure.WriteSucceed {
		d.Store("both records count until the lease shows which", func(stored *tenure.Stored) {
			stored.NextRecord, stored.NextVersion = &record, d.Lease.Version
			if stored.LastRecord == nil {
				stored.LastRecord = &record
			}
		})
	}
	d.Do(tenure.WriteLease{
		Why: why, Kind: kind, Version: d.Lease.Version, Holder: holder, Record: record, Duration: d.offered(),
	})
}

// Fence stores the fence, and tells the server that it follows nobody.
func (d *Draft) Fence(why tenure.Why, fence tenure.Fence) {
	if d.Stored.Fence == nil || *d.Stored.Fence != fence {
		d.Store(why, func(stored *tenure.Stored) {
			stored.Fence = &fence
			// A lease that is to take the place of a lost one is obeyed when it has a record, and not before.
			stored.LeaseUID = cmp.Or(stored.LeaseUID, fence.LeaseUID)
		})
	}
	d.Obey(why, d.Idle())
}
