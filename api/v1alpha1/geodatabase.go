package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GeoDatabase is a PostGIS database: one primary that takes writes and any number of replicas that take reads.
//
// Applications reach it by names that never change: the Service `<name>-rw` (the primary), the Service `<name>-ro` (the
// replicas), and the Secret `<name>-app` with everything that a client needs. The shortest useful spec is
// `storage: {size: 1Gi}`.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=gdb,categories=meridian
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.instances,statuspath=.status.instances,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Everything that the spec asks for is there and well"
// +kubebuilder:printcolumn:name="Serving",type=string,JSONPath=`.status.conditions[?(@.type=="Serving")].status`,description="Writes are accepted now"
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`,description="The instance that takes writes"
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicas`,description="Replicas that are ready, of those wanted"
// +kubebuilder:printcolumn:name="Lag",type=string,JSONPath=`.status.lag`,description="How far the slowest replica is behind, in coarse steps"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,description="Version of the running PostgreSQL"
// +kubebuilder:printcolumn:name="Recoverable",type=string,JSONPath=`.status.backup.age`,description="How old the newest point is that a backup can be restored to, in coarse steps"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Durability",type=string,priority=1,JSONPath=`.status.durability`,description="What an acknowledged write is worth now"
// +kubebuilder:printcolumn:name="Waiting for",type=string,priority=1,JSONPath=`.status.waitingFor`,description="What is awaited before the next step"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be at most 40 lower-case letters, digits and hyphens, and start with a letter, because Services are named after it"
type GeoDatabase struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec GeoDatabaseSpec `json:"spec"`
	// What is there. It is a report for people and tools; Meridian itself decides nothing by it.
	// +optional
	Status GeoDatabaseStatus `json:"status,omitempty"`
}

