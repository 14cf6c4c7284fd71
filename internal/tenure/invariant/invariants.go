package invariant

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/quorum"
)

// possible are the records that may be in force when the action is done.
func (m moment) possible() []wire.LeaseRecord {
	records := m.Records()
	if m.Lease.Exists && m.Lease.Record != nil && m.Lost() == "" {
		records = append(records, *m.Lease.Record)
	}
	return records
}

func asSetting(setting tenure.Setting) quorum.Setting {
	result := quorum.Setting{K: setting.K}
	for _, member := range setting.Names {
		result.Names = append(result.Names, member.String())
	}
	return result
}

func forgetNoWriteInDoubt(m moment, action tenure.Action) string {
	store, ok := action.(tenure.Store)
	if !ok || m.stored.NextRecord == nil || store.Stored.NextRecord != nil {
		return ""
	}
	if m.Lease.Version == m.stored.NextVersion && m.Right.Term != m.Lease.Term {
		return "the lease has the version that a write demands, which may still be done"
	}
	return ""
}

func keepTheQuorum(m moment, action tenure.Action) string {
	switch action := action.(type) {
	case tenure.Obey:
		if action.Standing.Role != tenure.RoleLead {
			return ""
		}
		for _, record := range m.possible() {
			setting := asSetting(action.Standing.Setting)
			if record.Term == action.Standing.Term && !quorum.Intersects(setting, draft.RecordOf(record)) {
				return fmt.Sprintf("the server would wait for less than %d of %v", record.W, record.Members)
			}
		}
	case tenure.WriteLease:
		if action.Kind != tenure.WriteRecord || !action.Record.Initialised {
			return ""
		}
		// What the server was told before, and what it may still do by an older word.
		settings := []tenure.Setting{m.Standing.Setting}
		if leading := m.Engine.Leading; leading != nil && leading.Setting != nil {
			settings = append(settings, *leading.Setting)
		}
		if m.Engine.Leading == nil {
			return ""
		}
		before := m.Lease.Record.Canonical()
		if action.Record.W == before.W && slices.Equal(action.Record.Members, before.Members) {
			return ""
		}
		narrower := action.Record.W > m.Lease.Record.W || !contains(action.Record.Members, m.Lease.Record.Members)
		if narrower && (m.Engine.Leading.Setting == nil || m.Engine.Obeyed != m.Standing.Serial) {
			return "the record would promise more before it is sure what the server waits for"
		}
		for _, setting := range settings {
			if !quorum.Intersects(asSetting(setting), draft.RecordOf(action.Record)) {
				return fmt.Sprintf("the server waits for %d of %v", setting.K, setting.Names)
			}
		}
	}
	return ""
}

func contains(all, some []wire.Member) bool {
	for _, one := range some {
		if !slices.Contains(all, one) {
			return false
		}
	}
	return true
}

func carryTheQuorumOver(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || write.Kind == tenure.WriteRecord || write.Kind == tenure.WriteBegin || write.Kind == tenure.WriteJoin ||
		anew(write.Kind) {
		return ""
	}
	before := m.Lease.Record
	if before == nil || write.Record.W != before.W || !slices.Equal(write.Record.Members, before.Canonical().Members) ||
		write.Record.SystemIdentifier != before.SystemIdentifier || write.Record.Initialised != before.Initialised {
		return "members and quorum change together with the holder"
	}
	return ""
}

// countOnlyTheOwnCopy: what counts by incarnation is said and done by a copy that has one, and in its name. One that
// was put back has none, whatever is stored beside it.
func countOnlyTheOwnCopy(m moment, action tenure.Action) string {
	putBack := m.Engine.Data == tenure.DataPutBack
	own := wire.Member{Name: m.Name, Incarnation: m.Engine.Incarnation}
	switch action := action.(type) {
	case tenure.AnswerBallot:
		if putBack || own.Incarnation == "" || action.Reply.From != own {
			return "a ballot would be answered in the name of another copy"
		}
	case tenure.Reply:
		if putBack && action.Reply.Yes {
			return "a copy that was put back would say yes"
		}
	case tenure.WriteLease:
		if putBack {
			return "a copy that was put back would write the lease"
		}
	case tenure.Obey:
		if role := action.Standing.Role; putBack && role != tenure.RoleIdle && role != tenure.RoleFollow {
			return "a copy that was put back would be told to " + string(role)
		}
	}
	return ""
}

