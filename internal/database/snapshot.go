package database

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// Snapshot is everything that one pass knows. What could not be reached is a fact in it.
type Snapshot struct {
	Now      time.Time `json:"now"`
	Identity `json:",inline"`
	// Deleting says that somebody has deleted the database.
	Deleting bool `json:"deleting,omitempty"`
	// Guarded says that the database bears our finalizer.
	Guarded bool `json:"guarded,omitempty"`
	// Young says that the database was not Ready since it was made, by its own status: for words, and for nothing else.
	Young bool                     `json:"young,omitempty"`
	Spec  v1alpha1.GeoDatabaseSpec `json:"spec"`
	// Images are what this operator starts instances with.
	Images Images `json:"images"`
	// Record is what was frozen when the database was initialised: from its copies, or, the first time, from a report.
	Record Record `json:"record,omitzero"`
	// Settings are the stored settings, with one copy of the record; each claim has another.
	Settings Settings `json:"settings,omitzero"`
	// Lease is what the agents agree on the primary by.
	Lease Lease `json:"lease,omitzero"`
	// Route is where the write address leads.
	Route Route `json:"route,omitzero"`
	// Reads are where the read address leads, nil if nobody could tell.
	Reads *service.Reads `json:"reads,omitempty"`
	// WasReady says that the database is Ready by its own status: for when Ready comes, and for nothing else.
	WasReady bool `json:"wasReady,omitempty"`
	// Installation is what this operator calls itself, StampedBy the one that works for the database, if any does.
	Installation string `json:"installation,omitempty"`
	StampedBy    string `json:"stampedBy,omitempty"`
	// Orphaning says that the database was deleted with the word that its children stay.
	Orphaning bool `json:"orphaning,omitempty"`
	// Request is the switchover that a user asks for, nil for none.
	Request *Request `json:"request,omitempty"`
	// Refusals are what was asked for lately and refused by an agent, sorted by id.
	Refusals []Refusal `json:"refusals,omitempty"`
	// Fleet is what the other databases of this operator allow.
	Fleet Fleet `json:"fleet,omitzero"`
	// Trial is what the API server says about the wanted pod template, nil if nobody had to ask.
	Trial *Trial `json:"trial,omitempty"`
	// Window is when maintenance is allowed, the zero value if the spec names no such time.
	Window Window `json:"window,omitzero"`
	// Classes are the storage classes of the cluster, for a database that has no volume yet; nil if they are not known.
	Classes []StorageClass `json:"classes,omitempty"`
	// LostAfter is how long a node may be away before its instances are replaced.
	LostAfter time.Duration `json:"lostAfter,omitempty"`
	// Kept are claims of earlier databases of the same name, by name.
	Kept []Kept `json:"kept,omitempty"`
	// Instances that exist in part or in whole, by serial number.
	Instances []Instance `json:"instances,omitempty"`
	// Children are the objects that the spec asks for, each compared with what is there, by kind and name.
	Children []Child `json:"children,omitempty"`
	// Surplus are objects of ours that the spec asked for once and does not any more.
	Surplus []Child `json:"surplus,omitempty"`
	// Problem is why some children cannot be told from the spec, such as a pod template that does not merge. They are not
	// among the Children then.
	Problem string `json:"problem,omitempty"`
	// Binding is the Secret for applications, Credentials what it says about their rotation.
	Binding      Secret       `json:"binding,omitzero"`
	Credentials  Rotation     `json:"credentials,omitzero"`
	Certificates Certificates `json:"certificates,omitzero"`
	Caches       Caches       `json:"caches,omitzero"`
	Backup       Backup       `json:"backup,omitzero"`
}

// Identity says which database it is. A database that was deleted and made again has another UID.
type Identity struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
	// Origin is the UID by which data, settings and lease know it, if it goes on with the data of one that was deleted.
	Origin string `json:"origin,omitempty"`
}

// DataUID is the UID by which data, settings and lease know the database.
func (i Identity) DataUID() string { return cmp.Or(i.Origin, i.UID) }

// Images are the images that instances are started with, and what the cluster demands of the pods with them.
type Images struct {
	service.Place
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
	// DatabaseUID is the UID by which they know the database.
	DatabaseUID string `json:"databaseUID,omitempty"`
	// Hash identifies them, LeaseUID is the lease that they name, Instances are those that shall have a copy.
	Hash      string   `json:"hash,omitempty"`
	LeaseUID  string   `json:"leaseUID,omitempty"`
	Instances []string `json:"instances,omitempty"`
	// Restarts are the servers that were asked to start anew, sorted by instance.
	Restarts []Restart `json:"restarts,omitempty"`
	// LostBefore are the leases before the one that they name, the oldest first.
	LostBefore []string `json:"lostBefore,omitempty"`
	// Rolling says that they bear LabelRoll: a change that restarts instances has begun, and not all are well again.
	Rolling bool `json:"rolling,omitempty"`
}

