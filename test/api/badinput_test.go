//go:build cluster

package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// badInput is a manifest that must be refused, and the field that the message must name. A manifest with the name
// cities changes a database or a cache that is stored; one without a name creates another.
type badInput struct{ kind, manifest, field string }

func database(spec string) string {
	if strings.HasPrefix(spec, "storage:") {
		return "spec: {" + spec + "}"
	}
	return "spec: {storage: {size: 1Gi}, " + spec + "}"
}

func change(manifest string) string { return "metadata: {name: cities}\n" + manifest }

func podSpec(text string) string { return database("podTemplate: {spec: {" + text + "}}") }

func parameter(name, value string) string {
	return database(fmt.Sprintf("parameters: {%q: %q}", name, value))
}

func container(text string) string {
	return podSpec("containers: [{name: x, image: x, securityContext: {allowPrivilegeEscalation: false, " +
		"capabilities: {drop: [ALL]}}, " + text + "}]")
}

const (
	podField = "spec.podTemplate.spec."
	big      = 1 << 20
)

var badIdentifiers = map[string]badInput{
	"database with a quote": {
		geoDatabase, database(`bootstrap: {database: "a\"; DROP"}`), "spec.bootstrap.database",
	},
	"database with a single quote": {
		geoDatabase, database(`bootstrap: {database: "a'b"}`), "spec.bootstrap.database",
	},
	"database with a zero byte": {
		geoDatabase, database(`bootstrap: {database: "a\0b"}`), "spec.bootstrap.database",
	},
	"database of 64 bytes": {
		geoDatabase, database("bootstrap: {database: " + strings.Repeat("a", 64) + "}"), "spec.bootstrap.database",
	},
	"database of 63 letters, 64 bytes": {
		geoDatabase, database("bootstrap: {database: " + strings.Repeat("a", 62) + "é}"), "spec.bootstrap.database",
	},
	"database with pg_": {
		geoDatabase, database(`bootstrap: {database: pg_x}`), "spec.bootstrap.database",
	},
	"database template1": {
		geoDatabase, database(`bootstrap: {database: template1}`), "spec.bootstrap.database",
	},
	"database without letters": {geoDatabase, database(`bootstrap: {database: ""}`), "spec.bootstrap.database"},
	"owner with a quote":       {geoDatabase, database(`bootstrap: {owner: "a\"b"}`), "spec.bootstrap.owner"},
	"owner postgres":           {geoDatabase, database(`bootstrap: {owner: postgres}`), "spec.bootstrap.owner"},
	"owner with pg_": {
		geoDatabase, database(`bootstrap: {owner: pg_monitor}`), "spec.bootstrap.owner",
	},
	"owner of our own":            {geoDatabase, database(`bootstrap: {owner: meridian}`), "spec.bootstrap.owner"},
	"extension with a quote":      {geoDatabase, database(`extensions: ["a\"b"]`), "spec.extensions[0]"},
	"extension that no image has": {geoDatabase, database(`extensions: [no_such_thing]`), "spec.extensions[0]"},
	"name too long": {
		geoDatabase, "metadata: {name: " + strings.Repeat("a", 41) + "}\n" + database(""), "metadata.name",
	},
	"name beyond Kubernetes": {
		geoDatabase, "metadata: {name: " + strings.Repeat("a", 254) + "}\n" + database(""), "metadata.name",
	},
	"name with a dot": {geoDatabase, "metadata: {name: a.b}\n" + database(""), "metadata.name"},
	"cache name too long": {
		geoCache, "metadata: {name: " + strings.Repeat("a", 41) + "}\n" + cacheSpec(""), "metadata.name",
	},
	"image with a blank": {geoDatabase, database(`image: "a b"`), "spec.image"},
	"image that is none": {geoDatabase, database(`image: "http://x/y"`), "spec.image"},
}

