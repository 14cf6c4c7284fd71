package status

import (
	"cmp"
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
)

// addChanges adds what a change of the database is planned by: what is in force, what waits, and how far copies have
// come.
func addChanges(report *wire.Report, s postgres.Snapshot) {
	report.Volume = volume(s)
	report.Clone = clone(s)
	if record := s.Volume.Record; record != nil && record.InProgress == postgres.StepInitialise {
		restore := s.JobOf(postgres.JobRestore)
		report.RestoreProblem, report.RestoreOutside = restore.Problem, restore.Outside
	}
	report.Libraries = s.Application.Libraries
	report.Parameters = refused(s)
	if !s.Server.Reachable {
		return
	}
	report.Restart = s.Process.Restart
	report.Parameters = parameters(s)
	report.Verified = s.Server.Compared != "" && s.Server.Compared == s.Server.Proven
	if s.Server.Loaded == s.Server.Proven {
		report.Certificate = s.Certificate.Installed
	}
	report.Rotation = rotation(s.Application)
	report.PasswordSet = !s.Server.Replica && s.Application.Known && s.Application.Login && s.Application.PasswordMatches
}

// rotation is that of the latest credentials, if they work.
func rotation(application postgres.Application) int64 {
	switch next := application.Next; {
	case !application.Known:
		return 0
	case next != nil && next.Works:
		return next.Rotation
	case next == nil && application.Login && application.PasswordMatches:
		return application.Rotation
	}
	return 0
}

func volume(s postgres.Snapshot) wire.Room {
	room := s.Volume.Room
	return wire.Room{
		Size: int64(room.Size), Free: int64(room.Free), LogSize: int64(room.LogSize), LogFree: int64(room.LogFree),
		Full: room.Full(s.Server.Full),
	}
}

// clone is the copy that goes on or has failed.
func clone(s postgres.Snapshot) *wire.Progress {
	job := s.JobOf(postgres.JobClone)
	record := s.Volume.Record
	begun := record != nil && record.InProgress == postgres.StepClone
	if restore := s.JobOf(postgres.JobRestore); record != nil && record.InProgress == postgres.StepInitialise &&
		(restore.Running || restore.Problem != "") {
		job, begun = restore, true
	}
	if !job.Running && (job.Problem == "" || !begun) {
		return nil
	}
	return &wire.Progress{
		Done: job.Done, Total: job.Total, Started: job.Began, Failures: job.Failures, Problem: job.Problem,
	}
}

// wished are the settings that are to be in force.
func wished(s postgres.Snapshot) wire.Settings {
	if s.Settings.Mounted != nil {
		return *s.Settings.Mounted
	}
	if record := s.Volume.Record; record != nil && record.Settings != nil {
		return *record.Settings
	}
	return wire.Settings{}
}

// refused are the parameters that the server does not accept, with what is in force in their place.
func refused(s postgres.Snapshot) []wire.ParameterState {
	settings, record := wished(s), s.Volume.Record
	if record == nil || record.Refused == nil || record.Refused.Settings != settings.Hash() {
		return nil
	}
	var all []wire.ParameterState
	for _, parameter := range settings.Parameters {
		if !slices.Contains(record.Refused.Names, parameter.Name) {
			continue
		}
		state := wire.ParameterState{Name: parameter.Name, State: wire.ParameterRefused, Wanted: parameter.Value}
		for _, kept := range record.Kept {
			if kept.Name == parameter.Name && !slices.Contains(record.Refused.Bare, kept.Name) {
				state.Current = kept.Value
			}
		}
		all = append(all, state)
	}
	return all
}

// parameters are those that are not as wanted, each once.
func parameters(s postgres.Snapshot) []wire.ParameterState {
	settings := wished(s)
	all := refused(s)
	add := func(state wire.ParameterState) {
		if !slices.ContainsFunc(all, func(known wire.ParameterState) bool { return known.Name == state.Name }) {
			all = append(all, state)
		}
	}
	for _, parameter := range s.Server.Parameters {
		listed := slices.ContainsFunc(settings.Parameters, func(p wire.Parameter) bool { return p.Name == parameter.Name })
		state := wire.ParameterState{
			Name: parameter.Name, State: wire.ParameterPending, Current: parameter.Current, Wanted: parameter.Wanted,
		}
		if !parameter.Pending {
			state.State = wire.ParameterOverridden
		}
		if parameter.Pending || listed {
			add(state)
		}
	}
	if s.Server.Replica {
		for _, own := range postgres.Raised(s.Server.Own, settings.Parameters) {
			add(wire.ParameterState{
				Name: own.Name, State: wire.ParameterRaised, Current: fmt.Sprint(own.Value),
				Wanted: postgres.Ordinary(own.Name, settings.Parameters),
			})
		}
	}
	slices.SortFunc(all, func(a, b wire.ParameterState) int { return cmp.Compare(a.Name, b.Name) })
	return all[:min(len(all), wire.MostParameters)]
}
