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

// SettingsVersion is the version of Settings that this program writes and reads.
const SettingsVersion = 1

// Settings is what the operator wants of an instance. All instances of a database get the same settings.
type Settings struct {
	Version int `json:"version"`
	// DatabaseUID is the UID of the GeoDatabase. A volume that was initialised for another one is refused.
	DatabaseUID string `json:"databaseUID"`
	// Database is the name of the GeoDatabase.
	Database string `json:"database"`
	// Major is the major version of PostgreSQL that the data directory must have.
	Major int `json:"major"`
	// Application is what is made for the application inside the server.
	Application Application `json:"application"`
	// Extensions exist in the application's database, in this order: what an extension needs comes before it.
	Extensions []string `json:"extensions"`
	// Parameters go into PostgreSQL's configuration, sorted by name, each name once.
	Parameters []Parameter `json:"parameters"`
	// LeaseUID is the lease that the operator made for this database, by which the agents agree on the primary.
	LeaseUID string `json:"leaseUID"`
	// Instances are the names of those that shall have a copy, sorted.
	Instances []string `json:"instances"`
	// Durability is what an acknowledged write is worth: Strict, Available or Async.
	Durability string `json:"durability"`
	// LeaseMilliseconds is how long the lease lasts, MaxReadLagMilliseconds how far a replica may be behind and still
	// take reads, MaxFailoverLagBytes what an election may lose in the mode Async.
	LeaseMilliseconds      int64 `json:"leaseMilliseconds"`
	MaxReadLagMilliseconds int64 `json:"maxReadLagMilliseconds"`
	MaxFailoverLagBytes    int64 `json:"maxFailoverLagBytes"`
	// Initialised says that this database has had data once. It never becomes false again: with it, an empty volume is
	// a lost volume, and not a new one.
	Initialised bool `json:"initialised"`
	// SystemIdentifier is the number that initdb gave to the data, frozen once it is known. Empty before.
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	// Restarts are instances whose server is to be started anew, sorted by name, each once.
	Restarts []Restart `json:"restarts,omitempty"`
	// Restore is where the first data comes from, nil for an empty database. It is of no account once there is data.
	Restore *Restore `json:"restore,omitempty"`
}

// Restart asks for a new start of the server of an instance. A server that was started after its agent has seen the
// token is one.
type Restart struct {
	Instance string `json:"instance"`
	// Token is any word that was not used for this instance before.
	Token string `json:"token"`
	// Stay says that a primary keeps its place: its server is started anew where it is.
	Stay bool `json:"stay,omitempty"`
}

// RestartOf is the token of an instance, empty if it has none.
func (s Settings) RestartOf(instance string) string { return s.restart(instance).Token }

// StaysIn says that an instance keeps its place while its server is started anew.
func (s Settings) StaysIn(instance string) bool { return s.restart(instance).Stay }

func (s Settings) restart(instance string) Restart {
	for _, restart := range s.Restarts {
		if restart.Instance == instance {
			return restart
		}
	}
	return Restart{}
}

// Application names what is made for the application.
type Application struct {
	Database string `json:"database"`
	Owner    string `json:"owner"`
}

