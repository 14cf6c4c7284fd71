package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"

	"meridian.dev/meridian/internal/platform"
)

// Surroundings are what is known of a cluster and a namespace in it, before or after Meridian is there. What could not
// be read is nil, and named in Unread.
type Surroundings struct {
	Namespace string
	Version   string
	// OpenShift says that the cluster has its security context constraints.
	OpenShift bool
	Classes   []storagev1.StorageClass
	Quotas    []corev1.ResourceQuota
	Ranges    []corev1.LimitRange
	Policies  []networkingv1.NetworkPolicy
	// Asked and Answered are a pod like those of Meridian as it was sent, without being made, and as it would have been;
	// Refusal is why it would not.
	Asked, Answered *corev1.Pod
	Refusal         string
	// Unread are the words of the API server about what could not be read, by check.
	Unread map[string]string
}

// The checks, as sentences that are true when they pass.
const (
	CheckVersion  = "the version of Kubernetes is one that Meridian works with"
	CheckClass    = "there is a default storage class, and its volumes can grow"
	CheckTaken    = "a pod like those of Meridian is taken as it is"
	CheckQuota    = "no quota and no range of sizes binds the pods of the namespace"
	CheckOutwards = "pods of the namespace may call the API server and name servers"
)

// CheckSurroundings asks everything that can be asked of a cluster, each with the way out.
func CheckSurroundings(facts Surroundings) []Finding {
	findings := []Finding{
		versionFinding(facts), classFinding(facts), takenFinding(facts), quotaFinding(facts), outwardFinding(facts),
	}
	for i, finding := range findings {
		if words, unread := facts.Unread[finding.Check]; unread {
			findings[i] = Finding{Check: finding.Check, Outcome: Unknown, Message: "it could not be read: " + words}
		}
	}
	return findings
}

func sound(check string) Finding { return Finding{Check: check, Outcome: Passed} }

func versionFinding(facts Surroundings) Finding {
	refusal, remark := platform.Version(facts.Version)
	switch {
	case refusal != "":
		return Finding{Check: CheckVersion, Outcome: Failed, Message: refusal}
	case remark != "":
		return Finding{Check: CheckVersion, Outcome: Warned, Message: remark}
	default:
		return sound(CheckVersion)
	}
}

// isDefault is the annotation by which a cluster marks its default class.
const isDefault = "storageclass.kubernetes.io/is-default-class"

// nodeBound are provisioners that are known to make volumes that belong to one node.
var nodeBound = []string{"rancher.io/local-path", "kubernetes.io/no-provisioner", "k8s.io/minikube-hostpath"}

func classFinding(facts Surroundings) Finding {
	found := Finding{Check: CheckClass, Outcome: Warned}
	at := slices.IndexFunc(facts.Classes, func(class storagev1.StorageClass) bool {
		return class.Annotations[isDefault] == "true"
	})
	switch {
	case len(facts.Classes) == 0:
		found.Outcome, found.Message = Failed, "there is no storage class: install a driver for volumes, or make a class "+
			"with provisioner kubernetes.io/no-provisioner for volumes that you make by hand"
	case at < 0:
		found.Message = "no class is the default: name one in spec.storage.class of each database: " +
			classNames(facts.Classes)
	case slices.Contains(nodeBound, facts.Classes[at].Provisioner):
		found.Message = fmt.Sprintf("the volumes of class %s belong to one node: an instance whose node is gone gets a new "+
			"copy elsewhere; where they are not offered as ReadWriteOncePod, set spec.storage.accessMode: ReadWriteOnce",
			facts.Classes[at].Name)
	case facts.Classes[at].AllowVolumeExpansion == nil || !*facts.Classes[at].AllowVolumeExpansion:
		found.Message = fmt.Sprintf("the class %s does not let volumes grow: set allowVolumeExpansion in it if its driver "+
			"can, or choose spec.storage.size for years", facts.Classes[at].Name)
	default:
		return sound(CheckClass)
	}
	return found
}

