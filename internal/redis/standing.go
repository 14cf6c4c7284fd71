package redis

import (
	"slices"

	"meridian.dev/meridian/internal/wire"
)

// The functions below say how far what is wanted is in force. Rules and report have to agree about that, so it is said
// here, once.

// Allowed is how much data the server may keep: what is wanted, or what the container can carry if that is less. It is
// never nothing, because to the server nothing means without a limit.
func (s Snapshot) Allowed() int64 {
	allowed := s.Settings.Wanted.Memory
	if limit := s.Container.Limit; limit > 0 {
		allowed = min(allowed, wire.CacheCapacity(limit))
	}
	return max(allowed, wire.LeastMemory)
}

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
	return s.Server.MaxMemory == s.Allowed() && s.Server.Policy == s.Settings.Wanted.EvictionPolicy &&
		len(s.Live()) == 0 && len(s.Surplus()) == 0
}