var badParameters = map[string]badInput{
	"value of two lines":     {geoDatabase, parameter("work_mem", "1MB\nport = 1"), "spec.parameters"},
	"value with a zero byte": {geoDatabase, parameter("work_mem", "1\x00"), "spec.parameters"},
	"value with a quote": {
		geoDatabase, parameter("application_name", "x' port='1"), "spec.parameters.application_name",
	},
	"include":                  {geoDatabase, parameter("include", "/etc/passwd"), "spec.parameters"},
	"include_if_exists":        {geoDatabase, parameter("include_if_exists", "/x"), "spec.parameters"},
	"archive_command":          {geoDatabase, parameter("archive_command", "rm -rf /"), "spec.parameters"},
	"restore_command":          {geoDatabase, parameter("restore_command", "rm -rf /"), "spec.parameters"},
	"shared_preload_libraries": {geoDatabase, parameter("shared_preload_libraries", "x"), "spec.parameters"},
	"fsync":                    {geoDatabase, parameter("fsync", "off"), "spec.parameters"},
	"full_page_writes":         {geoDatabase, parameter("full_page_writes", "off"), "spec.parameters"},
	"port":                     {geoDatabase, parameter("port", "1"), "spec.parameters"},
	"listen_addresses":         {geoDatabase, parameter("listen_addresses", ""), "spec.parameters"},
	"data_sync_retry":          {geoDatabase, parameter("data_sync_retry", "on"), "spec.parameters.data_sync_retry"},
	"jit_provider":             {geoDatabase, parameter("jit_provider", "x"), "spec.parameters.jit_provider"},
	"synchronous_commit": {
		geoDatabase, parameter("synchronous_commit", "off"), "spec.parameters.synchronous_commit",
	},
	"unknown":               {geoDatabase, parameter("no_such_thing", "1"), "spec.parameters.no_such_thing"},
	"unknown, by a change":  {geoDatabase, change(parameter("no_such_thing", "1")), "spec.parameters.no_such_thing"},
	"wrong unit":            {geoDatabase, parameter("work_mem", "64 megabytes"), "spec.parameters.work_mem"},
	"out of range":          {geoDatabase, parameter("work_mem", "9999TB"), "spec.parameters.work_mem"},
	"no choice":             {geoDatabase, parameter("wal_compression", "zip"), "spec.parameters.wal_compression"},
	"no time zone":          {geoDatabase, parameter("timezone", "Mars"), "spec.parameters.timezone"},
	"buffers beyond memory": {geoDatabase, parameter("shared_buffers", "2GB"), "spec.parameters.shared_buffers"},
	"a value of 1025 bytes": {
		geoDatabase, parameter("search_path", strings.Repeat("a", 1025)), "spec.parameters.search_path",
	},
	"redis renames":            {geoCache, cacheSpec(`parameters: {rename-command: "FLUSHALL x"}`), "spec.parameters"},
	"redis loads modules":      {geoCache, cacheSpec(`parameters: {loadmodule: /x.so}`), "spec.parameters"},
	"redis value of two lines": {geoCache, cacheSpec(`parameters: {hz: "10\nsave 1 1"}`), "spec.parameters"},
	"redis value with a quote": {geoCache, cacheSpec(`parameters: {hz: "\"10"}`), "spec.parameters[hz]"},
}

var badSizes = map[string]badInput{
	"size 0":            {geoDatabase, database("storage: {size: 0}"), "spec.storage.size"},
	"size negative":     {geoDatabase, database("storage: {size: -1Gi}"), "spec.storage.size"},
	"size huge":         {geoDatabase, database("storage: {size: 9Ei}"), "spec.storage.size"},
	"size no number":    {geoDatabase, database("storage: {size: much}"), "spec.storage.size"},
	"size shrunk":       {geoDatabase, change(database("storage: {size: 512Mi}")), "spec.storage.size"},
	"size missing":      {geoDatabase, "spec: {storage: {}}", "spec.storage.size"},
	"class unknown":     {geoDatabase, database("storage: {size: 1Gi, class: nowhere}"), "spec.storage.class"},
	"class changed":     {geoDatabase, change(database("storage: {size: 1Gi, class: slow}")), "spec.storage.class"},
	"log added":         {geoDatabase, change(database("storage: {size: 1Gi, walSize: 1Gi}")), "spec.storage.walSize"},
	"no instance":       {geoDatabase, database("instances: 0"), "spec.instances"},
	"instances -1":      {geoDatabase, change(database("instances: -1")), "spec.instances"},
	"many instances":    {geoDatabase, database("instances: 1000000"), "spec.instances"},
	"instances in text": {geoDatabase, database(`instances: "3"`), "spec.instances"},
	"memory tiny":       {geoDatabase, database("resources: {memory: 1Mi}"), "spec.resources.memory"},
	"cpu negative":      {geoDatabase, database(`resources: {cpu: "-1"}`), "spec.resources.cpu"},
	"cache memory 0":    {geoCache, cacheSpec("memory: 0"), "spec.memory"},
	"cache memory huge": {geoCache, cacheSpec("memory: 2Ti"), "spec.memory"},
	"major changed":     {geoDatabase, change(database(`version: "15"`)), "spec.version"},
	"lease too short":   {geoDatabase, database("leaseDuration: 1ms"), "spec.leaseDuration"},
	"strict and alone":  {geoDatabase, database("durability: Strict, instances: 1"), "spec.durability"},
	"engine changed":    {geoCache, change(cacheSpec("engine: valkey")), "spec.engine"},
	"database by path":  {geoCache, "spec: {databaseRef: {name: other/cities}}", "spec.databaseRef.name"},
	"database by host":  {geoCache, "spec: {databaseRef: {name: cities.other}}", "spec.databaseRef.name"},
	"foreign namespace": {
		geoCache, "spec: {databaseRef: {name: cities, namespace: other}}", "spec.databaseRef.namespace",
	},
	"field misspelt": {geoDatabase, database("instance: 3"), "spec.instance"},
}

