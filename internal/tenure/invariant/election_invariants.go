package invariant

import (
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
)

// anew says that a write is one of a lease that was lost.
func anew(kind tenure.WriteKind) bool {
	return kind == tenure.WriteSucceed || kind == tenure.WriteRestore
}

// unowned says why the lease is not one that may be written anew, empty if it is.
func (m moment) unowned(write tenure.WriteLease) string {
	succeeds := write.Record.Succeeds
	used := m.Lease.Record != nil || m.Lease.Holder != wire.Member{} || m.Lease.Term > 0
	switch {
	case m.Lease.Read == 0 || write.Version != m.Lease.Version:
		return "no consistent read has shown this version"
	case m.Lease.UID != m.stored.LeaseUID && used:
		return "the other lease is in use"
	case m.Lease.UID != m.stored.LeaseUID && !m.madeForThis():
		return "the other lease was not made for the place of the one that is lost"
	case m.Lease.UID != m.stored.LeaseUID &&
		(!slices.Contains(succeeds, m.stored.LeaseUID) || !slices.Contains(succeeds, m.Lease.Succeeds)):
		return "the record does not say which lease was lost"
	case m.Lost() == "":
		return "the lease is not lost"
	case write.Record.DatabaseUID != m.DatabaseUID || !write.Record.Initialised || write.Holder != m.Self():
		return "the record is not that of this database"
	}
	return ""
}

// madeForThis says that the operator has made the lease in the place of one that this volume has obeyed, or of a later
// one.
func (m moment) madeForThis() bool {
	was := []string{m.stored.LeaseUID}
	if m.stored.LastRecord != nil {
		was = append(was, m.stored.LastRecord.Succeeds...)
	}
	if m.stored.Anew != nil {
		was = append(was, m.stored.Anew.Leases...)
	}
	return m.Lease.Succeeds != "" && slices.Contains(was, m.Lease.Succeeds) ||
		slices.Contains(m.Lease.Before, m.stored.LeaseUID)
}

func writeAnewOnlyWithPromises(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || write.Kind != tenure.WriteSucceed {
		return ""
	}
	term, until := m.Promised()
	last := m.stored.LastRecord
	switch why := m.unowned(write); {
	case why != "":
		return why
	case m.Now >= until || term != m.stored.HeldTerm || m.stored.Fence != nil:
		return "too few members have promised"
	case !m.askedSince(m.Lease.Changed, write.Record):
		return "members have promised before the lease was seen like this"
	case write.Record.Term <= m.stored.MaxTerm:
		return "the term is not a later one"
	case m.stored.Anew == nil || m.stored.Anew.Term != write.Record.Term || m.stored.Anew.Version != write.Version ||
		!slices.Contains(m.stored.Anew.Leases, m.Lease.UID):
		return "what is written is not on the volume before"
	case m.LeasesMissed() > 0:
		return "another lease was taken over since"
	case last == nil || last.W != write.Record.W || !slices.Equal(last.Canonical().Members, write.Record.Members) ||
		last.Timeline != write.Record.Timeline || last.SystemIdentifier != write.Record.SystemIdentifier:
		return "the record changes together with the lease"
	}
	return ""
}

// askedSince says that enough other members were asked for their promise after a moment.
func (m moment) askedSince(seen tenure.Instant, record wire.LeaseRecord) bool {
	asked := 0
	for _, promise := range m.Promises {
		if promise.Sent >= seen && promise.Member != m.Self() && record.Has(promise.Member) {
			asked++
		}
	}
	return asked >= record.W-1
}

func restoreOnlyWithAll(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || write.Kind != tenure.WriteRestore {
		return ""
	}
	if why := m.unowned(write); why != "" {
		return why
	}
	if m.Ballot == nil || m.Ballot.Version != write.Version || m.Ballot.LeaseUID != m.Lease.UID {
		return "the answers are about another version of the lease"
	}
	// The record itself is on the volume by now.
	written := func(record wire.LeaseRecord) bool { return draft.SameRecord(record, write.Record) }
	known := slices.DeleteFunc(m.Testimony(), written)
	var own tenure.Position
	seen := m.stored.MaxTerm
	for _, answer := range m.Ballot.Answers {
		known, seen = append(known, answer.Records...), max(seen, answer.Term)
		if answer.Member == m.Self() {
			own = answer.Position
		}
	}
	var highest int64
	for _, record := range known {
		highest = max(highest, record.Term)
		if record.Timeline >= write.Record.Timeline || record.Term >= write.Record.Term {
			return "term and timeline are not above all that were given out"
		}
	}
	// What is later than anything that was seen in a lease may never have been written.
	return m.unanswered(known, min(seen, highest), own)
}

