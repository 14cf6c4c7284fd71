package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GeoCache is a Redis or Valkey cache beside a GeoDatabase. It holds nothing that cannot be rebuilt: nothing is written
// to a disk, and losing it means a cold cache, never wrong data.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=gcache,categories=meridian
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Everything that the spec asks for is there and well"
// +kubebuilder:printcolumn:name="Database",type=string,JSONPath=`.spec.databaseRef.name`,description="The database that it serves"
// +kubebuilder:printcolumn:name="Primary",type=string,JSONPath=`.status.primary`,description="The instance that takes writes"
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=`.status.readyReplicas`,description="Instances that are ready"
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.status.memory`,description="Memory for data that is in force"
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.use.memory`,description="How much of it is used"
// +kubebuilder:printcolumn:name="Hits",type=string,JSONPath=`.status.use.hitRatio`,description="How many reads found something"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Evicted",type=integer,priority=1,JSONPath=`.status.use.evicted`,description="Keys that had to go for others"
// +kubebuilder:printcolumn:name="Clients",type=integer,priority=1,JSONPath=`.status.use.clients`,description="Connections to the primary"
// +kubebuilder:printcolumn:name="Engine",type=string,priority=1,JSONPath=`.spec.engine`,description="The server that runs"
// +kubebuilder:printcolumn:name="Version",type=string,priority=1,JSONPath=`.status.version`,description="Version of the running server"
// +kubebuilder:printcolumn:name="Service",type=string,priority=1,JSONPath=`.status.service`,description="The Service that leads to the primary"
// +kubebuilder:printcolumn:name="Waiting for",type=string,priority=1,JSONPath=`.status.waitingFor`,description="What is awaited before the next step"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be at most 40 lower-case letters, digits and hyphens, and start with a letter, because Services are named after it"
// +kubebuilder:validation:XValidation:rule="self.metadata.name != self.spec.databaseRef.name && !(self.metadata.name.startsWith(self.spec.databaseRef.name + '-') && self.metadata.name.substring(self.spec.databaseRef.name.size() + 1).matches('^(rw|ro|pods|app|tls|ca|settings|primary|agent|[0-9]+)$'))",message="metadata.name: is that of the database or of one of its objects, and both name their objects after themselves; choose another, such as the name of the database and -cache"
type GeoCache struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	Spec GeoCacheSpec `json:"spec"`
	// What is there. It is a report for people and tools; Meridian itself decides nothing by it.
	// +optional
	Status GeoCacheStatus `json:"status,omitempty"`
}