// addBeforeTakingOut: a member leaves only where those that stay are enough for the quorum as it was, and in a write of
// its own: one that is lost is replaced by adding first.
func addBeforeTakingOut(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || write.Kind != tenure.WriteRecord || m.Lease.Record == nil || !m.Lease.Record.Initialised {
		return ""
	}
	before, after := *m.Lease.Record, write.Record
	if contains(after.Members, before.Members) {
		return ""
	}
	switch {
	case len(after.Members) < before.W:
		return fmt.Sprintf("%d members would stay, and each write is on %d", len(after.Members), before.W)
	case after.W != before.W || !contains(before.Members, after.Members):
		return "a member would leave together with another change"
	}
	return ""
}

func armNoLaterThanTheDeadline(m moment, action tenure.Action) string {
	arm, ok := action.(tenure.Arm)
	if _, until := m.Deadline(); ok && arm.Until > until {
		return fmt.Sprintf("the deadline is %s", until)
	}
	return ""
}

func leadOnlyByRight(m moment, action tenure.Action) string {
	obey, ok := action.(tenure.Obey)
	if !ok || obey.Standing.Role != tenure.RoleLead {
		return ""
	}
	term, may := m.MayLead()
	switch {
	case !may || term != obey.Standing.Term:
		return fmt.Sprintf("the right to lead is for term %d, or has ended", term)
	case m.stored.HeldTerm != term:
		return "the volume does not know of the term"
	case m.stored.Fence != nil:
		return "an election was answered here"
	case !m.Guard.Alive:
		return "there is no watchdog"
	case m.stored.MaxTerm > term:
		return "a later term was seen"
	}
	return ""
}

func takeOnlyTheVersionOfTheBallot(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || write.Kind != tenure.WriteTake {
		return ""
	}
	if m.Ballot == nil || m.Ballot.Version != write.Version || m.Ballot.LeaseUID != m.Lease.UID {
		return "the answers are about another version of the lease"
	}
	return ""
}

// outdone says that a record is later than that of the lease.
func (m moment) outdone(r wire.LeaseRecord) bool {
	return r.Term > m.Lease.Record.Term || r.Term == m.Lease.Record.Term && r.Revision > m.Lease.Record.Revision
}

func takeOnlyWithAnswers(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || write.Kind != tenure.WriteTake {
		return ""
	}
	if m.Ballot == nil || m.Lease.Record == nil {
		return "there was no ballot"
	}
	var own tenure.Position
	count, self := 0, false
	for _, answer := range m.Ballot.Answers {
		if slices.Contains(m.Lease.Record.Members, answer.Member) {
			count++
			if answer.Member == m.Self() {
				own, self = answer.Position, true
			}
		}
	}
	needed := len(m.Lease.Record.Members) - m.Lease.Record.W + 1
	if m.Policy.Durability == tenure.Async && m.Lease.Record.W == 1 {
		needed = 1
	}
	given := m.Policy.Volatile && m.Ballot.Fencing != nil && m.Now.Since(*m.Ballot.Fencing) >= draft.HighestPatience
	for _, answer := range m.Ballot.Answers {
		if slices.Contains(m.Lease.Record.Members, answer.Member) && answer.Position.Compare(own) > 0 && !given {
			return answer.Member.Name + " has more"
		}
		if answer.Member != m.Self() && slices.ContainsFunc(answer.Records, m.outdone) {
			return "the lease was put back: " + answer.Member.Name + " tells of a later record"
		}
	}
	if !self || count < needed {
		return fmt.Sprintf("%d answers of %d", count, needed)
	}
	return ""
}

func answerOnlyFenced(m moment, action tenure.Action) string {
	answer, ok := action.(tenure.AnswerBallot)
	if !ok {
		return ""
	}
	promise := m.stored.Promise
	switch {
	case m.stored.Fence == nil || *m.stored.Fence != answer.Fence:
		return "the fence is not on the volume"
	case promise != nil && (promise.Boot != m.Boot || m.Now < promise.Until):
		return "a promise is valid"
	case m.Engine.Data != tenure.DataWhole:
		return "the copy is not whole"
	}
	return ""
}

