package redis

import (
	"slices"
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// The functions below say how far what is wanted is in force. Rules and report have to agree about that, so it is said
// here, once.

// Bound is how long a copy may be without word of its primary and still be served: longer than an election takes, which
// begins when the lease has ended.
func (s Snapshot) Bound() time.Duration { return 2 * s.Lease() }

// Lease is how long the lease lasts.
func (s Snapshot) Lease() time.Duration {
	if s.Settings.Wanted == nil || s.Settings.Wanted.LeaseMilliseconds <= 0 {
		return 10 * time.Second
	}
	return time.Duration(s.Settings.Wanted.LeaseMilliseconds) * time.Millisecond
}

// Leads says that the server is the primary of the present term.
func (s Snapshot) Leads() bool {
	return s.Standing.Role == tenure.RoleLead && s.Copy.Term > 0 && s.Copy.Term == s.Standing.Term
}

// LetsIn says that applications shall be let in: to the start of a primary that was named for it, or to a replica that
// has a copy and is read.
func (s Snapshot) LetsIn() bool {
	switch s.Standing.Role {
	case tenure.RoleLead:
		return s.Leads() && s.Standing.OpenStart == s.Copy.Start()
	case tenure.RoleFollow, tenure.RoleIdle:
		return s.Copy.Whole && s.Copy.Term == 0 && s.Server.Replica && s.Standing.OpenReads
	case tenure.RoleBegin, tenure.RoleYield, tenure.RoleCatchUp:
	}
	return false
}

// Heirs says that there are other members, which could take the place of this one.
func (s Snapshot) Heirs() bool { return slices.ContainsFunc(s.Standing.Members, s.other) }

func (s Snapshot) other(member wire.Member) bool { return member.Name != s.Instance }

// Heard says that another member has confirmed all that was written before applications were kept out.
func (s Snapshot) Heard() bool {
	return slices.ContainsFunc(s.Server.Sent, func(sent Sent) bool {
		return sent.Online && sent.Offset >= s.Copy.Final && s.other(sent.Member) &&
			slices.Contains(s.Standing.Members, sent.Member)
	})
}

// Follows says that the server follows the one that it is told to follow, as far as it was told.
func (s Snapshot) Follows() bool {
	// A link that is up needs no password any more; and while those of before count as well, one that is not up is tried
	// with both in turn.
	knows := s.Server.Knows || s.Server.Up || s.Turns > 1
	return s.Server.Replica && s.Server.Host != "" && knows && s.Copy.Followed.Upstream == s.Standing.Upstream &&
		s.Copy.Followed.Timeline == s.Standing.Timeline
}

// Allowed is how much data the server may keep: what is wanted, or what the container can carry if that is less. It is
// never nothing, because to the server nothing means without a limit.
func (s Snapshot) Allowed() int64 {
	allowed := s.Settings.Wanted.Memory
	if limit := s.Container.Limit; limit > 0 {
		allowed = min(allowed, wire.CacheCapacity(limit))
	}
	return max(allowed, wire.LeastMemory)
}

// waitingMost may wait for a replica, beside an eighth of the data.
const waitingMost = 64 << 20

// Waiting is how much may wait for a replica in a server that may keep so much data. It does not count for eviction,
// and fits into what the container has beside the data: one replica that is gone must not cost the primary.
func Waiting(memory int64) int64 { return waitingMost + memory/8 }

// Defaults are parameters that Meridian sets unless the settings have their own word, and unless the server refuses
// them: not every build has both. What clients hold in buffers is bounded, so that many slow readers cannot take the
// container down; and holes between keys are closed, so that a cache that has shrunk gives its memory back.
var Defaults = []wire.Parameter{{Name: "activedefrag", Value: "yes"}, {Name: "maxmemory-clients", Value: "25%"}}

// Parameters are all that are wanted, sorted by name.
func (s Snapshot) Parameters() []wire.Parameter {
	list := slices.Clone(s.Settings.Wanted.Parameters)
	for _, own := range Defaults {
		if !slices.ContainsFunc(list, func(one wire.Parameter) bool { return one.Name == own.Name }) {
			list = append(list, own)
		}
	}
	slices.SortFunc(list, func(a, b wire.Parameter) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}

// AtStart are the wanted parameters that a server takes over at its start only, without those that it is known not to
// start with.
func (s Snapshot) AtStart() []wire.Parameter {
	var list []wire.Parameter
	for _, parameter := range s.Parameters() {
		if slices.Contains(s.Fixed, parameter.Name) && !slices.Contains(s.Process.Unfit, parameter) {
			list = append(list, parameter)
		}
	}
	return list
}

// Pending are the parameters that wait for the next start, by name: those that have another value then, and those that
// are not wanted any more.
func (s Snapshot) Pending() []string {
	var names []string
	wanted := s.AtStart()
	for _, parameter := range wanted {
		if !slices.Contains(s.Process.Fixed, parameter) {
			names = append(names, parameter.Name)
		}
	}
	for _, started := range s.Process.Fixed {
		if !slices.ContainsFunc(wanted, func(one wire.Parameter) bool { return one.Name == started.Name }) {
			names = append(names, started.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Live are the wanted parameters that have to be set in the running server now: not those that it has, takes over at
// its start only, or has refused with this very text.
func (s Snapshot) Live() []wire.Parameter {
	var list []wire.Parameter
	for _, parameter := range s.Parameters() {
		now := s.Server.Parameter(parameter.Name)
		has := now.InForce && now.Set == parameter.Value
		refused := now.Refused != "" && now.Tried == parameter.Value
		if !has && !refused && !slices.Contains(s.Fixed, parameter.Name) {
			list = append(list, parameter)
		}
	}
	return list
}

// Surplus are parameters that were set in the running server and are not wanted any more, by name.
func (s Snapshot) Surplus() []string {
	var names []string
	wanted := s.Parameters()
	for _, now := range s.Server.Parameters {
		if now.Set != "" && !slices.ContainsFunc(wanted, func(one wire.Parameter) bool { return one.Name == now.Name }) {
			names = append(names, now.Name)
		}
	}
	return names
}

// Refusals are what the server said to parameters that the settings ask for, one sentence each.
func (s Snapshot) Refusals() []string {
	var list []string
	for _, parameter := range s.Settings.Wanted.Parameters {
		now := s.Server.Parameter(parameter.Name)
		switch {
		case slices.Contains(s.Process.Unfit, parameter):
			list = append(list, parameter.Name+": the server does not start with it")
		case now.Refused != "" && now.Tried == parameter.Value && !slices.Contains(s.Fixed, parameter.Name):
			list = append(list, parameter.Name+": "+now.Refused)
		}
	}
	return list
}

// Carried says that memory, policy and parameters of the running server are as far as they can come now.
func (s Snapshot) Carried() bool {
	return s.Server.MaxMemory == s.Allowed() && s.Server.Waiting == Waiting(s.Allowed()) &&
		s.Server.Policy == s.Settings.Wanted.EvictionPolicy &&
		len(s.Live()) == 0 && len(s.Surplus()) == 0
}
