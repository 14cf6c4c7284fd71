package plugin_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin"
	"meridian.dev/meridian/internal/plugin/view"
	"meridian.dev/meridian/internal/recall"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/sim"
)

// TestVerbs calls each verb once and looks for what it must say.
func TestVerbs(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"status of the only database": {
			[]string{"status"},
			[]string{"GeoDatabase maps/cities  well", "cities-1 holds it at term 3", "95Mi of 1Gi", "250ms", "tiles"},
		},
		"status by name":    {[]string{"status", "gdb/cities"}, []string{"GeoDatabase maps/cities  well"}},
		"status as JSON":    {[]string{"status", "-o", "json"}, []string{`"primary": "cities-1"`, `"lagSeconds": 0.25`}},
		"status as YAML":    {[]string{"status", "cities", "-o", "yaml"}, []string{"primary: cities-1\n"}},
		"status everywhere": {[]string{"status", "-A"}, []string{"GeoDatabase maps/cities"}},
		"check":             {[]string{"check", "cities"}, []string{"ok       writes are accepted", "cities: 0 failed"}},
		"check as JSON":     {[]string{"check", "-o", "json"}, []string{`"outcome": "passed"`}},
		"explain":           {[]string{"explain", "cities"}, []string{"There is nothing to do"}},
		"events":            {[]string{"events", "cities"}, []string{"geodatabase/cities  AsWished", "pod/cities-1-0"}},
		"runbook":           {[]string{"runbook", "LeaseLost"}, []string{"# LeaseLost", "## What you do"}},
		"pages":             {[]string{"runbook"}, []string{"LeaseLost\n", "QuorumMissing\n"}},
		"pages as JSON":     {[]string{"runbook", "-o", "json"}, []string{`"LeaseLost",`}},
		"a page as YAML":    {[]string{"runbook", "LeaseLost", "-o", "yaml"}, []string{"name: LeaseLost\n"}},
		"explain as JSON":   {[]string{"explain", "-o", "json"}, []string{"{\n"}},
		"events as YAML":    {[]string{"events", "-o", "yaml"}, []string{"reason: AsWished\n"}},
		"restart as JSON":   {[]string{"restart", "cities", "-o", "json"}, []string{`"restart": "2026-`}},
		"a switchover that is none": {
			[]string{"switchover", "cities", "--to", "cities-1", "-o", "json"}, []string{`"to": "cities-1"`, `"term": 3`},
		},
		"version":           {[]string{"version"}, []string{"plugin      v1.2.3", "operator    example.com/meridian:1"}},
		"version as JSON":   {[]string{"version", "-o", "json"}, []string{`"plugin": "v1.2.3"`}},
		"completion":        {[]string{"completion", "kubectl"}, []string{"__complete"}},
		"bash completion":   {[]string{"completion", "bash"}, []string{"kubectl-meridian"}},
		"names for a shell": {[]string{"__complete", "status", ""}, []string{"cities\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := newWorld(t).run(test.args...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			if strings.Contains(got, "rivers-1-0") {
				t.Errorf("an event of another database in\n%s", got)
			}
		})
	}
}

