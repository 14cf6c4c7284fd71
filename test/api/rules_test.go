//go:build cluster

package api_test

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// ruleCase shows that one CEL rule of a definition takes what it should and refuses what it should.
type ruleCase struct {
	old       string // what is stored, for a rule about a change
	good, bad string
	says      string // what the refusal says, if that is more than the message of the rule
}

const (
	geoDatabase = "GeoDatabase"
	geoCache    = "GeoCache"
)

func databaseSpec(fields string) string { return "spec: {storage: {size: 1Gi}, " + fields + "}" }
func storageSpec(fields string) string  { return "spec: {storage: {" + fields + "}}" }
func backupSpec(fields string) string {
	return databaseSpec(`backup: {repository: {claim: {name: r}, encryption: {mode: None}}, ` + fields + `}`)
}

func repositorySpec(place string) string {
	return databaseSpec(`backup: {repository: {` + place + `, encryption: {mode: None}}}`)
}

func restoreSpec(target string) string {
	return databaseSpec(`bootstrap: {restore: {repository: {claim: {name: r}, encryption: {mode: None}}, ` +
		`source: {name: a}` + target + `}}`)
}

const bucket = `s3: {bucket: geo, credentials: {name: c}}`

func cacheSpec(fields string) string { return "spec: {databaseRef: {name: maps}, " + fields + "}" }

