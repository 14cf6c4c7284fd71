package draft

import (
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/quorum"
)

// RecordOf is a record as the arithmetic of quorums has it.
func RecordOf(record wire.LeaseRecord) quorum.Record {
	result := quorum.Record{W: record.W}
	for _, member := range record.Members {
		result.Members = append(result.Members, member.String())
	}
	return result
}

// MembersOf are members by their ids.
func MembersOf(ids []string) []wire.Member {
	var members []wire.Member
	for _, id := range ids {
		members = append(members, wire.ParseMember(id))
	}
	return members
}

// SettingOf is a setting for the server.
func SettingOf(setting quorum.Setting) tenure.Setting {
	return tenure.Setting{Names: MembersOf(setting.Names), K: setting.K}
}

// SameRecord says whether two records would be written alike.
func SameRecord(a, b wire.LeaseRecord) bool {
	one, err := a.Encode()
	other, err2 := b.Encode()
	return err == nil && err2 == nil && one == other
}

// FirstRecord is the record of a copy that is to be made. Where data may be lost there have been copies before, and a
// later one must not look older than they. Their lease may be lost as well, and another one in its place, or put back:
// what is left of their terms is the one that the write address has, which leads nowhere at a lower one.
func (d *Draft) FirstRecord(member wire.Member) wire.LeaseRecord {
	term, timeline := d.Lease.Term+1, 1
	if d.Policy.Volatile {
		term = max(term, d.Route.Term+1)
		if before := d.Lease.Record; before != nil {
			timeline = before.Timeline + 1
		}
	}
	return wire.LeaseRecord{
		DatabaseUID: d.DatabaseUID, Term: term, Timeline: timeline, Members: []wire.Member{member}, W: 1,
	}
}