// Instance is a pod with its volume, as far as it exists.
type Instance struct {
	Serial int    `json:"serial"`
	Name   string `json:"name"`
	// Claim, Set and Pod are nil if there is none of ours. LogClaim is that of the volume of the log.
	Claim    *Claim `json:"claim,omitempty"`
	LogClaim *Claim `json:"logClaim,omitempty"`
	Set      *Set   `json:"set,omitempty"`
	Pod      *Pod   `json:"pod,omitempty"`
	Report   Report `json:"report,omitzero"`
	// Node is where the pod is. It is looked at only when the pod is not well.
	Node Node `json:"node,omitzero"`
}

// Set is the StatefulSet of an instance.
type Set struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	// Observed says that the StatefulSet controller has seen its latest generation; Revision is valid only then.
	Observed bool   `json:"observed,omitempty"`
	Revision string `json:"revision,omitempty"`
	// Template, Wish and Restart are those of the template that it has: see render.Template and render.Wish.
	Template string `json:"template,omitempty"`
	Wish     string `json:"wish,omitempty"`
	Restart  string `json:"restart,omitempty"`
	// Stopped says that it shall have no pod.
	Stopped bool `json:"stopped,omitempty"`
	// Shares says that its template mounts the certificate that instances of an earlier version have in common.
	Shares bool `json:"shares,omitempty"`
	// CPU and Memory are what the database container of its template asks for.
	CPU    resource.Quantity `json:"cpu,omitzero"`
	Memory resource.Quantity `json:"memory,omitzero"`
}

// Size is what the database container of its template asks for.
func (s Set) Size() Size { return Size{CPU: s.CPU, Memory: s.Memory} }

// Pod is the pod of an instance.
type Pod struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	Revision        string `json:"revision,omitempty"`
	// Template, Wish and Restart are those of the template that it was made from.
	Template string `json:"template,omitempty"`
	Wish     string `json:"wish,omitempty"`
	Restart  string `json:"restart,omitempty"`
	Ready    bool   `json:"ready,omitempty"`
	// ReadySince is since when it is ready, zero if it is not or that is not known.
	ReadySince time.Time `json:"readySince,omitzero"`
	// UnreadySince is since when it is not ready or being deleted, zero if it is well or that is not known.
	UnreadySince time.Time `json:"unreadySince,omitzero"`
	Deleting     bool      `json:"deleting,omitempty"`
	Node         string    `json:"node,omitempty"`
	Address      string    `json:"address,omitempty"`
	// Settings is the hash of the settings that the kubelet was last told of, Secrets names certificates and credentials.
	Settings string `json:"settings,omitempty"`
	Secrets  string `json:"secrets,omitempty"`
	// Backup names what the kubelet was last told of for backups, see Backup.Stored.
	Backup string `json:"backup,omitempty"`
	// Shares says that it mounts the certificate that instances of an earlier version have in common.
	Shares bool `json:"shares,omitempty"`
	// Stuck is why its containers cannot start, empty if they can: no PostgreSQL runs in such a pod.
	Stuck string `json:"stuck,omitempty"`
	// Metadata are the labels and annotations that the user has given it, see render.Metadata.
	Metadata string `json:"metadata,omitempty"`
	// CPU and Memory are what its database container asks for, Resize is how far a change of them has come.
	CPU           resource.Quantity `json:"cpu,omitzero"`
	Memory        resource.Quantity `json:"memory,omitzero"`
	Resize        PodResize         `json:"resize,omitempty"`
	ResizeMessage string            `json:"resizeMessage,omitempty"`
	// Granted is the memory that its container has by the kubelet's word, zero if that is not known.
	Granted resource.Quantity `json:"granted,omitzero"`
	// SizeTrial is what the API server says to the wanted size, nil if nobody had to ask.
	SizeTrial *SizeTrial `json:"sizeTrial,omitempty"`
	// Use is how full its volume is, in percent, in the steps in which its agent tells it; 0 for not worth telling.
	Use int `json:"use,omitempty"`
	// UnplacedSince is since when no node can take it, zero if one can.
	UnplacedSince time.Time `json:"unplacedSince,omitzero"`
}