func liftOnlyByAConsistentRead(m moment, action tenure.Action) string {
	store, ok := action.(tenure.Store)
	if !ok || m.stored.Fence == nil || store.Stored.Fence != nil && *store.Stored.Fence == *m.stored.Fence {
		return ""
	}
	own := m.Right.Term > 0 && m.Right.Term == m.Lease.Term && m.Lease.Holder == m.Self()
	if m.replaces(store.Stored) {
		return ""
	}
	putBack := tenure.Newer(m.stored.Fence.Version, m.Lease.Version) && m.Lease.Read > m.Fenced
	switch {
	case !m.Lease.Exists || m.Lease.UID != m.stored.Fence.LeaseUID:
		return "the lease is another one"
	case !putBack && !tenure.Newer(m.Lease.Version, m.stored.Fence.Version):
		return "the lease has not changed since"
	case m.Lease.Read == 0 && !own && !m.vouched():
		return "only a watch has shown the new version"
	}
	return ""
}

// vouched says that another instance, the holder at a term that nothing on this volume exceeds, has told of its lease.
func (m moment) vouched() bool {
	return m.Lease.Vouched && m.Lease.Holder.Name != m.Name && m.Lease.Holder.Incarnation != "" &&
		m.Lease.Term >= m.stored.MaxTerm
}

func followNobodyBehindAFence(m moment, action tenure.Action) string {
	obey, ok := action.(tenure.Obey)
	if !ok || obey.Standing.Role != tenure.RoleFollow {
		return ""
	}
	if m.stored.Fence != nil {
		return "an election was answered here"
	}
	if obey.Standing.Term < m.stored.MaxTerm {
		return fmt.Sprintf("term %d was seen", m.stored.MaxTerm)
	}
	return ""
}

func openOnlyWithEnough(m moment, action tenure.Action) string {
	obey, ok := action.(tenure.Obey)
	if !ok || obey.Standing.OpenStart == "" || obey.Standing.OpenStart == m.Standing.OpenStart {
		return ""
	}
	leading := m.Engine.Leading
	if obey.Standing.Role != tenure.RoleLead || leading == nil || leading.Start != obey.Standing.OpenStart ||
		leading.Term != obey.Standing.Term {
		return "no server leads that could be opened"
	}
	if m.Engine.At > 0 && m.Now.Since(m.Engine.At) >= m.Policy.Duration/2 {
		return "what is known of the server is old"
	}
	for _, record := range m.possible() {
		have := 0
		for _, member := range record.Members {
			near := slices.ContainsFunc(leading.Replicas, func(replica tenure.Replica) bool {
				return replica.Member == member && replica.Flushed >= leading.Recovered
			})
			if near || member == m.Self() {
				have++
			}
		}
		if have < record.W {
			return fmt.Sprintf("%d of %v have the end of recovery, and %d must", have, record.Members, record.W)
		}
	}
	return ""
}

func promiseOnlyWhatIsStored(m moment, action tenure.Action) string {
	reply, ok := action.(tenure.Reply)
	if !ok || !reply.Reply.Yes {
		return ""
	}
	index := slices.IndexFunc(m.Inbox, func(request tenure.Request) bool { return request.ID == reply.ID })
	if index < 0 || m.Inbox[index].Kind != wire.PeerPromise {
		return ""
	}
	request := m.Inbox[index]
	switch promise := m.stored.Promise; {
	case promise == nil || promise.Boot != m.Boot || promise.Until < m.Now.Add(request.Duration):
		return "the promise is not on the volume"
	case m.stored.Fence != nil:
		return "an election was answered here"
	case m.stored.MaxTerm > request.Term:
		return "a later term was seen"
	}
	return ""
}

