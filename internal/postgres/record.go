package postgres

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	kjson "sigs.k8s.io/json"

	"meridian.dev/meridian/internal/wire"
)

// RecordVersion is the version of the Record that this program writes and reads.
const RecordVersion = 1

// Record is the agent's own file beside the data directory. It is written, file and folder, before the act that it
// describes, so that an agent that starts anywhere between two acts knows what it may do.
type Record struct {
	Version int `json:"version"`
	// DatabaseUID is the GeoDatabase that this volume was claimed for. It never changes.
	DatabaseUID string `json:"databaseUID"`
	// Incarnation is random, made together with the data.
	Incarnation string `json:"incarnation"`
	// ClaimUID is the claim that the volume came with when the copy was made, or when an agent first saw it (I1). Under
	// another claim this may be an older state of the copy, which lacks what was acknowledged since. Empty: not seen yet.
	ClaimUID string `json:"claimUID,omitempty"`
	// PutBack is the highest timeline that was given out when a user vouched for a copy that was put back, 0 otherwise.
	// Others may have more of it, so this copy leads on a later one only: see Snapshot.MayRepeat.
	PutBack int `json:"putBack,omitempty"`
	// SystemIdentifier is the number that initdb gave to the data, empty before.
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	// InProgress is a step that was begun and not seen to end.
	InProgress Step `json:"inProgress,omitempty"`
	// Settings are the last ones that were put in force. They serve when the mounted ones cannot be understood.
	Settings *wire.Settings `json:"settings,omitempty"`
	// Application is what was made for the application, once role and database were both there; nil before. From then on
	// one that is missing was removed or renamed by somebody, and a new empty one in its place would hide that.
	Application *wire.Application `json:"application,omitempty"`
	// Refused are parameters of these settings that PostgreSQL does not accept. They are left out of its files, because
	// it would not start with them.
	Refused *Refused `json:"refused,omitempty"`
	// Kept are the parameters that were in force before these settings, sorted by name: one of the settings that is
	// refused stays as it was.
	Kept []wire.Parameter `json:"kept,omitempty"`
}

// Refused are parameters that PostgreSQL does not accept. It holds for the settings with this hash alone: new ones are
// tried as a whole.
type Refused struct {
	Settings string   `json:"settings"`
	Names    []string `json:"names"`
	// Bare are those among them whose kept value is refused as well.
	Bare []string `json:"bare,omitempty"`
}

// Step is something that takes more than one write.
type Step string

// The steps.
const (
	// StepInitialise is from the claim of an empty volume until its data directory is complete.
	StepInitialise Step = "initialise"
	// StepDiscard is until a copy that is to be replaced is gone, and StepClone from then until a new one is complete.
	// Two steps, because what is in the place in the first one is the old copy, and in the second one the new.
	StepDiscard Step = "discard"
	StepClone   Step = "clone"
	// StepRewind is while a copy is made to fit another one (I2).
	StepRewind Step = "rewind"
)

var steps = []Step{"", StepInitialise, StepDiscard, StepClone, StepRewind}

// Whole says that the record tells of a complete copy.
func (r *Record) Whole() bool { return r != nil && r.InProgress == "" }

// Encode returns the record as it is written.
func (r Record) Encode() ([]byte, error) {
	r.Version = RecordVersion
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("encode the record: %w", err)
	}
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the record: %w", err)
	}
	return append(document, '\n'), nil
}

// DecodeRecord reads a record. A record of another version, or with an unknown field, was written by a newer agent: it
// is not understood by halves.
func DecodeRecord(document []byte) (Record, error) {
	var record Record
	if len(bytes.TrimSpace(document)) == 0 {
		return Record{}, errors.New("decode the record: it is empty")
	}
	strict, err := kjson.UnmarshalStrict(document, &record)
	if err := errors.Join(append(strict, err)...); err != nil {
		return Record{}, fmt.Errorf("decode the record: %w", err)
	}
	if record.Version != RecordVersion {
		return Record{}, fmt.Errorf("decode the record: version is %d, and this program knows %d",
			record.Version, RecordVersion)
	}
	if err := record.check(); err != nil {
		return Record{}, fmt.Errorf("decode the record: %w", err)
	}
	return record, nil
}

func (r Record) check() error {
	switch {
	case r.DatabaseUID == "":
		return errors.New("databaseUID: is empty")
	case r.Incarnation == "":
		return errors.New("incarnation: is empty")
	case !slices.Contains(steps, r.InProgress):
		return fmt.Errorf("inProgress: %q is unknown", r.InProgress)
	case (r.InProgress == "" || r.InProgress == StepRewind) != (r.SystemIdentifier != ""):
		return errors.New("systemIdentifier: must be there exactly when there is a copy")
	}
	return nil
}
