package lead

import (
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/draft"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/quorum"
)

// ChangeMembers takes the next step towards the members and the quorum that are wished for (Q1). Membership is frozen
// while the API server is away, while a write is in doubt, and until the server leads.
func ChangeMembers(d *draft.Draft) bool {
	leading := d.Engine.Leading
	if d.Standing.Role != tenure.RoleLead || leading == nil || leading.Term != d.Standing.Term || !d.Holder() ||
		d.Lease.Failing != nil || len(d.Policy.Instances) == 0 || !d.Policy.Known || !d.FreshFacts() {
		return false
	}
	noteQuorum(d)
	if d.Write != nil || len(d.Doubts) > 0 || d.Stored.NextRecord != nil || d.Obeyed || !d.SeenForSure() ||
		d.Engine.Obeyed != d.Standing.Serial {
		return false
	}
	record := *d.Lease.Record
	step := quorum.Next(quorumFacts(d, record, *leading), quorumWish(d, record, *leading))
	switch {
	case step.Record != nil:
		record.Members, record.W = draft.MembersOf(step.Record.Members), step.Record.W
		why := tenure.Why("tenure.keep-the-quorum: the record changes before, or after, what the server waits for")
		d.WriteLease(tenure.WriteRecord, why, d.Self(), record)
		d.Wait(wire.ReasonMembership, "the record of the members is being changed")
	case step.Setting != nil:
		standing := d.Standing
		standing.Setting = draft.SettingOf(*step.Setting)
		d.Obey("tenure.keep-the-quorum: the server waits for the members that the step needs", standing)
	case step.Wait != "":
		d.Wait(wire.ReasonMembership, step.Wait)
	}
	return false
}

// noteQuorum notes since when too few replicas are near for the quorum.
func noteQuorum(d *draft.Draft) {
	near := 1
	for _, replica := range d.Engine.Leading.Replicas {
		if replica.Near && d.Lease.Record.Has(replica.Member) {
			near++
		}
	}
	needed := d.Lease.Record.W
	if d.Policy.Durability == tenure.Available {
		// The way down to one copy is several steps, and the first of them asks for less: it goes on until those that are
		// away are members no more.
		needed = max(needed, quorum.Majority(len(d.Lease.Record.Members)))
	}
	switch enough := near >= needed; {
	case enough && d.Lacking != nil:
		d.Do(tenure.NoteQuorumLost{Why: "enough replicas stream again"})
	case !enough && d.Lacking == nil:
		now := d.Now
		d.Do(tenure.NoteQuorumLost{Why: "too few replicas stream for the quorum", Since: &now})
	}
}

// degrades says that the database goes on with one copy: the mode allows it, the lease is renewed, and for a whole
// duration there were too few replicas.
func degrades(d *draft.Draft) bool {
	return d.Policy.Durability == tenure.Available && d.Lacking != nil && d.Now.Since(*d.Lacking) >= d.Policy.Duration
}

func quorumWish(d *draft.Draft, record wire.LeaseRecord, leading tenure.Leading) quorum.Wish {
	wish := quorum.Wish{Members: []string{d.Self().String()}, W: quorum.Majority, Size: len(d.Policy.Instances)}
	if d.Policy.Durability == tenure.Async {
		wish.W = func(int) int { return 1 }
	}
	if degrades(d) {
		wish.W = func(int) int { return 1 }
		return wish
	}
	for _, name := range d.Policy.Instances {
		if member, found := wished(name, record, leading); found && name != d.Name {
			wish.Members = append(wish.Members, member.String())
		}
	}
	return wish
}

// wished is the copy of an instance that shall count: one that takes the log, or else the recorded one. A copy that was
// made anew takes the place of the one before (I1).
func wished(name string, record wire.LeaseRecord, leading tenure.Leading) (wire.Member, bool) {
	for _, replica := range leading.Replicas {
		if replica.Member.Name == name && replica.Near {
			return replica.Member, true
		}
	}
	for _, member := range record.Members {
		if member.Name == name {
			return member, true
		}
	}
	return wire.Member{}, false
}

func quorumFacts(d *draft.Draft, record wire.LeaseRecord, leading tenure.Leading) quorum.Facts {
	facts := quorum.Facts{Self: d.Self().String(), Record: draft.RecordOf(record), Barrier: leading.Barrier}
	if leading.Setting != nil && leading.Barrier > 0 && d.Engine.Obeyed == d.Standing.Serial {
		setting := quorum.Setting{K: leading.Setting.K}
		for _, member := range leading.Setting.Names {
			setting.Names = append(setting.Names, member.String())
		}
		facts.InForce = &setting
	}
	for _, replica := range leading.Replicas {
		facts.Copies = append(facts.Copies, quorum.Copy{
			ID: replica.Member.String(), Near: replica.Near, Flushed: replica.Flushed,
		})
	}
	return facts
}
