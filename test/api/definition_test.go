//go:build cluster

package api_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
)

const small = `apiVersion: meridian.dev/v1alpha1
kind: GeoDatabase
metadata: {name: cities}
spec: {storage: {size: 1Gi}}
`

// TestDefinitionsApply: the definitions were applied by the client before any test; again by the client must change
// nothing, and then by the server must take them over.
func TestDefinitionsApply(t *testing.T) {
	again := mustKubectl(t, "default", "", "apply", "-f", crds)
	if strings.Count(again, "unchanged") != 2 {
		t.Errorf("the second apply is not without change:\n%s", again)
	}
	onServer := mustKubectl(t, "default", "", "apply", "--server-side", "--force-conflicts", "-f", crds)
	if strings.Count(onServer, "serverside-applied") != 2 {
		t.Errorf("applied by the server:\n%s", onServer)
	}
	entries, err := filepath.Glob(filepath.Join(crds, "meridian.dev_*.yaml"))
	if err != nil || len(entries) != 2 {
		t.Fatalf("found %v, %v", entries, err)
	}
	for _, entry := range entries {
		info, err := os.Stat(entry)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 200<<10 {
			t.Errorf("%s has %d bytes; plain apply ends at 256 KiB", entry, info.Size())
		}
	}
}

func TestDefaults(t *testing.T) {
	namespace := newNamespace(t)
	mustKubectl(t, namespace, small, "apply", "-f", "-")
	stored := object(t, geoDatabase, namespace, "{}")
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"instances": int64(3), "version": "17", "profile": "general", "extensions": []any{"postgis"},
		"storage":       map[string]any{"size": "1Gi", "reclaim": "Retain"},
		"resources":     map[string]any{"cpu": "500m", "memory": "1Gi"},
		"bootstrap":     map[string]any{"database": "app", "owner": "app"},
		"network":       map[string]any{"policy": "Managed", "egress": "Open"},
		"leaseDuration": "10s", "maxReadLag": "10s", "maxFailoverLag": "16Mi",
	}
	if diff := cmp.Diff(want, stored.Object["spec"]); diff != "" {
		t.Errorf("spec differs (-want +got):\n%s", diff)
	}

	cache := object(t, geoCache, namespace, "spec: {databaseRef: {name: maps}}")
	if err := cluster.Create(t.Context(), cache); err != nil {
		t.Fatal(err)
	}
	wantCache := map[string]any{
		"databaseRef": map[string]any{"name": "maps"}, "replicas": int64(2), "memory": "256Mi",
		"evictionPolicy": "allkeys-lru", "engine": "redis", "scripting": "Allowed",
		"network": map[string]any{"egress": "Open"},
	}
	if diff := cmp.Diff(wantCache, cache.Object["spec"]); diff != "" {
		t.Errorf("spec of the cache differs (-want +got):\n%s", diff)
	}
}

// TestApplyAgain: the same manifest once more writes nothing.
func TestApplyAgain(t *testing.T) {
	for name, args := range map[string][]string{
		"by the client": {"apply", "-f", "-"},
		"by the server": {"apply", "--server-side", "-f", "-"},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := newNamespace(t)
			mustKubectl(t, namespace, small, args...)
			before := versions(t, namespace)
			mustKubectl(t, namespace, small, args...)
			if diff := cmp.Diff(before, versions(t, namespace)); diff != "" || len(before) != 1 {
				t.Errorf("something was written (-before +after):\n%s", diff)
			}
		})
	}
}

// versions returns the resourceVersion of each of our objects in a namespace.
func versions(t *testing.T, namespace string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, list := range []client.ObjectList{&v1alpha1.GeoDatabaseList{}, &v1alpha1.GeoCacheList{}} {
		if err := cluster.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
		switch list := list.(type) {
		case *v1alpha1.GeoDatabaseList:
			for _, item := range list.Items {
				found["GeoDatabase "+item.Name] = item.ResourceVersion
			}
		case *v1alpha1.GeoCacheList:
			for _, item := range list.Items {
				found["GeoCache "+item.Name] = item.ResourceVersion
			}
		}
	}
	return found
}

