package wire

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ReportVersion is the version of Report that this program writes and reads.
const ReportVersion = 1

// State is how far an instance has come.
type State string

// The states of an instance.
const (
	// StateStarting is before PostgreSQL accepts connections, crash recovery included.
	StateStarting State = "starting"
	// StateInitialising is while the data directory is made.
	StateInitialising State = "initialising"
	// StateRunning is while PostgreSQL accepts connections. Reason may still say what is not as wished.
	StateRunning State = "running"
	// StateStopping is after the pod was told to end.
	StateStopping State = "stopping"
	// StateFailed means that nothing will change without a human: Reason and Message say why.
	StateFailed State = "failed"
)

var states = []State{StateStarting, StateInitialising, StateRunning, StateStopping, StateFailed}

// Role is what an instance does for the database.
type Role string

// The roles of an instance.
const (
	RolePrimary Role = "primary"
	RoleReplica Role = "replica"
	// RoleNone is while PostgreSQL does not accept connections.
	RoleNone Role = "none"
)

var roles = []Role{RolePrimary, RoleReplica, RoleNone}

// Report is what an agent tells about its instance.
type Report struct {
	Version     int    `json:"version"`
	DatabaseUID string `json:"databaseUID"`
	Instance    string `json:"instance"`
	// Incarnation is the random id of this copy of the data, empty before there is one.
	Incarnation string `json:"incarnation"`
	State       State  `json:"state"`
	Role        Role   `json:"role"`
	// SystemIdentifier is the number that initdb gave to the data, empty before there is one.
	SystemIdentifier string `json:"systemIdentifier"`
	// Timeline is PostgreSQL's, 0 while unknown.
	Timeline int `json:"timeline"`
	// LSN is the end of the log that is flushed here, such as 0/15D5A30, empty while unknown.
	LSN string `json:"lsn"`
	// ServerVersion is such as 17.6, empty while unknown.
	ServerVersion string `json:"serverVersion"`
	// SettingsHash is the hash of the settings in force, empty before any are.
	SettingsHash string `json:"settingsHash"`
	// PendingRestart names parameters that wait for a restart, sorted.
	PendingRestart []string `json:"pendingRestart"`
	// Extensions are those of the application's database, sorted by name.
	Extensions []Extension `json:"extensions"`
	// Term and Holder are the lease as this instance last saw it: the number of the primary, and which instance it is.
	Term   int64  `json:"term"`
	Holder string `json:"holder"`
	// Standing is what the instance was told to be, Fenced says that it has answered an election.
	Standing string `json:"standing"`
	Fenced   bool   `json:"fenced"`
	// Serving says that applications are let in; of a primary also that the write address leads to it.
	Serving bool `json:"serving"`
	// Streams says that a replica takes the log of the holder. LagBytes is what it lacks, LagMilliseconds how old its
	// data is at most.
	Streams         bool   `json:"streams"`
	LagBytes        uint64 `json:"lagBytes"`
	LagMilliseconds int64  `json:"lagMilliseconds"`
	// Reason is why the instance is not as wished, or empty. Message is the same as a sentence.
	Reason  Reason `json:"reason"`
	Message string `json:"message"`

	// Restart is the token by which the running server was started last, empty while none runs or there was none.
	Restart string `json:"restart,omitempty"`
	// Parameters are those that are not as wanted, sorted by name. Verified says that each parameter of the settings with
	// SettingsHash was looked up in the server: what is not listed is in force.
	Parameters []ParameterState `json:"parameters,omitempty"`
	Verified   bool             `json:"verified,omitempty"`
	// Libraries have another version than when data was written that depends on them.
	Libraries []Library `json:"libraries,omitempty"`
	// Volume is how much room there is.
	Volume Room `json:"volume,omitzero"`
	// Clone is the copy that is being made of the primary's data, or that failed; nil if there is none.
	Clone *Progress `json:"clone,omitempty"`
	// Certificate identifies what the server presents: sixteen digits of a hash over certificate, key and authority.
	Certificate string `json:"certificate,omitempty"`
	// PasswordSet says, of a primary, that the mounted password of the application is in force.
	PasswordSet bool `json:"passwordSet,omitempty"`
	// Rotation is the number of the latest mounted credentials whose login works here, 0 if they have none or do not.
	Rotation int64 `json:"rotation,omitempty"`
	// CancelledWaits counts commits whose wait for replicas was cancelled here, since the agent began.
	CancelledWaits int64 `json:"cancelledWaits,omitempty"`
	// Backup is about backups, nil if this database has none.
	Backup *BackupReport `json:"backup,omitempty"`
	// RestoreProblem is why the restore that the database begins with cannot go on, with RestoreOutside if its target
	// lies outside of what can be reached: only another target helps then.
	RestoreProblem string `json:"restoreProblem,omitempty"`
	RestoreOutside bool   `json:"restoreOutside,omitempty"`
}

