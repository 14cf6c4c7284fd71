package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Storage describes the volumes of each instance.
//
// +kubebuilder:validation:XValidation:rule="has(self.class) == has(oldSelf.class) && (!has(self.class) || self.class == oldSelf.class)",message="spec.storage.class: cannot be changed, because a volume stays in its class; create a new GeoDatabase with the class you want and copy the data"
// +kubebuilder:validation:XValidation:rule="has(self.walSize) == has(oldSelf.walSize)",message="spec.storage.walSize: a volume for the log cannot be added or removed later; create a new GeoDatabase with the layout you want and copy the data"
type Storage struct {
	// Size of the volume that holds the data, for example `10Gi`.
	// Raising it grows the volumes of all instances without a restart, if the storage class allows it. It cannot be
	// lowered.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('512Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Ti')) <= 0",message="spec.storage.size: must be between 512Mi and 64Ti"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="spec.storage.size: a volume cannot shrink; keep the size, or create a new GeoDatabase with the smaller size and copy the data"
	Size resource.Quantity `json:"size"`

	// Size of a volume of its own for the write-ahead log. Without it the log lies on the volume of the data.
	// Raising it grows the volumes without a restart. It cannot be lowered, added or removed later.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('512Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Ti')) <= 0",message="spec.storage.walSize: must be between 512Mi and 64Ti"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="spec.storage.walSize: a volume cannot shrink; keep the size"
	WALSize *resource.Quantity `json:"walSize,omitempty"`

	// Storage class of the volumes. Without it the cluster's default class is used.
	// It cannot be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class,omitempty"`

	// What happens to the volumes of an instance that is no longer wanted, because the database was deleted or
	// scaled down. `Retain` keeps them; `Delete` removes them, but never the last healthy copy of a living database.
	// Changing it takes effect at the next such moment.
	// +optional
	// +kubebuilder:default=Retain
	Reclaim Reclaim `json:"reclaim,omitempty"`
}

// Reclaim is what happens to volumes that are no longer wanted.
// +kubebuilder:validation:Enum=Retain;Delete
type Reclaim string

// The ways to treat volumes that are no longer wanted.
const (
	ReclaimRetain Reclaim = "Retain"
	ReclaimDelete Reclaim = "Delete"
)
