package metrics_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/docs"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// TestAlertPages holds the alerts against their pages in the runbook: none is missing, none is left over, and each
// answers the same questions as every other page.
func TestAlertPages(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string            `json:"alert"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../deploy/monitoring/alerts.yaml")), &file); err != nil {
		t.Fatal(err)
	}
	var alerts []string
	for _, rule := range file.Groups[0].Rules {
		alerts = append(alerts, rule.Alert)
		if want := "docs/runbook/alerts/" + rule.Alert + ".md"; rule.Annotations["runbook"] != want {
			t.Errorf("%s points to %q, want %s", rule.Alert, rule.Annotations["runbook"], want)
		}
		severities := []string{"critical", "warning", "info"}
		if !slices.Contains(severities, rule.Labels["severity"]) || rule.Annotations["summary"] == "" {
			t.Errorf("%s has no severity or no summary", rule.Alert)
		}
		page, err := docs.Page(rule.Alert)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, heading := range []string{
			"# " + rule.Alert + "\n", "\n## How to see it\n", "\n## What Meridian does by itself\n", "\n## What you do\n",
		} {
			if !strings.Contains(page, heading) {
				t.Errorf("the page of %s has no %q", rule.Alert, strings.TrimSpace(heading))
			}
		}
	}
	slices.Sort(alerts)
	if diff := cmp.Diff(alerts, docs.Alerts()); diff != "" {
		t.Errorf("alerts and pages (-alerts +pages):\n%s", diff)
	}
}

// TestPolicyForPrometheus holds the policy against what it must open: the port of the figures, of the pods that a
// policy of Meridian's closes, and of no others.
func TestPolicyForPrometheus(t *testing.T) {
	var policy networkingv1.NetworkPolicy
	text := read(t, "../../deploy/monitoring/networkpolicy.yaml")
	if err := yaml.UnmarshalStrict([]byte(text), &policy); err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	for _, closed := range []labels.Set{
		{database.LabelDatabase: "cities", database.LabelInstance: "cities-1"},
		{cache.LabelCache: "tiles", cache.LabelInstance: "tiles-1"},
	} {
		if !selector.Matches(closed) || selector.Matches(labels.Set{"app": "map"}) {
			t.Errorf("it selects %s", selector)
		}
	}
	if len(policy.Spec.Ingress) != 1 || len(policy.Spec.Ingress[0].Ports) != 1 || len(policy.Spec.Ingress[0].From) != 1 {
		t.Fatalf("it opens %+v", policy.Spec.Ingress)
	}
	door, from := policy.Spec.Ingress[0].Ports[0], policy.Spec.Ingress[0].From[0]
	if door.Port.IntValue() != wire.PortProbe || from.PodSelector == nil || from.NamespaceSelector == nil {
		t.Errorf("it opens %v to %+v", door.Port, from)
	}
}

func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Type    string
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "../../deploy/monitoring/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			shown++
			if strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") || target.Expr == "" {
				t.Errorf("%s asks %q", panel.Title, target.Expr)
			}
		}
	}
	if shown < 15 {
		t.Errorf("only %d figures are shown", shown)
	}
}
