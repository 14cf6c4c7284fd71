package monitoring_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/tsdb"
)

// step is how often is scraped and evaluated.
const step = time.Minute

// series is one figure: its value while all is well, and in the fault. minute counts from the beginning of each.
type series struct {
	metric string
	labels []string
	well   func(minute float64) float64
	broken func(minute float64) float64
	// mended is the value after the fault, if it is not the one of before.
	mended func(minute float64) float64
}

func constant(value float64) func(float64) float64 { return func(float64) float64 { return value } }

// begin is when a case begins, in seconds, and clock a figure that always has the present time.
const begin = 1e9

func clock(minute float64) float64 { return begin + 60*minute }

func rising(perMinute float64) func(float64) float64 {
	return func(minute float64) float64 { return perMinute * minute }
}

func of(metric string, well, broken float64, labels ...string) series {
	return series{metric: metric, labels: labels, well: constant(well), broken: constant(broken)}
}

func condition(typ string, well, broken float64) series {
	return of("meridian_condition", well, broken, "condition", typ, "reason", "X", "namespace", "maps",
		"kind", "GeoDatabase", "name", "cities")
}

var (
	cities = []string{"namespace", "maps", "kind", "GeoDatabase", "name", "cities"}
	pod    = []string{"namespace", "maps", "database", "cities", "pod", "cities-1-0"}
	other  = []string{"namespace", "maps", "database", "cities", "pod", "cities-2-0"}
	tiles  = []string{"namespace", "maps", "cache", "tiles", "pod", "tiles-1-0"}
)

const gib = 1 << 30

// faults say, for each alert, what the figures are like when it must fire.
var faults = map[string][]series{
	"MeridianNotServing":     {condition("Serving", 1, -1)},
	"MeridianStalled":        {condition("Stalled", 0, 1)},
	"MeridianDegraded":       {condition("Degraded", 0, 1)},
	"MeridianStuck":          {condition("Progressing", 0, 1)},
	"MeridianOperatorAbsent": {of("up", 1, 0, "job", "meridian-operator")},
	"MeridianPassesFail": {{
		metric: "loop_passes_total", labels: []string{"loop", "geodatabase", "end", "transient"},
		well: constant(0), broken: rising(10),
	}},
	"MeridianTwoPrimaries": {
		of("meridian_postgres_primary", 1, 1, pod...), of("meridian_instance_serving", 1, 1, pod...),
		of("meridian_postgres_primary", 0, 1, other...), of("meridian_instance_serving", 1, 1, other...),
	},
	"MeridianFailovers": {{
		metric: "meridian_term", labels: cities, well: constant(3), mended: constant(6),
		broken: func(minute float64) float64 { return 3 + min(3, float64(int(minute/10))) },
	}},
	"MeridianReplicaLag":          {of("meridian_postgres_replication_lag_seconds", 0.1, 100, pod...)},
	"MeridianReplicaNotStreaming": {of("meridian_postgres_replication_streaming", 1, 0, pod...)},
	"MeridianVolumeFilling":       volume(0.5, 0.9),
	"MeridianVolumeAlmostFull":    volume(0.5, 0.97),
	"MeridianVolumeFullSoon": {of("meridian_volume_size_bytes", gib, gib, pod...), {
		metric: "meridian_volume_used_bytes", labels: pod, well: constant(0.6 * gib),
		broken: func(minute float64) float64 { return min(0.84, 0.6+minute*0.0015) * gib },
	}},
	"MeridianConnectionsHigh": {
		of("meridian_postgres_connections", 10, 95, pod...), of("meridian_postgres_connections_max", 100, 100, pod...),
	},
	"MeridianTransactionOld": {of("meridian_postgres_oldest_transaction_seconds", 1, 4000, pod...)},
	"MeridianWraparound":     {of("meridian_postgres_xid_age", 1e6, 1.3e9, pod...)},
	"MeridianLogRetained": {
		of("meridian_postgres_slot_retained_bytes", 0, 0.4*gib, pod...), of("meridian_volume_size_bytes", gib, gib, pod...),
	},
	"MeridianCacheHitsLow": {
		{metric: "meridian_cache_hits_total", labels: tiles, well: rising(60000), broken: rising(600)},
		{metric: "meridian_cache_misses_total", labels: tiles, well: rising(60), broken: rising(6000)},
	},
	"MeridianNotRecoverable": {condition("Recoverable", 1, 0)},
	"MeridianBackupUnusable": {
		of("meridian_condition", 1, 0, "condition", "Recoverable", "reason", "KeyWrong", "namespace", "maps",
			"kind", "GeoDatabase", "name", "cities"),
	},
	"MeridianBackupsOld": {{
		metric: "meridian_recoverable_timestamp_seconds", labels: []string{"namespace", "maps", "name", "cities"},
		well: clock, broken: constant(begin + before.Seconds()), mended: clock,
	}},
	"MeridianChangesPending": {of("meridian_pending_changes", 0, 2, cities...)},
}

