package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// PodTemplate changes the pods that Meridian makes. It is laid over Meridian's own template the way a strategic merge
// patch is: a container with the same name is changed, one with a new name is added. Meridian checks the result before
// it touches any pod, and refuses what breaks an instance or leaves the Pod Security level `restricted`.
type PodTemplate struct {
	// Labels and annotations for the pods. Removing one here removes it from the pods. Names that end in
	// `meridian.dev` belong to Meridian.
	// Changing them needs no restart.
	// +optional
	Metadata *PodMetadata `json:"metadata,omitempty"`

	// Any part of a Kubernetes PodSpec, such as `affinity`, `tolerations`, `topologySpreadConstraints`,
	// `imagePullSecrets`, `priorityClassName`, or `containers` for side-cars. The API server stores it as it is;
	// Meridian checks it.
	// Most changes replace the pods one by one: replicas first, then a switchover, the old primary last.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	Spec *runtime.RawExtension `json:"spec,omitempty"`
}

// PodMetadata is the part of a pod's metadata that a user may set.
type PodMetadata struct {
	// Labels that are added to the pods, for example for cost reports or network policies.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('(^|[.])meridian[.]dev/'))",message="spec.podTemplate.metadata.labels: names that end in meridian.dev belong to Meridian; use a prefix of your own"
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations that are added to the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, !key.matches('(^|[.])meridian[.]dev/'))",message="spec.podTemplate.metadata.annotations: names that end in meridian.dev belong to Meridian; use a prefix of your own"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Setting is the value of a parameter of a server: one line.
// +kubebuilder:validation:MaxLength=1024
type Setting string

// Resources is what one instance gets.
type Resources struct {
	// CPU that is reserved for the instance. It may use more when the Kubernetes node has some left.
	// Changing it is done in place where the cluster can, otherwise by a rolling restart.
	// +optional
	// +kubebuilder:default="500m"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="spec.resources.cpu: must be more than 0, for example 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Memory of the instance, reserved and at the same time its limit. The tuning profile sizes the buffers of
	// PostgreSQL by it.
	// Changing it is done in place where the cluster can; buffers that PostgreSQL sizes at its start follow at the
	// next restart, and `status.pendingChanges` says so until then.
	// +optional
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('256Mi')) >= 0",message="spec.resources.memory: must be at least 256Mi, or PostgreSQL does not start"
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// InstanceRole is what an instance does.
// +kubebuilder:validation:Enum=Primary;Replica;Unknown
type InstanceRole string

// The roles of an instance. Unknown means that its agent gave no report that is new enough.
const (
	RolePrimary InstanceRole = "Primary"
	RoleReplica InstanceRole = "Replica"
	RoleUnknown InstanceRole = "Unknown"
)

// InstanceStatus is one line about one instance.
type InstanceStatus struct {
	// Name of the instance, which is also the name of its pod.
	Name string `json:"name"`
	// What the instance does: Primary, Replica or Unknown.
	// +optional
	Role InstanceRole `json:"role,omitempty"`
	// Whether the instance does it well.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// The Kubernetes node it runs on.
	// +optional
	Node string `json:"node,omitempty"`
	// If it is not ready: why, in one sentence.
	// +optional
	Message string `json:"message,omitempty"`
}

// Binding points to the Secret that an application needs, in the way the Service Binding specification wants it.
type Binding struct {
	// Name of the Secret.
	Name string `json:"name"`
}
