package database

import (
	"fmt"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/kind"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/names"
)

// Labels of the children.
const (
	LabelDatabase  = kind.LabelDatabase
	LabelInstance  = "meridian.dev/instance"
	LabelName      = "app.kubernetes.io/name"
	LabelAppOf     = "app.kubernetes.io/instance"
	LabelManagedBy = "app.kubernetes.io/managed-by"
	LabelComponent = "app.kubernetes.io/component"
	// LabelTrial names the database, on a pod that restores on trial. Such a pod bears none of the labels by which
	// Services, budgets, policies and agents know instances.
	LabelTrial = AnnotationPrefix + "/trial"
	// LabelRoll is on the settings of a database from before the first restart of a change until all instances are well
	// again. It has one value, RollBegun, so that whoever counts such databases can select them.
	LabelRoll = AnnotationPrefix + "/roll"
	RollBegun = "begun"
	// LabelRole and LabelRead are put onto each pod by its own agent: what it is, and whether it takes reads.
	LabelRole = wire.LabelRole
	LabelRead = wire.LabelRead
)

// The containers of an instance's own. A user may add others.
const (
	ContainerInstall  = "install"
	ContainerDatabase = kind.ContainerDatabase
	// ContainerTrial is that of a pod that restores on trial.
	ContainerTrial = "trial"
)

const (
	// AnnotationPrefix is the domain of the annotations that children bear.
	AnnotationPrefix = "meridian.dev"
	// AnnotationOwner names the database that a child belongs to, by its UID. kit/apply writes it.
	AnnotationOwner = AnnotationPrefix + "/owner"
	// AnnotationWish tells, on a pod, what the spec asked of it: see render.Wish.
	AnnotationWish = AnnotationPrefix + "/wish"
	// AnnotationTemplate names, on a pod, the template that it was made from: see render.Template.
	AnnotationTemplate = AnnotationPrefix + "/template"
	// AnnotationRestart tells, on a pod, which spec.restart it was made for.
	AnnotationRestart = AnnotationPrefix + "/restart"
	// AnnotationMetadata tells, on a pod, which labels and annotations are the user's.
	AnnotationMetadata = AnnotationPrefix + "/metadata"
	// AnnotationSystemIdentifier keeps the identity of the data on the claim, which outlives every other child.
	AnnotationSystemIdentifier = AnnotationPrefix + "/system-identifier"
	// AnnotationOrigin tells, on a claim, by which UID the data on it knows its database, if that is not the owner: the
	// database was deleted, and another one has taken its volumes over.
	AnnotationOrigin = AnnotationPrefix + "/origin"
	// AnnotationParting keeps, on the claims of a database that was deleted, what it takes to come back: see Parting.
	AnnotationParting = AnnotationPrefix + "/parting"
	// FieldManager is the author of all writes.
	FieldManager = "meridian-operator"
	// AnnotationSettings tells, on a pod, which settings are stored. Writing it makes the kubelet look at once.
	AnnotationSettings = AnnotationPrefix + "/settings"
	// AnnotationSwitchover is a user's request for another primary: the name of an instance, or AnyInstance. It is taken
	// away when it was carried out or refused.
	AnnotationSwitchover = AnnotationPrefix + "/switchover"
	// AnnotationRequest is what was written down about it when it began.
	AnnotationRequest = AnnotationPrefix + "/switchover-request"
	// AnnotationSwitched is the last spec.switchover that was carried out, refused, or there from the beginning.
	AnnotationSwitched = AnnotationPrefix + "/switched"
	// AnyInstance leaves the choice of the next primary to the agents.
	AnyInstance = "any"
	// AnnotationInstallation names the installation of Meridian that works for a database. Any other one leaves it alone.
	AnnotationInstallation = AnnotationPrefix + "/installation"
	// AnnotationBound tells, on the Secret for applications, which of its keys were written for environment variables, and
	// for which cache. No other key that is there is ever changed.
	AnnotationBound = AnnotationPrefix + "/bound"
	// Finalizer keeps a deleted database until its lease can go, and the claims that its spec does not want to keep.
	Finalizer = AnnotationPrefix + "/database"
	// LeaseFinalizer keeps the lease of a living database, whoever deletes it.
	LeaseFinalizer = AnnotationPrefix + "/lease"
	// SliceManager tells the controllers of the cluster that the EndpointSlice is not theirs.
	SliceManager = AnnotationPrefix
	// AuthoritiesKey is the key of the authorities in the Secret of the authority.
	AuthoritiesKey = "authorities.pem"
	// EndorsementsKey is the key of what a user's own authority has signed for them, in the same Secret.
	EndorsementsKey = "endorsements.pem"
	// OperatorCertificateKey is what the operator presents to agents, in the same Secret.
	OperatorCertificateKey = "operator.crt"
	// AnnotationRotation tells, on the Secret of the authority and on that for applications, which rotation was carried
	// out last, or is under way: see Rotation.
	AnnotationRotation = service.AnnotationRotation
	// AnnotationCertificates tells, on the Secret of the authority, which instances have a Secret with a certificate of
	// their own: the operator may not list Secrets, and has to take those away that nobody needs.
	AnnotationCertificates = AnnotationPrefix + "/certificates"
	// AnnotationSecrets tells, on a pod, which certificates and credentials are stored, as AnnotationSettings does.
	AnnotationSecrets = AnnotationPrefix + "/secrets"
	// AnnotationBackup tells, on a pod, which settings of backups and which credentials are stored, as AnnotationSettings
	// does.
	AnnotationBackup = AnnotationPrefix + "/backup"
	// AnnotationBackupNow tells, beside the settings of backups, which spec.backup.now was carried out last.
	AnnotationBackupNow = AnnotationPrefix + "/backup-now"
	// AnnotationTrial tells, on a pod that restores on trial, which wish it is for, and, beside the settings of backups,
	// how the last one has ended.
	AnnotationTrial = AnnotationPrefix + "/trial"
	// AnnotationTrialsAsked tells, beside the settings of backups, since when restores on trial are asked for as they are.
	AnnotationTrialsAsked = AnnotationPrefix + "/trials-asked"
	// OperatorPrivateKey is the key to it.
	OperatorPrivateKey = "operator.key"
)

