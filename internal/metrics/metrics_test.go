package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/metrics"
	"meridian.dev/meridian/internal/plugin/cluster"
	"meridian.dev/meridian/internal/plugin/view"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/loop"
	"meridian.dev/meridian/kit/scenario"
	"meridian.dev/meridian/kit/sim"
)

// scrape is what Prometheus gets.
func scrape(t *testing.T, collectors ...prometheus.Collector) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	metrics.Handler(collectors...).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, metrics.Path, nil))
	if recorder.Code != 200 {
		t.Fatalf("%d: %s", recorder.Code, recorder.Body)
	}
	return recorder.Body.String()
}

// figures leaves the remarks out.
func figures(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// TestReports plays reports and compares the figures.
func TestReports(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var given struct {
			Report *wire.Report      `json:"report,omitempty"`
			Cache  *wire.CacheReport `json:"cache,omitempty"`
		}
		in.YAML("report.yaml", &given)
		collector := metrics.Instance(func() (wire.Report, bool) { return *given.Report, true })
		if given.Cache != nil {
			collector = metrics.Cache(func() (wire.CacheReport, bool) { return *given.Cache, true })
		}
		out.SetText("figures.txt", figures(scrape(t, collector)))
		return out
	})
}

func TestNothingToSay(t *testing.T) {
	silent := metrics.Instance(func() (wire.Report, bool) { return wire.Report{}, false })
	if got := scrape(t, silent, metrics.Statistics(t.TempDir(), 5432)); got != "" {
		t.Errorf("an agent without a report, beside a server that is not there, says\n%s", got)
	}
}

