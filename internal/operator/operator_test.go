package operator_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"meridian.dev/meridian/internal/operator"
	"meridian.dev/meridian/kit/rbac"
)

func TestRightsAreModest(t *testing.T) {
	for _, withWebhook := range []bool{false, true} {
		table := operator.Rights("home", withWebhook)
		if err := table.Check(); err != nil {
			t.Errorf("webhook %t: %v", withWebhook, err)
		}
		for _, row := range table {
			if row.Resource == "secrets" && (slices.Contains(row.Verbs, "list") || slices.Contains(row.Verbs, "watch")) {
				t.Errorf("%s may be listed: Secrets are read by name", row)
			}
			if strings.HasPrefix(row.Resource, "pods/exec") {
				t.Errorf("%s: nobody may run commands in a pod", row)
			}
		}
	}
}

// TestScopeIsExact finds no right outside of the namespaces that were named, but for what has no namespace.
func TestScopeIsExact(t *testing.T) {
	table := operator.Rights("home", false)
	text, err := table.YAML(operator.Installation("home", []string{"roses", "tulips"}))
	if err != nil {
		t.Fatal(err)
	}
	for document := range strings.SplitSeq(string(text), "---\n") {
		switch {
		case strings.Contains(document, "kind: ClusterRole\nmetadata"):
			if strings.Contains(document, "secrets") || !strings.Contains(document, "storageclasses") {
				t.Errorf("rights for the whole cluster:\n%s", document)
			}
		case strings.Contains(document, "namespace: roses"), strings.Contains(document, "namespace: tulips"),
			strings.Contains(document, "namespace: home"), strings.Contains(document, "kind: ClusterRoleBinding"):
		default:
			t.Errorf("rights elsewhere:\n%s", document)
		}
	}
	var homeRows rbac.Table
	for _, row := range table {
		if row.Scope == rbac.Home {
			homeRows = append(homeRows, row)
		}
	}
	if len(homeRows) == 0 {
		t.Error("nothing is needed at home: the table is not whole")
	}
}

func TestRunRefusesBadOptions(t *testing.T) {
	tests := map[string]struct {
		change func(*operator.Options)
		want   string
	}{
		"no home":    {func(o *operator.Options) { o.Home = "" }, "POD_NAMESPACE"},
		"no image":   {func(o *operator.Options) { o.Images.Server = "" }, "--server-image"},
		"no workers": {func(o *operator.Options) { o.Workers = 0 }, "--workers"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := operator.Defaults()
			test.change(&options)
			var output bytes.Buffer
			err := operator.Run(context.Background(), &rest.Config{}, options, &output)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q in it", err, test.want)
			}
		})
	}
}
