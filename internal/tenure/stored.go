package tenure

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	kjson "sigs.k8s.io/json"

	"meridian.dev/meridian/internal/wire"
)

// StoredVersion is the version of Stored that this program writes and reads.
const StoredVersion = 1

// Stored is what must outlive the agent. It lies on the volume beside the data, and is there, file and folder, before
// the act that it describes.
type Stored struct {
	Version     int    `json:"version"`
	DatabaseUID string `json:"databaseUID"`
	// LeaseUID is the lease that this volume has obeyed, empty before the first.
	LeaseUID string `json:"leaseUID,omitempty"`
	// Incarnation is the id that a copy gets that this instance is to make itself, as the first of the database.
	Incarnation string `json:"incarnation,omitempty"`
	// MaxTerm is the highest term that was ever seen. No holder of a lower one is followed (F2).
	MaxTerm int64 `json:"maxTerm,omitempty"`
	// HeldTerm is the last term that this instance held.
	HeldTerm int64 `json:"heldTerm,omitempty"`
	// LastRecord is the record of the lease as it was last acted upon. It names the peers when the API server is away.
	LastRecord *wire.LeaseRecord `json:"lastRecord,omitempty"`
	// NextRecord is a record that this instance has begun to write as the holder. Until the lease shows which of the two
	// it has, both count.
	NextRecord *wire.LeaseRecord `json:"nextRecord,omitempty"`
	// NextVersion is the version of the lease that this write demands: as long as the lease has it, the write may still
	// be done, whatever has become of the agent that began it (E5).
	NextVersion string `json:"nextVersion,omitempty"`
	// Anew is how far this instance has come as a holder that writes its lost lease anew (O1), and has not heard of yet:
	// others may have seen it done.
	Anew *Anew `json:"anew,omitempty"`
	// Fence says that this copy takes nothing from a primary until the lease has another version than this.
	Fence *Fence `json:"fence,omitempty"`
	// Promise is a promise to the holder not to answer and not to stand.
	Promise *Promise `json:"promise,omitempty"`
}

// Anew are the leases that the holder of a lost one has begun to write, each in the place of the one before, the last
// of them at this version and for this term. Their terms have grown.
type Anew struct {
	Leases  []string `json:"leases"`
	Version string   `json:"version"`
	Term    int64    `json:"term"`
}

// Fence is the version of the lease that an election is about.
type Fence struct {
	LeaseUID string `json:"leaseUID"`
	Version  string `json:"version"`
}

// Promise is given to the holder of a term until a moment that is counted from the boot. After another boot that moment
// means nothing, and the promise lasts a whole duration from when this is noticed: the own, or the one that it was
// asked for, if that is longer.
type Promise struct {
	Term  int64   `json:"term"`
	Until Instant `json:"until"`
	Boot  string  `json:"boot"`
	// Duration is for how long it was asked for at most, 0 if an earlier version has stored it: settings reach the
	// instances one after the other, and the holder may count on more than the own ones say.
	Duration time.Duration `json:"duration,omitempty"`
}

// Encode returns what is written.
func (s Stored) Encode() ([]byte, error) {
	s.Version = StoredVersion
	if s.DatabaseUID == "" {
		return nil, errors.New("encode what is stored of the lease: databaseUID is empty")
	}
	document, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode what is stored of the lease: %w", err)
	}
	return append(document, '\n'), nil
}

// DecodeStored reads it. What a newer program wrote is not understood by halves.
func DecodeStored(document []byte) (Stored, error) {
	var stored Stored
	strict, err := kjson.UnmarshalStrict(document, &stored)
	if err := errors.Join(append(strict, err)...); err != nil {
		return Stored{}, fmt.Errorf("decode what is stored of the lease: %w", err)
	}
	if stored.Version != StoredVersion || stored.DatabaseUID == "" {
		return Stored{}, fmt.Errorf("decode what is stored of the lease: version %d of the database %q",
			stored.Version, stored.DatabaseUID)
	}
	return stored, nil
}