// ruleCases are by kind and by the beginning of the message of the rule.
var ruleCases = map[string]map[string]ruleCase{
	geoDatabase: {
		"metadata.name: must be": {
			good: "metadata: {name: " + strings.Repeat("a", 40) + "}\nspec: {storage: {size: 1Gi}}",
			bad:  "metadata: {name: " + strings.Repeat("a", 41) + "}\nspec: {storage: {size: 1Gi}}",
		},
		"spec.image: required for this version": {
			good: databaseSpec(`version: "16", image: a/b`), bad: databaseSpec(`version: "16"`),
		},
		"spec.durability: Strict needs at least 2": {
			good: databaseSpec(`durability: Strict, instances: 2`),
			bad:  databaseSpec(`durability: Strict, instances: 1`),
		},
		"spec.version: the major version cannot": {
			old: databaseSpec(`version: "17"`), good: databaseSpec(`version: "17", paused: true`),
			bad: databaseSpec(`version: "15"`),
		},
		"spec.image: must not contain blanks": {good: databaseSpec(`image: a/b`), bad: databaseSpec(`image: "a b"`)},
		"spec.parameters: a name must be": {
			good: databaseSpec(`parameters: {auto_explain.log_analyze: "on"}`),
			bad:  databaseSpec(`parameters: {"Work Mem": "1"}`),
		},
		"spec.parameters: a value must be one line": {
			good: databaseSpec(`parameters: {work_mem: 1MB}`),
			bad:  databaseSpec(`parameters: {work_mem: "1MB\nport=1"}`),
		},
		"spec.parameters: has a name that Meridian manages": {
			good: databaseSpec(`parameters: {jit: "off"}`), bad: databaseSpec(`parameters: {archive_command: "true"}`),
		},
		"spec.leaseDuration: must be between": {
			good: databaseSpec(`leaseDuration: 5s`), bad: databaseSpec(`leaseDuration: 4s`),
		},
		"spec.maxReadLag: must be between": {
			good: databaseSpec(`maxReadLag: 24h`), bad: databaseSpec(`maxReadLag: 25h`),
		},
		"spec.maxFailoverLag: must not be": {
			good: databaseSpec(`maxFailoverLag: 0`), bad: databaseSpec(`maxFailoverLag: "-1"`),
		},
		"spec.bootstrap.database: cannot be changed": {
			old: databaseSpec(`bootstrap: {database: a}`), good: databaseSpec(`bootstrap: {database: a}, paused: true`),
			bad: databaseSpec(`bootstrap: {database: b}`),
		},
		"spec.bootstrap.owner: cannot be changed": {
			old: databaseSpec(`bootstrap: {owner: a}`), good: databaseSpec(`bootstrap: {owner: a}, paused: true`),
			bad: databaseSpec(`bootstrap: {owner: b}`),
		},
		"spec.bootstrap.database: must be": {
			good: databaseSpec(`bootstrap: {database: geo_1}`), bad: databaseSpec(`bootstrap: {database: postgres}`),
		},
		"spec.bootstrap.owner: must be": {
			good: databaseSpec(`bootstrap: {owner: joe}`), bad: databaseSpec(`bootstrap: {owner: pg_joe}`),
		},
		"spec.storage.class: cannot be changed": {
			old: storageSpec(`size: 1Gi, class: a`), good: storageSpec(`size: 2Gi, class: a`),
			bad: storageSpec(`size: 1Gi, class: b`),
		},
		"spec.storage.walSize: a volume for the log": {
			old: storageSpec(`size: 1Gi`), good: storageSpec(`size: 2Gi`), bad: storageSpec(`size: 1Gi, walSize: 1Gi`),
		},
		"spec.storage.size: must be between": {good: storageSpec(`size: 512Mi`), bad: storageSpec(`size: 0`)},
		"spec.storage.size: a volume cannot shrink": {
			old: storageSpec(`size: 2Gi`), good: storageSpec(`size: 2048Mi, reclaim: Delete`),
			bad: storageSpec(`size: 1Gi`),
		},
		"spec.storage.walSize: must be between": {
			good: storageSpec(`size: 1Gi, walSize: 1Gi`), bad: storageSpec(`size: 1Gi, walSize: 65Ti`),
		},
		"spec.storage.walSize: a volume cannot shrink": {
			old: storageSpec(`size: 1Gi, walSize: 2Gi`), good: storageSpec(`size: 1Gi, walSize: 3Gi`),
			bad: storageSpec(`size: 1Gi, walSize: 1Gi`),
		},
		"spec.resources.cpu: must be more than 0": {
			good: databaseSpec(`resources: {cpu: 1m}`), bad: databaseSpec(`resources: {cpu: 0}`),
		},
		"spec.resources.memory: must be at least": {
			good: databaseSpec(`resources: {memory: 256Mi}`), bad: databaseSpec(`resources: {memory: 255Mi}`),
		},
		"spec.restart: must be one line": {
			good: databaseSpec(`restart: "2026-01-01"`), bad: databaseSpec(`restart: "a\nb"`),
		},
		"spec.switchover: must be one line": {
			good: databaseSpec(`switchover: "2026-01-01"`), bad: databaseSpec(`switchover: "a\nb"`),
		},
		"spec.rotate.password: must be one line": {
			good: databaseSpec(`rotate: {password: "2026-01-01"}`), bad: databaseSpec(`rotate: {password: "a\nb"}`),
		},
		"spec.rotate.certificates: must be one line": {
			good: databaseSpec(`rotate: {certificates: "2026-01-01"}`), bad: databaseSpec(`rotate: {certificates: "a\nb"}`),
		},
		"spec.rotate.overlap: must be between": {
			good: databaseSpec(`rotate: {overlap: 10s}`), bad: databaseSpec(`rotate: {overlap: 9s}`),
		},
		"spec.backup.schedule: must be": {
			good: backupSpec(`schedule: "Mon-Fri 22:00"`), bad: backupSpec(`schedule: nightly`),
		},
		"spec.backup.maxRate: must be between": {good: backupSpec(`maxRate: 50Mi`), bad: backupSpec(`maxRate: 2Gi`)},
		"spec.backup.verify: must be":          {good: backupSpec(`verify: Never`), bad: backupSpec(`verify: sometimes`)},
		"spec.backup.now: must be one line": {
			good: backupSpec(`now: "2026-11-18T12:00:00Z"`), bad: backupSpec(`now: "a\nb"`),
		},
		"spec.backup.verifyNow: must be one line": {
			good: backupSpec(`verifyNow: "2026-11-18T12:00:00Z"`), bad: backupSpec(`verifyNow: "a\nb"`),
		},
		"spec.backup.retention.window: must be": {
			good: backupSpec(`retention: {window: 8w}`), bad: backupSpec(`retention: {window: 2m}`),
		},
		"repository: must have exactly one of": {
			good: repositorySpec(`claim: {name: r}`), bad: repositorySpec(`claim: {name: r}, ` + bucket),
		},
		"s3.bucket: must be": {
			good: repositorySpec(bucket), bad: repositorySpec(`s3: {bucket: GEO, credentials: {name: c}}`),
		},
		"s3.endpoint: must be": {
			good: repositorySpec(`s3: {bucket: geo, endpoint: "http://s3.geo.svc:7070", credentials: {name: c}}`),
			bad:  repositorySpec(`s3: {bucket: geo, endpoint: "ftp://s3.geo.svc", credentials: {name: c}}`),
		},
		"gcs.bucket: must be": {
			good: repositorySpec(`gcs: {bucket: a_b, credentials: {name: c}}`),
			bad:  repositorySpec(`gcs: {bucket: A_B, credentials: {name: c}}`),
		},
		"azure.account: must be": {
			good: repositorySpec(`azure: {account: geo1, container: geo, credentials: {name: c}}`),
			bad:  repositorySpec(`azure: {account: geo-1, container: geo, credentials: {name: c}}`),
		},
		"azure.container: must be": {
			good: repositorySpec(`azure: {account: geo1, container: geo-1, credentials: {name: c}}`),
			bad:  repositorySpec(`azure: {account: geo1, container: GEO, credentials: {name: c}}`),
		},
		"prefix: must be folders": {
			good: repositorySpec(`claim: {name: r, prefix: a/b.c}`), bad: repositorySpec(`claim: {name: r, prefix: a/../b}`),
		},
		"encryption: needs a key": {
			good: databaseSpec(`backup: {repository: {claim: {name: r}, encryption: {key: {name: k}}}}`),
			bad:  databaseSpec(`backup: {repository: {claim: {name: r}, encryption: {}}}`),
		},
		"spec.bootstrap.restore.target: must have": {
			good: restoreSpec(`, target: {lsn: 0/3000148}`),
			bad:  restoreSpec(`, target: {lsn: 0/3000148, time: "2026-11-18T10:15:00Z"}`),
		},
		"spec.bootstrap.restore.target.lsn: must be": {
			good: restoreSpec(`, target: {lsn: 0/3000148}`), bad: restoreSpec(`, target: {lsn: latest}`),
		},
		"spec.bootstrap.restore: cannot be": {
			old: restoreSpec(``), good: restoreSpec(``), bad: restoreSpec(`, target: {lsn: 0/3000148}`),
		},
		"spec.bootstrap.clone: cannot be": {
			old:  databaseSpec(`bootstrap: {clone: {name: a}}`),
			good: databaseSpec(`bootstrap: {clone: {name: a}}, paused: true`),
			bad:  databaseSpec(`bootstrap: {clone: {name: b}}`),
		},
		"spec.bootstrap: must have restore or clone": {
			good: databaseSpec(`bootstrap: {clone: {name: a}}`),
			bad: databaseSpec(`bootstrap: {clone: {name: a}, restore: {repository: {claim: {name: r}, ` +
				`encryption: {mode: None}}, source: {name: a}}}`),
		},
		"spec.maintenance.window: must be days and times": {
			good: databaseSpec(`maintenance: {window: "Sun 02:00-04:00"}`),
			bad:  databaseSpec(`maintenance: {window: "at night"}`),
		},
		"spec.storage.autoGrow.limit: must be at least": {
			good: storageSpec(`size: 2Gi, autoGrow: {limit: 2Gi}`), bad: storageSpec(`size: 2Gi, autoGrow: {limit: 1Gi}`),
		},
		"spec.storage.autoGrow.limit: must be between": {
			good: storageSpec(`size: 1Gi, autoGrow: {limit: 64Ti}`), bad: storageSpec(`size: 1Gi, autoGrow: {limit: 65Ti}`),
		},
		"spec.network.clients: has no effect": {
			good: databaseSpec(`network: {clients: [{pods: {}}]}`),
			bad:  databaseSpec(`network: {policy: None, clients: [{pods: {}}]}`),
		},
		"spec.network.egress: Needed has no effect": {
			good: databaseSpec(`network: {egress: Needed}`), bad: databaseSpec(`network: {policy: None, egress: Needed}`),
		},
		"spec.network.clients: each needs": {
			good: databaseSpec(`network: {clients: [{namespaces: {}, pods: {}}]}`),
			bad:  databaseSpec(`network: {clients: [{pods: {}, cidr: 10.0.0.0/8}]}`),
		},
		"spec.network.clients.cidr: must be": {
			good: databaseSpec(`network: {clients: [{cidr: 10.0.0.0/8}]}`),
			bad:  databaseSpec(`network: {clients: [{cidr: 10.0.0.300/8}]}`),
		},
		"spec.podTemplate.metadata.labels: names": {
			good: databaseSpec(`podTemplate: {metadata: {labels: {a: b}}}`),
			bad:  databaseSpec(`podTemplate: {metadata: {labels: {meridian.dev/a: b}}}`),
		},
		"spec.podTemplate.metadata.annotations: names": {
			good: databaseSpec(`podTemplate: {metadata: {annotations: {a: b}}}`),
			bad:  databaseSpec(`podTemplate: {metadata: {annotations: {x.meridian.dev/a: b}}}`),
		},
	},
	geoCache: {
		"spec.network.clients: each needs": {
			good: cacheSpec(`network: {clients: [{namespaces: {}, pods: {}}]}`),
			bad:  cacheSpec(`network: {clients: [{pods: {}, cidr: 10.0.0.0/8}]}`),
		},
		"spec.network.clients.cidr: must be": {
			good: cacheSpec(`network: {clients: [{cidr: 10.0.0.0/8}]}`),
			bad:  cacheSpec(`network: {clients: [{cidr: 10.0.0.300/8}]}`),
		},
		"metadata.name: is that of the database": {
			good: "metadata: {name: maps-cache}\n" + cacheSpec(`replicas: 1`),
			bad:  "metadata: {name: maps-rw}\n" + cacheSpec(`replicas: 1`),
		},
		"metadata.name: must be": {
			good: cacheSpec(`replicas: 1`), bad: "metadata: {name: 1a}\n" + cacheSpec(`replicas: 1`),
		},
		"spec.databaseRef: cannot be changed": {
			old: cacheSpec(`replicas: 1`), good: cacheSpec(`replicas: 2`), bad: "spec: {databaseRef: {name: roads}}",
		},
		"spec.memory: must be between": {good: cacheSpec(`memory: 16Mi`), bad: cacheSpec(`memory: 15Mi`)},
		"spec.engine: cannot be changed": {
			old: cacheSpec(`engine: redis`), good: cacheSpec(`engine: redis, replicas: 1`),
			bad: cacheSpec(`engine: valkey`),
		},
		"spec.image: must not contain blanks": {good: cacheSpec(`image: a/b`), bad: cacheSpec(`image: "a b"`)},
		"spec.parameters: a value must be one line": {
			good: cacheSpec(`parameters: {hz: "10"}`), bad: cacheSpec(`parameters: {hz: "10\n"}`),
		},
		"spec.rotate.password: must be one line": {
			good: cacheSpec(`rotate: {password: "2026-01-01"}`), bad: cacheSpec(`rotate: {password: "a\nb"}`),
		},
		"spec.rotate.overlap: must be between": {
			good: cacheSpec(`rotate: {overlap: 10s}`), bad: cacheSpec(`rotate: {overlap: 9s}`),
		},
		"spec.parameters: maxmemory and": {
			good: cacheSpec(`parameters: {hz: "10"}`), bad: cacheSpec(`parameters: {maxmemory: "1"}`),
		},
		"spec.parameters: has a name that is not allowed": {
			good: cacheSpec(`parameters: {hz: "10"}`), bad: cacheSpec(`parameters: {rename-command: "a b"}`),
			says: "spec.parameters[rename-command]: is not allowed",
		},
		"spec.podTemplate.metadata.labels: names": {
			good: cacheSpec(`podTemplate: {metadata: {labels: {a: b}}}`),
			bad:  cacheSpec(`podTemplate: {metadata: {labels: {meridian.dev/a: b}}}`),
		},
		"spec.podTemplate.metadata.annotations: names": {
			good: cacheSpec(`podTemplate: {metadata: {annotations: {a: b}}}`),
			bad:  cacheSpec(`podTemplate: {metadata: {annotations: {x.meridian.dev/a: b}}}`),
		},
	},
}

