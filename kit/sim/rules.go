package sim

import (
	"encoding/base64"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// check is the form of Kind.Check.
type check = func(object, old map[string]any) field.ErrorList

func sameContent(a, b *unstructured.Unstructured) bool { return same(a.Object, b.Object) }

func same(a, b any) bool { return equality.Semantic.DeepEqual(a, b) }

// all asks several checks.
func all(checks ...check) check {
	return func(object, old map[string]any) field.ErrorList {
		var errs field.ErrorList
		for _, one := range checks {
			errs = append(errs, one(object, old)...)
		}
		return errs
	}
}

// frozen refuses every change of the values at some paths.
func frozen(paths ...string) check {
	return func(object, old map[string]any) field.ErrorList {
		var errs field.ErrorList
		for _, path := range paths {
			if value := valueAt(object, path); old != nil && !same(value, valueAt(old, path)) {
				errs = append(errs, field.Invalid(field.NewPath(path), value, "field is immutable"))
			}
		}
		return errs
	}
}

// frozenOnceSet refuses a change of a value that there is.
func frozenOnceSet(path string) check {
	return func(object, old map[string]any) field.ErrorList {
		if old == nil || valueAt(old, path) == nil {
			return nil
		}
		return frozen(path)(object, old)
	}
}

// onlyOpen refuses every change below a path but those of the named fields.
func onlyOpen(path string, open ...string) check {
	without := func(content map[string]any) map[string]any {
		rest := map[string]any{}
		within, _ := valueAt(content, path).(map[string]any)
		for name, value := range within {
			if !slices.Contains(open, name) {
				rest[name] = value
			}
		}
		return rest
	}
	return func(object, old map[string]any) field.ErrorList {
		if old == nil || same(without(object), without(old)) {
			return nil
		}
		return field.ErrorList{field.Forbidden(field.NewPath(path), "updates to fields other than these are forbidden")}
	}
}

// frozenData is the rule of Secrets and ConfigMaps that say of themselves that they are immutable.
func frozenData(paths ...string) check {
	return func(object, old map[string]any) field.ErrorList {
		if old == nil || old["immutable"] != true {
			return nil
		}
		errs := frozen(paths...)(object, old)
		if object["immutable"] != true {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
		}
		return errs
	}
}

// checkClaim lets the volume be bound once, and a bound claim grow.
func checkClaim(object, old map[string]any) field.ErrorList {
	if old == nil {
		return nil
	}
	const volume, size = "spec.volumeName", "spec.resources.requests.storage"
	wanted, had := runtime.DeepCopyJSON(object), runtime.DeepCopyJSON(old)
	if valueAt(had, volume) == nil {
		putOrDelete(had["spec"].(map[string]any), "volumeName", valueAt(wanted, volume))
	}
	var errs field.ErrorList
	if valueAt(wanted, "status.phase") == "Bound" {
		before, after := quantity(valueAt(had, size)), quantity(valueAt(wanted, size))
		// A failed growth may be taken back, but never below what is there.
		if after.Cmp(before) < 0 && after.Cmp(quantity(valueAt(had, "status.capacity.storage"))) <= 0 {
			errs = append(errs, field.Forbidden(field.NewPath(size), "field can not be less than status.capacity"))
		}
		setAt(had, size, valueAt(wanted, size))
	}
	if !same(wanted["spec"], had["spec"]) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "spec is immutable after creation except "+
			"resources.requests and volumeAttributesClassName for bound claims"))
	}
	return errs
}

func quantity(value any) resource.Quantity {
	text, _ := value.(string)
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return parsed
}

// checkPod lets only those fields of a pod change that the kubelet can follow.
func checkPod(object, old map[string]any) field.ErrorList {
	if old == nil {
		return nil
	}
	fixed := func(content map[string]any) map[string]any {
		content = runtime.DeepCopyJSON(content)
		spec, _ := content["spec"].(map[string]any)
		for _, name := range []string{"activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds",
			"nodeName"} {
			delete(spec, name)
		}
		for _, list := range []string{"containers", "initContainers"} {
			for _, entry := range listAt(spec, list) {
				delete(entry, "image")
			}
		}
		return spec
	}
	errs := frozenOnceSet("spec.nodeName")(object, old)
	if !same(fixed(object), fixed(old)) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than "+
			"images, activeDeadlineSeconds, tolerations and terminationGracePeriodSeconds"))
	}
	return errs
}