// child names a child by its role. A database has at most 40 characters, so none of these is ever cut.
func child(database, role string) string { return names.LetterLabel().Within(52).Child(database, role) }

// SettingsName is the ConfigMap that is mounted into the pods.
func SettingsName(database string) string { return child(database, "settings") }

// WriteName is the Service of the primary.
func WriteName(database string) string { return child(database, "rw") }

// ReadName is the Service of the replicas.
func ReadName(database string) string { return child(database, "ro") }

// PodsName is the headless Service by which agents find each other; budget and network policy have its name too.
func PodsName(database string) string { return child(database, "pods") }

// LeaseName is the lease by which the agents agree on the primary.
func LeaseName(database string) string { return child(database, "primary") }

// AgentName is the account of the agents, with its role and binding.
func AgentName(database string) string { return child(database, "agent") }

// AppSecretName is the Secret for applications.
func AppSecretName(database string) string { return child(database, "app") }

// AuthorityName is the Secret with the database's certificate authority. It is never mounted.
func AuthorityName(database string) string { return child(database, "ca") }

// AccessName is the Secret of ours with what leads to the repository of backups, SourceName that with what leads to the
// one that the database begins with.
func AccessName(database string) string { return child(database, "repository") }

// SourceName is described with AccessName.
func SourceName(database string) string { return child(database, "source") }

// TrialName is the pod that restores on trial: there is at most one.
func TrialName(database string) string { return child(database, "trial") }

// CertificateName is the Secret with the certificate of one instance. The name of the instance is not in it: that could
// be the name of another database, whose Secrets are called so.
func CertificateName(database string, serial int) string {
	return child(database, "cert"+strconv.Itoa(serial))
}

// LeafName is the Secret with the certificate that instances of an earlier version have in common.
func LeafName(database string) string { return child(database, "tls") }

// InstanceName is the name of an instance: of its StatefulSet and of its claim.
func InstanceName(database string, serial int) string { return child(database, strconv.Itoa(serial)) }

// LogClaimName is the claim of the volume of the log of an instance, if it has one of its own.
func LogClaimName(instance string) string { return wire.LogClaim(instance) }

// ClaimOwner is the instance that a claim belongs to by its name, and whether it is that of the log. No instance has
// such a name: it ends with a number.
func ClaimOwner(claim string) (instance string, log bool) {
	return strings.CutSuffix(claim, wire.LogClaim(""))
}

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