// PodResize is how far a change of CPU or memory has come, empty if none is under way.
type PodResize string

// The stages of a change of CPU or memory.
const (
	PodResizeRunning PodResize = "Running"
	// PodResizeDeferred means that the node has no room now, PodResizeInfeasible that it never will.
	PodResizeDeferred   PodResize = "Deferred"
	PodResizeInfeasible PodResize = "Infeasible"
)

// SizeTrial is what the API server says to another size of a running pod.
type SizeTrial struct {
	// Refusal is why it does not take that size: a quota, a LimitRange, a policy, a missing right. Empty if it does.
	Refusal string `json:"refusal,omitempty"`
	// NodeTooSmall says that the refusal is about the node: it has less than that in all.
	NodeTooSmall bool `json:"nodeTooSmall,omitempty"`
}

// Size is what a database container gets.
type Size struct {
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
}

// Equal compares two of them.
func (s Size) Equal(other Size) bool {
	return s.CPU.Cmp(other.CPU) == 0 && s.Memory.Cmp(other.Memory) == 0
}

// Size is what its database container asks for.
func (p Pod) Size() Size { return Size{CPU: p.CPU, Memory: p.Memory} }

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
	// Restart is the token by which its server was started last, Parameters are those that are not as wanted.
	Restart     string      `json:"restart,omitempty"`
	Parameters  []Parameter `json:"parameters,omitempty"`
	Incarnation string      `json:"incarnation,omitempty"`
	// Term and Holder are the lease as the agent knows it.
	Term   int64  `json:"term,omitempty"`
	Holder string `json:"holder,omitempty"`
	// Serving says that applications are let in, Streams that a replica takes the log of the holder.
	Serving bool          `json:"serving,omitempty"`
	Streams bool          `json:"streams,omitempty"`
	Lag     time.Duration `json:"lag,omitempty"`
	// Full says that there is hardly room left on its volume, so that writes are refused.
	Full bool `json:"full,omitempty"`
	// VolumeSize and VolumeFree are those of the file system, in bytes, 0 while unknown.
	VolumeSize int64 `json:"volumeSize,omitempty"`
	VolumeFree int64 `json:"volumeFree,omitempty"`
	// LogSize and LogFree are those of the volume of the log, if it has one of its own.
	LogSize int64 `json:"logSize,omitempty"`
	LogFree int64 `json:"logFree,omitempty"`
	// Libraries have another version than when data was written that depends on them.
	Libraries []Library `json:"libraries,omitempty"`
	// LagBytes is what a replica lacks.
	LagBytes uint64 `json:"lagBytes,omitempty"`
	// Certificate is the identity of what its server presents, Rotation the number of the latest credentials that work.
	Certificate string `json:"certificate,omitempty"`
	Rotation    int64  `json:"rotation,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Message     string `json:"message,omitempty"`
	// Backup is about backups, nil if the agent does not tell of any. RestoreProblem is why the restore that the database
	// begins with cannot go on, RestoreOutside that its target cannot be reached.
	Backup         *wire.BackupReport `json:"backup,omitempty"`
	RestoreProblem string             `json:"restoreProblem,omitempty"`
	RestoreOutside bool               `json:"restoreOutside,omitempty"`
}

// Parameter is one that is not as wanted on an instance. State is a wire.Condition.
type Parameter struct {
	Name    string `json:"name"`
	State   string `json:"state"`
	Current string `json:"current,omitempty"`
	Wanted  string `json:"wanted,omitempty"`
}

// Library is one whose version has changed.
type Library struct {
	Name   string `json:"name"`
	Before string `json:"before"`
	Now    string `json:"now"`
	// Indexes depend on it and were not built since, More is how many others do.
	Indexes []string `json:"indexes,omitempty"`
	More    int      `json:"more,omitempty"`
}

// Restart is a server that is to be started anew, see wire.Restart.
type Restart struct {
	Instance string `json:"instance"`
	Token    string `json:"token"`
	// Stay says that a primary does not hand over for it.
	Stay bool `json:"stay,omitempty"`
}

// Trial is what the API server says about a pod from the wanted template.
type Trial struct {
	// Template is the one that was tried.
	Template string `json:"template"`
	// Refusal is why it takes no such pod, Unknown why it gave no answer.
	Refusal string `json:"refusal,omitempty"`
	Unknown string `json:"unknown,omitempty"`
}

// Window is a time at which what waits for a restart is carried out.
type Window struct {
	// Open says that it is now, until Ends. Begins is when the next one opens.
	Open   bool      `json:"open,omitempty"`
	Ends   time.Time `json:"ends,omitzero"`
	Begins time.Time `json:"begins,omitzero"`
}

// Refusal is the word of an agent that it will not hand over.
type Refusal struct {
	// ID is what was refused: the id of a switchover.
	ID  string    `json:"id"`
	Why string    `json:"why"`
	At  time.Time `json:"at"`
}

// Lease is what is known of the lease of the database.
type Lease struct {
	// UID is empty if there is none.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	// Guarded says that it bears our finalizer.
	Guarded bool `json:"guarded,omitempty"`
	// Foreign is who has the name, if it is not this database; Problem why its record cannot be read.
	Foreign string `json:"foreign,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Holder is the instance that holds it, HolderIncarnation its copy; both empty if nobody does.
	Holder            string `json:"holder,omitempty"`
	HolderIncarnation string `json:"holderIncarnation,omitempty"`
	Term              int64  `json:"term,omitempty"`
	// Expired says that it was not renewed for its whole duration, by the clock of this process.
	Expired bool `json:"expired,omitempty"`
	// Members are the copies that acknowledged writes are counted on, W is how many of them have each.
	Members []Member `json:"members,omitempty"`
	W       int      `json:"w,omitempty"`
	// Succeeds is the lease in whose place the operator has made this one, Before are all those that its record stands
	// in the place of.
	Succeeds string   `json:"succeeds,omitempty"`
	Before   []string `json:"before,omitempty"`
	// LostBefore are those that were lost before the one that it succeeds, as it was made, the oldest first.
	LostBefore []string `json:"lostBefore,omitempty"`
	// Copy is the record of the data as the lease has it.
	Copy Record `json:"copy,omitzero"`
	// Switchover is the id of the request that the holder carries out.
	Switchover string `json:"switchover,omitempty"`
}