var badTemplates = map[string]badInput{
	"privileged": {
		geoDatabase, podSpec("containers: [{name: database, securityContext: {privileged: true}}]"),
		podField + "containers[0].securityContext.privileged",
	},
	"host path": {
		geoDatabase, podSpec("volumes: [{name: x, hostPath: {path: /}}]"), podField + "volumes[0].hostPath",
	},
	"host network":   {geoDatabase, podSpec("hostNetwork: true"), podField + "hostNetwork"},
	"host processes": {geoDatabase, podSpec("hostPID: true"), podField + "hostPID"},
	"host port": {
		geoDatabase, container("ports: [{containerPort: 9, hostPort: 9}]"),
		podField + "containers[0].ports[0].hostPort",
	},
	"root": {geoDatabase, podSpec("securityContext: {runAsUser: 0}"), podField + "securityContext.runAsUser"},
	"side-car of any kind": {
		geoDatabase, podSpec("containers: [{name: x, image: x}]"), podField + "containers[0].securityContext",
	},
	"our command": {
		geoDatabase, podSpec("containers: [{name: database, command: [sh]}]"), podField + "containers[0].command",
	},
	"our container gone": {
		geoDatabase, podSpec("containers: [{name: database, $patch: delete}]"), podField + "containers[0].$patch",
	},
	"our mount": {
		geoDatabase, podSpec("containers: [{name: database, volumeMounts: [{name: x, mountPath: /tmp}]}]"),
		podField + "containers[0].volumeMounts[0]",
	},
	"our volume": {geoDatabase, podSpec("volumes: [{name: data, emptyDir: {}}]"), podField + "volumes[0].name"},
	"our port": {
		geoDatabase, container("ports: [{containerPort: 5432}]"), podField + "containers[0].ports[0].containerPort",
	},
	"no such field": {geoDatabase, podSpec("nodeSelektor: {}"), "nodeSelektor"},
	"our label": {
		geoDatabase, database("podTemplate: {metadata: {labels: {meridian.dev/database: other}}}"),
		"spec.podTemplate.metadata.labels",
	},
	"our selector": {
		geoDatabase, database("podTemplate: {metadata: {labels: {app.kubernetes.io/instance: other}}}"),
		"spec.podTemplate.metadata.labels",
	},
	"other account":     {geoDatabase, podSpec("serviceAccountName: admin"), podField + "serviceAccountName"},
	"cache, privileged": {geoCache, cacheSpec("podTemplate: {spec: {hostNetwork: true}}"), podField + "hostNetwork"},
	"by a change":       {geoDatabase, change(podSpec("hostNetwork: true")), podField + "hostNetwork"},
	"1 MiB of template": {
		geoDatabase, podSpec("nodeSelector: {a: " + strings.Repeat("x", big) + "}"), "spec.podTemplate.spec",
	},
	"1 MiB of notes": {
		geoDatabase, database("podTemplate: {metadata: {annotations: {a: " + strings.Repeat("x", big) + "}}}"),
		"spec.podTemplate.metadata.annotations",
	},
	"1 MiB of image": {geoDatabase, database("image: " + strings.Repeat("x", big)), "spec.image"},
	"a whole megabyte of settings": {
		geoDatabase, parameter("search_path", strings.Repeat("x", big)), "spec.parameters.search_path",
	},
}

// TestBadInput sends each as a user would, with kubectl, while the webhook is there. Each must be refused with the
// name of its field, and nothing may have changed.
func TestBadInput(t *testing.T) {
	t.Parallel()
	installed := newInstallation(t)
	failClosed(t, installed.namespace)
	installed.startReplica(t)
	mustKubectl(t, installed.namespace, small, "apply", "-f", "-")
	mustKubectl(t, installed.namespace, text(t, geoCache, change(cacheSpec(""))), "create", "-f", "-")
	before := versions(t, installed.namespace)
	count := 0
	for group, cases := range map[string]map[string]badInput{
		"identifiers": badIdentifiers, "parameters": badParameters, "sizes": badSizes, "templates": badTemplates,
	} {
		for name, test := range cases {
			count++
			t.Run(group+" "+name, func(t *testing.T) {
				verb := []string{"create", "-f", "-"}
				if strings.HasPrefix(test.manifest, change("")) {
					verb = []string{"apply", "--server-side", "--force-conflicts", "-f", "-"}
				}
				output, ok := kubectl(t, installed.namespace, text(t, test.kind, test.manifest), verb...)
				if ok {
					t.Errorf("taken: %s", output)
				}
				if !strings.Contains(output, test.field) {
					t.Errorf("refused without the name of the field %s: %.2000s", test.field, output)
				}
				if diff := cmp.Diff(before, versions(t, installed.namespace)); diff != "" {
					t.Errorf("something has changed (-before +after):\n%s", diff)
				}
			})
		}
	}
	if count < 60 {
		t.Errorf("only %d bad inputs", count)
	}
}

// text is the manifest as kubectl reads it.
func text(t *testing.T, kind, manifest string) string {
	t.Helper()
	made := object(t, kind, "", manifest)
	if !strings.Contains(manifest, "metadata:") {
		made.SetName("bad")
	}
	content, err := yaml.Marshal(made.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
