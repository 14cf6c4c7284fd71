package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// Storage describes the volumes of each instance.
//
// +kubebuilder:validation:XValidation:rule="has(self.class) == has(oldSelf.class) && (!has(self.class) || self.class == oldSelf.class)",message="spec.storage.class: cannot be changed, because a volume stays in its class; create a new GeoDatabase with the class you want and copy the data"
// +kubebuilder:validation:XValidation:rule="has(self.walSize) == has(oldSelf.walSize)",message="spec.storage.walSize: a volume for the log cannot be added or removed later; create a new GeoDatabase with the layout you want and copy the data"
// +kubebuilder:validation:XValidation:rule="!has(self.autoGrow) || quantity(string(self.autoGrow.limit)).compareTo(quantity(string(self.size))) >= 0",message="spec.storage.autoGrow.limit: must be at least spec.storage.size; raise the limit together with the size"
type Storage struct {
	// Size of the volume that holds the data, for example `10Gi`.
	// Raising it grows the volumes of all instances without a restart, if the storage class allows it. It cannot be
	// lowered.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('512Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Ti')) <= 0",message="spec.storage.size: must be between 512Mi and 64Ti"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",message="spec.storage.size: a volume cannot shrink; keep the size, or create a new GeoDatabase with the smaller size and copy the data"
	Size resource.Quantity `json:"size"`

	// Lets the volumes of all instances grow by themselves when one of them fills, by a fifth and at least 1Gi at a time,
	// up to a limit. `size` stays as it is written; `status.volumeSize` says what is in force, and a larger `size` wins.
	// The storage class must allow growth.
	// Adding or changing it takes effect at once. Removing it leaves the volumes as large as they are.
	// +optional
	AutoGrow *AutoGrow `json:"autoGrow,omitempty"`

	// Size of a volume of its own for the write-ahead log, with the claim `<instance>-wal`. Without it the log lies on the
	// volume of the data. It does not grow by itself.
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

	// How volumes may be mounted: `ReadWriteOncePod`, which is the default, by one pod, or `ReadWriteOnce`, by the pods of
	// one node. Set the latter where volumes cannot do the former: local and static volumes, older drivers. Servers do
	// not start on a volume that another one of the same node uses, whatever the mode.
	// Changing it takes effect for claims that are made from then on. One that waits for a volume can be deleted, and is
	// made anew.
	// +optional
	AccessMode AccessMode `json:"accessMode,omitempty"`

	// What happens to the volumes of an instance that is no longer wanted, because the database was deleted or
	// scaled down. `Retain` keeps them; `Delete` removes them, but never the last healthy copy of a living database.
	// Changing it takes effect at the next such moment.
	// +optional
	// +kubebuilder:default=Retain
	Reclaim Reclaim `json:"reclaim,omitempty"`

	// UID of an earlier GeoDatabase of the same name that was deleted and whose volumes were kept: this one takes them
	// over and goes on with the data. The annotation `meridian.dev/owner` of its claims names it.
	// It counts for a database that has no data yet. Once it has taken them over, changing or removing it does nothing.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Adopt string `json:"adopt,omitempty"`
}

// AutoGrow has volumes grow by themselves.
type AutoGrow struct {
	// Size that no volume is grown beyond by itself. When it is reached, the condition Filling says so.
	// Raising it takes effect at once. Lowering it shrinks nothing.
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('512Mi')) >= 0 && quantity(string(self)).compareTo(quantity('64Ti')) <= 0",message="spec.storage.autoGrow.limit: must be between 512Mi and 64Ti"
	Limit resource.Quantity `json:"limit"`

	// How full a volume must be before it grows, in percent, in steps of 5.
	// Changing it takes effect at once.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=50
	// +kubebuilder:validation:Maximum=95
	// +kubebuilder:validation:MultipleOf=5
	AtPercent int32 `json:"atPercent,omitempty"`
}

// AccessMode is how a volume may be mounted.
// +kubebuilder:validation:Enum=ReadWriteOncePod;ReadWriteOnce
type AccessMode string

// The ways to mount a volume.
const (
	AccessPod  AccessMode = "ReadWriteOncePod"
	AccessNode AccessMode = "ReadWriteOnce"
)

// Reclaim is what happens to volumes that are no longer wanted.
// +kubebuilder:validation:Enum=Retain;Delete
type Reclaim string

// LeastAtPercent is the least that AutoGrow.AtPercent can be.
const LeastAtPercent = 50

// The ways to treat volumes that are no longer wanted.
const (
	ReclaimRetain Reclaim = "Retain"
	ReclaimDelete Reclaim = "Delete"
)
