// Package mistakes is what a loop believes or plans wrongly on purpose, so that a simulated world can show what comes
// of it. Each is a function of what a pass has, and production knows none of them. The package that puts them between
// the stages of the loop says which rule each breaks.
package mistakes

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Edit replaces each action by what the function makes of it.
func Edit(actions []tenure.Action, change func(tenure.Action) []tenure.Action) []tenure.Action {
	var edited []tenure.Action
	for _, action := range actions {
		edited = append(edited, change(action)...)
	}
	return slices.Clip(edited)
}

// LeadAtOnce leads as soon as a server can, by what the volume tells of the last term.
func LeadAtOnce(s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	record := s.Stored.LastRecord
	if _, may := s.MayLead(); may || record == nil || s.Stored.HeldTerm == 0 || s.Stored.HeldTerm != s.Stored.MaxTerm ||
		s.Engine.Data != tenure.DataWhole || s.Lease.Exists && s.Lease.Term > s.Stored.HeldTerm {
		return actions
	}
	standing := tenure.Standing{
		Role: tenure.RoleLead, Term: s.Stored.HeldTerm, Timeline: record.Timeline, Initialised: true,
		SystemIdentifier: record.SystemIdentifier, Members: record.Members,
	}
	if s.Engine.Leading != nil {
		standing.OpenStart = s.Engine.Leading.Start
	}
	if s.Standing.Role == tenure.RoleLead && s.Standing.OpenStart == standing.OpenStart {
		return nil
	}
	return []tenure.Action{tenure.Arm{Until: s.Now.Add(8 * time.Second)}, tenure.Obey{Standing: standing}}
}

// TellAlways lets a holder tell of its lease more often than it must.
func TellAlways(s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	if s.Engine.Leading == nil || s.Lease.Record == nil || s.Lease.Holder != s.Self() {
		return actions
	}
	for _, member := range s.Lease.Record.Members {
		if member != s.Self() {
			actions = append(actions, tenure.Send{Request: wire.PeerRequest{
				PeerHeader: wire.PeerHeader{
					DatabaseUID: s.DatabaseUID, LeaseUID: s.Lease.UID, Term: s.Lease.Term, From: s.Self(), Address: s.Address,
				},
				Kind: wire.PeerTell, To: member, LeaseVersion: s.Lease.Version, Record: s.Lease.Record,
			}})
		}
	}
	return actions
}

// NeverCatchUp never takes the log of another member for its ballot.
func NeverCatchUp(_ tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	return Edit(actions, func(action tenure.Action) []tenure.Action {
		if obey, ok := action.(tenure.Obey); ok && obey.Standing.Role == tenure.RoleCatchUp {
			return nil
		}
		return []tenure.Action{action}
	})
}

// TakeBackInDoubt goes on leading where nobody knows whether a transfer was done.
func TakeBackInDoubt(s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	record := s.Lease.Record
	for _, doubt := range s.Doubts {
		if doubt.Kind != tenure.WriteTransfer || record == nil || s.Lease.Holder != s.Self() {
			continue
		}
		standing := tenure.Standing{
			Role: tenure.RoleLead, Term: s.Lease.Term, Timeline: record.Timeline, Initialised: true,
			SystemIdentifier: record.SystemIdentifier, Members: record.Members,
			Setting: tenure.Setting{K: record.W - 1, Names: slices.Clone(record.Members)},
		}
		standing.Setting.Names = slices.DeleteFunc(standing.Setting.Names, func(m wire.Member) bool { return m == s.Self() })
		if leading := s.Engine.Leading; leading != nil {
			has := func(r tenure.Replica) bool { return r.Flushed >= leading.Recovered }
			if slices.ContainsFunc(leading.Replicas, has) {
				standing.OpenStart = leading.Start
			}
		}
		if s.Standing.Role == tenure.RoleLead && s.Standing.OpenStart == standing.OpenStart {
			return nil
		}
		return []tenure.Action{tenure.Arm{Until: s.Now.Add(8 * time.Second)}, tenure.Obey{Standing: standing}}
	}
	return actions
}