// Extension is one that exists in the application's database.
type Extension struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Available is the version that the image brings, empty if it does not have the extension.
	Available string `json:"available,omitempty"`
}

// MostParameters is how many parameters a report lists, and MostIndexes how many indexes of a library.
const (
	MostParameters = 50
	MostIndexes    = 20
)

// ParameterState is a parameter that is not as wanted.
type ParameterState struct {
	Name  string    `json:"name"`
	State Condition `json:"state"`
	// Current is in force, Wanted is what the settings say.
	Current string `json:"current"`
	Wanted  string `json:"wanted"`
}

// Condition is why a parameter is not as wanted.
type Condition string

// The conditions.
const (
	// ParameterPending waits for a restart.
	ParameterPending Condition = "pendingRestart"
	// ParameterRefused has a value that the server does not accept: the one of before stays in force.
	ParameterRefused Condition = "refused"
	// ParameterRaised is that of a replica, which must have at least what its primary has.
	ParameterRaised Condition = "raised"
	// ParameterOverridden was set by something else than the settings.
	ParameterOverridden Condition = "overridden"
)

// Library is one whose version has changed.
type Library struct {
	// Name is geos, proj, database collation, or collation and its name.
	Name   string `json:"name"`
	Before string `json:"before"`
	Now    string `json:"now"`
	// Indexes depend on it and were not built since, More is how many others do.
	Indexes []string `json:"indexes,omitempty"`
	More    int      `json:"more,omitempty"`
}

// Room is how much is on a volume and how much is free, in bytes, 0 while unknown.
type Room struct {
	Size int64 `json:"size,omitempty"`
	Free int64 `json:"free,omitempty"`
	// LogSize and LogFree are those of the log, if it has a volume of its own.
	LogSize int64 `json:"logSize,omitempty"`
	LogFree int64 `json:"logFree,omitempty"`
	// Full says that there is hardly room left on either.
	Full bool `json:"full,omitempty"`
}

// Progress is how far a copy has come.
type Progress struct {
	// Done and Total are bytes, an estimate, 0 while unknown.
	Done  int64 `json:"done"`
	Total int64 `json:"total"`
	// Started is when the present try began.
	Started time.Time `json:"started,omitzero"`
	// Failures counts the tries that failed in a row, Problem is why the last one did.
	Failures int    `json:"failures,omitempty"`
	Problem  string `json:"problem,omitempty"`
}

// Canonical returns the report in the one form that is encoded: versioned, and no list absent.
func (r Report) Canonical() Report {
	r.Version = ReportVersion
	r.PendingRestart = append([]string{}, r.PendingRestart...)
	r.Extensions = append([]Extension{}, r.Extensions...)
	return r
}

// Public is what anybody may know: no sentence of the server, no value of a parameter, no name from the application's
// schema.
func (r Report) Public() Report {
	r.Message, r.Certificate = "", ""
	r.Parameters = slices.Clone(r.Parameters)
	for i := range r.Parameters {
		r.Parameters[i].Current, r.Parameters[i].Wanted = "", ""
	}
	r.Libraries = slices.Clone(r.Libraries)
	for i := range r.Libraries {
		r.Libraries[i].More += len(r.Libraries[i].Indexes)
		r.Libraries[i].Indexes = nil
	}
	if r.Clone != nil {
		clone := *r.Clone
		clone.Problem, r.Clone = "", &clone
	}
	if r.Backup != nil {
		told := r.Backup.public()
		r.Backup = &told
	}
	r.RestoreProblem = ""
	return r
}

// Encode returns the JSON of a report that Check accepts.
func (r Report) Encode() ([]byte, error) {
	canonical := r.Canonical()
	if err := canonical.Check(); err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return encode(canonical)
}

// DecodeReport reads a report. What a newer agent tells beside it is passed over.
func DecodeReport(document []byte) (Report, error) {
	var report Report
	if err := hear(document, ReportVersion, &report); err != nil {
		return Report{}, fmt.Errorf("decode report: %w", err)
	}
	if err := report.Check(); err != nil {
		return Report{}, fmt.Errorf("decode report: %w", err)
	}
	return report.Canonical(), nil
}

// Check finds what an agent would never say.
func (r Report) Check() error {
	var problems []error
	if r.Instance == "" {
		problems = append(problems, errors.New("instance: is empty"))
	}
	if !slices.Contains(states, r.State) {
		problems = append(problems, fmt.Errorf("state: %q is unknown", r.State))
	}
	if !slices.Contains(roles, r.Role) {
		problems = append(problems, fmt.Errorf("role: %q is unknown", r.Role))
	}
	if r.State == StateFailed && r.Reason == "" {
		problems = append(problems, errors.New("reason: is empty, but the state is failed"))
	}
	return errors.Join(problems...)
}