// forgetNoLeaseWrittenAnew: as long as it is not sure which lease counts, it is not forgotten which ones this instance
// has begun to write, and none of their terms is given out twice.
func forgetNoLeaseWrittenAnew(m moment, action tenure.Action) string {
	store, ok := action.(tenure.Store)
	if !ok || m.stored.Anew == nil || store.Stored.Anew == m.stored.Anew {
		return ""
	}
	was, next := m.stored.Anew, store.Stored.Anew
	switch {
	case next == nil && (m.Lost() != "" || len(m.Doubts) > 0 || m.Write != nil):
		return "a lease that was written anew would be forgotten"
	case next == nil:
	case slices.ContainsFunc(was.Leases, func(uid string) bool { return !slices.Contains(next.Leases, uid) }):
		return "a lease that was written anew before would be forgotten"
	case next.Version != was.Version && next.Term <= was.Term:
		return "a term would be given out twice"
	}
	return ""
}

// unanswered looks for a member of the last records that has not answered, or has more.
func (m moment) unanswered(known []wire.LeaseRecord, from int64, own tenure.Position) string {
	for _, record := range known {
		for _, member := range record.Members {
			if record.Term < from || slices.Contains(m.Lease.GivenUp, member) {
				continue
			}
			index := slices.IndexFunc(m.Ballot.Answers, func(a tenure.Answer) bool { return a.Member == member })
			if index < 0 {
				return member.String() + " has not answered"
			}
			if m.Ballot.Answers[index].Position.Compare(own) > 0 {
				return member.String() + " has more"
			}
		}
	}
	return ""
}

// writtenAndHeard says that a lease is the one which this instance has written anew last, and that this is known to be
// done: only such a write gives the right to its term.
func writtenAndHeard(m moment, stored tenure.Stored) bool {
	was := m.stored.Anew
	return was != nil && stored.LeaseUID == was.Leases[len(was.Leases)-1] && m.Right.Term == was.Term &&
		stored.HeldTerm == was.Term && stored.MaxTerm >= was.Term
}

// nothingObeyed says that a cache forgets a lease which it has never obeyed a term of, for another one that it is told
// to obey and has read, and has nothing.
func nothingObeyed(m moment, stored tenure.Stored) bool {
	named := m.Policy.LeaseUID
	return m.Policy.Volatile && m.Engine.Data == tenure.DataNone && m.stored.MaxTerm == 0 && stored.LeaseUID == "" &&
		named != "" && named != m.stored.LeaseUID && named == m.Lease.UID && m.Lease.Read > 0
}

func obeyOnlyASuccessor(m moment, action tenure.Action) string {
	store, ok := action.(tenure.Store)
	if !ok || m.stored.LeaseUID == "" || store.Stored.LeaseUID == m.stored.LeaseUID {
		return ""
	}
	record := m.Lease.Record
	own := m.Right.Term > 0 && m.Right.Term == m.Lease.Term && m.Lease.Holder == m.Self()
	switch {
	case writtenAndHeard(m, store.Stored) || nothingObeyed(m, store.Stored):
	case store.Stored.LeaseUID != m.Lease.UID:
		return "it is not the lease that was seen"
	case m.Lease.Read == 0 && !own:
		return "only a watch has shown the other lease"
	case record == nil || !slices.Contains(record.Succeeds, m.stored.LeaseUID) || record.DatabaseUID != m.DatabaseUID:
		return "the other lease does not say that it has taken the place of this one"
	case m.Lease.Term <= m.stored.MaxTerm || store.Stored.MaxTerm < m.Lease.Term:
		return "the other lease is not of a later term"
	}
	return ""
}

// replaces says that a fence gives way for good reason although its own lease has no newer version: a consistent read
// has shown that the lease is another one, or was put back, at another version; and either that one is obeyed from now
// on, or this copy stays fenced, for a ballot at that version.
func (m moment) replaces(next tenure.Stored) bool {
	if m.Lease.Version == m.stored.Fence.Version {
		return false
	}
	own := m.Right.Term > 0 && m.Right.Term == m.Lease.Term && m.Lease.Holder == m.Self()
	if next.Fence != nil {
		present := tenure.Fence{LeaseUID: m.Lease.UID, Version: m.Lease.Version}
		return m.Lease.Read > 0 && m.Lost() != "" && *next.Fence == present
	}
	later := m.Lease.Term > m.stored.MaxTerm && next.MaxTerm >= m.Lease.Term
	return (m.Lease.Read > 0 || own) && later && next.LeaseUID == m.Lease.UID
}

