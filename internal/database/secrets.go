package database

import (
	"time"

	"meridian.dev/meridian/internal/children"
)

// Secret is what is known of a Secret: never its values.
type Secret struct {
	Exists          bool   `json:"exists,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	// Foreign is who has the name, if it is not this database.
	Foreign string `json:"foreign,omitempty"`
}

// Certificates is the state of the database's authority and of the certificate that it has issued.
type Certificates struct {
	Authority Secret `json:"authority,omitzero"`
	Leaf      Secret `json:"leaf,omitzero"`
	// Authorities is how many are stored.
	Authorities int `json:"authorities,omitempty"`
	// Steps are what kit/pki says is to be done now, in words.
	Steps []string `json:"steps,omitempty"`
	// Problem is why the stored authorities cannot be read. They are never replaced without a human.
	Problem string `json:"problem,omitempty"`
	// Again is when to look again.
	Again time.Time `json:"again,omitzero"`
	// Identity is what the stored leaf and bundle are called in reports.
	Identity string `json:"identity,omitempty"`
	// Unpublished says that the Secret for applications has other authorities than are stored.
	Unpublished bool `json:"unpublished,omitempty"`
	// Rotation is the one that was asked for last, Renewal what it takes next beyond Steps, in words.
	Rotation Rotation `json:"rotation,omitzero"`
	Renewal  []string `json:"renewal,omitempty"`
}

// Rotation is what is written down about a rotation, beside what it is about.
type Rotation = children.Rotation

// AuthorityLost says that there is no authority any more, although somebody trusts one: a leaf of it was issued, or
// applications were given its certificate.
func (s Snapshot) AuthorityLost() bool {
	return s.Certificates.Authorities == 0 && (s.Certificates.Leaf.Exists || s.Binding.Exists && s.Binding.Foreign == "")
}