func checkPorts(object, _ map[string]any) field.ErrorList {
	var errs field.ErrorList
	seen := map[any]bool{}
	for i, port := range listAt(object, "spec.ports") {
		if name := port["name"]; seen[name] {
			errs = append(errs, field.Duplicate(field.NewPath("spec", "ports").Index(i).Child("name"), name))
		}
		seen[port["name"]] = true
	}
	return errs
}

func checkUpdateStrategy(object, _ map[string]any) field.ErrorList {
	const strategy = "spec.updateStrategy"
	details := valueAt(object, strategy+".rollingUpdate")
	if details == nil || valueAt(object, strategy+".type") == "RollingUpdate" {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath(strategy).Child("rollingUpdate"), details,
		"only allowed for updateStrategy 'RollingUpdate'")}
}

func checkLease(object, _ map[string]any) field.ErrorList {
	var errs field.ErrorList
	if length, ok := valueAt(object, "spec.leaseDurationSeconds").(int64); ok && length <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec.leaseDurationSeconds"), length, "must be greater than 0"))
	}
	if count, ok := valueAt(object, "spec.leaseTransitions").(int64); ok && count < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec.leaseTransitions"), count, "must not be negative"))
	}
	if holder, ok := valueAt(object, "spec.holderIdentity").(string); ok && holder == "" {
		errs = append(errs, field.Invalid(field.NewPath("spec.holderIdentity"), holder, "must not be empty"))
	}
	return errs
}

// listAt returns the entries of a list of maps.
func listAt(content map[string]any, path string) []map[string]any {
	entries, _ := valueAt(content, path).([]any)
	var maps []map[string]any
	for _, entry := range entries {
		if inner, ok := entry.(map[string]any); ok {
			maps = append(maps, inner)
		}
	}
	return maps
}

// empty reports whether a value is missing or says nothing.
func empty(value any) bool {
	return value == nil || reflect.ValueOf(value).IsZero()
}

// The defaults of the built-in kinds that operators create. They matter: a reconciler that compares what it wants with
// what is stored, without regard for defaults, writes for ever, and does so here as well.

// ProtectionFinalizer is what admission puts on every claim; Collect takes it away when no pod uses the claim.
const ProtectionFinalizer = "kubernetes.io/pvc-protection"

func prepareSecret(object, _ map[string]any) {
	if plain, ok := object["stringData"].(map[string]any); ok {
		for name, value := range plain {
			text, _ := value.(string)
			setAt(object, "data", withEntry(object["data"], name, base64.StdEncoding.EncodeToString([]byte(text))))
		}
		delete(object, "stringData")
	}
	if empty(object["type"]) {
		object["type"] = "Opaque"
	}
}

func withEntry(entries any, name string, value any) map[string]any {
	found, ok := entries.(map[string]any)
	if !ok {
		found = map[string]any{}
	}
	found[name] = value
	return found
}

func prepareClaim(object, old map[string]any) {
	setDefault(object, "spec.volumeMode", "Filesystem")
	if old != nil {
		return
	}
	setAt(object, "status", map[string]any{"phase": "Pending"})
	finalizers, _ := valueAt(object, "metadata.finalizers").([]any)
	if !slices.Contains(finalizers, any(ProtectionFinalizer)) {
		setAt(object, "metadata.finalizers", append(finalizers, ProtectionFinalizer))
	}
}

func prepareService(object, old map[string]any) {
	setDefault(object, "spec.type", "ClusterIP")
	setDefault(object, "spec.sessionAffinity", "None")
	for _, port := range listAt(object, "spec.ports") {
		setDefault(port, "protocol", "TCP")
		if empty(port["targetPort"]) {
			port["targetPort"] = port["port"]
		}
	}
	if valueAt(object, "spec.type") == "ExternalName" {
		return
	}
	setDefault(object, "spec.internalTrafficPolicy", "Cluster")
	// What was given to the Service stays, also when a client does not send it.
	for _, path := range []string{"spec.clusterIP", "spec.clusterIPs", "spec.ipFamilies", "spec.ipFamilyPolicy"} {
		if value := valueAt(old, path); old != nil && value != nil {
			setDefault(object, path, value)
		}
	}
	if address := valueAt(object, "spec.clusterIP"); !empty(address) {
		setDefault(object, "spec.clusterIPs", []any{address})
	}
	setDefault(object, "spec.ipFamilyPolicy", "SingleStack")
	setDefault(object, "spec.ipFamilies", []any{"IPv4"})
	setDefault(object, "status.loadBalancer", map[string]any{})
}

