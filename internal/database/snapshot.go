package database

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
)

// Snapshot is everything that one pass knows. What could not be reached is a fact in it.
type Snapshot struct {
	Now      time.Time `json:"now"`
	Identity `json:",inline"`
	// Deleting says that somebody has deleted the database.
	Deleting bool `json:"deleting,omitempty"`
	// Guarded says that the database bears our finalizer.
	Guarded bool                     `json:"guarded,omitempty"`
	Spec    v1alpha1.GeoDatabaseSpec `json:"spec"`
	// Images are what this operator starts instances with.
	Images Images `json:"images"`
	// Record is what was frozen when the database was initialised: from its copies, or, the first time, from a report.
	Record Record `json:"record,omitzero"`
	// Settings are the stored settings, with one copy of the record; each claim has another.
	Settings Settings `json:"settings,omitzero"`
	// Routed is the instance that the write Service selects now, empty if there is no such Service.
	Routed string `json:"routed,omitempty"`
	// Instances that exist in part or in whole, by serial number.
	Instances []Instance `json:"instances,omitempty"`
	// Children are the objects that the spec asks for, each compared with what is there, by kind and name.
	Children []Child `json:"children,omitempty"`
	// Problem is why some children cannot be told from the spec, such as a pod template that does not merge. They are not
	// among the Children then.
	Problem string `json:"problem,omitempty"`
	// Binding is the Secret for applications.
	Binding      Secret       `json:"binding,omitzero"`
	Certificates Certificates `json:"certificates,omitzero"`
}

// Identity says which database it is. A database that was deleted and made again has another UID.
type Identity struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

// Images are the images that instances are started with.
type Images struct {
	// Agent is Meridian's own image, from which the agent is copied into the pod.
	Agent string `json:"agent"`
	// Server is the image with PostgreSQL and PostGIS, without its tag, which is the major version.
	Server string `json:"server"`
}

// Record is what is known for good once the database has had data. It is written into the settings and onto the claims,
// and never derived again from what happens to be visible.
type Record struct {
	Initialised      bool   `json:"initialised,omitempty"`
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
}

// Settings are what is known of the ConfigMap with the settings, if there is one of ours.
type Settings struct {
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	// Problem is why they cannot be read; Copy is empty then.
	Problem string `json:"problem,omitempty"`
	// Copy is the record as they have it.
	Copy Record `json:"copy,omitzero"`
}

// Child is one object that the spec asks for.
type Child struct {
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	State State  `json:"state"`
	// UID and ResourceVersion are those of the live object, empty if there is none.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Changes are the fields that differ, readable.
	Changes []string `json:"changes,omitempty"`
	// Problem says who has the name, or why the object cannot be read.
	Problem string `json:"problem,omitempty"`
}

// State is how a live object relates to what is wanted. The words are those of kit/apply.
type State string

// The states of a child.
const (
	Same        State = "Same"
	Absent      State = "Absent"
	Changed     State = "Changed"
	Drifted     State = "Drifted"
	Terminating State = "Terminating"
	Foreign     State = "Foreign"
	Unreadable  State = "Unreadable"
)

// The kinds of children that are rendered from the spec.
const (
	KindSettings = "ConfigMap"
	KindService  = "Service"
	KindClaim    = "PersistentVolumeClaim"
	KindSet      = "StatefulSet"
	KindSecret   = "Secret"
	KindPod      = "Pod"
)

// Instance is a pod with its volume, as far as it exists.
type Instance struct {
	Serial int    `json:"serial"`
	Name   string `json:"name"`
	// Claim, Set and Pod are nil if there is none of ours.
	Claim  *Claim `json:"claim,omitempty"`
	Set    *Set   `json:"set,omitempty"`
	Pod    *Pod   `json:"pod,omitempty"`
	Report Report `json:"report,omitzero"`
}

// Claim is the claim of an instance.
type Claim struct {
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Bound           bool              `json:"bound,omitempty"`
	Deleting        bool              `json:"deleting,omitempty"`
	Class           string            `json:"class,omitempty"`
	Requested       resource.Quantity `json:"requested"`
	Capacity        resource.Quantity `json:"capacity,omitzero"`
	// Copy is the record as the claim has it.
	Copy Record `json:"copy,omitzero"`
	// Expansion says whether its class can expand it.
	Expansion Expansion `json:"expansion,omitempty"`
	// Resize is how far a growth has come, empty if none is under way.
	Resize Resize `json:"resize,omitempty"`
	// Message is what the cluster says about a growth that failed.
	Message string `json:"message,omitempty"`
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

// Set is the StatefulSet of an instance.
type Set struct {
	UID string `json:"uid"`
	// Observed says that the StatefulSet controller has seen its latest generation; Revision is valid only then.
	Observed bool   `json:"observed,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Wish is what the spec asked of its pods when the template was written, see render.Wish.
	Wish string `json:"wish,omitempty"`
}

// Pod is the pod of an instance.
type Pod struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	Revision        string `json:"revision,omitempty"`
	Wish            string `json:"wish,omitempty"`
	Ready           bool   `json:"ready,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	Node            string `json:"node,omitempty"`
	// Stuck is why its containers cannot start, empty if they can: no PostgreSQL runs in such a pod.
	Stuck string `json:"stuck,omitempty"`
}

// Report is what the agent of an instance says.
type Report struct {
	// Reachable is false when there was no answer; Problem says why, and nothing else is known.
	Reachable bool   `json:"reachable,omitempty"`
	Problem   string `json:"problem,omitempty"`

	State            string   `json:"state,omitempty"`
	Role             string   `json:"role,omitempty"`
	SystemIdentifier string   `json:"systemIdentifier,omitempty"`
	ServerVersion    string   `json:"serverVersion,omitempty"`
	SettingsHash     string   `json:"settingsHash,omitempty"`
	PendingRestart   []string `json:"pendingRestart,omitempty"`
	Reason           string   `json:"reason,omitempty"`
	Message          string   `json:"message,omitempty"`
}

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
}

// AuthorityLost says that there is no authority any more, although somebody trusts one: a leaf of it was issued, or
// applications were given its certificate.
func (s Snapshot) AuthorityLost() bool {
	return s.Certificates.Authorities == 0 && (s.Certificates.Leaf.Exists || s.Binding.Exists && s.Binding.Foreign == "")
}

// Child returns the child of that kind and name.
func (s Snapshot) Child(kind, name string) (Child, bool) {
	for _, child := range s.Children {
		if child.Kind == kind && child.Name == name {
			return child, true
		}
	}
	return Child{}, false
}

// Instance returns the instance of that name.
func (s Snapshot) Instance(name string) (Instance, bool) {
	for _, instance := range s.Instances {
		if instance.Name == name {
			return instance, true
		}
	}
	return Instance{}, false
}
