package wire

import (
	"errors"
	"fmt"
	"slices"
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
}

// Extension is one that exists in the application's database.
type Extension struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Canonical returns the report in the one form that is encoded: versioned, and no list absent.
func (r Report) Canonical() Report {
	r.Version = ReportVersion
	r.PendingRestart = append([]string{}, r.PendingRestart...)
	r.Extensions = append([]Extension{}, r.Extensions...)
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

// DecodeReport reads a report. It refuses what this program would not fully understand.
func DecodeReport(document []byte) (Report, error) {
	var report Report
	if err := decode(document, ReportVersion, &report); err != nil {
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
