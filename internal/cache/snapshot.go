package cache

import (
	"slices"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// Snapshot is everything that one pass knows. What could not be reached is a fact in it.
type Snapshot struct {
	Now      time.Time `json:"now"`
	Identity `json:",inline"`
	// Deleting says that somebody has deleted the cache.
	Deleting bool                  `json:"deleting,omitempty"`
	Spec     v1alpha1.GeoCacheSpec `json:"spec"`
	// Images are what this operator starts instances with.
	Images Images `json:"images"`
	// Database is the one that the cache serves.
	Database Database `json:"database,omitzero"`
	Lease    Lease    `json:"lease,omitzero"`
	Route    Route    `json:"route,omitzero"`
	// Reads are where the read address leads, nil if nobody could tell.
	Reads *service.Reads `json:"reads,omitempty"`
	// WasReady says that the cache is Ready by its own status: for when Ready comes, and for nothing else.
	WasReady bool `json:"wasReady,omitempty"`
	// Stored are the settings that are written.
	Stored Settings `json:"stored,omitzero"`
	// Flush is the request to empty the cache, by its id, empty if there is none.
	Flush string `json:"flush,omitempty"`
	// Follows is the UID of the database that the cache is deleted with, empty if with none.
	Follows string `json:"follows,omitempty"`
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
	// Rotation is that of the application's password.
	Rotation service.Rotation `json:"rotation,omitzero"`
}

// Identity says which cache it is. A cache that was deleted and made again has another UID.
type Identity struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

// Images are the images that instances are started with, and what the cluster demands of the pods with them.
type Images struct {
	service.Place
	// Agent is Meridian's own image, from which the agent is copied into the pod.
	Agent string `json:"agent"`
	// Redis and Valkey are the images with the servers.
	Redis  string `json:"redis"`
	Valkey string `json:"valkey"`
}

// Database is what a cache knows of its database. Whether that is well is not the cache's business.
type Database struct {
	Exists     bool   `json:"exists,omitempty"`
	UID        string `json:"uid,omitempty"`
	Deleting   bool   `json:"deleting,omitempty"`
	Hibernated bool   `json:"hibernated,omitempty"`
}

// Lease is what the agents have agreed on.
type Lease struct {
	// UID is empty if there is none.
	UID string `json:"uid,omitempty"`
	// Foreign is who has the name, if it is not this cache, and Problem why its record cannot be understood.
	Foreign string `json:"foreign,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Holder is the instance that is the primary, empty if none is, and Term counts the primaries.
	Holder string `json:"holder,omitempty"`
	Term   int64  `json:"term,omitempty"`
	// Expired says that the holder was not seen to renew it for its whole duration.
	Expired bool `json:"expired,omitempty"`
	// Members are the instances that could become the primary.
	Members []string `json:"members,omitempty"`
}

// Settings are those that are written for the agents.
type Settings struct {
	// LeaseUID is the lease that they name, empty if there are none.
	LeaseUID string `json:"leaseUID,omitempty"`
	// Hash identifies them.
	Hash string `json:"hash,omitempty"`
	// ReplicationAlone says that they let no password of replication count that is made from the application's.
	ReplicationAlone bool `json:"replicationAlone,omitempty"`
}

// Instance is a server with its pod, as far as it exists.
type Instance struct {
	Serial int    `json:"serial"`
	Name   string `json:"name"`
	// Set and Pod are nil if there is none of ours.
	Set    *Set   `json:"set,omitempty"`
	Pod    *Pod   `json:"pod,omitempty"`
	Report Report `json:"report,omitzero"`
}

// Set is the StatefulSet of an instance.
type Set struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	// Observed says that the StatefulSet controller has seen its latest generation.
	Observed bool `json:"observed,omitempty"`
	// Wish and Template are the marks of its template, see AnnotationWish and AnnotationTemplate.
	Wish     string `json:"wish,omitempty"`
	Template string `json:"template,omitempty"`
}

// Pod is the pod of an instance.
type Pod struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	Wish            string `json:"wish,omitempty"`
	Template        string `json:"template,omitempty"`
	Ready           bool   `json:"ready,omitempty"`
	// ReadySince is since when it is ready, zero if it is not or that is not known.
	ReadySince time.Time `json:"readySince,omitzero"`
	Deleting   bool      `json:"deleting,omitempty"`
	// AwaySince is since when it is not ready, and EndsBy when it should have ended if it is being deleted; zero if not
	// known.
	AwaySince time.Time `json:"awaySince,omitzero"`
	EndsBy    time.Time `json:"endsBy,omitzero"`
	// UnplacedSince is since when no node can take it, zero if one can.
	UnplacedSince time.Time `json:"unplacedSince,omitzero"`
	Node          string    `json:"node,omitempty"`
	Address       string    `json:"address,omitempty"`
	// Settings is the hash that its kubelet was told of.
	Settings string `json:"settings,omitempty"`
	// Stuck is why its containers cannot start, empty if they can: no server runs in such a pod.
	Stuck string `json:"stuck,omitempty"`
	// Limit is the memory that the server's container shall have, Actual what the kubelet has carried out of it, both in
	// bytes; 0 if not known.
	Limit  int64 `json:"limit,omitempty"`
	Actual int64 `json:"actual,omitempty"`
	// Resize is how far a change of it has come, empty if none is under way, and Message what the kubelet says.
	Resize  Resize `json:"resize,omitempty"`
	Message string `json:"message,omitempty"`
}

// Resize is how far a change of the resources of a pod has come.
type Resize string

// The stages of a change.
const (
	ResizeRunning Resize = "Running"
	// ResizeDeferred waits for room on the node; ResizeInfeasible never fits there.
	ResizeDeferred   Resize = "Deferred"
	ResizeInfeasible Resize = "Infeasible"
)

// Report is what the agent of an instance says.
type Report struct {
	// Reachable is false when there was no answer; Problem says why, and nothing else is known.
	Reachable bool   `json:"reachable,omitempty"`
	Problem   string `json:"problem,omitempty"`

	State         string `json:"state,omitempty"`
	Role          string `json:"role,omitempty"`
	ServerVersion string `json:"serverVersion,omitempty"`
	SettingsHash  string `json:"settingsHash,omitempty"`
	// Serving says that it lets applications in, Streams that it follows the primary.
	Serving bool `json:"serving,omitempty"`
	Streams bool `json:"streams,omitempty"`
	// Term is the highest of a lease that it has ever obeyed.
	Term int64 `json:"term,omitempty"`
	// Flushed is the last request to empty the cache that it has carried out.
	Flushed string `json:"flushed,omitempty"`
	// ReplicationPassword says that it has the password of replication, and Rotation is the number of the latest password
	// with which applications can log in.
	ReplicationPassword bool  `json:"replicationPassword,omitempty"`
	Rotation            int64 `json:"rotation,omitempty"`
	// Certificate identifies what the server presents, empty if that is not known.
	Certificate string `json:"certificate,omitempty"`
	// Allowed is the memory for data in force, Used what is kept, Resident what the server takes from its container, all
	// in bytes.
	Allowed        int64    `json:"allowed,omitempty"`
	Used           int64    `json:"used,omitempty"`
	Resident       int64    `json:"resident,omitempty"`
	Clients        int64    `json:"clients,omitempty"`
	Hits           int64    `json:"hits,omitempty"`
	Misses         int64    `json:"misses,omitempty"`
	Evicted        int64    `json:"evicted,omitempty"`
	PendingRestart []string `json:"pendingRestart,omitempty"`
	Reason         string   `json:"reason,omitempty"`
	Message        string   `json:"message,omitempty"`
}

// Child returns the child of that kind and name.
func (s Snapshot) Child(kind, name string) (Child, bool) {
	return service.Find(s.Children, kind, name)
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

// LeaseLost says that the lease is not the one that the settings name: the agents obey nothing else.
func (s Snapshot) LeaseLost() bool {
	return s.Stored.LeaseUID != "" && (s.Lease.UID != s.Stored.LeaseUID || s.Lease.Foreign != "")
}

// Forgotten says that the lease is lost and that no instance has ever obeyed it: nobody leads by it, and nobody has a
// copy that was made under it. So nothing is lost when the agents are given another one.
func (s Snapshot) Forgotten() bool {
	if !s.LeaseLost() || s.Lease.Foreign != "" || s.Lease.Term != 0 || s.Lease.Problem != "" || len(s.Instances) == 0 {
		return false
	}
	for _, instance := range s.Instances {
		pod, report := instance.Pod, instance.Report
		if pod == nil || pod.Deleting || !report.Reachable || report.Term != 0 || report.Serving || report.Streams ||
			report.Role == string(wire.RolePrimary) || report.Reason != string(wire.ReasonLeaseLost) {
			return false
		}
	}
	return true
}

// ReplicationAlone says that no instance is left of a version that has no password of replication. It stays so: an
// instance that does not answer for a while is none.
func (s Snapshot) ReplicationAlone() bool {
	return s.Stored.ReplicationAlone || !slices.ContainsFunc(s.Instances, func(instance Instance) bool {
		return !instance.Report.Reachable || !instance.Report.ReplicationPassword
	})
}

// LacksPassword names an instance that applications may reach and that does not accept the next password yet.
func (s Snapshot) LacksPassword() string {
	holder, _ := s.Instance(s.Lease.Holder)
	if !s.Serves(holder) {
		return "there is no primary that serves and could confirm the next password"
	}
	for _, instance := range s.Instances {
		if (instance.Up() || instance.Name == holder.Name) && instance.Report.Rotation != s.Rotation.Number {
			return instance.Name + " does not accept the next password yet"
		}
	}
	return ""
}

// LacksCertificate says who has not got yet what is stored of certificates: the Secret for applications, or an instance
// that applications may reach. It is empty for nobody.
func (s Snapshot) LacksCertificate() string {
	if untold := s.Certificates.Untold(); untold != "" {
		return untold
	}
	for _, instance := range s.Instances {
		if instance.Up() && instance.Report.Certificate != s.Certificates.Identity {
			return instance.Name + " does not present the stored certificate yet"
		}
	}
	return ""
}

// Asleep says that there shall be no instances, because the database has none.
func (s Snapshot) Asleep() bool { return s.Spec.FollowDatabase && s.Database.Hibernated }

// Built says that there is an instance already.
func (s Snapshot) Built() bool {
	for _, instance := range s.Instances {
		if instance.Set != nil {
			return true
		}
	}
	return false
}
