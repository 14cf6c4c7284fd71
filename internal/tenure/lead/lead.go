// Package lead is what the holder tells its server: to lead, whose copies to wait for, and when to let applications in;
// and how the members of the quorum change. Start reading at AsTheHolder.
package lead

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/tenure/isolation"
	"meridian.dev/meridian/internal/tenure/lease"
	"meridian.dev/meridian/internal/tenure/succession"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/quorum"
)

// AsTheHolder tells the server to lead while the right to do so holds. The deadline is with the watchdog before the
// server hears of it.
func AsTheHolder(d *draft.Draft) bool {
	term, record := mayLead(d)
	if record == nil || d.Yielding != nil || d.Stopping && !d.Leads() {
		return false
	}
	free := d.Lost() == "" && d.Lease.Exists && d.OthersCanElect()
	// Whoever has begun to give the lease back ends it, and is not armed again meanwhile.
	if d.Now < d.Rest && free {
		succession.GiveBack(d, "the lease is being given back")
		return true
	}
	if !lease.Arm(d) {
		return false
	}
	if endTheTenure(d, term, *record, free) {
		return true
	}
	if !d.FreshFacts() {
		d.Wait(wire.ReasonFactsOld, "the server was last looked at "+d.Now.Since(d.Engine.At).Round(time.Second).String()+
			" ago: what is open stays open, and nothing else is changed")
	}
	standing := leading(d, term, *record)
	if len(standing.Setting.Names) < standing.Setting.K {
		d.Wait(wire.ReasonMembership, "it is not known which members count, and no quorum is enough for all that may be")
		return false
	}
	d.Obey("tenure.lead-only-by-right: this instance holds the lease", standing)
	return false
}

// endTheTenure is for a holder that shall not go on leading. Free says that others can take its place.
func endTheTenure(d *draft.Draft, term int64, record wire.LeaseRecord, free bool) bool {
	leading := d.Engine.Leading
	if d.Lost() == "" && leading != nil && leading.Term == term && leading.Timeline != record.Timeline {
		d.Stall(wire.ReasonTimelineWrong, "the server leads on another timeline than was reserved")
		succession.GiveBack(d, "tenure.reserve-the-next-timeline: "+
			"a promotion led to another timeline than the reserved one")
		return true
	}
	if d.Now >= d.Rest && isolation.CutOff(d) {
		succession.Retreat(d)
		return true
	}
	switch why := unfit(d); {
	case why == "":
		return false
	case hangs(d) && !(free && othersTakeOver(d)):
		return bearWithAHungServer(d, why, free)
	case free:
		succession.GiveBack(d, why)
		return true
	}
	return false
}

// hangs says that the server does not write any more, by facts that are not old.
func hangs(d *draft.Draft) bool {
	return d.Engine.Hung && (d.FreshFacts() || d.Engine.Probed > 0 && d.Recently(d.Engine.Probed, d.Policy.Renew))
}

// othersTakeOver says that enough other members for an election have answered just now, and that one of them can lead.
func othersTakeOver(d *draft.Draft) bool {
	if d.Policy.Volatile {
		return true
	}
	since := d.Now.Add(-d.Policy.Renew)
	leads := func(place tenure.Place) bool {
		return place.At >= since && place.Member != d.Self() && d.Lease.Record.Has(place.Member) && !place.CannotLead
	}
	return d.Lease.Failing == nil && slices.ContainsFunc(d.Places, leads) && succession.OthersElectSince(d, since)
}

// bearWithAHungServer leaves a server alone that does not write while nobody can take its place: it may be that the
// disk is slow, and an end would only add a recovery to that. A cache has no disk to wait for.
func bearWithAHungServer(d *draft.Draft, why tenure.Why, free bool) bool {
	if d.Policy.Volatile {
		d.Do(tenure.Kill{Why: why})
		return true
	}
	if free && d.Lease.Failing == nil {
		d.AskForPlaces(draft.PlaceEvery)
		d.Again(draft.PlaceEvery)
	}
	d.Wait(wire.ReasonServerNotWriting, "PostgreSQL runs and flushes no WAL, and too few other members answer that could "+
		"take over: it is left running")
	return false
}

// mayLead is the term that this instance may lead at, and its record; nil if it may not lead.
func mayLead(d *draft.Draft) (int64, *wire.LeaseRecord) {
	term, may := d.MayLead()
	record := d.Record()
	switch {
	case !may || record == nil || !record.Initialised || record.Term != term:
	case d.Stored.HeldTerm != term || d.Stored.Fence != nil || !d.Whole(*record) || d.Overtaken(term):
	case d.Lost() == "" && d.Lease.Exists && !d.Holder():
	default:
		return term, record
	}
	return term, nil
}

// unfit says why the holder shall not go on leading, empty if it shall. Whoever has begun to give the lease back ends
// it.
func unfit(d *draft.Draft) tenure.Why {
	switch {
	case hangs(d):
		return "the server lives and does not write any more"
	case d.Engine.CannotLead != "" && d.Engine.Leading == nil:
		return tenure.Why("the server cannot lead: " + d.Engine.CannotLead)
	case d.Unattended() != "" && d.Engine.Leading == nil:
		return tenure.Why("the server cannot lead: " + d.Unattended())
	case d.Now < d.Rest:
		return "the lease is being given back"
	}
	return ""
}

// leading is the standing of the holder. The quorum to wait for stays what it is, or is that of the record: a take-over
// carries it over unchanged (Q2).
func leading(d *draft.Draft, term int64, record wire.LeaseRecord) tenure.Standing {
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
	resting := resting(d, record)
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
	case open.Term == term && enough(d, open.Recovered) && d.FreshFacts():
		standing.OpenStart = open.Start
	default:
		standing.OpenStart = ""
	}
	if standing.OpenStart == "" {
		d.Wait(wire.ReasonGateClosed, "enough members must have all WAL before applications are let in")
	}
	return standing
}

// resting is what the server waits for when it starts to lead: as the record says, and, while another record may be in
// force as well, enough for both.
func resting(d *draft.Draft, record wire.LeaseRecord) tenure.Setting {
	setting := draft.SettingOf(quorum.Resting(d.Self().String(), draft.RecordOf(record)))
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
func enough(d *draft.Draft, lsn uint64) bool {
	for _, record := range append(d.Records(), *d.Record()) {
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