// GeoDatabaseSpec is what the user wants.
//
// +kubebuilder:validation:XValidation:rule="self.version in ['15', '17'] || has(self.image)",message="spec.image: required for this version, because Meridian has images of PostgreSQL 15 and 17 only; name an image with PostgreSQL and PostGIS, or choose version 15 or 17"
// +kubebuilder:validation:XValidation:rule="!has(self.durability) || self.durability != 'Strict' || self.instances >= 2",message="spec.durability: Strict needs at least 2 instances, because it keeps each write twice; raise spec.instances, or use Async"
type GeoDatabaseSpec struct {
	// How many instances there are: one primary, the others replicas. `kubectl scale` and autoscalers change this
	// field.
	// Raising it adds replicas, each cloned from a running instance. Lowering it removes replicas, those that are
	// furthest behind first, never the primary; their volumes are treated as `storage.reclaim` says.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Instances int32 `json:"instances,omitempty"`

	// Major version of PostgreSQL. Meridian has images for 15 and 17; the others need `image`.
	// It cannot be changed: a major upgrade is not there yet.
	// +optional
	// +kubebuilder:default="17"
	// +kubebuilder:validation:Enum="15";"16";"17";"18"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.version: the major version cannot be changed; create a new GeoDatabase with the version you want and copy the data with pg_dump"
	Version string `json:"version,omitempty"`

	// Image with PostgreSQL of that major version and PostGIS, if not Meridian's own. Any image that has the usual
	// binaries works: Meridian brings its agent along.
	// Changing it restarts replicas one by one, then moves the primary once; a new minor version is installed so.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="spec.image: must not contain blanks"
	Image string `json:"image,omitempty"`

	// Volumes of each instance.
	Storage Storage `json:"storage"`

	// CPU and memory of each instance.
	// +optional
	// +kubebuilder:default={}
	Resources Resources `json:"resources,omitempty"`

	// Names that are given when the database is made. They cannot be changed afterwards.
	// +optional
	// +kubebuilder:default={database: "app", owner: "app"}
	Bootstrap Bootstrap `json:"bootstrap,omitempty"`

	// Extensions that exist in the application's database. They are created in the order of their dependencies and
	// updated when the image brings a newer version.
	// Adding a name creates the extension without a restart, unless it must be loaded at the start of the server.
	// Removing a name drops nothing: data may depend on it, so that is left to you.
	// +optional
	// +listType=set
	// +kubebuilder:default={"postgis"}
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z][a-z0-9_-]*$`
	Extensions []string `json:"extensions,omitempty"`

	// Settings of PostgreSQL by name, each value written as in postgresql.conf without quotes. They win over the
	// profile. Names, units and ranges are checked before any pod is touched; settings that Meridian manages itself
	// are refused.
	// Changing one is done live or by a reload where PostgreSQL can, otherwise by a rolling restart.
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.size() <= 63 && key.matches('^[a-z_][a-z0-9_]*([.][a-z_][a-z0-9_]*)?$'))",message="spec.parameters: a name must be lower-case letters, digits and underscores, with a dot after the prefix of an extension, as in work_mem or auto_explain.log_min_duration"
	// +kubebuilder:validation:XValidation:rule="self.all(key, !self[key].matches('[[:cntrl:]]'))",message="spec.parameters: a value must be one line without control characters"
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('^({refused})$'))",message="spec.parameters: has a name that Meridian manages itself or that endangers the data (files, addresses, TLS, replication, archiving, libraries, fsync); remove it, and see docs/reference/api.md for the list"
	Parameters map[string]Setting `json:"parameters,omitempty"`

	// Tuning preset: `general` for mixed work, `tiles` for many short reads, `analysis` for few long queries,
	// `bulkload` for loading much data fast.
	// Changing it is the same as changing the parameters that it sets.
	// +optional
	// +kubebuilder:default=general
	Profile Profile `json:"profile,omitempty"`

	// What an acknowledged write is worth. `Strict`: it is on at least two instances; writes wait when that cannot
	// be had. `Available`: the same, but after a lease duration without a replica writes go on with one copy, and
	// the condition Degraded says so. `Async`: it is on the primary; a failover may lose the last writes, at most
	// `maxFailoverLag`.
	// Default: Strict with three or more instances, Available with two, Async with one. `status.durability` shows
	// what is in force. Changing it needs no restart.
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// How long the primary's lease lasts. A lost node is noticed after this time, so less means a shorter outage,
	// and more means fewer failovers for a slow network or API server.
	// Changing it takes effect at the next renewal.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('5m')",message="spec.leaseDuration: must be between 5s and 5m"
	LeaseDuration *metav1.Duration `json:"leaseDuration,omitempty"`

	// How far a replica may be behind and still get reads through `<name>-ro`. A replica that is further behind
	// gets none until it has caught up.
	// Changing it takes effect at once.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="spec.maxReadLag: must be between 1s and 24h"
	MaxReadLag *metav1.Duration `json:"maxReadLag,omitempty"`

	// How many bytes of log a replica may lack and still become primary when durability is Async. It bounds what a
	// failover can lose. The other modes lose nothing and do not use it.
	// Changing it takes effect at the next election.
	// +optional
	// +kubebuilder:default="16Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('0')) >= 0",message="spec.maxFailoverLag: must not be negative, for example 16Mi"
	MaxFailoverLag *resource.Quantity `json:"maxFailoverLag,omitempty"`

	// Changes to the pods, if the defaults do not fit.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`

	// Who may reach the instances over the network.
	// +optional
	// +kubebuilder:default={}
	Network Network `json:"network,omitempty"`

	// Stops all changes by the operator until it is false again. Safety goes on: failover, fencing and routing are
	// the agents' work. `status.pendingChanges` says what waits.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Stops all instances and keeps their volumes: replicas first, the primary last. Nothing is served until it is
	// false again; then all instances start, and the primary is the one that has everything.
	// +optional
	Hibernated bool `json:"hibernated,omitempty"`

	// When Meridian may restart instances for what it would change by itself. Without it, such changes wait for the next
	// restart, whatever its reason.
	// +optional
	Maintenance *Maintenance `json:"maintenance,omitempty"`

	// Restarts every instance when it is changed to another text, such as the time of the wish: replicas one by one,
	// then the primary moves once, and the old primary last. What waits for a restart is taken along.
	// Removing it restarts nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="spec.restart: must be one line without control characters"
	Restart string `json:"restart,omitempty"`

	// Moves the primary to another instance, once, when it is changed to another text, such as the time of the wish. A
	// text is done with also if no replica could take over then: an event tells what became of it. A text that the
	// database was created with moves nothing, and neither does removing it. Where manifests come from Git this takes the
	// place of the annotation `meridian.dev/switchover`, which would come back with each synchronisation.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="spec.switchover: must be one line without control characters"
	Switchover string `json:"switchover,omitempty"`

	// New credentials and certificates, on demand. Nothing restarts, and no connection is refused.
	// +optional
	Rotate *Rotate `json:"rotate,omitempty"`

	// Whom applications trust, if not the authority that Meridian makes for the database.
	// +optional
	Certificates *Certificates `json:"certificates,omitempty"`

	// Keeps the database in a repository, so that it can be restored to any moment of a window. Turning it on restarts
	// nothing, but for a repository on a claim. Removing it ends shipping; what the repository has stays there, and
	// outlives the database too.
	// +optional
	Backup *Backup `json:"backup,omitempty"`
}