func TestRules(t *testing.T) {
	for kind, cases := range ruleCases {
		for message, test := range cases {
			t.Run(kind+" "+message, func(t *testing.T) {
				t.Parallel()
				namespace := newNamespace(t)
				if test.old != "" {
					if err := cluster.Create(t.Context(), object(t, kind, namespace, test.old)); err != nil {
						t.Fatalf("store what the change begins with: %v", err)
					}
				}
				if err := send(t, object(t, kind, namespace, test.good), test.old != ""); err != nil {
					t.Errorf("the good one is refused: %v", err)
				}
				err := send(t, object(t, kind, namespace, test.bad), test.old != "")
				if err == nil {
					t.Fatal("the bad one is taken")
				}
				if !strings.Contains(err.Error(), cmp.Or(test.says, message)) {
					t.Errorf("the bad one is refused, but not by the rule: %v", err)
				}
			})
		}
	}
}

// send creates or replaces the object, without storing it.
func send(t *testing.T, sent *unstructured.Unstructured, replace bool) error {
	t.Helper()
	if !replace {
		return cluster.Create(t.Context(), sent, client.DryRunAll)
	}
	stored := sent.DeepCopy()
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(sent), stored); err != nil {
		t.Fatal(err)
	}
	sent.SetResourceVersion(stored.GetResourceVersion())
	return cluster.Update(t.Context(), sent, client.DryRunAll)
}