// electOnlyAfterTheEnd: a ballot is begun about a version of the lease that nobody has changed for a whole duration by
// the own clock, or that nobody holds, and that a consistent read has returned after that. Where the lease is lost
// another rule holds (O2).
func electOnlyAfterTheEnd(m moment, action tenure.Action) string {
	conduct, ok := action.(tenure.Conduct)
	if !ok || conduct.Ballot == nil || m.Lost() != "" || m.Ballot != nil && m.Ballot.Version == conduct.Ballot.Version {
		return ""
	}
	ended := m.Lease.Changed
	if m.Lease.Holder != (wire.Member{}) {
		ended = ended.Add(m.over(max(m.Policy.Duration, m.Lease.Duration)))
	}
	switch {
	case conduct.Ballot.Version != m.Lease.Version || conduct.Ballot.LeaseUID != m.Lease.UID:
		return "the lease has another version"
	case m.Now < ended:
		return "the lease has not ended"
	case m.Lease.Read == 0 || m.Lease.Read < ended:
		return "no consistent read has shown since that nobody renewed it"
	}
	return ""
}

// fenceOnlyWithTheWilling: nobody is fenced for a ballot, this instance included, before so many members would answer
// that it can be won; and whoever says that it would has no reason not to.
func fenceOnlyWithTheWilling(m moment, action tenure.Action) string {
	if m.Lost() != "" || m.Lease.Record == nil {
		return ""
	}
	fences := false
	switch action := action.(type) {
	case tenure.Send:
		fences = action.Request.Kind == wire.PeerFence
	case tenure.AnswerBallot:
		fences = action.ID == 0
	case tenure.Conduct:
		fences = action.Ballot != nil && action.Ballot.Fencing != nil
		m.Ballot = action.Ballot
	case tenure.Reply:
		return m.unwillingAfterAll(action)
	}
	if !fences {
		return ""
	}
	willing, needed := 0, len(m.Lease.Record.Members)-m.Lease.Record.W+1
	if m.Policy.Durability == tenure.Async && m.Lease.Record.W == 1 {
		needed = 1
	}
	for _, member := range m.Lease.Record.Members {
		if m.Ballot != nil && slices.Contains(m.Ballot.Willing, member) {
			willing++
		}
	}
	if willing < needed {
		return "too few members would answer, and one is fenced"
	}
	return ""
}

// unwillingAfterAll says why a member that has said that it would answer a ballot would not.
func (m moment) unwillingAfterAll(reply tenure.Reply) string {
	asked := func(request tenure.Request) bool { return request.ID == reply.ID && request.Kind == wire.PeerAsk }
	if !reply.Reply.Yes || !slices.ContainsFunc(m.Inbox, asked) {
		return ""
	}
	promise := m.stored.Promise
	switch {
	case promise != nil && (promise.Boot != m.Boot || m.Now < promise.Until):
		return "a promise is valid"
	case m.Engine.Data != tenure.DataWhole:
		return "the copy is not whole"
	case m.Lease.Exists && m.Lease.Holder != (wire.Member{}) && m.Now < m.Lease.Changed.Add(m.over(m.Policy.Duration)):
		return "the lease was renewed a moment ago"
	}
	return ""
}

// tellOnlyAKnownPlace: how far a copy has come is told only where it is known, of a whole copy whose server does not
// write.
func tellOnlyAKnownPlace(m moment, action tenure.Action) string {
	reply, ok := action.(tenure.Reply)
	asked := func(request tenure.Request) bool { return request.ID == reply.ID && request.Kind == wire.PeerPlace }
	if !ok || !reply.Reply.Yes || !slices.ContainsFunc(m.Inbox, asked) {
		return ""
	}
	place := tenure.Position{Timeline: reply.Reply.Timeline, LSN: reply.Reply.LSN}
	if m.Engine.Flushed == nil || *m.Engine.Flushed != place || m.Engine.Data != tenure.DataWhole ||
		m.Engine.Leading != nil {
		return "a place would be told that is not known"
	}
	return ""
}

// catchUpOnlyToABallotAnswer: a candidate holds back for the log of another member only because that one has answered
// this ballot with more. What the lease says, such as a timeline that was given out and never begun, makes nobody
// wait: there may be nobody who has it.
func catchUpOnlyToABallotAnswer(m moment, action tenure.Action) string {
	obey, ok := action.(tenure.Obey)
	if !ok || obey.Standing.Role != tenure.RoleCatchUp {
		return ""
	}
	if m.Ballot == nil || obey.Standing.Until == nil {
		return "there is no ballot to be behind in"
	}
	more := func(answer tenure.Answer) bool {
		return answer.Member == obey.Standing.Upstream && answer.Position == *obey.Standing.Until
	}
	less := func(answer tenure.Answer) bool {
		return answer.Member == m.Self() && answer.Position.Compare(*obey.Standing.Until) < 0
	}
	if !slices.ContainsFunc(m.Ballot.Answers, more) || !slices.ContainsFunc(m.Ballot.Answers, less) {
		return "no answer of this ballot has more"
	}
	return ""
}

