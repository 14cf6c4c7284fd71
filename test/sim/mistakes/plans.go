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