// Member is one copy of the data.
type Member struct {
	Name        string `json:"name"`
	Incarnation string `json:"incarnation"`
}

// Empty says that it was made in the place of a lost one, and that the agents have not taken it yet.
func (l Lease) Empty() bool {
	return l.Succeeds != "" && !l.Copy.Initialised && l.Problem == "" && l.Foreign == ""
}

// HasMember says that a copy of that instance is counted on.
func (l Lease) HasMember(instance string) bool {
	return slices.ContainsFunc(l.Members, func(member Member) bool { return member.Name == instance })
}

// Request is a switchover that a user asks for.
type Request struct {
	// ID tells it from the next one.
	ID string `json:"id"`
	// Target is an instance, or AnyInstance.
	Target string `json:"target"`
	// Token is the text of spec.switchover that asks for it, empty if an annotation does.
	Token string `json:"token,omitempty"`
	// Since and Term are when it was written down, and the term of then. Zero before.
	Since time.Time `json:"since,omitzero"`
	Term  int64     `json:"term,omitempty"`
}

// Node is what is known of the Kubernetes node of a pod.
type Node struct {
	// Gone says that there is no such node any more.
	Gone bool `json:"gone,omitempty"`
	// HasVolume says that a volume of the instance is on this node and can be used nowhere else. It is looked at only when
	// the node is gone.
	HasVolume bool `json:"hasVolume,omitempty"`
	// AwaySince is since when it is not ready, zero if it is or nobody looked.
	AwaySince time.Time `json:"awaySince,omitzero"`
	// OutOfService says that an administrator has vouched that nothing runs on it.
	OutOfService bool `json:"outOfService,omitempty"`
}

// Refusal returns what was said to a request, nil if it was not refused.
func (s Snapshot) Refusal(id string) *Refusal {
	for i := range s.Refusals {
		if s.Refusals[i].ID == id {
			return &s.Refusals[i]
		}
	}
	return nil
}

// LeaseLost says that the lease is not the one that was made for this database.
func (s Snapshot) LeaseLost() bool {
	if s.Settings.LeaseUID != "" {
		return s.Lease.UID != s.Settings.LeaseUID
	}
	return s.Lease.UID == "" && s.Record.Initialised
}

// LeaseReplaced says that the agents have taken a lease in the place of the lost one, which the settings still name.
func (s Snapshot) LeaseReplaced() bool {
	lease := s.Lease
	return s.LeaseLost() && lease.Copy.Initialised && lease.Problem == "" &&
		slices.Contains(lease.Before, s.Settings.LeaseUID)
}

// Elsewhere says that another installation works for the database.
func (s Snapshot) Elsewhere() bool {
	return s.Installation != "" && s.StampedBy != "" && s.StampedBy != s.Installation
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
