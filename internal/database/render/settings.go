package render

import (
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// Settings is what the agents are told.
func Settings(design database.Design) wire.Settings {
	// A version that is no number is refused by the schema, and by the check of the settings.
	major, _ := strconv.Atoi(design.Spec.Version)
	var restarts []wire.Restart
	for _, restart := range design.Restarts {
		restarts = append(restarts, wire.Restart(restart))
	}
	return wire.Settings{
		DatabaseUID: design.DataUID(),
		Database:    design.Name,
		Major:       major,
		Application: wire.Application{
			Database: design.Spec.Bootstrap.Database, Owner: design.Spec.Bootstrap.Owner,
		},
		Extensions:             withDependencies(design.Spec.Extensions),
		Parameters:             wireParameters(inForce(design)),
		LeaseUID:               design.LeaseUID,
		Instances:              design.Names(),
		Durability:             string(Durability(design.Spec)),
		LeaseMilliseconds:      durationOr(design.Spec.LeaseDuration, defaultLease).Milliseconds(),
		MaxReadLagMilliseconds: durationOr(design.Spec.MaxReadLag, defaultReadLag).Milliseconds(),
		MaxFailoverLagBytes:    failoverLag(design.Spec),
		Initialised:            design.Record.Initialised,
		SystemIdentifier:       design.Record.SystemIdentifier,
		Restarts:               restarts,
		Restore:                design.Backup.Begin,
	}.Canonical()
}

// inForce is the spec with the memory that all containers have: buffers for more than that would not fit.
func inForce(design database.Design) v1alpha1.GeoDatabaseSpec {
	spec := design.Spec
	if design.Memory != nil {
		spec.Resources.Memory = design.Memory
	}
	return spec
}

// The defaults of the API, for objects that were stored without them.
const (
	defaultLease       = 10 * time.Second
	defaultReadLag     = 10 * time.Second
	defaultFailoverLag = 16 << 20
)

func durationOr(wanted *metav1.Duration, otherwise time.Duration) time.Duration {
	if wanted == nil {
		return otherwise
	}
	return wanted.Duration
}

func failoverLag(spec v1alpha1.GeoDatabaseSpec) int64 {
	if spec.MaxFailoverLag == nil {
		return defaultFailoverLag
	}
	return spec.MaxFailoverLag.Value()
}

// Durability is what the spec asks for. Without a word it is the strongest that the number of instances can keep
// through the loss of one.
func Durability(spec v1alpha1.GeoDatabaseSpec) v1alpha1.Durability {
	switch {
	case spec.Durability != "":
		return spec.Durability
	case spec.Instances >= 3:
		return v1alpha1.DurabilityStrict
	case spec.Instances == 2:
		return v1alpha1.DurabilityAvailable
	default:
		return v1alpha1.DurabilityAsync
	}
}

// needs lists what must be created before an extension. Those that are not here need nothing.
var needs = map[string][]string{
	"address_standardizer_data_us": {"address_standardizer"},
	"earthdistance":                {"cube"},
	"h3_postgis":                   {"h3", "postgis", "postgis_raster"},
	"mobilitydb":                   {"postgis"},
	"pgrouting":                    {"postgis"},
	"pointcloud_postgis":           {"postgis", "pointcloud"},
	"postgis_raster":               {"postgis"},
	"postgis_sfcgal":               {"postgis"},
	"postgis_tiger_geocoder":       {"postgis", "fuzzystrmatch"},
	"postgis_topology":             {"postgis"},
}

// withDependencies returns the extensions in an order in which they can be created, each once. The order of the list is
// kept where it can be: it is the user's.
func withDependencies(wanted []string) []string {
	var ordered []string
	var add func(name string)
	add = func(name string) {
		for _, need := range needs[name] {
			add(need)
		}
		if !slices.Contains(ordered, name) {
			ordered = append(ordered, name)
		}
	}
	for _, name := range wanted {
		add(name)
	}
	return ordered
}

// Parameters lays what the user wrote over what the profile sets.
func Parameters(spec v1alpha1.GeoDatabaseSpec) map[string]string {
	merged := profile(spec)
	for _, name := range slices.Sorted(maps.Keys(spec.Parameters)) {
		merged[name] = string(spec.Parameters[name])
	}
	return merged
}

func wireParameters(spec v1alpha1.GeoDatabaseSpec) []wire.Parameter {
	merged := Parameters(spec)
	list := make([]wire.Parameter, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		list = append(list, wire.Parameter{Name: name, Value: merged[name]})
	}
	return list
}