// Rotate asks for new credentials and certificates.
type Rotate struct {
	// Gives applications another password when it is changed to another text, such as the time of the wish. There are
	// two logins, which take turns: the other one gets a new password, and once every instance knows it, the Secret
	// `<name>-app` changes to it, user name included. The login of before stays valid until the next rotation, so that
	// applications may read the Secret anew in their own time.
	// Removing it changes nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="spec.rotate.password: must be one line without control characters"
	Password string `json:"password,omitempty"`

	// Replaces the certificates and the authority that has signed them when it is changed to another text. The new
	// authority is trusted beside the old one first; after `overlap` it signs; after `overlap` once more the old one is
	// trusted no longer. Without a word certificates are replaced in time before they end.
	// Removing it changes nothing; what has begun goes on.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="spec.rotate.certificates: must be one line without control characters"
	Certificates string `json:"certificates,omitempty"`

	// How long applications have to read `ca.crt` anew before a certificate of a new authority is presented to them, and
	// before the old authority is dropped. A mounted Secret follows within two minutes; an application that copies it
	// when it starts needs as much as the time between two starts.
	// Default: 1h. Changing it takes effect at once.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('240h')",message="spec.rotate.overlap: must be between 10s and 240h"
	Overlap *metav1.Duration `json:"overlap,omitempty"`
}

// Maintenance says when instances may be restarted for what no user has asked for.
type Maintenance struct {
	// Days and times of the week, such as `Sun 02:00-04:00`, `Mon-Fri 22:00-02:00`, `Sat,Sun 01:30-06:00` or
	// `daily 03:00-04:00`. A window that ends before it begins ends on the next day.
	// In it, what a new version of Meridian changes in the pods is carried out, as in any rolling change: one instance at
	// a time, the primary last. What is not done when it ends waits for the next one. What you change in the spec does not
	// wait for a window. Changing it takes effect at once.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(daily|[A-Z][a-z]{2}(-[A-Z][a-z]{2})?(,[A-Z][a-z]{2}(-[A-Z][a-z]{2})?)*) [0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$')",message="spec.maintenance.window: must be days and times, such as Sun 02:00-04:00, Mon-Fri 22:00-02:00 or daily 03:00-04:00"
	Window string `json:"window"`

	// Time zone of these times, by its name in the IANA database, such as `Europe/Berlin`.
	// Changing it takes effect at once.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
	TimeZone string `json:"timeZone,omitempty"`
}

// Network says who may reach the instances.
//
// +kubebuilder:validation:XValidation:rule="!has(self.clients) || !has(self.policy) || self.policy != 'None'",message="spec.network.clients: has no effect without a policy; remove it, or set spec.network.policy to Managed"
// +kubebuilder:validation:XValidation:rule="!has(self.egress) || self.egress != 'Needed' || !has(self.policy) || self.policy != 'None'",message="spec.network.egress: Needed has no effect without a policy; remove it, or set spec.network.policy to Managed"
type Network struct {
	// `Managed`: Meridian keeps a NetworkPolicy that lets clients reach PostgreSQL, and only the instances themselves
	// and the operator reach the agents. `None`: there is none, and what other policies say is all that counts.
	// Changing it needs no restart.
	// +optional
	// +kubebuilder:default=Managed
	Policy NetworkPolicy `json:"policy,omitempty"`

	// Clients that may reach PostgreSQL. Without any, everybody may, and has to know a password.
	// Changing it needs no restart; sessions that are open stay open, as the network of the cluster handles it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Clients []NetworkClient `json:"clients,omitempty"`

	// Where the instances may call. `Open`: Meridian says nothing about it. `Needed`: each other, name servers and the API
	// server; what else they need, such as the server of a foreign table, takes a policy of your own beside it. It is also
	// what lets them work in a namespace that denies everything by default.
	// Changing it needs no restart.
	// +optional
	// +kubebuilder:default=Open
	Egress NetworkEgress `json:"egress,omitempty"`
}

