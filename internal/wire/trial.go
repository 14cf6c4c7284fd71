package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// TrialResultVersion is the version of TrialResult that this program writes and reads.
const TrialResultVersion = 1

// TrialResult is what a restore on trial came to: what its container leaves as its termination message. The operator
// reads it from the pod; what lasts is in the repository.
type TrialResult struct {
	Version int `json:"version"`
	// Backup is the base backup that was restored.
	Backup string `json:"backup,omitempty"`
	// RestoreMilliseconds is how long the restore took, the measured time to recover; what was looked through after
	// that does not count.
	RestoreMilliseconds int64 `json:"restoreMilliseconds,omitempty"`
	// LastCommit is when the last transaction that came back was committed. The primary commits one a second.
	LastCommit time.Time `json:"lastCommit,omitzero"`
	// Indexes is how many spatial indexes were compared with scans.
	Indexes int `json:"indexes,omitempty"`
	// Problem is what is wrong with the backup, Failure why it could not be tried. Both are empty if it is good.
	Problem string `json:"problem,omitempty"`
	Failure string `json:"failure,omitempty"`
}

// longestTrialText is how many bytes of a problem are kept: the kubelet takes 4,096 in all.
const longestTrialText = 1000

// Encode returns the result as a container leaves it.
func (r TrialResult) Encode() ([]byte, error) {
	r.Version = TrialResultVersion
	r.Problem, r.Failure = shorten(r.Problem), shorten(r.Failure)
	return json.Marshal(r)
}

// DecodeTrialResult reads what a container has left.
func DecodeTrialResult(document []byte) (TrialResult, error) {
	var result TrialResult
	if err := json.Unmarshal(document, &result); err != nil {
		return TrialResult{}, fmt.Errorf("decode the result of a restore on trial: %w", err)
	}
	switch {
	case result.Version != TrialResultVersion:
		return TrialResult{}, fmt.Errorf("decode the result of a restore on trial: version: is %d, and not %d",
			result.Version, TrialResultVersion)
	case result.Backup == "" && result.Failure == "":
		return TrialResult{}, fmt.Errorf("decode the result of a restore on trial: backup: is empty")
	}
	return result, nil
}

func shorten(text string) string {
	text = strings.ToValidUTF8(strings.TrimSpace(text), "")
	if len(text) <= longestTrialText {
		return text
	}
	return strings.ToValidUTF8(text[:longestTrialText], "") + "…"
}