// bringNothingBack: what a user had emptied never comes back. Nobody leads with a copy that was not seen to have come
// as far as the last flush, and no write but that of a new, empty dataset forgets where that was.
func bringNothingBack(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || m.Lease.Record == nil || write.Kind == tenure.WriteBegin || anew(write.Kind) {
		return ""
	}
	known, next := m.Lease.Record.Emptied, write.Record.Emptied
	if known != nil && (next == nil || next.Timeline < known.Timeline || next.Offset < known.Offset) {
		return "where the cache was emptied would be forgotten"
	}
	if !m.leadsLate(write, known) {
		return "a copy from before the cache was emptied would lead"
	}
	return ""
}

// leadsLate says that whoever would lead by a write was seen to have come as far as the last flush.
func (m moment) leadsLate(write tenure.WriteLease, known *wire.Emptied) bool {
	late := func(position tenure.Position) bool {
		return known == nil || position.Timeline >= known.Timeline && position.LSN >= known.Offset
	}
	switch write.Kind {
	case tenure.WriteTake:
		return m.Ballot == nil || slices.ContainsFunc(m.Ballot.Answers, func(answer tenure.Answer) bool {
			return answer.Member == write.Holder && late(answer.Position)
		})
	case tenure.WriteJoin:
		return m.Engine.Flushed != nil && late(*m.Engine.Flushed)
	case tenure.WriteTransfer:
		return slices.ContainsFunc(m.Places, func(place tenure.Place) bool {
			return place.Member == write.Holder && late(place.Position)
		})
	default:
		return true
	}
}

// nonMemberLeadsOnlyAsLastCopy: a copy that is no member takes the lease only where data may be lost, with everything
// of the last primary's dataset, and only when no member can any more.
func nonMemberLeadsOnlyAsLastCopy(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || write.Kind != tenure.WriteJoin {
		return ""
	}
	before := m.Lease.Record
	switch {
	case !m.Policy.Volatile || before == nil || !before.Initialised:
		return "there is no data that may be lost"
	case m.Engine.Data != tenure.DataWhole || m.Engine.Leading != nil || write.Holder != m.Self() ||
		m.Engine.SystemIdentifier != before.SystemIdentifier || write.Record.SystemIdentifier != before.SystemIdentifier:
		return "there is no copy of this data here"
	case m.Engine.Flushed == nil || m.Engine.Flushed.Timeline != before.Timeline:
		return "the copy here is not of the last primary"
	}
	return m.joinsTooEarly(*before)
}

// over is how long a holder must have been silent, by the own clock, whose lease lasts so long. The server of a cache
// has ended after three quarters of that, and a tenth is for clocks that differ.
func (m moment) over(duration time.Duration) time.Duration {
	if m.Policy.Volatile {
		return duration * 17 / 20
	}
	return duration
}

// joinsTooEarly says what keeps a copy that is no member from taking the lease: a whole duration after its end, unless
// its only member has given it back, no member may have said that it has a copy.
func (m moment) joinsTooEarly(before wire.LeaseRecord) string {
	ended, given := m.Lease.Changed, m.Lease.Holder == wire.Member{}
	longest := max(m.Policy.Duration, m.Lease.Duration)
	if !given {
		ended = ended.Add(m.over(longest))
	}
	switch {
	case m.ToldTerm() > m.Lease.Term:
		return "tenure.believe-a-later-term: a peer knows of a later term"
	case m.Now < ended.Add(longest) && (!given || len(before.Members) > 1):
		return "the members were not given the time to take over"
	case m.Lease.Read < ended || m.Lease.Read == 0:
		return "no consistent read has shown since that nobody renewed the lease"
	case m.stored.Fence != nil || m.stored.Promise != nil && (m.stored.Promise.Boot != m.Boot ||
		m.Now < m.stored.Promise.Until):
		return "an election was answered here, or a promise is valid"
	}
	for _, place := range m.Places {
		if before.Has(place.Member) && !place.CannotLead && m.Now.Since(place.At) < draft.PlaceLasts {
			return place.Member.Name + " has a copy"
		}
	}
	return ""
}

// shortenInSteps keeps the lease from ending for the others before the watchdog ends the server, which goes by the last
// renewal that is known until it hears of this one.
func shortenInSteps(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || m.Right.Term == 0 || write.Holder != m.Self() {
		return ""
	}
	if left := m.Right.Renewed.Add(m.Right.Duration).Since(m.Now); write.Duration < left {
		return fmt.Sprintf("the lease shall last for %s, and the right of before lasts for %s", write.Duration, left)
	}
	return ""
}
