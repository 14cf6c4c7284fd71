package admit

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/wire"
)

const parametersField = "spec.parameters."

// parameters returns the parameters of a database in the order of their names.
func parameters(database *v1alpha1.GeoDatabase) []setting { return settings(database.Spec.Parameters) }

// setting is one entry of spec.parameters.
type setting struct{ name, value string }

func (s setting) problem(format string, args ...any) Problem {
	return Problem{Field: parametersField + s.name, Detail: fmt.Sprintf(format, args...)}
}

func settings(written map[string]v1alpha1.Setting) []setting {
	list := make([]setting, 0, len(written))
	for _, name := range slices.Sorted(maps.Keys(written)) {
		list = append(list, setting{name, string(written[name])})
	}
	return list
}

func refuseManagedParameters(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	var problems []Problem
	for _, entry := range parameters(database) {
		if why := wire.ManagedParameter(entry.name); why != "" {
			problems = append(problems, entry.problem("is managed by Meridian; remove it: %s", why))
		}
	}
	return problems
}

func refuseUnwritableValues(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	var problems []Problem
	for _, entry := range parameters(database) {
		if why := unwritable(entry.value, `'\`); why != "" {
			problems = append(problems, entry.problem("%s; write the bare value, as in 64MB", why))
		}
	}
	return problems
}

// unwritable says why a text cannot become a value in a line of a file, or nothing.
func unwritable(value, forbidden string) string {
	for _, r := range value {
		switch {
		case unicode.IsControl(r) || r == '\u2028' || r == '\u2029':
			return "a value must be one line without control characters"
		case r == unicode.ReplacementChar:
			return "a value must be valid UTF-8"
		case strings.ContainsRune(forbidden, r):
			return fmt.Sprintf("a value must not contain %q", r)
		}
	}
	return ""
}

func refuseUnknownParameters(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	known, found := catalogues[database.Spec.Version]
	if !found {
		return nil // Only the server in the user's own image could say.
	}
	var problems []Problem
	for _, entry := range parameters(database) {
		name := strings.ToLower(entry.name)
		if wire.ManagedParameter(name) != "" || known.has(name) {
			continue
		}
		prefix, _, dotted := strings.Cut(name, ".")
		switch {
		case dotted && slices.Contains(known.prefixes, prefix) && database.Spec.Image == "":
			problems = append(problems, entry.problem("%s has no such parameter; correct or remove it", prefix))
		case !dotted:
			problems = append(problems, entry.problem("PostgreSQL %s has no such parameter%s; correct or remove it",
				database.Spec.Version, suggestion(name, slices.Sorted(maps.Keys(known.parameters)))))
		}
	}
	return problems
}

func (c catalogue) has(name string) bool { _, found := c.parameters[name]; return found }

// suggestion names the one candidate that differs by a slip of the finger, if there is one.
func suggestion(name string, candidates []string) string {
	best, distance := "", 3
	for _, candidate := range candidates {
		if d := editDistance(name, candidate, distance); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return ", do you mean " + best + "?"
}

// editDistance counts the letters to insert, remove or replace, and gives up at limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return min(row[len(b)], limit)
}

func refuseMalformedValues(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	var problems []Problem
	for _, entry := range parameters(database) {
		parameter, found := Find(database.Spec.Version, entry.name)
		switch {
		case !found || wire.ManagedParameter(entry.name) != "":
		case parameter.Context == ContextInternal:
			problems = append(problems, entry.problem("is fixed when the server is built or initialised; remove it"))
		default:
			if why := parameter.judge(entry.value); why != "" {
				problems = append(problems, entry.problem("%s; correct the value", why))
			}
		}
	}
	return problems
}

func refuseTrappedValues(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	var problems []Problem
	for _, entry := range parameters(database) {
		for _, trap := range traps {
			if trap.name == strings.ToLower(entry.name) && trap.catches(strings.ToLower(entry.value)) {
				problems = append(problems, entry.problem("%s", trap.why))
			}
		}
		if why := oddText(database, strings.ToLower(entry.name), entry.value); why != "" {
			problems = append(problems, entry.problem("%s", why))
		}
	}
	return problems
}

// oddText judges parameters that are text for the catalogue, while the server looks into them when it starts.
func oddText(database *v1alpha1.GeoDatabase, name, value string) string {
	known, found := catalogues[database.Spec.Version]
	switch name {
	case "timezone", "log_timezone":
		if found && !slices.Contains(known.timezones, strings.ToLower(value)) && !posixZone.MatchString(value) {
			return fmt.Sprintf("%q is not a time zone that the server knows; write it as in Europe/Berlin or UTC",
				value)
		}
	case "datestyle":
		return oddDateStyle(value)
	case "lc_messages", "lc_monetary", "lc_numeric", "lc_time":
		locales := []string{"C", "C.UTF-8", "C.utf8", "POSIX"}
		if database.Spec.Image == "" && !slices.Contains(locales, value) {
			return fmt.Sprintf("Meridian's image has no locale %q; use C.UTF-8, or an image of your own", value)
		}
	case "timezone_abbreviations":
		if value != "Default" && value != "Australia" && value != "India" {
			return "must be Default, Australia or India, or the server does not start"
		}
	}
	return ""
}

// posixZone is a zone with its rule written out, such as CET-1CEST, which needs no file.
var posixZone = regexp.MustCompile(`^[A-Za-z]{3,}[+-]?[0-9]{1,2}([A-Za-z]{3,})?$`)

func oddDateStyle(value string) string {
	if value == "" {
		return ""
	}
	styles := []string{"iso", "sql", "postgres", "german", "mdy", "dmy", "ymd", "us", "euro", "european", "noneuro"}
	for part := range strings.SplitSeq(strings.ToLower(value), ",") {
		if !slices.Contains(styles, strings.Trim(part, blanks)) {
			return fmt.Sprintf("%q is not a date style; write it as in ISO, DMY", value)
		}
	}
	return ""
}

// backendDefaults are those of every supported version, for what each of them adds to the processes of the server.
var backendDefaults = []struct {
	name  string
	usual float64
}{
	{"max_connections", 100}, {"autovacuum_max_workers", 3}, {"max_worker_processes", 8}, {"max_wal_senders", 10},
}

// mostBackends is a limit of PostgreSQL for the sum of these.
const mostBackends = 262142

// amount is the number that a parameter has, or the one given if it is not set or malformed.
func amount(database *v1alpha1.GeoDatabase, name string, otherwise float64) float64 {
	if number, known := given(database, name); known {
		return number
	}
	return otherwise
}

// given is the number that a parameter is set to; not of a version without a catalogue, which knows no units.
func given(database *v1alpha1.GeoDatabase, name string) (number float64, known bool) {
	value, set := database.Spec.Parameters[name]
	parameter, found := Find(database.Spec.Version, name)
	if !set || !found {
		return 0, false
	}
	number, why := parameter.number(string(value))
	return number, why == ""
}

// refuseImpossibleConnections repeats two checks that the server makes at its start.
func refuseImpossibleConnections(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	const field = parametersField + "max_connections"
	var problems []Problem
	all := amount(database, "max_connections", 100)
	reserved := amount(database, "superuser_reserved_connections", 3) + amount(database, "reserved_connections", 0)
	if all <= reserved {
		problems = append(problems,
			Problem{field, fmt.Sprintf("the %.0f connections are all reserved, and the server does "+
				"not start; it must be more than %.0f, the sum of superuser_reserved_connections and reserved_connections",
				all, reserved)})
	}
	var names []string
	sum := 0.0
	for _, backend := range backendDefaults {
		names = append(names, backend.name)
		sum += amount(database, backend.name, backend.usual)
	}
	if sum > mostBackends {
		problems = append(problems,
			Problem{field, fmt.Sprintf("the sum of %s is %.0f, and the server does not start with "+
				"more than %d; lower one of them", strings.Join(names, ", "), sum, mostBackends)})
	}
	return problems
}

// refuseTooFewSenders keeps room for each replica, and for two connections of one that is being cloned.
func refuseTooFewSenders(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	var problems []Problem
	for _, name := range []string{"max_wal_senders", "max_replication_slots"} {
		if needed := float64(database.Spec.Instances + 2); amount(database, name, needed) < needed {
			problems = append(problems, Problem{parametersField + name, fmt.Sprintf(
				"must be at least %.0f for %d instances, or replicas cannot follow; raise or remove it",
				needed, database.Spec.Instances)})
		}
	}
	return problems
}

// deepestStack leaves half a megabyte of the usual limit of a process, as the server demands.
const deepestStack = 7680

// smallestLog is twice the size of a file of the log.
const smallestLog = 32

// refuseUnevenSizes repeats checks that the server makes of single numbers, and that its catalogue does not tell.
func refuseUnevenSizes(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	var problems []Problem
	for _, entry := range parameters(database) {
		number, known := given(database, entry.name)
		if !known {
			continue // another rule refuses it, or the server itself will judge
		}
		switch entry.name {
		case "max_stack_depth":
			if number > deepestStack {
				problems = append(problems,
					entry.problem("must be at most %dkB, or the server does not start", deepestStack))
			}
		case "min_wal_size", "max_wal_size":
			if number < smallestLog {
				problems = append(problems,
					entry.problem("must be at least %dMB, or the server does not start", smallestLog))
			}
		case "commit_timestamp_buffers", "multixact_member_buffers", "multixact_offset_buffers", "notify_buffers",
			"serializable_buffers", "subtransaction_buffers", "transaction_buffers":
			if math.Mod(number, 16) != 0 {
				problems = append(problems, entry.problem("must be a multiple of 16 pages of 8kB, such as 256kB"))
			}
		}
	}
	return problems
}

// refuseWALBeyondVolume keeps half of the volume free of WAL that is kept whether or not anybody needs it: the other
// half is for what a checkpoint and the slots of replicas keep, and for the data if that lies beside it.
func refuseWALBeyondVolume(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	const name = "wal_keep_size"
	field, volume := "spec.storage.size", &database.Spec.Storage.Size
	if database.Spec.Storage.WALSize != nil {
		field, volume = "spec.storage.walSize", database.Spec.Storage.WALSize
	}
	most := math.Floor(volume.AsApproximateFloat64() / 2 / (1 << 20))
	if volume.IsZero() || amount(database, name, 0) <= most {
		return nil
	}
	return []Problem{{parametersField + name, fmt.Sprintf(
		"%s is more than half of %s, %s, and would fill the volume; use at most %.0fMB, or raise %s",
		database.Spec.Parameters[name], field, volume.String(), most, field)}}
}

// refuseBuffersBeyondMemory keeps three quarters as the limit: the rest is needed for sessions and maintenance, and a
// pod that is over its limit is killed.
func refuseBuffersBeyondMemory(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	value, set := database.Spec.Parameters["shared_buffers"]
	parameter, found := Find("17", "shared_buffers")
	memory := database.Spec.Resources.Memory
	if !set || !found || memory == nil {
		return nil
	}
	pages, why := parameter.number(string(value))
	if why != "" || pages*8192 <= 0.75*memory.AsApproximateFloat64() {
		return nil
	}
	most := resource.NewQuantity(int64(0.75*memory.AsApproximateFloat64())>>20<<20, resource.BinarySI)
	return []Problem{{parametersField + "shared_buffers", fmt.Sprintf(
		"%s is more than three quarters of the memory of an instance, %s; use at most %s, or raise spec.resources.memory",
		value, memory.String(), most.String())}}
}