func TestScale(t *testing.T) {
	namespace := newNamespace(t)
	mustKubectl(t, namespace, small, "apply", "-f", "-")
	database := &v1alpha1.GeoDatabase{}
	read := func() {
		t.Helper()
		if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "cities"},
			database); err != nil {
			t.Fatal(err)
		}
	}
	mustKubectl(t, namespace, "", "scale", "gdb/cities", "--replicas=5")
	read()
	if database.Spec.Instances != 5 {
		t.Errorf("instances is %d, want 5", database.Spec.Instances)
	}
	database.Status.Instances, database.Status.Selector = 4, "meridian.dev/database=cities"
	if err := cluster.Status().Update(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	scale := mustKubectl(t, namespace, "", "get", "geodatabase", "cities", "--subresource=scale",
		"-o=jsonpath={.spec.replicas} {.status.replicas} {.status.selector}")
	if scale != "5 4 meridian.dev/database=cities" {
		t.Errorf("scale is %q", scale)
	}
	if output, ok := kubectl(t, namespace, "", "scale", "gdb/cities", "--replicas=17"); ok ||
		!strings.Contains(output, "spec.instances") {
		t.Errorf("scaled to 17: %s", output)
	}
	read()
	if database.Spec.Instances != 5 || database.Status.Instances != 4 {
		t.Errorf("a refused scale has changed something: %d, %d", database.Spec.Instances, database.Status.Instances)
	}
}

// TestStatusIsSeparate: a manifest cannot set the status, and a report cannot change the spec.
func TestStatusIsSeparate(t *testing.T) {
	namespace := newNamespace(t)
	mustKubectl(t, namespace, small+"status: {primary: cities-9}\n", "apply", "-f", "-")
	database := &v1alpha1.GeoDatabase{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "cities"}, database); err != nil {
		t.Fatal(err)
	}
	if database.Status.Primary != "" {
		t.Errorf("the manifest has set the primary to %q", database.Status.Primary)
	}
	generation := database.Generation
	database.Spec.Instances, database.Status.Primary = 7, "cities-1"
	if err := cluster.Status().Update(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	if database.Spec.Instances != 3 || database.Status.Primary != "cities-1" || database.Generation != generation {
		t.Errorf("after a report: %d instances, primary %q, generation %d", database.Spec.Instances,
			database.Status.Primary, database.Generation)
	}
}

func TestPrinterColumns(t *testing.T) {
	namespace := newNamespace(t)
	mustKubectl(t, namespace, small, "apply", "-f", "-")
	database := &v1alpha1.GeoDatabase{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "cities"}, database); err != nil {
		t.Fatal(err)
	}
	database.Status = v1alpha1.GeoDatabaseStatus{
		Primary: "cities-1", Replicas: "2/2", Lag: "<1s", Version: "17.6", Durability: v1alpha1.DurabilityStrict,
		WaitingFor: "nothing",
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Well",
				LastTransitionTime: metav1.Now()},
			{Type: v1alpha1.ConditionServing, Status: metav1.ConditionFalse, Reason: "Well",
				LastTransitionTime: metav1.Now()},
		},
	}
	if err := cluster.Status().Update(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	const header = "NAME READY SERVING PRIMARY REPLICAS LAG VERSION RECOVERABLE AGE"
	for _, test := range []struct{ resource, header, row string }{
		{"gdb", header, "cities True False cities-1 2/2 <1s 17.6"},
		{"meridian", header, "cities True False cities-1 2/2 <1s 17.6"},
		{"geodatabases", header, "cities True False cities-1"},
	} {
		output := strings.Join(strings.Fields(mustKubectl(t, namespace, "", "get", test.resource)), " ")
		if !strings.Contains(output, test.header) || !strings.Contains(output, test.row) {
			t.Errorf("get %s prints %q", test.resource, output)
		}
	}
	wide := strings.Join(strings.Fields(mustKubectl(t, namespace, "", "get", "gdb", "-o", "wide")), " ")
	if !strings.Contains(wide, "AGE DURABILITY WAITING FOR") || !strings.Contains(wide, "Strict nothing") {
		t.Errorf("get -o wide prints %q", wide)
	}

	if err := cluster.Create(t.Context(), object(t, geoCache, namespace, cacheSpec("memory: 64Mi"))); err != nil {
		t.Fatal(err)
	}
	caches := strings.Join(strings.Fields(mustKubectl(t, namespace, "", "get", "gcache")), " ")
	if !strings.Contains(caches, "NAME READY DATABASE PRIMARY INSTANCES MEMORY USED HITS AGE") {
		t.Errorf("get gcache prints %q", caches)
	}
}
