//go:build cluster

package sim_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// operation is one request as data: what it refers to is named, not copied, so that a sequence can be run on both
// servers, and again with operations left out.
type operation struct {
	verb, kind, name string
	// change is a name in changes.
	change string
	// patch is the form of a patch: json, merge or strategic.
	patch string
	// version and uid say which ones are sent: none, current, stale (of an earlier state) or wrong.
	version, uid string
	subresource  string
	propagation  string
	grace        string
	dryRun       bool
	// look says that the object is read afterwards, whatever the answer was.
	look bool
}

func (o operation) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %s", o.verb, o.kind, o.name)
	for _, each := range []struct{ name, value string }{
		{"subresource", o.subresource}, {"change", o.change}, {"as", o.patch}, {"version", o.version}, {"uid", o.uid},
		{"propagation", o.propagation}, {"grace", o.grace},
	} {
		if each.value != "" {
			fmt.Fprintf(&text, " %s=%s", each.name, each.value)
		}
	}
	if o.dryRun {
		text.WriteString(" dry-run")
	}
	return text.String()
}

// manifests are the objects that sequences begin with. Each leaves out what is a default in the simulator as well.
var manifests = map[string]string{
	"ConfigMap": `{apiVersion: v1, data: {a: "1"}}`,
	"Secret":    `{apiVersion: v1, stringData: {a: secret}}`,
	"Service": `{apiVersion: v1, spec: {clusterIP: None, selector: {app: x}, ports: [{name: p, port: 80},
		{name: q, port: 81}]}}`,
	"Pod": `{apiVersion: v1, spec: {nodeName: n1, containers: [{name: c, image: "x:1"}]}}`,
	"PersistentVolumeClaim": `{apiVersion: v1, metadata: {finalizers: [kubernetes.io/pvc-protection]},
		spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}}`,
	"StatefulSet": `{apiVersion: apps/v1, spec: {replicas: 1, serviceName: x, selector: {matchLabels: {app: x}},
		template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, image: x, ports: [{containerPort: 1}]}]}}}}`,
	"Lease":       `{apiVersion: coordination.k8s.io/v1, spec: {holderIdentity: a, leaseDurationSeconds: 15}}`,
	"GeoDatabase": `{apiVersion: meridian.dev/v1alpha1, spec: {storage: {size: 1Gi}}}`,
}

var kindNames = []string{"ConfigMap", "Secret", "Service", "Pod", "PersistentVolumeClaim", "StatefulSet", "Lease",
	"GeoDatabase"}

var (
	hasStatus = map[string]bool{"Service": true, "Pod": true, "PersistentVolumeClaim": true, "StatefulSet": true,
		"GeoDatabase": true}
	hasScale = map[string]bool{"StatefulSet": true, "GeoDatabase": true}
)

func manifest(kind string) *unstructured.Unstructured {
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(manifests[kind]), &content); err != nil {
		panic(err)
	}
	object := &unstructured.Unstructured{Object: wholeNumbers(content).(map[string]any)}
	object.SetKind(kind)
	return object
}

// wholeNumbers turns what the parser of YAML makes of numbers into what unstructured objects have.
func wholeNumbers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			value[name] = wholeNumbers(inner)
		}
	case []any:
		for i, inner := range value {
			value[i] = wholeNumbers(inner)
		}
	case float64:
		return int64(value)
	}
	return value
}

// set is a change of one field; a nil value removes it. Paths may name entries of lists by number.
type set struct {
	path  string
	value any
}

