package wire

import (
	"errors"
	"fmt"
	"slices"
)

// CacheReportVersion is the version of CacheReport that this program writes and reads.
const CacheReportVersion = 1

// CacheReport is what an agent tells about its instance of a cache.
type CacheReport struct {
	Version  int    `json:"version"`
	CacheUID string `json:"cacheUID"`
	Instance string `json:"instance"`
	// Incarnation identifies this copy of the data. A server that starts again is empty, and another incarnation.
	Incarnation string `json:"incarnation"`
	State       State  `json:"state"`
	Role        Role   `json:"role"`
	// Offset is how far the stream of writes has come here.
	Offset int64 `json:"offset"`
	// ServerVersion is such as 8.0.2, empty while unknown.
	ServerVersion string `json:"serverVersion"`
	// SettingsHash is the hash of the settings once all of them are in force, empty otherwise.
	SettingsHash string `json:"settingsHash"`
	// Memory are figures in bytes.
	Memory CacheMemory `json:"memory"`
	// Use are figures that change by the second.
	Use CacheUse `json:"use"`
	// PendingRestart names parameters that wait for a restart, sorted.
	PendingRestart []string `json:"pendingRestart"`
	// Term and Holder are those of the lease as the agent last saw it; Standing is what the instance was told to be.
	Term     int64  `json:"term"`
	Holder   string `json:"holder"`
	Standing string `json:"standing"`
	Fenced   bool   `json:"fenced"`
	// Serving says that applications are let in; of a primary also that the write address leads to it.
	Serving bool `json:"serving"`
	// Streams says that a replica takes the writes of the holder.
	Streams bool `json:"streams"`
	// Flushed is the last request to empty the cache that this instance has carried out, by its id.
	Flushed string `json:"flushed"`
	// ReplicationPassword says that the instance has the password of replication, and Rotation is the number of the latest
	// password with which applications can log in. Agents of earlier versions tell neither.
	ReplicationPassword bool  `json:"replicationPassword,omitempty"`
	Rotation            int64 `json:"rotation,omitempty"`
	// Certificate identifies what the server presents, by CertificateIdentity, empty while that is not known. Agents of
	// earlier versions do not tell it.
	Certificate string `json:"certificate,omitempty"`
	// Reason is why the instance is not as wished, or empty. Message is the same as a sentence.
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// CacheMemory is how the memory of an instance is used, in bytes.
type CacheMemory struct {
	// Allowed is how much data may be kept, as the server itself says, 0 while unknown.
	Allowed int64 `json:"allowed"`
	// Used is how much is kept, Resident what the process takes from the container for it.
	Used     int64 `json:"used"`
	Resident int64 `json:"resident"`
	// Limit is that of the container, 0 while unknown or without one.
	Limit int64 `json:"limit"`
}

// CacheUse counts since the start of the server.
type CacheUse struct {
	Clients int64 `json:"clients"`
	Hits    int64 `json:"hits"`
	Misses  int64 `json:"misses"`
	Evicted int64 `json:"evicted"`
}

// Canonical returns the report in the one form that is encoded: versioned, and no list absent.
func (r CacheReport) Canonical() CacheReport {
	r.Version = CacheReportVersion
	r.PendingRestart = append([]string{}, r.PendingRestart...)
	return r
}

// Encode returns the JSON of a report that Check accepts.
func (r CacheReport) Encode() ([]byte, error) {
	canonical := r.Canonical()
	if err := canonical.Check(); err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return encode(canonical)
}

// DecodeCacheReport reads a report. What a newer agent tells beside it is passed over.
func DecodeCacheReport(document []byte) (CacheReport, error) {
	var report CacheReport
	if err := hear(document, CacheReportVersion, &report); err != nil {
		return CacheReport{}, fmt.Errorf("decode report: %w", err)
	}
	if err := report.Check(); err != nil {
		return CacheReport{}, fmt.Errorf("decode report: %w", err)
	}
	return report.Canonical(), nil
}

// Check finds what an agent would never say.
func (r CacheReport) Check() error {
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
