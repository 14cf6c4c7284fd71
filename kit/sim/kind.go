package sim

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kind says how the server treats the objects of one kind. What the real API server has in the code of each kind is
// here in one table: [BuiltIn] has the usual kinds, and [FromDefinition] makes one of a custom resource definition.
type Kind struct {
	schema.GroupVersionKind
	// Plural is the name of the resource, the kind in lower case with an s if empty.
	Plural string
	// Cluster means that objects have no namespace.
	Cluster bool
	// Custom means that the kind is defined by a custom resource: it is stored as it is sent, without a Go type, its
	// status subresource leaves all metadata alone, and there is no strategic merge patch for it.
	Custom bool
	// Status means that status is a subresource: only a write to it changes status, and such a write changes no spec.
	Status bool
	// Generation means that metadata.generation counts the changes of what is wanted.
	Generation bool
	// Conditional means that an update without resourceVersion is refused.
	Conditional bool
	// CreateOnUpdate means that an update of an object that does not exist creates it.
	CreateOnUpdate bool
	// Graceful means that a deletion waits for the process behind the object, as it does for pods.
	Graceful bool
	// Scale is the path of the replicas if there is a scale subresource, such as spec.replicas.
	Scale ScalePaths
	// Fields are the paths that a field selector may name beside metadata.name and metadata.namespace.
	Fields []string
	// Prepare completes an object that was sent, as defaults and admission do. The old object is nil for a create.
	// It may be nil, and it must be a function of its arguments.
	Prepare func(object, old map[string]any)
	// Check says what is wrong with an object. The old one is nil for a create. It may be nil, and it must be a function
	// of its arguments that changes neither.
	Check func(object, old map[string]any) field.ErrorList
}

// ScalePaths are where a scale subresource finds its values; all empty if there is none.
type ScalePaths struct {
	Replicas, StatusReplicas, Selector string
}

// resource is the name in errors.
func (k *Kind) resource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.plural()}
}

func (k *Kind) plural() string {
	if k.Plural != "" {
		return k.Plural
	}
	return strings.ToLower(k.GroupVersionKind.Kind) + "s"
}

// validName is the rule for names of this kind.
func (k *Kind) validName() validation.ValidateNameFunc {
	if k.GroupKind() == (schema.GroupKind{Kind: "Service"}) {
		return validation.NameIsDNS1035Label
	}
	return validation.NameIsDNSSubdomain
}

func (k *Kind) hasSubresource(name string) error {
	switch {
	case name == "", name == "status" && k.Status, name == "scale" && k.Scale.Replicas != "",
		(name == "eviction" || name == "resize") && k.Graceful:
		return nil
	default:
		return fmt.Errorf("%s has no subresource %q", k.GroupVersionKind.Kind, name)
	}
}

var (
	coreV1    = schema.GroupVersion{Version: "v1"}
	appsV1    = schema.GroupVersion{Group: "apps", Version: "v1"}
	batchV1   = schema.GroupVersion{Group: "batch", Version: "v1"}
	leaseV1   = schema.GroupVersion{Group: "coordination.k8s.io", Version: "v1"}
	policyV1  = schema.GroupVersion{Group: "policy", Version: "v1"}
	rbacV1    = schema.GroupVersion{Group: "rbac.authorization.k8s.io", Version: "v1"}
	storageV1 = schema.GroupVersion{Group: "storage.k8s.io", Version: "v1"}
	netV1     = schema.GroupVersion{Group: "networking.k8s.io", Version: "v1"}
	sliceV1   = schema.GroupVersion{Group: "discovery.k8s.io", Version: "v1"}
	eventV1   = schema.GroupVersion{Group: "events.k8s.io", Version: "v1"}
	workload  = ScalePaths{"spec.replicas", "status.replicas", "spec.selector"}
)