// TestPluginReadsThem holds the names that the plugin shows against those that are served.
func TestPluginReadsThem(t *testing.T) {
	instance := wire.Report{Role: wire.RoleReplica, LagMilliseconds: 250, Volume: wire.Room{Size: 100, Free: 40}}
	cache := wire.CacheReport{Memory: wire.CacheMemory{Used: 5, Allowed: 7}, Use: wire.CacheUse{Hits: 3, Misses: 1}}
	text := scrape(t, metrics.Instance(func() (wire.Report, bool) { return instance, true })) +
		scrape(t, metrics.Cache(func() (wire.CacheReport, bool) { return cache, true }))
	got := cluster.ParseFigures([]byte(text))
	for name, want := range map[string]float64{
		view.FigureLag: 0.25, view.FigureVolumeSize: 100, view.FigureVolumeUsed: 60, view.FigureMemoryUsed: 5,
		view.FigureMemoryLimit: 7, view.FigureHits: 3, view.FigureMisses: 1,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

func newServer(t *testing.T) client.Client {
	t.Helper()
	kinds, err := cluster.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	server, err := sim.New(sim.Options{Scheme: kinds, Kinds: []sim.Kind{
		{GroupVersionKind: v1alpha1.GroupVersion.WithKind("GeoDatabase"), Status: true, Generation: true},
		{GroupVersionKind: v1alpha1.GroupVersion.WithKind("GeoCache"), Status: true, Generation: true},
	}})
	if err != nil {
		t.Fatal(err)
	}
	process, err := server.Start(sim.Life{Name: "operator"})
	if err != nil {
		t.Fatal(err)
	}
	return process.Live()
}

func condition(typ string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: typ, Status: status, Reason: reason, LastTransitionTime: metav1.Unix(1, 0)}
}

func TestResources(t *testing.T) {
	server := newServer(t)
	database := &v1alpha1.GeoDatabase{Spec: v1alpha1.GeoDatabaseSpec{Instances: 3, Paused: true}}
	database.Namespace, database.Name = "maps", "cities"
	cache := &v1alpha1.GeoCache{Spec: v1alpha1.GeoCacheSpec{Replicas: 1}}
	cache.Namespace, cache.Name = "maps", "tiles"
	for _, object := range []client.Object{database, cache} {
		if err := server.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	database.Status = v1alpha1.GeoDatabaseStatus{
		Term: 4, PendingChanges: []string{"a", "b"},
		Conditions: []metav1.Condition{
			condition("Ready", "False", "CopiesMissing"), condition("Serving", "Unknown", "NotSeen"),
			condition("Degraded", "True", "CopiesMissing"),
		},
		Members: []v1alpha1.InstanceStatus{{Name: "cities-1", Ready: true}, {Name: "cities-2"}},
	}
	if err := server.Status().Update(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	got := figures(scrape(t, metrics.Resources(server)))
	for _, want := range []string{
		`meridian_condition{condition="Ready",kind="GeoDatabase",name="cities",namespace="maps",reason="CopiesMissing"} 0`,
		`meridian_condition{condition="Serving",kind="GeoDatabase",name="cities",namespace="maps",reason="NotSeen"} -1`,
		`meridian_condition{condition="Degraded",kind="GeoDatabase",name="cities",namespace="maps",reason="CopiesMissing"} 1`,
		`meridian_instances_wanted{kind="GeoDatabase",name="cities",namespace="maps"} 3`,
		`meridian_instances_ready{kind="GeoDatabase",name="cities",namespace="maps"} 1`,
		`meridian_instances_wanted{kind="GeoCache",name="tiles",namespace="maps"} 1`,
		`meridian_term{kind="GeoDatabase",name="cities",namespace="maps"} 4`,
		`meridian_pending_changes{kind="GeoDatabase",name="cities",namespace="maps"} 2`,
		`meridian_paused{kind="GeoDatabase",name="cities",namespace="maps"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// TestObserver has an outage of seven seconds and a few writes.
func TestObserver(t *testing.T) {
	registry, now := prometheus.NewRegistry(), time.Unix(0, 0)
	observer, err := metrics.NewObserver(registry, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	server := observer.Client(newServer(t))
	database := &v1alpha1.GeoDatabase{}
	database.Namespace, database.Name = "maps", "cities"
	if err := server.Create(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	if err := server.Create(t.Context(), database.DeepCopy()); err == nil {
		t.Fatal("created twice")
	}
	show := func(serving metav1.ConditionStatus) {
		before := database.DeepCopy()
		database.Status.Conditions = []metav1.Condition{condition("Serving", serving, "X")}
		if err := server.Status().Patch(t.Context(), database, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	show("False")
	now = now.Add(3 * time.Second)
	show("Unknown")
	now = now.Add(4 * time.Second)
	show("True")
	settings := &corev1.ConfigMap{}
	settings.Namespace, settings.Name = "maps", "cities-settings"
	if err := server.Create(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := server.Delete(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	got := figures(scrape(t, registry))
	for _, want := range []string{
		`meridian_writes_total{kind="GeoDatabase",result="ok",verb="create"} 1`,
		`meridian_writes_total{kind="GeoDatabase",result="ok",verb="patch status"} 3`,
		`meridian_writes_total{kind="ConfigMap",result="ok",verb="delete"} 1`,
		`meridian_span_seconds_sum{kind="GeoDatabase",span="outage"} 7`,
		`meridian_span_seconds_count{kind="GeoDatabase",span="outage"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

var named = regexp.MustCompile(`\b(meridian|loop|expect)_[a-z_]+[a-z]\b`)

// TestDocumented holds the names in the guide, the alerts and the dashboard against those in the code.
func TestDocumented(t *testing.T) {
	known := knownNames(t)
	page := read(t, "../../docs/guide/monitoring.md")
	for _, name := range known {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/guide/monitoring.md does not describe %s", name)
		}
	}
	for _, file := range []string{
		"../../docs/guide/monitoring.md", "../../deploy/monitoring/alerts.yaml", "../../deploy/monitoring/dashboard.json",
	} {
		for _, name := range named.FindAllString(read(t, file), -1) {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base, found := strings.CutSuffix(name, suffix); found && slices.Contains(known, base) {
					name = base
				}
			}
			if !slices.Contains(known, name) && !strings.HasPrefix(name, "meridian_dev") {
				t.Errorf("%s names %s, which nobody serves", file, name)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

var described = regexp.MustCompile(`fqName: "([a-z_]+)"`)

// knownNames are those that the collectors describe.
func knownNames(t *testing.T) []string {
	t.Helper()
	registry := prometheus.NewRegistry()
	sink := &listing{Registerer: registry}
	if _, err := metrics.NewObserver(sink, time.Now); err != nil {
		t.Fatal(err)
	}
	if _, err := loop.NewMetrics(sink); err != nil {
		t.Fatal(err)
	}
	for _, collector := range []prometheus.Collector{
		metrics.Instance(nil), metrics.Cache(nil), metrics.Statistics("", 0), metrics.Resources(nil),
	} {
		sink.list(collector)
	}
	slices.Sort(sink.names)
	names := slices.Compact(sink.names)
	if len(names) < 50 {
		t.Fatalf("only %d names were found", len(names))
	}
	return append(names, "expect_checks_total", "expect_pending_writes", "expect_owners")
}

// listing notes what is registered.
type listing struct {
	prometheus.Registerer
	names []string
}

func (l *listing) Register(collector prometheus.Collector) error {
	l.list(collector)
	return nil
}

func (l *listing) list(collector prometheus.Collector) {
	descriptions := make(chan *prometheus.Desc)
	go func() { collector.Describe(descriptions); close(descriptions) }()
	for description := range descriptions {
		if found := described.FindStringSubmatch(description.String()); found != nil {
			l.names = append(l.names, found[1])
		}
	}
}
