package render_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/design"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/scenario"
)

var author = apply.Author{Scheme: scheme.Scheme, Prefix: cache.AnnotationPrefix, Manager: cache.FieldManager}

// TestGolden renders snapshots. A difference in a StatefulSet here is a pending restart of every cache out there.
func TestGolden(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var snapshot cache.Snapshot
		in.YAML("snapshot.yaml", &snapshot)
		children, err := render.Children(design.Of(snapshot))
		if err != nil {
			in.Fail(err)
		}
		for _, child := range children {
			out.SetYAML(strings.ToLower(child.Kind)+"-"+child.Name+".yaml", child.Object)
		}
		return out
	})
}

const start = `{"name":"tiles","namespace":"gis","uid":"gc-1","lease":{"uid":"l1"},"route":{"family":"IPv4"},
	"images":{"agent":"m:1","redis":"redis:8","valkey":"v:8"},
	"spec":{"databaseRef":{"name":"cities"},"replicas":1,"memory":"64Mi","evictionPolicy":"allkeys-lru","engine":"redis"}}`

// TestWhatAChangeTouches says for each change of the spec which children it reaches, and whether a running pod is out
// of date by it: no more, and no fewer.
func TestWhatAChangeTouches(t *testing.T) {
	tests := map[string]struct {
		change   string
		want     []string
		outdated bool
	}{
		"nothing":     {change: `{}`},
		"the memory":  {change: `{"spec":{"memory":"256Mi"}}`, want: []string{"ConfigMap", "StatefulSet"}},
		"the policy":  {change: `{"spec":{"evictionPolicy":"noeviction"}}`, want: []string{"ConfigMap"}},
		"a parameter": {change: `{"spec":{"parameters":{"hz":"33"}}}`, want: []string{"ConfigMap"}},
		"the scripts": {change: `{"spec":{"scripting":"Refused"}}`, want: []string{"ConfigMap"}},
		"a rotation":  {change: `{"spec":{"rotate":{"password":"a"}}}`},
		"the image":   {change: `{"spec":{"image":"mine:1"}}`, want: []string{"StatefulSet"}, outdated: true},
		"the number": {
			change: `{"spec":{"replicas":3}}`, want: []string{"ConfigMap", "Role", "StatefulSet", "StatefulSet"},
		},
		"the pause":      {change: `{"spec":{"paused":true}}`},
		"a new operator": {change: `{"images":{"agent":"m:2"}}`, want: []string{"StatefulSet"}, outdated: true},
		"a label of pods": {
			change: `{"spec":{"podTemplate":{"metadata":{"labels":{"a":"b"}}}}}`, want: []string{"StatefulSet"},
			outdated: true,
		},
		"another database": {change: `{"spec":{"databaseRef":{"name":"roads"}}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := renderedFrom(t, start), renderedFrom(t, start, test.change)
			var touched []string
			for _, name := range slices.Sorted(maps.Keys(after.hashes)) {
				if before.hashes[name] != after.hashes[name] {
					kind, _, _ := strings.Cut(name, " ")
					touched = append(touched, kind)
				}
			}
			if !slices.Equal(touched, test.want) {
				t.Errorf("touches %v, want %v", touched, test.want)
			}
			if outdated := before.template != after.template; outdated != test.outdated {
				t.Errorf("a running pod is out of date: %t, want %t", outdated, test.outdated)
			}
		})
	}
}

type rendered struct {
	hashes   map[string]string
	template string
}

func renderedFrom(t *testing.T, documents ...string) rendered {
	t.Helper()
	var snapshot cache.Snapshot
	for _, document := range documents {
		if err := yaml.Unmarshal([]byte(document), &snapshot); err != nil {
			t.Fatal(err)
		}
	}
	children, err := render.Children(design.Of(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	made := rendered{hashes: map[string]string{}}
	for _, child := range children {
		intent, err := author.Intent(child.Object, types.UID(snapshot.UID))
		if err != nil {
			t.Fatal(err)
		}
		made.hashes[child.Kind+" "+child.Name] = intent.Hash()
		if set, ok := child.Object.(*appsv1.StatefulSet); ok && set.Name == "tiles-1" {
			made.template = set.Spec.Template.Annotations[cache.AnnotationTemplate]
		}
	}
	return made
}

func TestCertificatesAreForEveryName(t *testing.T) {
	identity := cache.Identity{Namespace: "gis", Name: "tiles"}
	policy := render.Policy(identity, v1alpha1.GeoCacheSpec{})
	if err := policy.Check(); err != nil {
		t.Fatalf("the policy cannot work: %v", err)
	}
	for _, name := range []string{"tiles", "tiles.gis.svc", "tiles-ro.gis.svc.cluster.local", render.AgentHost(identity)} {
		if !slices.Contains(policy.Leaves[0].DNSNames, name) {
			t.Errorf("%s is not among %v", name, policy.Leaves[0].DNSNames)
		}
	}
}

// TestSettingsBesideInstancesOfBefore: an agent refuses settings that it does not understand, so nothing new is in them
// while there may be one of a version that has no password of replication. What was said once stays.
func TestSettingsBesideInstancesOfBefore(t *testing.T) {
	for name, test := range map[string]struct {
		world string
		alone bool
	}{
		"a new cache":            {`{}`, true},
		"an instance of before":  {`{"instances":[{"name":"tiles-1","report":{"reachable":true}}]}`, false},
		"one that gives no word": {`{"instances":[{"name":"tiles-1","report":{"replicationPassword":true}}]}`, false},
		"one of two of before": {`{"instances":[{"name":"tiles-1","report":{"reachable":true}},
			{"name":"tiles-2","report":{"reachable":true,"replicationPassword":true}}]}`, false},
		"all have the password": {
			`{"instances":[{"name":"tiles-1","report":{"reachable":true,"replicationPassword":true}}]}`, true,
		},
		"no word from one that had it": {`{"stored":{"replicationAlone":true},"instances":[{"name":"tiles-1"}]}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			var snapshot cache.Snapshot
			for _, document := range []string{start, `{"spec":{"scripting":"Refused"}}`, test.world} {
				if err := yaml.Unmarshal([]byte(document), &snapshot); err != nil {
					t.Fatal(err)
				}
			}
			settings := render.Settings(design.Of(snapshot))
			if settings.ReplicationAlone != test.alone || settings.NoScripts != test.alone {
				t.Errorf("alone %t, no scripts %t, want %t", settings.ReplicationAlone, settings.NoScripts, test.alone)
			}
		})
	}
}

func TestBinding(t *testing.T) {
	design := cache.Design{Identity: cache.Identity{Namespace: "gis", Name: "tiles", UID: "gc-1"}}
	secret := render.Binding(design, "p/@ss", service.Rotation{}, []byte("authority"))
	for key, want := range map[string]string{
		"host": "tiles.gis.svc", "ro-host": "tiles-ro.gis.svc", "port": "6379", "username": "app", "password": "p/@ss",
		"ca.crt": "authority", "type": "redis", "provider": "meridian",
		"uri":    "rediss://app:p%2F%40ss@tiles.gis.svc:6379/0",
		"ro-uri": "rediss://app:p%2F%40ss@tiles-ro.gis.svc:6379/0",
	} {
		if got := string(secret.Data[key]); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}
