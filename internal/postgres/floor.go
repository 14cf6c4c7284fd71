package postgres

import (
	"slices"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/wire"
)

// Floor is the least value of a parameter that a replica starts with: what its primary has, as the log has told.
type Floor struct {
	Name  string `json:"name"`
	Value int    `json:"value"`
}

// bound are the parameters that a replica must have at least as high as its primary, and their defaults.
var bound = []Floor{
	{"max_connections", 100}, {"max_locks_per_transaction", 64}, {"max_prepared_transactions", 0},
	{"max_wal_senders", 16}, {"max_worker_processes", 8},
}

// Bound says whether a parameter is one that a replica must have at least as high as its primary.
func Bound(name string) bool {
	return slices.ContainsFunc(bound, func(floor Floor) bool { return floor.Name == name })
}

// BoundIn is the parameter that a line of pg_controldata tells the setting of, empty if it tells of none of these. The
// program has names of its own for two of them.
func BoundIn(name string) string {
	parameter, tells := strings.CutSuffix(name, " setting")
	switch parameter {
	case "max_prepared_xacts":
		parameter = "max_prepared_transactions"
	case "max_locks_per_xact":
		parameter = "max_locks_per_transaction"
	}
	if !tells || !Bound(parameter) {
		return ""
	}
	return parameter
}

// BoundNames are those parameters.
func BoundNames() []string {
	var names []string
	for _, floor := range bound {
		names = append(names, floor.Name)
	}
	return names
}

// Of is the value of a parameter among these, 0 if it is not there.
func Of(floors []Floor, name string) int {
	for _, floor := range floors {
		if floor.Name == name {
			return floor.Value
		}
	}
	return 0
}

// Raised are the floors that are higher than what is wanted.
func Raised(floors []Floor, wanted []wire.Parameter) []Floor {
	var raised []Floor
	for _, floor := range floors {
		// What is no number is not accepted by the server either.
		if own, err := strconv.Atoi(Ordinary(floor.Name, wanted)); err != nil || floor.Value > own {
			raised = append(raised, floor)
		}
	}
	return raised
}

// Ordinary is the value that one of these parameters has without a floor: the wanted one, or its default.
func Ordinary(name string, wanted []wire.Parameter) string {
	for _, parameter := range wanted {
		if parameter.Name == name {
			return parameter.Value
		}
	}
	for _, known := range bound {
		if known.Name == name {
			return strconv.Itoa(known.Value)
		}
	}
	return ""
}