// BuiltIn returns the kinds of Kubernetes that a server knows unless it is told otherwise.
func BuiltIn() []Kind {
	kinds := []Kind{
		{GroupVersionKind: coreV1.WithKind("ConfigMap"), Check: frozenData("data", "binaryData")},
		{GroupVersionKind: coreV1.WithKind("Secret"), Prepare: prepareSecret,
			Check: all(frozen("type"), frozenData("data", "type"))},
		{GroupVersionKind: coreV1.WithKind("Service"), Status: true, CreateOnUpdate: true,
			Prepare: prepareService, Check: all(checkPorts, frozenOnceSet("spec.clusterIP"))},
		{GroupVersionKind: coreV1.WithKind("ServiceAccount")},
		{GroupVersionKind: coreV1.WithKind("Endpoints"), Plural: "endpoints", CreateOnUpdate: true},
		{GroupVersionKind: coreV1.WithKind("Event"), CreateOnUpdate: true},
		{GroupVersionKind: coreV1.WithKind("Namespace"), Cluster: true, Status: true},
		{GroupVersionKind: coreV1.WithKind("Node"), Cluster: true, Status: true, Fields: []string{"spec.unschedulable"}},
		{GroupVersionKind: coreV1.WithKind("Pod"), Status: true, Generation: true, Graceful: true, Prepare: preparePod,
			Check: checkPod, Fields: []string{"spec.nodeName", "spec.restartPolicy", "status.phase", "status.podIP"}},
		{GroupVersionKind: coreV1.WithKind("PersistentVolumeClaim"), Status: true, Prepare: prepareClaim,
			Check: checkClaim},
		{GroupVersionKind: coreV1.WithKind("PersistentVolume"), Cluster: true, Status: true},
		{GroupVersionKind: appsV1.WithKind("StatefulSet"), Status: true, Generation: true, Scale: workload,
			Prepare: prepareStatefulSet, Check: all(checkUpdateStrategy, onlyOpen("spec", "replicas", "ordinals", "template",
				"updateStrategy", "revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy", "minReadySeconds"))},
		{GroupVersionKind: appsV1.WithKind("Deployment"), Status: true, Generation: true, Scale: workload,
			Prepare: prepareDeployment, Check: frozen("spec.selector")},
		{GroupVersionKind: appsV1.WithKind("ReplicaSet"), Status: true, Generation: true, Scale: workload,
			Check: frozen("spec.selector")},
		{GroupVersionKind: appsV1.WithKind("DaemonSet"), Status: true, Generation: true, Check: frozen("spec.selector")},
		{GroupVersionKind: batchV1.WithKind("Job"), Status: true, Generation: true,
			Check: frozen("spec.selector", "spec.template", "spec.completionMode")},
		{GroupVersionKind: batchV1.WithKind("CronJob"), Status: true, Generation: true},
		{GroupVersionKind: leaseV1.WithKind("Lease"), Conditional: true, CreateOnUpdate: true, Check: checkLease},
		{GroupVersionKind: policyV1.WithKind("PodDisruptionBudget"), Status: true, Generation: true, Conditional: true},
		{GroupVersionKind: rbacV1.WithKind("Role")},
		{GroupVersionKind: rbacV1.WithKind("RoleBinding"), Check: frozen("roleRef")},
		{GroupVersionKind: rbacV1.WithKind("ClusterRole"), Cluster: true},
		{GroupVersionKind: rbacV1.WithKind("ClusterRoleBinding"), Cluster: true, Check: frozen("roleRef")},
		{GroupVersionKind: storageV1.WithKind("StorageClass"), Plural: "storageclasses", Cluster: true,
			Check: frozen("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")},
		{GroupVersionKind: netV1.WithKind("NetworkPolicy"), Plural: "networkpolicies", Generation: true},
		{GroupVersionKind: sliceV1.WithKind("EndpointSlice"), Generation: true, Check: frozen("addressType")},
		{GroupVersionKind: eventV1.WithKind("Event"), CreateOnUpdate: true},
	}
	return kinds
}