// SucceedAtOnce writes a lost lease anew without asking.
func SucceedAtOnce(s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	record := s.Stored.LastRecord
	if !s.Vacant() || s.Write != nil || record == nil || s.Stored.HeldTerm == 0 || !record.Has(s.Self()) {
		return actions
	}
	heir := *record
	heir.Term, heir.Succeeds = s.Stored.HeldTerm+1, append(slices.Clone(record.Succeeds), s.Stored.LeaseUID)
	return append(actions, tenure.WriteLease{
		Kind: tenure.WriteSucceed, Version: s.Lease.Version, Holder: s.Self(), Record: heir, Duration: s.Policy.Duration,
	})
}

// TakeOutOfRecordFirst records that a member is gone before the server waits for it no more.
func TakeOutOfRecordFirst(s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	return Edit(actions, func(action tenure.Action) []tenure.Action {
		obey, ok := action.(tenure.Obey)
		leads := ok && obey.Standing.Role == tenure.RoleLead && s.Standing.Role == tenure.RoleLead
		if !leads || s.Lease.Record == nil || s.Write != nil ||
			len(obey.Standing.Setting.Names) >= len(s.Standing.Setting.Names) || !s.Lease.Record.Has(s.Self()) {
			return []tenure.Action{action}
		}
		record := *s.Lease.Record
		record.Members = append(slices.Clone(obey.Standing.Setting.Names), s.Self())
		if record.W > len(record.Members) || len(record.Members) >= len(s.Lease.Record.Members) {
			return []tenure.Action{action}
		}
		return []tenure.Action{tenure.WriteLease{
			Kind: tenure.WriteRecord, Version: s.Lease.Version, Holder: s.Self(), Record: record,
		}}
	})
}

// RaiseRecordFirst records a larger W before the server waits for so many.
func RaiseRecordFirst(s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	return Edit(actions, func(action tenure.Action) []tenure.Action {
		obey, ok := action.(tenure.Obey)
		leads := ok && obey.Standing.Role == tenure.RoleLead
		if !leads || s.Lease.Record == nil || s.Write != nil || obey.Standing.Setting.K < s.Lease.Record.W ||
			obey.Standing.Setting.K <= s.Standing.Setting.K {
			return []tenure.Action{action}
		}
		record := *s.Lease.Record
		record.W++
		return []tenure.Action{tenure.WriteLease{
			Kind: tenure.WriteRecord, Version: s.Lease.Version, Holder: s.Self(), Record: record,
		}}
	})
}

// DropTheSilent leaves those out of the record of a take-over that have not answered.
func DropTheSilent(s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	return Edit(actions, func(action tenure.Action) []tenure.Action {
		write, ok := action.(tenure.WriteLease)
		if !ok || write.Kind != tenure.WriteTake || s.Ballot == nil {
			return []tenure.Action{action}
		}
		write.Record.Members = nil
		for _, answer := range s.Ballot.Answers {
			write.Record.Members = append(write.Record.Members, answer.Member)
		}
		write.Record.W = min(write.Record.W, len(write.Record.Members))
		return []tenure.Action{write}
	})
}

// SurrenderTooEarly gives the lease back when the pod is told to end, and ends the server when that was heard of.
func SurrenderTooEarly(s tenure.Snapshot, actions []tenure.Action) []tenure.Action {
	if !s.Stopping || s.Engine.Leading == nil {
		return actions
	}
	serves := Edit(actions, func(action tenure.Action) []tenure.Action {
		obey, told := action.(tenure.Obey)
		if _, yields := action.(tenure.Yield); yields || told && obey.Standing.Role == tenure.RoleYield {
			return nil
		}
		return []tenure.Action{action}
	})
	if s.Lease.Record != nil && s.Lease.Holder == s.Self() && s.Write == nil && len(s.Doubts) == 0 {
		serves = append(serves, tenure.WriteLease{
			Kind: tenure.WriteRelease, Version: s.Lease.Version, Record: *s.Lease.Record, Duration: s.Lease.Duration,
		})
	}
	return serves
}