// NetworkEgress says where instances may call.
// +kubebuilder:validation:Enum=Open;Needed
type NetworkEgress string

// The ways to treat calls of instances.
const (
	EgressOpen   NetworkEgress = "Open"
	EgressNeeded NetworkEgress = "Needed"
)

// NetworkPolicy says whether Meridian keeps a NetworkPolicy.
// +kubebuilder:validation:Enum=Managed;None
type NetworkPolicy string

// The ways to treat the network.
const (
	NetworkManaged NetworkPolicy = "Managed"
	NetworkNone    NetworkPolicy = "None"
)

// NetworkClient is a group of clients: pods, chosen by namespace and by label, or a range of addresses.
//
// +kubebuilder:validation:XValidation:rule="has(self.cidr) != (has(self.namespaces) || has(self.pods))",message="spec.network.clients: each needs either a cidr, or namespaces, pods or both"
type NetworkClient struct {
	// Namespaces of the pods, by label; `{}` means all. Without it: the namespace of the database.
	// +optional
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`

	// Pods in these namespaces, by label. Without it: all of them.
	// +optional
	Pods *metav1.LabelSelector `json:"pods,omitempty"`

	// Range of addresses, such as `10.0.0.0/8`.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="spec.network.clients.cidr: must be a range of addresses, such as 10.0.0.0/8"
	CIDR string `json:"cidr,omitempty"`
}

// Profile is a tuning preset.
// +kubebuilder:validation:Enum=general;tiles;analysis;bulkload
type Profile string

// The tuning presets.
const (
	ProfileGeneral  Profile = "general"
	ProfileTiles    Profile = "tiles"
	ProfileAnalysis Profile = "analysis"
	ProfileBulkload Profile = "bulkload"
)

// Durability is what an acknowledged write is worth.
// +kubebuilder:validation:Enum=Strict;Available;Async
type Durability string

// The durability modes.
const (
	DurabilityStrict    Durability = "Strict"
	DurabilityAvailable Durability = "Available"
	DurabilityAsync     Durability = "Async"
)

// Bootstrap names what is made together with the database.
//
// +kubebuilder:validation:XValidation:rule="self.database == oldSelf.database",message="spec.bootstrap.database: cannot be changed; make further databases with SQL, or create a new GeoDatabase"
// +kubebuilder:validation:XValidation:rule="self.owner == oldSelf.owner",message="spec.bootstrap.owner: cannot be changed; make further roles with SQL, or create a new GeoDatabase"
// +kubebuilder:validation:XValidation:rule="has(self.restore) == has(oldSelf.restore) && (!has(self.restore) || self.restore == oldSelf.restore)",message="spec.bootstrap.restore: cannot be added, changed or removed, because it is how a database begins; create a new GeoDatabase with it"
// +kubebuilder:validation:XValidation:rule="has(self.clone) == has(oldSelf.clone) && (!has(self.clone) || self.clone == oldSelf.clone)",message="spec.bootstrap.clone: cannot be added, changed or removed, because it is how a database begins; create a new GeoDatabase with it"
// +kubebuilder:validation:XValidation:rule="!has(self.restore) || !has(self.clone)",message="spec.bootstrap: must have restore or clone, and not both; restore names a repository, clone a living database"
type Bootstrap struct {
	// Name of the application's database.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z_][a-z0-9_]*$') && !self.startsWith('pg_') && !(self in ['postgres', 'template0', 'template1'])",message="spec.bootstrap.database: must be lower-case letters, digits and underscores, must not start with a digit or pg_, and must not be postgres, template0 or template1"
	Database string `json:"database,omitempty"`

	// Name of the role that owns the database. The Secret `<name>-app` holds its password.
	// +optional
	// +kubebuilder:default=app
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z_][a-z0-9_]*$') && !self.startsWith('pg_') && !(self in ['postgres', 'public', 'none', 'current_user', 'session_user', 'current_role', 'user']) && !self.startsWith('meridian')",message="spec.bootstrap.owner: must be lower-case letters, digits and underscores, must not start with a digit, pg_ or meridian, and must not be a word that PostgreSQL reserves, such as postgres, public or user"
	Owner string `json:"owner,omitempty"`

	// Begins with what is in a repository, instead of an empty database. `database` and `owner` must be those of the
	// source; its passwords are not taken over. It cannot be changed afterwards.
	// +optional
	Restore *Restore `json:"restore,omitempty"`

	// Begins with the latest of another GeoDatabase in the namespace, out of its repository. It cannot be changed
	// afterwards.
	// +optional
	Clone *Clone `json:"clone,omitempty"`
}

// GeoDatabaseStatus is what was observed. It changes seldom: figures that change by the second are served as metrics.
type GeoDatabaseStatus struct {
	// Generation of the spec that this status was judged on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready, Serving, Progressing, Degraded and Stalled, each with a reason that has a page in the runbook; Filling while
	// a volume fills, and Recoverable with `spec.backup`.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// What Meridian is waiting for before it takes the next step, in one sentence. Empty: for nothing.
	// +optional
	WaitingFor string `json:"waitingFor,omitempty"`

	// Changes that were asked for and are not carried out yet, one sentence each: while the database is paused, or
	// because they wait for the next restart or maintenance window.
	// +optional
	// +listType=atomic
	PendingChanges []string `json:"pendingChanges,omitempty"`

	// Number of instances that exist, ready or not.
	// +optional
	Instances int32 `json:"instances,omitempty"`

	// Selects the pods of the instances, for autoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Replicas that are ready, of those wanted, such as `2/2`.
	// +optional
	Replicas string `json:"replicas,omitempty"`

	// Name of the instance that holds the lease and takes writes.
	// +optional
	Primary string `json:"primary,omitempty"`

	// Number of the primary's lease. It grows by one with each change of the primary.
	// +optional
	Term int64 `json:"term,omitempty"`

	// How far the slowest replica is behind, in coarse steps, so that it seldom changes: `<1s`, `<10s`, `<1m`,
	// `<10m`, `>=10m`, or empty without replicas. The exact figure is a metric.
	// +optional
	Lag string `json:"lag,omitempty"`

	// Durability that is in force now.
	// +optional
	Durability Durability `json:"durability,omitempty"`

	// Size of the volumes that is in force: that of the spec, or a larger one that they have grown to.
	// +optional
	VolumeSize *resource.Quantity `json:"volumeSize,omitempty"`

	// Full version of the running PostgreSQL, such as `17.6`.
	// +optional
	Version string `json:"version,omitempty"`

	// One line about each instance, sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []InstanceStatus `json:"members,omitempty"`

	// The Secret with everything that an application needs: `host`, `port`, `dbname`, `user`, `password`, `uri`,
	// `ro-uri` and `ca.crt`; and, for environment variables, `DATABASE_URL`, `DATABASE_READ_URL` and the addresses of
	// the caches.
	// +optional
	Binding *Binding `json:"binding,omitempty"`

	// The caches that name this database, sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Caches []CacheSummary `json:"caches,omitempty"`

	// Rotations of credentials and certificates that were asked for.
	// +optional
	Rotations *Rotations `json:"rotations,omitempty"`

	// What the repository of backups has.
	// +optional
	Backup *BackupStatus `json:"backup,omitempty"`
}

// CacheSummary is one line about a cache.
type CacheSummary struct {
	// Name of the GeoCache.
	Name string `json:"name"`
	// Whether everything that its spec asks for is there and well.
	// +optional
	Ready bool `json:"ready,omitempty"`
}

// Rotations are those that were asked for last.
type Rotations struct {
	// That of the application's credentials.
	// +optional
	Password *Rotation `json:"password,omitempty"`
	// That of the certificate authority.
	// +optional
	Certificates *Rotation `json:"certificates,omitempty"`
}

// Rotation is how far a rotation has come.
type Rotation struct {
	// The text in the spec that has asked for it.
	// +optional
	Token string `json:"token,omitempty"`

	// When it began.
	// +optional
	Began *metav1.Time `json:"began,omitempty"`

	// When the new authority began to sign, of certificates.
	// +optional
	Signs *metav1.Time `json:"signs,omitempty"`

	// When it was over. Empty while it is under way.
	// +optional
	Done *metav1.Time `json:"done,omitempty"`
}

// GeoDatabaseList is a list of GeoDatabases.
//
// +kubebuilder:object:root=true
type GeoDatabaseList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GeoDatabase `json:"items"`
}