// Parameter is one setting of PostgreSQL, its value written as in postgresql.conf without quotes.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Canonical returns the settings in the one form that is encoded and hashed: versioned, parameters sorted by name,
// and no difference between an empty list and none.
func (s Settings) Canonical() Settings {
	s.Version = SettingsVersion
	s.Extensions = append([]string{}, s.Extensions...)
	s.Parameters = append([]Parameter{}, s.Parameters...)
	s.Instances = append([]string{}, s.Instances...)
	slices.Sort(s.Instances)
	s.Restarts = slices.Clone(s.Restarts)
	slices.SortStableFunc(s.Restarts, func(a, b Restart) int { return cmp.Compare(a.Instance, b.Instance) })
	slices.SortStableFunc(s.Parameters, func(a, b Parameter) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// Encode returns the canonical JSON of settings that Check accepts.
func (s Settings) Encode() ([]byte, error) {
	canonical := s.Canonical()
	if err := canonical.Check(); err != nil {
		return nil, fmt.Errorf("encode settings: %w", err)
	}
	return encode(canonical)
}

// Hash identifies the settings: equal settings have equal hashes, whoever computes them and whenever.
func (s Settings) Hash() string { return hash(s.Canonical()) }

// DecodeSettings reads settings. It refuses what this program would not fully understand.
func DecodeSettings(document []byte) (Settings, error) {
	var settings Settings
	if err := decode(document, SettingsVersion, &settings); err != nil {
		return Settings{}, fmt.Errorf("decode settings: %w", err)
	}
	if err := settings.Check(); err != nil {
		return Settings{}, fmt.Errorf("decode settings: %w", err)
	}
	return settings.Canonical(), nil
}

var (
	extensionName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	parameterName = regexp.MustCompile(`^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$`)
)

// Check finds what can never be right, so that neither side acts on it. It returns every problem, joined.
func (s Settings) Check() error {
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	if s.DatabaseUID == "" {
		problem("databaseUID: is empty")
	}
	if s.Database == "" {
		problem("database: is empty")
	}
	if s.Major < 1 {
		problem("major: %d is not a version of PostgreSQL", s.Major)
	}
	checkIdentifier("application.database", s.Application.Database, problem)
	checkIdentifier("application.owner", s.Application.Owner, problem)
	if strings.HasPrefix(s.Application.Owner, "meridian") || s.Application.Owner == "public" {
		problem("application.owner: %q is not the role of an application", s.Application.Owner)
	}
	for index, name := range s.Extensions {
		if !extensionName.MatchString(name) {
			problem("extensions[%d]: %q is not the name of an extension", index, name)
		}
		if slices.Contains(s.Extensions[:index], name) {
			problem("extensions[%d]: %q is there twice", index, name)
		}
	}
	s.checkParameters(problem)
	s.checkRestarts(problem)
	if s.Restore != nil {
		s.Restore.check(problem)
	}
	return errors.Join(problems...)
}

func (s Settings) checkParameters(problem func(string, ...any)) {
	for index, parameter := range s.Parameters {
		if !parameterName.MatchString(parameter.Name) {
			problem("parameters[%d]: %q is not the name of a parameter", index, parameter.Name)
		}
		if strings.ContainsFunc(parameter.Value, unicode.IsControl) {
			problem("parameters[%d]: the value of %s must be one line without control characters", index, parameter.Name)
		}
		if index > 0 && s.Parameters[index-1].Name >= parameter.Name {
			problem("parameters[%d]: %s is there twice or out of order", index, parameter.Name)
		}
	}
}

func (s Settings) checkRestarts(problem func(string, ...any)) {
	for index, restart := range s.Restarts {
		if restart.Instance == "" || restart.Token == "" || strings.ContainsFunc(restart.Token, unicode.IsControl) {
			problem("restarts[%d]: must name an instance and a token without control characters", index)
		}
		if index > 0 && s.Restarts[index-1].Instance >= restart.Instance {
			problem("restarts[%d]: %s is there twice or out of order", index, restart.Instance)
		}
	}
}

// checkIdentifier accepts what PostgreSQL keeps unchanged as a quoted name: it would cut a longer one in silence.
func checkIdentifier(field, name string, problem func(string, ...any)) {
	switch {
	case name == "":
		problem("%s: is empty", field)
	case len(name) > 63:
		problem("%s: %q has more than 63 bytes", field, name)
	case strings.HasPrefix(name, "pg_") || name == "postgres" || name == "template0" || name == "template1":
		problem("%s: %q belongs to PostgreSQL itself", field, name)
	case strings.ContainsFunc(name, unicode.IsControl):
		problem("%s: %q has control characters", field, name)
	}
}