func prepareStatefulSet(object, _ map[string]any) {
	setDefault(object, "spec.podManagementPolicy", "OrderedReady")
	setDefault(object, "spec.replicas", int64(1))
	setDefault(object, "spec.revisionHistoryLimit", int64(10))
	setDefault(object, "spec.updateStrategy.type", "RollingUpdate")
	if valueAt(object, "spec.updateStrategy.type") == "RollingUpdate" {
		setDefault(object, "spec.updateStrategy.rollingUpdate.partition", int64(0))
	}
	setDefault(object, "spec.persistentVolumeClaimRetentionPolicy.whenDeleted", "Retain")
	setDefault(object, "spec.persistentVolumeClaimRetentionPolicy.whenScaled", "Retain")
	for _, claim := range listAt(object, "spec.volumeClaimTemplates") {
		setDefault(claim, "spec.volumeMode", "Filesystem")
		setDefault(claim, "status.phase", "Pending")
		claim["apiVersion"], claim["kind"] = "v1", "PersistentVolumeClaim"
	}
	prepareTemplate(object)
}

func prepareDeployment(object, _ map[string]any) {
	setDefault(object, "spec.replicas", int64(1))
	setDefault(object, "spec.revisionHistoryLimit", int64(10))
	setDefault(object, "spec.progressDeadlineSeconds", int64(600))
	setDefault(object, "spec.strategy.type", "RollingUpdate")
	if valueAt(object, "spec.strategy.type") == "RollingUpdate" {
		setDefault(object, "spec.strategy.rollingUpdate.maxUnavailable", "25%")
		setDefault(object, "spec.strategy.rollingUpdate.maxSurge", "25%")
	}
	prepareTemplate(object)
}

func prepareTemplate(object map[string]any) {
	if spec, ok := valueAt(object, "spec.template.spec").(map[string]any); ok {
		defaultPodSpec(spec)
	}
}

func preparePod(object, old map[string]any) {
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return
	}
	defaultPodSpec(spec)
	setDefault(spec, "enableServiceLinks", true)
	for _, key := range []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"} {
		tolerateBriefly(spec, key)
	}
	setDefault(spec, "priority", int64(0))
	setDefault(spec, "preemptionPolicy", "PreemptLowerPriority")
	if old == nil {
		setAt(object, "status", map[string]any{"phase": "Pending", "qosClass": "BestEffort"})
	}
}

// tolerateBriefly lets a pod stay on a lost node for five minutes, unless it says something else.
func tolerateBriefly(spec map[string]any, key string) {
	for _, toleration := range listAt(spec, "tolerations") {
		if toleration["key"] == key || empty(toleration["key"]) {
			return
		}
	}
	tolerations, _ := spec["tolerations"].([]any)
	spec["tolerations"] = append(tolerations, map[string]any{
		"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300),
	})
}

func defaultPodSpec(spec map[string]any) {
	setDefault(spec, "restartPolicy", "Always")
	setDefault(spec, "terminationGracePeriodSeconds", int64(30))
	setDefault(spec, "dnsPolicy", "ClusterFirst")
	setDefault(spec, "schedulerName", "default-scheduler")
	setDefault(spec, "securityContext", map[string]any{})
	if account, ok := spec["serviceAccountName"]; ok && account != "" {
		setDefault(spec, "serviceAccount", account)
	}
	for _, list := range []string{"containers", "initContainers"} {
		for _, container := range listAt(spec, list) {
			defaultContainer(container)
		}
	}
}

func defaultContainer(container map[string]any) {
	setDefault(container, "terminationMessagePath", "/dev/termination-log")
	setDefault(container, "terminationMessagePolicy", "File")
	policy := "IfNotPresent"
	image, _ := container["image"].(string)
	if name := image[strings.LastIndex(image, "/")+1:]; !strings.ContainsAny(name, ":@") ||
		strings.HasSuffix(name, ":latest") {
		policy = "Always"
	}
	setDefault(container, "imagePullPolicy", policy)
	for _, port := range listAt(container, "ports") {
		setDefault(port, "protocol", "TCP")
	}
}