func classNames(classes []storagev1.StorageClass) string {
	var list []string
	for _, class := range classes {
		list = append(list, class.Name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func takenFinding(facts Surroundings) Finding {
	found := Finding{Check: CheckTaken, Outcome: Warned}
	switch {
	case facts.Refusal != "" && facts.OpenShift:
		found.Outcome, found.Message = Failed, "it is refused: "+facts.Refusal+"; on OpenShift give the operator --any-user"
		return found
	case facts.Refusal != "":
		found.Outcome, found.Message = Failed, "it is refused: "+facts.Refusal+"; change what refuses it, or "+
			"spec.podTemplate of each database"
		return found
	case facts.Asked == nil || facts.Answered == nil:
		found.Outcome, found.Message = Unknown, "it was not tried"
		return found
	}
	changes := rewritten(facts.Asked, facts.Answered)
	if len(changes) == 0 {
		return sound(CheckTaken)
	}
	found.Message = "admission of this cluster changes " + strings.Join(changes, ", ") +
		"; Meridian leaves such fields as they are made, and names them in status.pendingChanges"
	return found
}

// rewritten names the fields of a pod that are not as they were sent. What was not sent is nobody's wish, but a
// container that was added is named.
func rewritten(asked, answered *corev1.Pod) []string {
	var changes []string
	differs := func(is bool, field, now string) {
		if is {
			changes = append(changes, strings.TrimSpace(field+" "+now))
		}
	}
	for _, container := range answered.Spec.Containers {
		at := slices.IndexFunc(asked.Spec.Containers, func(one corev1.Container) bool { return one.Name == container.Name })
		if at < 0 {
			changes = append(changes, "the containers (adds "+container.Name+")")
			continue
		}
		sent := asked.Spec.Containers[at]
		differs(sent.Image != container.Image, "the image", "(to "+container.Image+")")
		differs(sent.ImagePullPolicy != container.ImagePullPolicy, "imagePullPolicy", "")
		for _, size := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			before, after := sent.Resources.Requests[size], container.Resources.Requests[size]
			differs(before.Cmp(after) != 0, "the request of "+string(size), "(to "+after.String()+")")
			before, after = sent.Resources.Limits[size], container.Resources.Limits[size]
			differs(before.Cmp(after) != 0, "the limit of "+string(size), "(to "+after.String()+")")
		}
	}
	for _, container := range answered.Spec.InitContainers {
		changes = append(changes, "the init containers (adds "+container.Name+")")
	}
	return changes
}

func quotaFinding(facts Surroundings) Finding {
	var bounds []string
	for _, quota := range facts.Quotas {
		for _, name := range quotaNames(quota) {
			used, hard := quota.Status.Used[name], quota.Spec.Hard[name]
			bounds = append(bounds, fmt.Sprintf("quota %s: %s of %s %s is used", quota.Name, used.String(), hard.String(), name))
		}
	}
	for _, limits := range facts.Ranges {
		for _, limit := range limits.Spec.Limits {
			if largest, found := limit.Max[corev1.ResourceMemory]; found {
				bounds = append(bounds, fmt.Sprintf("range %s: a %s has at most %s of memory",
					limits.Name, strings.ToLower(string(limit.Type)), largest.String()))
			}
		}
	}
	if len(bounds) == 0 {
		return sound(CheckQuota)
	}
	return Finding{Check: CheckQuota, Outcome: Warned, Message: strings.Join(bounds, "; ") +
		"; one instance more than a database has must fit for as long as one is replaced"}
}

// quotaNames are the bounds of a quota that pods and claims meet, in order.
func quotaNames(quota corev1.ResourceQuota) []corev1.ResourceName {
	var found []corev1.ResourceName
	for name := range quota.Spec.Hard {
		text := string(name)
		if strings.Contains(text, "cpu") || strings.Contains(text, "memory") || strings.Contains(text, "storage") ||
			name == corev1.ResourcePods || name == corev1.ResourcePersistentVolumeClaims {
			found = append(found, name)
		}
	}
	slices.SortFunc(found, func(a, b corev1.ResourceName) int { return cmp.Compare(a, b) })
	return found
}

// outwardFinding looks for policies that bind every pod of the namespace on its way out. What they allow may be enough,
// and one that is set beside them costs nothing.
func outwardFinding(facts Surroundings) Finding {
	var closed []string
	for _, policy := range facts.Policies {
		everybody := len(policy.Spec.PodSelector.MatchLabels) == 0 && len(policy.Spec.PodSelector.MatchExpressions) == 0
		if everybody && slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
			closed = append(closed, policy.Name)
		}
	}
	if len(closed) == 0 {
		return sound(CheckOutwards)
	}
	slices.Sort(closed)
	return Finding{Check: CheckOutwards, Outcome: Warned, Message: "policies bind every pod of the namespace on its way " +
		"out: " + strings.Join(closed, ", ") + "; set spec.network.egress: Needed in each database and cache"}
}