// changes are by kind and by name; those of the empty kind fit all.
var changes = map[string]map[string][]set{
	"": {
		"nothing":           nil,
		"label":             {{"metadata.labels.color", "red"}},
		"other-label":       {{"metadata.labels.color", "blue"}},
		"no-label":          {{"metadata.labels.color", nil}},
		"bad-label":         {{"metadata.labels.color", "not a label"}},
		"annotation":        {{"metadata.annotations.note", "x"}},
		"finalizer":         {{"metadata.finalizers", []any{"example.com/one"}}},
		"two-finalizers":    {{"metadata.finalizers", []any{"example.com/one", "example.com/two"}}},
		"no-finalizers":     {{"metadata.finalizers", nil}},
		"bad-finalizer":     {{"metadata.finalizers", []any{"a b/c"}}},
		"both-policies":     {{"metadata.finalizers", []any{"orphan", "foregroundDeletion"}}},
		"orphan-finalizer":  {{"metadata.finalizers", []any{"orphan"}}},
		"generation":        {{"metadata.generation", int64(7)}},
		"creation":          {{"metadata.creationTimestamp", "2001-01-01T00:00:00Z"}},
		"deletion":          {{"metadata.deletionTimestamp", "2001-01-01T00:00:00Z"}},
		"no-deletion":       {{"metadata.deletionTimestamp", nil}, {"metadata.deletionGracePeriodSeconds", nil}},
		"owner":             {{"metadata.ownerReferences", []any{owner("one", true)}}},
		"two-controllers":   {{"metadata.ownerReferences", []any{owner("one", true), owner("two", true)}}},
		"unknown-field":     {{"wild", "x"}},
		"status-label":      {{"metadata.labels.color", "green"}, {"status.observedGeneration", int64(1)}},
		"other-uid":         {{"metadata.uid", wrongUID}},
		"empty-annotations": {{"metadata.annotations", map[string]any{}}},
	},
	"ConfigMap": {
		"spec": {{"data.a", "2"}}, "add": {{"data.b", "1"}}, "drop": {{"data", nil}}, "immutable": {{"immutable", true}},
	},
	"Secret": {
		"spec": {{"data.a", "Mg=="}}, "type": {{"type", "example.com/x"}}, "immutable": {{"immutable", true}},
		"plain": {{"stringData", map[string]any{"b": "text"}}},
	},
	"Service": {
		"spec": {{"spec.selector.app", "y"}}, "address": {{"spec.clusterIP", "10.0.0.77"}},
		"ports": {{"spec.ports", []any{map[string]any{"name": "p", "port": int64(82)}}}},
		"status": {{"status.conditions", []any{map[string]any{"type": "Ready", "status": "True", "reason": "X",
			"message": "", "lastTransitionTime": "2030-01-01T00:00:00Z"}}}},
	},
	"Pod": {
		"spec": {{"spec.containers.0.image", "x:2"}}, "node": {{"spec.nodeName", "n2"}},
		"fixed": {{"spec.containers.0.command", []any{"x"}}}, "status": {{"status.phase", "Running"}},
		"ended": {{"status.phase", "Succeeded"}},
	},
	"PersistentVolumeClaim": {
		"spec": {{"spec.resources.requests.storage", "2Gi"}}, "smaller": {{"spec.resources.requests.storage", "512Mi"}},
		"volume":       {{"spec.volumeName", "v1"}},
		"other-volume": {{"spec.volumeName", "v2"}}, "class": {{"spec.storageClassName", "slow"}},
		"status": {{"status.phase", "Bound"}, {"status.capacity", map[string]any{"storage": "1Gi"}}},
	},
	"StatefulSet": {
		"spec": {{"spec.replicas", int64(3)}}, "template": {{"spec.template.spec.containers.0.image", "y"}},
		"fixed": {{"spec.serviceName", "y"}}, "strategy": {{"spec.updateStrategy", map[string]any{"type": "OnDelete"}}},
		"status": {{"status.replicas", int64(1)}, {"status.observedGeneration", int64(1)}},
	},
	"Lease": {
		"spec": {{"spec.holderIdentity", "b"}}, "length": {{"spec.leaseDurationSeconds", int64(0)}},
		"renew": {{"spec.renewTime", "2030-01-01T00:00:00.000001Z"}},
	},
	"GeoDatabase": {
		"spec": {{"spec.instances", int64(3)}}, "fixed": {{"spec.version", "15"}},
		"invalid": {{"spec.instances", int64(-1)}}, "default": {{"spec.profile", nil}},
		"unknown-spec": {{"spec.wild", "x"}}, "status": {{"status.primary", "a-1"}},
		"parameter": {{"spec.parameters", map[string]any{"work_mem": "8MB"}}},
	},
}

const wrongUID = "11111111-1111-4111-8111-111111111111"

func owner(name string, controller bool) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "controller": controller,
		"uid": "22222222-2222-4222-8222-22222222222" + fmt.Sprint(len(name)%10)}
}

// change applies sets to a copy of an object.
func change(object *unstructured.Unstructured, sets []set) *unstructured.Unstructured {
	changed := object.DeepCopy()
	for _, each := range sets {
		setPath(changed.Object, strings.Split(each.path, "."), each.value)
	}
	return changed
}

func setPath(at any, path []string, value any) {
	switch at := at.(type) {
	case map[string]any:
		if len(path) == 1 {
			if value == nil {
				delete(at, path[0])
			} else {
				at[path[0]] = runtime.DeepCopyJSONValue(value)
			}
			return
		}
		if at[path[0]] == nil {
			at[path[0]] = map[string]any{}
		}
		setPath(at[path[0]], path[1:], value)
	case []any:
		var index int
		_, _ = fmt.Sscan(path[0], &index)
		if index < len(at) {
			setPath(at[index], path[1:], value)
		}
	}
}

