package database

import (
	"fmt"
	"strconv"
	"strings"

	"meridian.dev/meridian/kit/names"
)

// Labels of the children.
const (
	LabelDatabase  = "meridian.dev/database"
	LabelInstance  = "meridian.dev/instance"
	LabelName      = "app.kubernetes.io/name"
	LabelAppOf     = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelComponent = "app.kubernetes.io/component"
)

// The containers of an instance's own. A user may add others.
const (
	ContainerInstall  = "install"
	ContainerDatabase = "database"
)

const (
	// AnnotationPrefix is the domain of the annotations that children bear.
	AnnotationPrefix = "meridian.dev"
	// AnnotationOwner names the database that a child belongs to, by its UID. kit/apply writes it.
	AnnotationOwner = AnnotationPrefix + "/owner"
	// AnnotationWish tells, on a pod, what the spec asked of it: see render.Wish.
	AnnotationWish = AnnotationPrefix + "/wish"
	// AnnotationSystemIdentifier keeps the identity of the data on the claim, which outlives every other child.
	AnnotationSystemIdentifier = AnnotationPrefix + "/system-identifier"
	// FieldManager is the author of all writes.
	FieldManager = "meridian-operator"
	// Finalizer keeps a deleted database until the claims that its spec does not want to keep are deleted too. A
	// database whose claims are kept does not bear it.
	Finalizer = AnnotationPrefix + "/claims"
	// AuthoritiesKey is the key of the authorities in the Secret of the authority.
	AuthoritiesKey = "authorities.pem"
)

// child names a child by its role. A database has at most 40 characters, so none of these is ever cut.
func child(database, role string) string { return names.LetterLabel().Within(52).Child(database, role) }

// SettingsName is the ConfigMap that is mounted into the pods.
func SettingsName(database string) string { return child(database, "settings") }

// WriteName is the Service of the primary.
func WriteName(database string) string { return child(database, "rw") }

// ReadName is the Service of the replicas.
func ReadName(database string) string { return child(database, "ro") }

// BindingName is the Secret for applications.
func BindingName(database string) string { return child(database, "app") }

// AuthorityName is the Secret with the database's certificate authority. It is never mounted.
func AuthorityName(database string) string { return child(database, "ca") }

// LeafName is the Secret with the certificate that the instances and the operator present.
func LeafName(database string) string { return child(database, "tls") }

// InstanceName is the name of an instance: of its StatefulSet and of its claim.
func InstanceName(database string, serial int) string { return child(database, strconv.Itoa(serial)) }

// PodName is the one pod of an instance.
func PodName(instance string) string { return instance + "-0" }

// SerialOf is the reverse of InstanceName.
func SerialOf(database, instance string) (int, bool) {
	text, found := strings.CutPrefix(instance, database+"-")
	serial, err := strconv.Atoi(text)
	return serial, found && err == nil && serial > 0 && InstanceName(database, serial) == instance
}

// HostOf is the name under which a Service is reached from every namespace.
func HostOf(service, namespace string) string { return fmt.Sprintf("%s.%s.svc", service, namespace) }

// SelectorOf selects the pods of a database.
func SelectorOf(database string) string { return LabelDatabase + "=" + database }
