package wire

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// CacheSettingsVersion is the version of CacheSettings that this program writes and reads.
const CacheSettingsVersion = 1

// CacheSettings is what the operator wants of an instance of a cache. All instances of a cache get the same settings.
type CacheSettings struct {
	Version int `json:"version"`
	// CacheUID is the UID of the GeoCache, Cache its name.
	CacheUID string `json:"cacheUID"`
	Cache    string `json:"cache"`
	// Engine is redis or valkey: the server that is started.
	Engine string `json:"engine"`
	// Memory is how many bytes of data the server may keep.
	Memory int64 `json:"memory"`
	// EvictionPolicy is what goes when they are full, in the server's own words.
	EvictionPolicy string `json:"evictionPolicy"`
	// Parameters are settings of the server, sorted by name, each name once.
	Parameters []Parameter `json:"parameters"`
	// LeaseUID is the lease that the operator made for this cache, by which the agents agree on the primary. Without it
	// nothing is begun.
	LeaseUID string `json:"leaseUID"`
	// Instances are the names of those that shall have a copy, sorted.
	Instances []string `json:"instances"`
	// LeaseMilliseconds is how long the lease lasts.
	LeaseMilliseconds int64 `json:"leaseMilliseconds"`
	// ReplicationAlone says that every instance has the password of replication, so that none counts that is made from
	// the application's. It is absent while an instance runs a version that would not understand it.
	ReplicationAlone bool `json:"replicationAlone,omitempty"`
	// NoScripts refuses scripts and functions to applications. It is absent like ReplicationAlone.
	NoScripts bool `json:"noScripts,omitempty"`
}

// Engines are the servers that an agent can run.
var Engines = []string{"redis", "valkey"}

// LeastMemory is the smallest memory that a cache may have.
const LeastMemory = 1 << 20

// Canonical returns the settings in the one form that is encoded and hashed, as that of Settings.
func (s CacheSettings) Canonical() CacheSettings {
	s.Version = CacheSettingsVersion
	s.Parameters = append([]Parameter{}, s.Parameters...)
	s.Instances = append([]string{}, s.Instances...)
	slices.Sort(s.Instances)
	slices.SortStableFunc(s.Parameters, func(a, b Parameter) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// Encode returns the canonical JSON of settings that Check accepts.
func (s CacheSettings) Encode() ([]byte, error) {
	canonical := s.Canonical()
	if err := canonical.Check(); err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	return encode(canonical)
}

// Hash identifies the settings: equal settings have equal hashes, whoever computes them and whenever.
func (s CacheSettings) Hash() string { return hash(s.Canonical()) }

// DecodeCacheSettings reads settings. It refuses what this program would not fully understand.
func DecodeCacheSettings(document []byte) (CacheSettings, error) {
	var settings CacheSettings
	if err := decode(document, CacheSettingsVersion, &settings); err != nil {
		return CacheSettings{}, fmt.Errorf("decode settings: %w", err)
	}
	if err := settings.Check(); err != nil {
		return CacheSettings{}, fmt.Errorf("decode settings: %w", err)
	}
	return settings.Canonical(), nil
}

var (
	cacheParameterName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)
	policyName         = regexp.MustCompile(`^[a-z]+(-[a-z]+)?$`)
)

// Check finds what can never be right, so that neither side acts on it. It returns every problem, joined.
func (s CacheSettings) Check() error {
	var problems []error
	problem := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	problem(s.CacheUID == "", "cacheUID: is empty")
	problem(s.Cache == "", "cache: is empty")
	problem(!slices.Contains(Engines, s.Engine), "engine: %q is unknown", s.Engine)
	problem(s.Memory < LeastMemory, "memory: %d bytes are too few", s.Memory)
	problem(s.LeaseMilliseconds < 0, "leaseMilliseconds: %d is no time", s.LeaseMilliseconds)
	problem(!policyName.MatchString(s.EvictionPolicy), "evictionPolicy: %q is none", s.EvictionPolicy)
	for index, parameter := range s.Parameters {
		problem(!cacheParameterName.MatchString(parameter.Name), "parameters: %q is not a name", parameter.Name)
		problem(strings.ContainsFunc(parameter.Value, unicode.IsControl),
			"parameters.%s: the value must be one line", parameter.Name)
		problem(index > 0 && s.Parameters[index-1].Name >= parameter.Name,
			"parameters: %s is there twice or out of order", parameter.Name)
	}
	return errors.Join(problems...)
}
