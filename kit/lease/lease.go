package lease

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Lease is the lease at one of its versions.
type Lease struct {
	UID string
	// Version is the resourceVersion.
	Version string
	// Holder is empty if nobody holds it.
	Holder      string
	Transitions int64
	// Duration is how long it lasts without a renewal, in whole seconds.
	Duration time.Duration
	// Document is the annotation, empty if there is none.
	Document string
	// Annotations are all of them, the document included.
	Annotations map[string]string

	object map[string]any
}

// Change is what a write makes of a lease.
type Change struct {
	Holder      string
	Transitions int64
	Document    string
	// Drop are annotations that are taken away.
	Drop []string
}

// decode reads an object of the API.
func decode(document []byte, annotation string) (Lease, error) {
	var object map[string]any
	if err := json.Unmarshal(document, &object); err != nil {
		return Lease{}, fmt.Errorf("decode a lease: %w", err)
	}
	metadata, _ := object["metadata"].(map[string]any)
	spec, _ := object["spec"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	read := Lease{object: object}
	read.UID, _ = metadata["uid"].(string)
	read.Version, _ = metadata["resourceVersion"].(string)
	read.Holder, _ = spec["holderIdentity"].(string)
	transitions, _ := spec["leaseTransitions"].(float64)
	read.Transitions = int64(transitions)
	seconds, _ := spec["leaseDurationSeconds"].(float64)
	read.Duration = time.Duration(seconds) * time.Second
	read.Document, _ = annotations[annotation].(string)
	for key, value := range annotations {
		if text, ok := value.(string); ok {
			if read.Annotations == nil {
				read.Annotations = map[string]string{}
			}
			read.Annotations[key] = text
		}
	}
	if read.UID == "" || read.Version == "" {
		return Lease{}, errors.New("decode a lease: it has no UID or no version")
	}
	return read, nil
}

// encode returns the object with the change in it, at the version that was seen. The times in it are for people; that
// of the renewal also makes every write a change, without which the version would stay.
func (l Lease) encode(change Change, annotation string, duration time.Duration, now time.Time) ([]byte, error) {
	if l.object == nil {
		return nil, errors.New("encode a lease: it was never read")
	}
	metadata, _ := l.object["metadata"].(map[string]any)
	spec, _ := l.object["spec"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	metadata, spec, annotations = copied(metadata), copied(spec), copied(annotations)

	delete(metadata, "managedFields")
	if change.Document != "" {
		annotations[annotation] = change.Document
	} else {
		delete(annotations, annotation)
	}
	for _, key := range change.Drop {
		delete(annotations, key)
	}
	metadata["annotations"] = annotations
	// The API takes microseconds, all six digits.
	moment := now.UTC().Format("2006-01-02T15:04:05.000000Z07:00")
	if change.Holder != l.Holder {
		spec["acquireTime"] = moment
	}
	spec["holderIdentity"], spec["leaseTransitions"], spec["renewTime"] = change.Holder, change.Transitions, moment
	if change.Holder == "" {
		delete(spec, "holderIdentity")
	}
	// Whoever waits for the end shall not wait less.
	spec["leaseDurationSeconds"] = max(1, int((duration+time.Second-1)/time.Second))
	object := copied(l.object)
	object["metadata"], object["spec"] = metadata, spec
	return json.Marshal(object)
}

func copied(object map[string]any) map[string]any {
	made := map[string]any{}
	maps.Copy(made, object)
	return made
}