func volume(well, broken float64) []series {
	return []series{
		of("meridian_volume_used_bytes", well*gib, broken*gib, pod...),
		of("meridian_volume_size_bytes", gib, gib, pod...),
	}
}

// The phases of a case: all is well, then the fault lasts for as long as the alert waits and a while longer, then all
// is well again for longer than any rule looks back.
const (
	before = 2 * time.Hour
	extra  = 80 * time.Minute
	after  = 8 * time.Hour
)

func TestAlerts(t *testing.T) {
	groups, problems := parseRules(t)
	for _, problem := range problems {
		t.Error(problem)
	}
	var named []string
	for _, rule := range groups.Groups[0].Rules {
		named = append(named, rule.Alert)
		t.Run(rule.Alert, func(t *testing.T) {
			fault, found := faults[rule.Alert]
			if !found {
				t.Fatal("there is no fault in which it is seen to fire")
			}
			firing := play(t, rule, fault)
			begins := 0
			for minute, fires := range firing {
				at := time.Duration(minute) * step
				started := minute > 0 && fires && !firing[minute-1]
				if started {
					begins++
					t.Logf("fires %v after the fault", at-before)
				}
				if fires && at < before+time.Duration(rule.For) {
					t.Fatalf("it fires %v after the beginning, before the fault has lasted for %v", at, rule.For)
				}
			}
			if begins != 1 {
				t.Errorf("it fires %d times in one fault", begins)
			}
			if firing[len(firing)-1] {
				t.Error("it still fires long after the fault was mended")
			}
		})
	}
	for name := range faults {
		if !slices.Contains(named, name) {
			t.Errorf("there is a fault for %s, and no such alert", name)
		}
	}
}

// A restore on trial that finds no room says nothing about what can be restored: nobody is told otherwise.
func TestNoRoomToTryIsNoLoss(t *testing.T) {
	groups, _ := parseRules(t)
	for _, reason := range []string{"NoRoomToVerify", "VerifyNotMade"} {
		about := append(slices.Clone(cities), "condition", "Recoverable", "reason", reason)
		untried := of("meridian_condition", 1, 0, about...)
		for _, rule := range groups.Groups[0].Rules {
			if strings.Contains(rule.Expr, untried.metric) && slices.Contains(play(t, rule, []series{untried}), true) {
				t.Errorf("%s: %s fires", reason, rule.Alert)
			}
		}
	}
}

func parseRules(t *testing.T) (*rulefmt.RuleGroups, []error) {
	t.Helper()
	content, err := os.ReadFile("../../deploy/monitoring/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return rulefmt.Parse(content, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
}

// play writes the samples, evaluates the rule at each step, and says when it fires.
func play(t *testing.T, rule rulefmt.Rule, fault []series) []bool {
	t.Helper()
	store, err := tsdb.Open(t.TempDir(), slog.New(slog.DiscardHandler), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	expression, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
	if err != nil {
		t.Fatal(err)
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute})
	alert := rules.NewAlertingRule(rule.Alert, expression, time.Duration(rule.For), 0, labels.FromMap(rule.Labels),
		labels.FromMap(rule.Annotations), labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
	query := rules.EngineQueryFunc(engine, store)
	broken := time.Duration(rule.For) + extra
	first := time.Unix(begin, 0)
	var firing []bool
	for past := time.Duration(0); past < before+broken+after; past += step {
		now := first.Add(past)
		write(t, store, now, func(one series) float64 { return one.at(past, broken) }, fault)
		if _, err := alert.Eval(t.Context(), 0, now, query, nil, 0); err != nil {
			t.Fatal(err)
		}
		fires := false
		for _, active := range alert.ActiveAlerts() {
			fires = fires || active.State == rules.StateFiring
			if summary := active.Annotations.Get("summary"); strings.Contains(summary, "error expanding") {
				t.Fatalf("the summary is %q", summary)
			}
		}
		firing = append(firing, fires)
	}
	return firing
}

// at is the value in each phase.
func (s series) at(past, broken time.Duration) float64 {
	if inside := past - before; inside >= 0 && inside < broken {
		return s.broken(inside.Minutes())
	}
	if s.mended != nil && past >= before {
		return s.mended(past.Minutes())
	}
	return s.well(past.Minutes())
}

func write(t *testing.T, store *tsdb.DB, now time.Time, value func(series) float64, all []series) {
	t.Helper()
	appender := store.Appender(context.Background())
	for _, one := range all {
		name := labels.FromStrings(append([]string{model.MetricNameLabel, one.metric}, one.labels...)...)
		if _, err := appender.Append(0, name, now.UnixMilli(), value(one)); err != nil {
			t.Fatal(err)
		}
	}
	if err := appender.Commit(); err != nil {
		t.Fatal(err)
	}
}