// patchFor writes sets as a patch. Entries of lists are beyond a merge, and are left out of it.
func patchFor(o operation, sets []set, version, uid string) ([]byte, types.PatchType) {
	if o.patch == "json" {
		var operations []map[string]any
		if version != "" {
			operations = append(operations, map[string]any{
				"op": "test", "path": "/metadata/resourceVersion", "value": version})
		}
		if uid != "" {
			operations = append(operations, map[string]any{"op": "test", "path": "/metadata/uid", "value": uid})
		}
		for _, each := range sets {
			entry := map[string]any{"op": "add", "path": "/" + strings.ReplaceAll(each.path, ".", "/"), "value": each.value}
			if each.value == nil {
				entry["op"] = "remove"
				delete(entry, "value")
			}
			operations = append(operations, entry)
		}
		if operations == nil {
			return []byte("[]"), types.JSONPatchType
		}
		data, _ := json.Marshal(operations)
		return data, types.JSONPatchType
	}
	body := map[string]any{}
	for _, each := range sets {
		if !strings.Contains(each.path, ".0.") {
			if each.value == nil {
				setNull(body, strings.Split(each.path, "."))
			} else {
				setPath(body, strings.Split(each.path, "."), each.value)
			}
		}
	}
	if version != "" {
		setPath(body, []string{"metadata", "resourceVersion"}, version)
	}
	if uid != "" {
		setPath(body, []string{"metadata", "uid"}, uid)
	}
	data, _ := json.Marshal(body)
	if o.patch == "merge" {
		return data, types.MergePatchType
	}
	return data, types.StrategicMergePatchType
}

func setNull(at map[string]any, path []string) {
	for _, name := range path[:len(path)-1] {
		inner, ok := at[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[name] = inner
		}
		at = inner
	}
	at[path[len(path)-1]] = nil
}

// draw makes a sequence. It stays with one or two kinds and names, so that operations meet.
func draw(random *rand.Rand, length int) []operation {
	return drawOf(random, length, []string{pick(random, kindNames), pick(random, kindNames)})
}

func drawOf(random *rand.Rand, length int, kinds []string) []operation {
	var operations []operation
	for _, kind := range kinds {
		operations = append(operations, operation{verb: "create", kind: kind, name: "a", change: "nothing"})
	}
	for len(operations) < length {
		operations = append(operations, drawOne(random, pick(random, kinds)))
	}
	return operations
}

func drawOne(random *rand.Rand, kind string) operation {
	o := operation{kind: kind, name: pick(random, []string{"a", "a", "a", "b"})}
	o.verb = pick(random, []string{"create", "create", "update", "update", "update", "patch", "patch", "patch", "status",
		"status", "delete", "list", "scale"})
	if o.verb == "status" && !hasStatus[kind] || o.verb == "scale" && !hasScale[kind] {
		o.verb = pick(random, []string{"create", "update", "update", "patch", o.verb})
	}
	o.dryRun = random.IntN(15) == 0
	o.version = pick(random, []string{"", "", "", "current", "current", "current", "current", "stale"})
	o.uid = pick(random, []string{"", "", "", "", "current", "current", "current", "wrong"})
	names := namesOf(kind)
	o.change = pick(random, names)
	if random.IntN(3) == 0 {
		o.change = pick(random, []string{"spec", "nothing", "status", "finalizer", "no-finalizers", "label"})
	}
	switch o.verb {
	case "create":
		o.version, o.uid = pick(random, []string{"", "", "", "", "", "", "wrong"}), ""
		if random.IntN(2) == 0 {
			o.change = "nothing"
		}
	case "patch":
		o.patch = pick(random, []string{"json", "merge", "strategic"})
		if random.IntN(4) == 0 {
			o.subresource = "status"
		}
	case "status":
		o.verb, o.subresource = "update", "status"
	case "delete":
		o.change = ""
		o.propagation = pick(random, []string{"", "", "", string(metav1.DeletePropagationBackground),
			string(metav1.DeletePropagationForeground), string(metav1.DeletePropagationOrphan)})
		o.grace = pick(random, []string{"", "", "0", "5", "60"})
	case "list":
		o = operation{verb: "list", kind: kind, name: o.name, change: pick(random, []string{"label", "field", "bad-field"})}
	case "scale":
		o.subresource, o.change = "scale", ""
	}
	return o
}

func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }
