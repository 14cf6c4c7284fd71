package plan

import (
	"regexp"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
)

// A value that PostgreSQL does not accept is harmless while it runs, and keeps it from starting the next time. So it is
// taken out of the files as soon as it is known, in favour of the one before, and the report tells until the settings
// are changed.

// refusedBefore are the parameters of the wanted settings that are known to be refused.
func refusedBefore(s postgres.Snapshot) []string {
	settings, known := wanted(s)
	record := s.Volume.Record
	if !known || record == nil || record.Refused == nil || record.Refused.Settings != settings.Hash() {
		return nil
	}
	return record.Refused.Names
}

// inForce are the parameters by the settings of the record: those of them that are refused are as before.
func inForce(record postgres.Record) []wire.Parameter {
	if record.Settings == nil {
		return nil
	}
	var all []wire.Parameter
	refused := record.Refused
	for _, parameter := range record.Settings.Parameters {
		if refused == nil || refused.Settings != record.Settings.Hash() || !slices.Contains(refused.Names, parameter.Name) {
			all = append(all, parameter)
			continue
		}
		for _, kept := range record.Kept {
			if kept.Name == parameter.Name && !slices.Contains(refused.Bare, kept.Name) {
				all = append(all, kept)
			}
		}
	}
	return all
}

// keptInstead are the values of refused parameters that stay in force.
func keptInstead(s postgres.Snapshot) []wire.Parameter {
	refused := refusedBefore(s)
	var kept []wire.Parameter
	if len(refused) == 0 {
		return nil
	}
	for _, parameter := range s.Volume.Record.Kept {
		if slices.Contains(refused, parameter.Name) && !slices.Contains(s.Volume.Record.Refused.Bare, parameter.Name) {
			kept = append(kept, parameter)
		}
	}
	return kept
}

// noteRefused records those of the names that are parameters of the user and were not known to be refused. It reports
// whether there were any. What Meridian itself writes is never left out.
func noteRefused(s postgres.Snapshot, names []string, plan *draft) bool {
	settings, _ := wanted(s)
	before := refusedBefore(s)
	all := slices.Clone(before)
	var bare []string
	if len(before) > 0 {
		bare = slices.Clone(s.Volume.Record.Refused.Bare)
	}
	known := len(all) + len(bare)
	for _, parameter := range settings.Parameters {
		switch {
		case !slices.Contains(names, parameter.Name):
		case !slices.Contains(all, parameter.Name):
			all = append(all, parameter.Name)
		case slices.ContainsFunc(keptInstead(s), func(kept wire.Parameter) bool { return kept.Name == parameter.Name }):
			// It was not accepted before either, or is not any more.
			bare = append(bare, parameter.Name)
		}
	}
	if len(all)+len(bare) == known {
		return false
	}
	slices.Sort(all)
	slices.Sort(bare)
	plan.do(postgres.RecordRefused{
		Why:     "PostgreSQL does not accept these values, and would not start with them",
		Refused: postgres.Refused{Settings: settings.Hash(), Names: all, Bare: bare},
	})
	return true
}

// complaint is how PostgreSQL begins to speak of a parameter whose value, unit or name it does not take. Its messages
// are not translated.
var complaint = regexp.MustCompile(`^(?:invalid value for parameter "([a-z0-9_.]+)": |` +
	`parameter "([a-z0-9_.]+)" (?:requires a |cannot be )|` +
	`unrecognized configuration parameter "([a-z0-9_.]+)" in file |` +
	`-?[0-9.e+-]+(?: ?[A-Za-z]+)? is outside the valid range for parameter "([a-z0-9_.]+)" )`)

// complainedAbout are the parameters that a server did not start with. One that somebody may have spoken with did
// start: its log may have texts of tenants, and no configuration follows from those.
func complainedAbout(process postgres.Process) []string {
	if process.Reached {
		return nil
	}
	var names []string
	for _, text := range process.Complaints {
		if match := complaint.FindStringSubmatch(text); match != nil {
			names = append(names, strings.Join(match[1:], ""))
		}
	}
	return names
}

func tellOfRefusedParameters(s postgres.Snapshot, plan *draft) bool {
	if refused := refusedBefore(s); len(refused) > 0 {
		plan.wait(postgres.Hold{
			Reason: wire.ReasonParametersRefused,
			Detail: "PostgreSQL does not accept the value of " + strings.Join(refused, ", ") +
				": it runs as before; change the value, or remove it",
		})
	}
	if slices.Contains(s.Server.Refused, "") {
		plan.hold(wire.ReasonParametersRefused, "PostgreSQL cannot read a line of its configuration")
	}
	return false
}