func transferOnlyAfterTheEnd(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || write.Kind != tenure.WriteTransfer && write.Kind != tenure.WriteRelease {
		return ""
	}
	// With a quorum, one that hangs and cannot be killed acknowledges nothing: whoever elects cuts its replicas off.
	alive := m.Engine.Processes || m.Engine.Leading != nil
	if alive && (write.Kind == tenure.WriteTransfer || write.Record.W == 1) {
		return "the server still lives"
	}
	if write.Kind == tenure.WriteRelease {
		return ""
	}
	has := func(place tenure.Place) bool {
		return place.Member == write.Holder && m.Engine.Final != nil && place.Position.Compare(*m.Engine.Final) >= 0
	}
	if !slices.Contains(write.Record.Members, write.Holder) || !slices.ContainsFunc(m.Places, has) {
		return "the target is not known to have everything"
	}
	return ""
}

// routeOnlyInTheOwnName keeps the write address of the next primary: whoever has given the place away closes nothing in
// the name of a term that it did not hold.
func routeOnlyInTheOwnName(m moment, action tenure.Action) string {
	if route, ok := action.(tenure.WriteRoute); ok && route.Term > m.Stored.HeldTerm {
		return fmt.Sprintf("the highest term that was held here is %d", m.Stored.HeldTerm)
	}
	return ""
}

// proxyOnlyWithoutAServer leads nobody past a server that lives.
func proxyOnlyWithoutAServer(m moment, action tenure.Action) string {
	if _, ok := action.(tenure.ProxyTo); ok && (m.Engine.Processes || m.Engine.Leading != nil || !m.Stopping) {
		return "the server lives, or the pod does not end"
	}
	return ""
}

func reserveTheNextTimeline(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || m.Lease.Record == nil || anew(write.Kind) {
		return ""
	}
	before, after := *m.Lease.Record, write.Record
	if write.Kind == tenure.WriteBegin {
		return beginAbove(m, before, after)
	}
	moves := write.Kind == tenure.WriteTake || write.Kind == tenure.WriteTransfer || write.Kind == tenure.WriteJoin
	switch {
	case moves && (after.Timeline != before.Timeline+1 || after.Term != m.Lease.Term+1):
		return "a new holder gets the next term and the next timeline"
	case write.Kind == tenure.WriteRecord && !before.Initialised && after.Initialised && after.Term == m.Lease.Term &&
		after.Timeline == max(before.Timeline, m.Engine.First):
		// The first copy has the timeline that it was made on: nobody was given out another one.
	case !moves && (after.Timeline != before.Timeline || after.Term != m.Lease.Term):
		return "term and timeline change without a new holder"
	}
	return ""
}

func beginAbove(m moment, before, after wire.LeaseRecord) string {
	switch {
	case before.Initialised && !m.Policy.Volatile:
		return "there has been data"
	case m.Policy.Volatile && after.Timeline <= before.Timeline:
		return "a new copy would look older than those before it"
	}
	return ""
}

// beginOnlyWithoutACopy is what an empty server must never do where data may be lost: to begin beside a copy that could
// lead, its own or that of a member that answers.
func beginOnlyWithoutACopy(m moment, action tenure.Action) string {
	write, ok := action.(tenure.WriteLease)
	if !ok || write.Kind != tenure.WriteBegin || m.Lease.Record == nil || !m.Lease.Record.Initialised {
		return ""
	}
	silent := m.Lease.Holder == wire.Member{} || m.Now.Since(m.Lease.Changed) >= m.over(m.Lease.Duration)
	switch {
	case m.Engine.Data != tenure.DataNone:
		return "there is a copy here"
	case !silent:
		return "the holder has renewed its lease"
	case write.Record.Initialised || write.Record.Term <= max(m.Lease.Term, m.Route.Term):
		return "a copy that is to be made would count already, or looks older than one before"
	}
	if m.ToldTerm() > m.Lease.Term {
		return "tenure.believe-a-later-term: a peer knows of a later term"
	}
	for _, place := range m.Places {
		if !place.CannotLead && m.Now.Since(place.At) < draft.PlaceLasts {
			return place.Member.Name + " has a copy"
		}
	}
	return ""
}

func forgetNoTerm(m moment, action tenure.Action) string {
	store, ok := action.(tenure.Store)
	elsewhere := ok && store.Stored.HeldTerm == 0 && m.HeldElsewhere(m.stored.HeldTerm)
	if ok && (store.Stored.MaxTerm < m.stored.MaxTerm || store.Stored.HeldTerm < m.stored.HeldTerm && !elsewhere) {
		return "a term that was seen would be forgotten"
	}
	return ""
}