// TestEveryRuleHasACase finds a rule of a definition that nobody has shown to work, and a case whose rule is gone.
func TestEveryRuleHasACase(t *testing.T) {
	for kind, cases := range ruleCases {
		messages := ruleMessages(t, kind)
		if len(messages) == 0 {
			t.Fatalf("%s has no rules, so this test looks in the wrong place", kind)
		}
		unused := slices.Sorted(maps.Keys(cases))
		for _, message := range messages {
			at := slices.IndexFunc(unused, func(beginning string) bool { return strings.HasPrefix(message, beginning) })
			if at < 0 {
				t.Errorf("%s: no case for the rule %q", kind, message)
				continue
			}
			unused = slices.Delete(unused, at, at+1)
		}
		for _, beginning := range unused {
			t.Errorf("%s: no rule begins with %q", kind, beginning)
		}
	}
}

func ruleMessages(t *testing.T, kind string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(crds, "meridian.dev_"+strings.ToLower(kind)+"s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(content, definition); err != nil {
		t.Fatal(err)
	}
	var messages []string
	var walk func(schema *apiextensionsv1.JSONSchemaProps)
	walk = func(schema *apiextensionsv1.JSONSchemaProps) {
		if schema == nil {
			return
		}
		for _, rule := range schema.XValidations {
			messages = append(messages, rule.Message)
		}
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			walk(new(schema.Properties[name]))
		}
		if schema.Items != nil {
			walk(schema.Items.Schema)
		}
		if schema.AdditionalProperties != nil {
			walk(schema.AdditionalProperties.Schema)
		}
	}
	walk(definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
	// A type that several fields have, such as a repository, has its rules once.
	slices.Sort(messages)
	return slices.Compact(messages)
}