// GeoCacheSpec is what the user wants.
type GeoCacheSpec struct {
	// The GeoDatabase of the same namespace that this cache serves.
	// It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self.name == oldSelf.name",message="spec.databaseRef: cannot be changed; create a new GeoCache for the other database"
	DatabaseRef DatabaseRef `json:"databaseRef"`

	// How many instances there are: one primary, the others follow it and take over when it is lost. `kubectl scale`
	// and autoscalers change this field.
	// Raising it adds followers, lowering it removes followers; the primary stays.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Replicas int32 `json:"replicas,omitempty"`

	// Memory for data in each instance. What the server needs beside it is added by Meridian.
	// Changing it is done live, without a restart, in both directions; lowering it evicts keys as `evictionPolicy`
	// says.
	// +optional
	// +kubebuilder:default="256Mi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('16Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Ti')) <= 0",message="spec.memory: must be between 16Mi and 1Ti"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// What goes when the memory is full.
	// Changing it is done live.
	// +optional
	// +kubebuilder:default=allkeys-lru
	EvictionPolicy EvictionPolicy `json:"evictionPolicy,omitempty"`

	// The server that runs: `redis` or `valkey`.
	// It cannot be changed: the two cannot follow each other, so clients have to be moved.
	// +optional
	// +kubebuilder:default=redis
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.engine: cannot be changed; create a second GeoCache with the other engine, move the clients, and delete this one"
	Engine Engine `json:"engine,omitempty"`

	// Image with the server, if not Meridian's own.
	// Changing it restarts the followers one by one, then moves the primary once.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:space:]]')",message="spec.image: must not contain blanks"
	Image string `json:"image,omitempty"`

	// Settings of the server by name, each value written as in redis.conf without quotes. Only some are allowed: those
	// that a server changes while it runs, and that endanger neither the data nor the container.
	// Changing one is done live, and looked at in the server.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !self[key].matches('[[:cntrl:]]'))",message="spec.parameters: a value must be one line without control characters"
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('^(maxmemory|maxmemory-policy)$'))",message="spec.parameters: maxmemory and maxmemory-policy have fields of their own; use spec.memory and spec.evictionPolicy"
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^({allowed})$'))",message="spec.parameters: has a name that is not allowed; remove it, and see docs/reference/api.md for the list",messageExpression="'spec.parameters[' + self.filter(key, !key.matches('^({allowed})$'))[0] + ']: is not allowed; remove it. Allowed are {allowed list}'"
	Parameters map[string]Setting `json:"parameters,omitempty"`

	// Whether applications may run scripts and functions (`EVAL`, `FCALL`). A script runs alone: one that takes long keeps
	// everybody else waiting. Many libraries need them for locks and limits, so they are `Allowed` by default; the other
	// value is `Refused`.
	// Changing it is done live.
	// +optional
	// +kubebuilder:default=Allowed
	Scripting Scripting `json:"scripting,omitempty"`

	// Another password for applications, on demand. Nothing restarts, and no connection is refused.
	// +optional
	Rotate *CacheRotate `json:"rotate,omitempty"`

	// Whom applications trust, if not the authority that Meridian makes for the cache.
	// +optional
	Certificates *Certificates `json:"certificates,omitempty"`

	// Changes to the pods, if the defaults do not fit.
	// +optional
	PodTemplate *PodTemplate `json:"podTemplate,omitempty"`

	// Who may reach the instances, and whom they may call: Meridian keeps a NetworkPolicy for each cache, in which only
	// the instances themselves and the operator reach the agents.
	// +optional
	// +kubebuilder:default={}
	Network CacheNetwork `json:"network,omitempty"`

	// Has the cache share the life of its database: deleted with it, without instances while it hibernates, and back,
	// empty, when it wakes. Otherwise the cache goes on by itself.
	// +optional
	FollowDatabase bool `json:"followDatabase,omitempty"`

	// Stops all changes by the operator until it is false again. Failover goes on: it is the agents' work.
	// +optional
	Paused bool `json:"paused,omitempty"`
}

// CacheNetwork says who may reach the instances of a cache.
type CacheNetwork struct {
	// Clients that may reach the server. Without any, everybody may, and has to know a password.
	// Changing it needs no restart.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Clients []NetworkClient `json:"clients,omitempty"`

	// Where the instances may call. `Open`: Meridian says nothing about it. `Needed`: each other, name servers and the API
	// server, which is also what lets them work in a namespace that denies everything by default.
	// Changing it needs no restart.
	// +optional
	// +kubebuilder:default=Open
	Egress NetworkEgress `json:"egress,omitempty"`
}

// CacheRotate asks for other credentials.
type CacheRotate struct {
	// Gives applications another password when it is changed to another text, such as the time of the wish. Once every
	// instance accepts it, the Secret of the cache changes to it. The password of before is accepted until the next
	// rotation, so that applications may read the Secret anew in their own time.
	// Removing it changes nothing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="spec.rotate.password: must be one line without control characters"
	Password string `json:"password,omitempty"`

	// How long applications have to read `ca.crt` anew before servers show them the path to a root that they were not told
	// of before, and before the root of before is told no longer. A mounted Secret follows within two minutes; an
	// application that copies it when it starts needs as much as the time between two starts.
	// Default: 1h. Changing it takes effect at once.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('240h')",message="spec.rotate.overlap: must be between 10s and 240h"
	Overlap *metav1.Duration `json:"overlap,omitempty"`
}

