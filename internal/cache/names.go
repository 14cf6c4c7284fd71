package cache

import (
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/kind"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/names"
)

// Labels of the children.
const (
	LabelCache     = kind.LabelCache
	LabelInstance  = "meridian.dev/instance"
	LabelName      = "app.kubernetes.io/name"
	LabelAppOf     = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelComponent = "app.kubernetes.io/component"
	// LabelRole and LabelRead are put onto each pod by its own agent: what it is, and whether it takes reads.
	LabelRole = wire.LabelRole
	LabelRead = wire.LabelRead
)

// The containers of an instance's own. A user may add others.
const (
	ContainerInstall = "install"
	ContainerCache   = kind.ContainerCache
)

const (
	// AnnotationPrefix is the domain of the annotations that children bear.
	AnnotationPrefix = "meridian.dev"
	// AnnotationOwner names the cache that a child belongs to, by its UID. kit/apply writes it.
	AnnotationOwner = AnnotationPrefix + "/owner"
	// AnnotationWish tells, on a pod, what the spec asked of it beside its size: see render.Wish.
	AnnotationWish = AnnotationPrefix + "/wish"
	// AnnotationTemplate identifies the template of a pod apart from its size, which is changed in place.
	AnnotationTemplate = AnnotationPrefix + "/template"
	// FieldManager is the author of all writes.
	FieldManager = "meridian-operator"
	// AnnotationSettings tells, on a pod, which settings are stored. Writing it makes the kubelet look at once.
	AnnotationSettings = AnnotationPrefix + "/settings"
	// AnnotationFlush is a user's request to empty the cache, any text. It is taken away when it was carried out.
	AnnotationFlush = AnnotationPrefix + "/flush"
	// SliceManager tells the controllers of the cluster that the EndpointSlice is not theirs.
	SliceManager = AnnotationPrefix
	// AuthoritiesKey is the key of the authorities in the Secret of the authority.
	AuthoritiesKey = "authorities.pem"
	// EndorsementsKey is what an issuer of the user's own has signed, in the same Secret.
	EndorsementsKey = "endorsements.pem"
	// OperatorCertificateKey is what the operator presents to agents, in the same Secret.
	OperatorCertificateKey = "operator.crt"
	// OperatorPrivateKey is the key to it.
	OperatorPrivateKey = "operator.key"
)

// child names a child by its role. A cache has at most 40 characters, so none of these is ever cut.
func child(cache, role string) string { return names.LetterLabel().Within(52).Child(cache, role) }

// SettingsName is the ConfigMap that is mounted into the pods.
func SettingsName(cache string) string { return child(cache, "settings") }

// WriteName is the Service of the primary: the name of the cache itself.
func WriteName(cache string) string { return cache }

// PodsName is the headless Service by which agents find each other; the budget has its name too.
func PodsName(cache string) string { return child(cache, "pods") }

// LeaseName is the lease by which the agents agree on the primary.
func LeaseName(cache string) string { return child(cache, "primary") }

// AgentName is the account of the agents, with its role and binding.
func AgentName(cache string) string { return child(cache, "agent") }

// ReadName is the Service of all instances that answer reads.
func ReadName(cache string) string { return child(cache, "ro") }

// AppSecretName is the Secret for applications: the name of the cache itself.
func AppSecretName(cache string) string { return wire.CacheSecret(cache) }

// AuthorityName is the Secret with the cache's certificate authority. It is never mounted.
func AuthorityName(cache string) string { return child(cache, "ca") }

// LeafName is the Secret with the certificate that the instances and the operator present.
func LeafName(cache string) string { return child(cache, "tls") }

// InstanceName is the name of an instance, which is that of its StatefulSet.
func InstanceName(cache string, serial int) string { return child(cache, strconv.Itoa(serial)) }

// PodName is the one pod of an instance.
func PodName(instance string) string { return instance + "-0" }

// SerialOf is the reverse of InstanceName.
func SerialOf(cache, instance string) (int, bool) {
	text, found := strings.CutPrefix(instance, cache+"-")
	serial, err := strconv.Atoi(text)
	return serial, found && err == nil && serial > 0 && InstanceName(cache, serial) == instance
}

// HostOf is the name under which a Service is reached from every namespace.
func HostOf(service, namespace string) string { return service + "." + namespace + ".svc" }

// SelectorOf selects the pods of a cache.
func SelectorOf(cache string) string { return LabelCache + "=" + cache }