// TestHelp demands an example of every verb.
func TestHelp(t *testing.T) {
	verbs := 0
	for _, verb := range plugin.New(plugin.Surroundings{Out: io.Discard, Err: io.Discard}).Commands() {
		if verb.Name() == "help" {
			continue
		}
		verbs++
		if verb.Short == "" || !strings.Contains(verb.Example, "kubectl meridian "+verb.Name()) {
			t.Errorf("%s has no help with an example", verb.Name())
		}
	}
	if verbs < 10 {
		t.Errorf("only %d verbs", verbs)
	}
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an unknown format":     {[]string{"status", "-o", "xml"}, `unknown output format "xml": use json or yaml`},
		"an unknown database":   {[]string{"status", "towns"}, `"towns" not found`},
		"a cache":               {[]string{"status", "tiles"}, "tiles is a cache of the database cities: name that"},
		"an unknown role":       {[]string{"logs", "--role", "boss"}, `unknown role "boss"`},
		"an unknown page":       {[]string{"runbook", "Nothing"}, "no page"},
		"an unknown shell":      {[]string{"completion", "ksh"}, "invalid argument"},
		"an empty namespace":    {[]string{"check", "-n", "elsewhere"}, "there is no GeoDatabase in the namespace elsewhere"},
		"an unknown target":     {[]string{"switchover", "cities", "--to", "cities-9"}, "there are cities-1, cities-2"},
		"an unknown instance":   {[]string{"psql", "cities", "--instance", "cities-9"}, "there is no instance cities-9"},
		"a name that is needed": {[]string{"switchover"}, "accepts 1 arg"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newWorld(t).run(test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestFewRights shows that somebody who may read little still sees the rest, and what is missing.
func TestFewRights(t *testing.T) {
	w := newWorld(t)
	w.forbidden = []string{"Pod", "Event", "GeoCache", "PersistentVolumeClaim"}
	got, err := w.run("status", "cities")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cities-1 accepts writes", "cities-2  Replica", "pods: you may not read them",
		"events: you may not read them", "caches: you may not read them"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestCheckFails(t *testing.T) {
	w := newWorld(t)
	database := w.database()
	for i, condition := range database.Status.Conditions {
		if condition.Type == "Stalled" {
			database.Status.Conditions[i].Status, database.Status.Conditions[i].Reason = "True", "VolumeLost"
		}
	}
	w.updateStatus(database)
	got, err := w.run("check", "cities")
	if err == nil {
		t.Error("a check that failed has the exit code of one that did not")
	}
	if want := "see docs/runbook/VolumeLost.md, or: kubectl meridian runbook VolumeLost"; !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
}

// TestStatusOfADatabaseThatGoes: whoever looks at all databases sees the others when one is deleted meanwhile.
func TestStatusOfADatabaseThatGoes(t *testing.T) {
	w := newWorld(t)
	rivers := w.database().DeepCopy()
	rivers.Name, rivers.ResourceVersion, rivers.UID = "rivers", "", ""
	w.create(rivers)
	gone := false
	w.before = func(call sim.Call) {
		if call.Verb == sim.Get && call.Key.Name == "rivers" && !gone {
			gone = true
			if err := w.client.Delete(t.Context(), rivers); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := w.run("status", "-A")
	if err != nil || !gone || !strings.Contains(got, "GeoDatabase maps/cities") {
		t.Errorf("%v, deleted: %t\n%s", err, gone, got)
	}
	if _, err := w.run("status", "rivers"); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("the status of a database that is not there: %v", err)
	}
}

func (w *world) database() *v1alpha1.GeoDatabase {
	w.t.Helper()
	var database v1alpha1.GeoDatabase
	if err := w.client.Get(w.t.Context(), client.ObjectKey{Namespace: "maps", Name: "cities"}, &database); err != nil {
		w.t.Fatal(err)
	}
	return &database
}

// TestSwitchover plays the operator: it takes the request away, and the primary changes, or not.
func TestSwitchover(t *testing.T) {
	for name, test := range map[string]struct {
		args   []string
		refuse bool
		// slow has the status follow some seconds after the request is gone.
		slow bool
		want string
		err  string
	}{
		"to any":                {args: nil, want: "cities-2 is the primary, at term 4"},
		"to a replica":          {args: []string{"--to", "cities-2"}, want: "cities-2 is the primary, at term 4"},
		"to the primary itself": {args: []string{"--to", "cities-1"}, want: "cities-1 is the primary already"},
		"without waiting":       {args: []string{"--timeout", "0"}, want: "Asked for another primary"},
		"by a busy operator":    {slow: true, want: "cities-2 is the primary, at term 4"},
		"refused":               {refuse: true, err: "it was refused: cities-2 does not follow"},
	} {
		t.Run(name, func(t *testing.T) {
			w, late := newWorld(t), false
			w.before = func(call sim.Call) {
				database := w.database()
				asked := database.Annotations[view.AnnotationSwitchover] != ""
				if call.Verb != sim.Get || !asked && !late {
					return
				}
				if late {
					late = false
					database.Status.Primary, database.Status.Term = "cities-2", 4
					w.updateStatus(database)
					return
				}
				delete(database.Annotations, view.AnnotationSwitchover)
				status := database.Status
				if err := w.client.Update(t.Context(), database); err != nil {
					t.Fatal(err)
				}
				if test.refuse {
					w.now = w.now.Add(time.Minute) // Events of the fixture are a minute old.
					w.event("cities", "GeoDatabase", "SwitchoverRefused", "cities-2 does not follow")
					return
				}
				if test.slow {
					w.now, late = w.now.Add(10*time.Second), true
					return
				}
				database.Status = status
				database.Status.Primary, database.Status.Term = "cities-2", 4
				w.updateStatus(database)
			}
			got, err := w.run(append([]string{"switchover", "cities"}, test.args...)...)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("no %q in\n%s", test.want, got)
			}
		})
	}
}

func TestPlan(t *testing.T) {
	w := newWorld(t)
	wanted := w.database()
	wanted.Kind, wanted.APIVersion = "GeoDatabase", "meridian.dev/v1alpha1"
	wanted.Spec.Storage.Size = resource.MustParse("2Gi")
	wanted.Spec.Parameters = map[string]v1alpha1.Setting{"max_connections": "150"}
	other := map[string]any{"kind": "GeoCache"}
	document, err := json.Marshal(map[string]any{"kind": "List", "items": []any{wanted, other}})
	if err != nil {
		t.Fatal(err)
	}
	w.captured = document
	got, err := w.run("plan", "-f", "cities.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"GeoDatabase maps/cities  2 changes", "spec.storage.size", "1Gi   2Gi", "rolling restart",
		"cities-1  it hands over to a replica", "writes wait for about a second",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	command := "kubectl apply --namespace maps --dry-run=server --output=json --filename cities.yaml"
	if got := strings.Join(w.ran[0], " "); got != command {
		t.Errorf("ran %q", got)
	}
	w.refusal = errors.New("a volume cannot shrink")
	if _, err := w.run("plan", "-f", "cities.yaml"); err == nil || !strings.Contains(err.Error(), "cannot shrink") {
		t.Errorf("a refusal became %v", err)
	}
}

// TestWatch is interrupted at its third look and ends without an error. The second look saw the same as the first, and
// away from a terminal only what differs is printed.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(t.Context())
	w.ctx = ctx
	looks := 0
	w.before = func(call sim.Call) {
		if call.Kind.Kind == "GeoCache" || call.Kind.Kind == "GeoCacheList" {
			if looks++; looks == 3 {
				interrupt()
			}
		}
	}
	got, err := w.run("status", "cities", "--watch", "--interval", "1ms")
	if err != nil || looks != 3 || strings.Count(got, "GeoDatabase maps/cities  well") != 1 {
		t.Errorf("%v after %d looks:\n%s", err, looks, got)
	}
}

func TestRestart(t *testing.T) {
	w := newWorld(t)
	got, err := w.run("restart", "cities")
	if err != nil || !strings.Contains(got, "Asked for a restart of cities") {
		t.Fatalf("%v: %s", err, got)
	}
	if w.database().Spec.Restart == "" {
		t.Error("nothing was asked for")
	}
}

// TestConflict has somebody else change the database between the look of the plugin and its request: nothing is asked
// for, because what was checked may not hold any more.
func TestConflict(t *testing.T) {
	for _, args := range [][]string{{"restart", "cities"}, {"switchover", "cities", "--to", "cities-2"}} {
		w := newWorld(t)
		w.before = func(call sim.Call) {
			if !call.Verb.Writes() {
				return
			}
			database := w.database()
			database.Spec.Instances = 5
			if err := w.client.Update(t.Context(), database); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.run(args...)
		want := "somebody has changed the database at the same moment; look at it and ask again"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", args, err, want)
		}
		after := w.database()
		if after.Spec.Restart != "" || after.Annotations[view.AnnotationSwitchover] != "" {
			t.Errorf("%v: it was asked for all the same", args)
		}
	}
}

func TestPSQL(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{
		{"psql", "cities"}, {"psql", "cities", "--replica", "--", "-c", "select 1"},
		{"psql", "cities", "--instance", "cities-2"}, {"psql", "cities", "--superuser"},
	} {
		if _, err := w.run(args...); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	program := strings.Fields("--container database -- psql")
	tail := append(slices.Clone(program), "host=/run/meridian dbname='app' user='app'")
	super := append(slices.Clone(program),
		"host=/run/meridian dbname='app' user=postgres options='"+wire.SuperuserOptions+"'")
	start := strings.Fields("kubectl exec --namespace maps --stdin")
	want := [][]string{
		slices.Concat(start, []string{"cities-1-0"}, tail),
		slices.Concat(start, []string{"cities-2-0"}, tail, []string{"-c", "select 1"}),
		slices.Concat(start, []string{"cities-2-0"}, tail),
		slices.Concat(start, []string{"cities-1-0"}, super),
	}
	if diff := cmp.Diff(want, w.ran); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}
}

func TestLogs(t *testing.T) {
	w := newWorld(t)
	w.logs["cities-1-0"] = "2026-03-01T11:00:01Z first\n2026-03-01T11:00:03Z third\n"
	w.logs["cities-2-0"] = "2026-03-01T11:00:02Z second\n"
	w.logs["tiles-1-0"] = "2026-03-01T11:00:04Z of the cache\n"
	got, err := w.run("logs", "cities")
	if err != nil {
		t.Fatal(err)
	}
	want := "11:00:01.000  cities-1 primary  first\n11:00:02.000  cities-2 replica  second\n" +
		"11:00:03.000  cities-1 primary  third\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	if got, err = w.run("logs", "--role", "replica", "--caches", "--follow"); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(got, "first") || !strings.Contains(got, "tiles-1 cache") || strings.Count(got, "second") != 1 {
		t.Errorf("logs of replicas and caches:\n%s", got)
	}
}

// TestSnapshot looks into the bundle: everything is there, no secret is, and the scenario can be read back.
func TestSnapshot(t *testing.T) {
	w := newWorld(t)
	w.logs["cities-1-0"] = `connected with postgresql://app:` + hidden + `@cities-rw/app` + "\n"
	file := filepath.Join(t.TempDir(), "cities.tar.gz")
	got, err := w.run("snapshot", "cities", "--file", file)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "files\n") {
		t.Errorf("it says %q", got)
	}
	files := unpack(t, file)
	for _, name := range []string{
		"cities/status.txt", "cities/check.txt", "cities/scenario.txtar", "cities/replay.txtar",
		"cities/objects/cities/pods.yaml",
		"cities/objects/geodatabase.yaml", "cities/logs/cities-1-0-database.log",
		"cities/logs/cities-1-0-database-before.log",
		"cities/figures/cities-1-0.txt",
	} {
		if len(files[name]) < 10 {
			t.Errorf("%s is missing or empty: %q", name, files[name])
		}
	}
	for name, content := range files {
		if strings.Contains(content, hidden) {
			t.Errorf("%s has a secret in it:\n%s", name, content)
		}
	}
	_, known, _ := strings.Cut(files["cities/scenario.txtar"], "-- facts.yaml --\n")
	var facts view.Facts
	if err := yaml.UnmarshalStrict([]byte(known), &facts); err != nil || facts.Database.Name != "cities" {
		t.Errorf("the scenario does not come back: %v", err)
	}
	story, err := recall.Decode([]byte(files["cities/replay.txtar"]))
	if err != nil || story.Seen.Name != "cities" || len(story.Assumed) == 0 {
		t.Errorf("what the operator saw does not come back: %v\n%s", err, files["cities/replay.txtar"])
	}
	if _, err := w.run("snapshot", "cities", "--file", file); err == nil {
		t.Error("a file that is there was written over")
	}
}

// TestSnapshotWithFewRights shows that the bundle of somebody who may read little says so, and is still written.
func TestSnapshotWithFewRights(t *testing.T) {
	w := newWorld(t)
	w.forbidden = []string{"StatefulSet", "Service", "Role", "NetworkPolicy", "ConfigMap"}
	file := filepath.Join(t.TempDir(), "cities.tar.gz")
	if _, err := w.run("snapshot", "cities", "--file", file); err != nil {
		t.Fatal(err)
	}
	files := unpack(t, file)
	story, err := recall.Decode([]byte(files["cities/replay.txtar"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"StatefulSet", "Service", "Role", "ConfigMap"} {
		want := "objects of the kind " + kind + ": you may not read them"
		if !slices.Contains(story.Unread, want) || !strings.Contains(files["cities/unread.txt"], want) {
			t.Errorf("nobody says %q: %q", want, story.Unread)
		}
		for _, child := range story.Seen.Children {
			if child.Kind == kind && kind != "StatefulSet" && child.State != "Same" {
				t.Errorf("%s %s is %s, although nobody could read it", kind, child.Name, child.State)
			}
		}
	}
}

func unpack(t *testing.T, name string) map[string]string {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(zip); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}

// TestJSON holds the names that scripts read.
func TestJSON(t *testing.T) {
	text, err := newWorld(t).run("status", "cities", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"namespace", "name", "verdict", "primary", "lease", "instances", "caches", "lastChange"} {
		if got[key] == nil {
			t.Errorf("no %q in %s", key, text)
		}
	}
}

// TestCheckCluster runs the look around against a cluster in memory: it says what it found and could not find, and
// makes nothing.
func TestCheckCluster(t *testing.T) {
	w := newWorld(t)
	printed, err := w.run("check", "--cluster", "-n", "gis")
	if err == nil || !strings.Contains(printed, "FAILED   there is a default storage class") {
		t.Errorf("a cluster without a storage class passes: %v\n%s", err, printed)
	}
	for _, part := range []string{
		"install a driver for volumes", "ok       pods of the namespace may call", "namespace gis:",
	} {
		if !strings.Contains(printed, part) {
			t.Errorf("%q is missing in:\n%s", part, printed)
		}
	}
	var pods corev1.PodList
	if err := w.client.List(t.Context(), &pods, client.InNamespace("gis")); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.Name == "meridian-check" {
			t.Error("the pod that is asked about was made")
		}
	}
	printed, err = w.run("check", "--cluster", "cities")
	if err == nil || !strings.Contains(err.Error(), "leave the name") {
		t.Errorf("a database is named besides, and it is not refused: %v\n%s", err, printed)
	}
}
