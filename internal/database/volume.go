package database

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
)

// Claim is the claim of an instance.
type Claim struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	Bound           bool   `json:"bound,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	Class           string `json:"class,omitempty"`
	// Classless says that it asks for a volume of no class, which is not the same as one of the default class.
	Classless bool `json:"classless,omitempty"`
	// Modes are its access modes if they are not the one of Meridian, ReadWriteOncePod.
	Modes     []corev1.PersistentVolumeAccessMode `json:"modes,omitempty"`
	Requested resource.Quantity                   `json:"requested"`
	Capacity  resource.Quantity                   `json:"capacity,omitzero"`
	// Copy is the record as the claim has it.
	Copy Record `json:"copy,omitzero"`
	// Origin is the UID by which the data knows its database, if that is not the owner's.
	Origin string `json:"origin,omitempty"`
	// Parting is what was noted when the database was deleted, nil if nothing was or it cannot be read.
	Parting *Parting `json:"parting,omitempty"`
	// Prunable says that it bears the label by which tools of delivery take objects for theirs, as claims did that
	// earlier versions made.
	Prunable bool `json:"prunable,omitempty"`
	// Expansion says whether its class can expand it.
	Expansion Expansion `json:"expansion,omitempty"`
	// Resize is how far a growth has come, empty if none is under way.
	Resize Resize `json:"resize,omitempty"`
	// Message is what the cluster says about a growth that failed, for good or to be tried again.
	Message string `json:"message,omitempty"`
}

// Parting is what a deleted database leaves on the claims that it keeps: whoever takes them over finds the agents where
// they were, with a lease that is lost.
type Parting struct {
	// DatabaseUID is the UID by which the data knows the database.
	DatabaseUID string `json:"databaseUID"`
	// LeaseUID is the lease by which the agents agreed, LostBefore are those before it, the oldest first.
	LeaseUID   string   `json:"leaseUID"`
	LostBefore []string `json:"lostBefore,omitempty"`
	// Instances are those that had a copy, or were to have one.
	Instances []string `json:"instances"`
}

// Equal compares two of them, or none.
func (p *Parting) Equal(other *Parting) bool {
	if p == nil || other == nil {
		return p == other
	}
	return p.DatabaseUID == other.DatabaseUID && p.LeaseUID == other.LeaseUID &&
		slices.Equal(p.LostBefore, other.LostBefore) && slices.Equal(p.Instances, other.Instances)
}

// Kept is a claim under a name of this database that belongs to an earlier one.
type Kept struct {
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	Deleting        bool   `json:"deleting,omitempty"`
	Class           string `json:"class,omitempty"`
	// Owner is the UID of the earlier database, Origin that by which the data knows it.
	Owner  string `json:"owner"`
	Origin string `json:"origin"`
	// Parting is what was noted when that database was deleted, nil if nothing was or it cannot be read.
	Parting *Parting `json:"parting,omitempty"`
}

// ClaimOf is one of the claims of an instance under its name.
type ClaimOf struct {
	Name string
	// Log says that it is that of the volume of the log.
	Log bool
	// Claim is nil if there is none of ours.
	*Claim
}

// Claims are those that an instance shall have, there or not: that of the data, and that of the log if it has a volume
// of its own. Both together are one copy.
func (s Snapshot) Claims(instance Instance) []ClaimOf {
	claims := []ClaimOf{{Name: instance.Name, Claim: instance.Claim}}
	if s.Spec.Storage.WALSize != nil || instance.LogClaim != nil {
		claims = append(claims, ClaimOf{Name: LogClaimName(instance.Name), Log: true, Claim: instance.LogClaim})
	}
	return claims
}

// ClaimNames are the claims of all instances that are there or shall be: those of the data, which have the name of
// their instance, and behind them those of the log, if there are any.
func (d Design) ClaimNames() []string {
	names := d.Holders()
	if d.Spec.Storage.WALSize == nil {
		return names
	}
	for _, name := range d.Holders() {
		names = append(names, LogClaimName(name))
	}
	return names
}

// Claim returns the claim of that name.
func (s Snapshot) Claim(name string) (ClaimOf, bool) {
	owner, _ := ClaimOwner(name)
	instance, _ := s.Instance(owner)
	for _, claim := range s.Claims(instance) {
		if claim.Name == name && claim.Claim != nil {
			return claim, true
		}
	}
	return ClaimOf{}, false
}

// StorageClass is a class that the cluster has.
type StorageClass struct {
	Name       string `json:"name"`
	Default    bool   `json:"default,omitempty"`
	Expandable bool   `json:"expandable,omitempty"`
}

// Expansion says what a storage class can do. Empty means that it is not known, because nobody had to ask or the class
// cannot be read.
type Expansion string

// What a storage class can do.
const (
	Expandable Expansion = "Expandable"
	Fixed      Expansion = "Fixed"
)

// Resize is how far the growth of a volume has come.
type Resize string

// The stages of a growth.
const (
	ResizeRunning    Resize = "Running"
	ResizeFileSystem Resize = "FileSystem"
	ResizeFailed     Resize = "Failed"
)

// AccessMode is that of claims that are made from now on.
func AccessMode(storage v1alpha1.Storage) corev1.PersistentVolumeAccessMode {
	if storage.AccessMode == v1alpha1.AccessNode {
		return corev1.ReadWriteOnce
	}
	return corev1.ReadWriteOncePod
}