// Scripting says whether applications may run scripts.
// +kubebuilder:validation:Enum=Allowed;Refused
type Scripting string

// ScriptingRefused keeps applications from running scripts and functions.
const ScriptingRefused Scripting = "Refused"

// DatabaseRef names a GeoDatabase of the same namespace.
type DatabaseRef struct {
	// Name of the GeoDatabase.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Name string `json:"name"`
}

// EvictionPolicy is what goes when the memory is full.
// +kubebuilder:validation:Enum=allkeys-lru;allkeys-lfu;allkeys-random;volatile-lru;volatile-lfu;volatile-random;volatile-ttl;noeviction
type EvictionPolicy string

// EvictAllLRU is the default: any key that was not used for long may go.
const EvictAllLRU EvictionPolicy = "allkeys-lru"

// Engine is the server behind a cache.
// +kubebuilder:validation:Enum=redis;valkey
type Engine string

// The servers that a cache can run.
const (
	EngineRedis  Engine = "redis"
	EngineValkey Engine = "valkey"
)

// GeoCacheStatus is what was observed. It changes seldom: figures that change by the second are served as metrics.
type GeoCacheStatus struct {
	// Generation of the spec that this status was judged on.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Ready, Serving, Progressing, Degraded and Stalled, each with a reason that has a page in the runbook.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// What Meridian is waiting for before it takes the next step, in one sentence. Empty: for nothing.
	// +optional
	WaitingFor string `json:"waitingFor,omitempty"`

	// Changes that were asked for and are not carried out yet, one sentence each.
	// +optional
	// +listType=atomic
	PendingChanges []string `json:"pendingChanges,omitempty"`

	// Number of instances that exist, ready or not.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// Number of instances that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// Selects the pods of the instances, for autoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Name of the instance that takes writes.
	// +optional
	Primary string `json:"primary,omitempty"`

	// Number of the primary's lease. It grows by one with each change of the primary.
	// +optional
	Term int64 `json:"term,omitempty"`

	// Memory for data that is in force in every instance.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`

	// Use of the primary. It is looked at now and then, and rounded: metrics have the figures of each moment.
	// +optional
	Use *CacheUse `json:"use,omitempty"`

	// The last request to empty the cache (the annotation `meridian.dev/flush`) that was carried out.
	// +optional
	Flushed string `json:"flushed,omitempty"`

	// Version of the running server.
	// +optional
	Version string `json:"version,omitempty"`

	// Name of the Service that leads to the primary.
	// +optional
	Service string `json:"service,omitempty"`

	// One line about each instance, sorted by name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Members []InstanceStatus `json:"members,omitempty"`

	// Rotation of the password that was asked for last.
	// +optional
	Rotations *CacheRotations `json:"rotations,omitempty"`

	// The Secret with everything that an application needs: `host`, `port`, `password`, `uri` and `ca.crt`.
	// +optional
	Binding *Binding `json:"binding,omitempty"`
}

// CacheRotations are those that were asked for last.
type CacheRotations struct {
	// That of the application's password.
	// +optional
	Password *Rotation `json:"password,omitempty"`
}

// CacheUse is how much a cache is used.
type CacheUse struct {
	// Memory is how much of the memory for data is used, such as `37%`.
	// +optional
	Memory string `json:"memory,omitempty"`

	// HitRatio is how many of the reads found something, since the primary started, such as `94%`.
	// +optional
	HitRatio string `json:"hitRatio,omitempty"`

	// Evicted is how many keys had to go for others, since the primary started, in two digits.
	// +optional
	Evicted int64 `json:"evicted"`

	// Clients is how many connections the primary has, in two digits.
	// +optional
	Clients int64 `json:"clients"`
}

// GeoCacheList is a list of GeoCaches.
//
// +kubebuilder:object:root=true
type GeoCacheList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GeoCache `json:"items"`
}
