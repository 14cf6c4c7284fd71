package rbac_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/rbac"
)

func TestCheck(t *testing.T) {
	good := func() rbac.Row {
		return rbac.Row{Scope: rbac.Watched, Group: "apps", Resource: "deployments", Verbs: []string{"get"},
			Names: []string{"a"}, Why: "know", UsedBy: "observe"}
	}
	if err := (rbac.Table{good()}).Check(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spoil func(*rbac.Row)
		want  string // Empty when the row is still good.
	}{
		"wildcard group":    {func(r *rbac.Row) { r.Group = "*" }, "a wildcard gives rights that nobody has asked for"},
		"wildcard resource": {func(r *rbac.Row) { r.Resource = "*" }, "a wildcard gives"},
		"wildcard sub":      {func(r *rbac.Row) { r.Resource = "*/scale" }, "a wildcard gives"},
		"wildcard verb":     {func(r *rbac.Row) { r.Verbs = []string{"get", "*"} }, "a wildcard gives"},
		"wildcard name":     {func(r *rbac.Row) { r.Names = []string{"a*"} }, "a wildcard gives"},
		"no scope":          {func(r *rbac.Row) { r.Scope = "" }, `the scope "" is unknown`},
		"no resource":       {func(r *rbac.Row) { r.Resource = "" }, "the resource is missing"},
		"a kind":            {func(r *rbac.Row) { r.Resource = "Deployments" }, "the resource is not a plural in lower case"},
		"no verbs":          {func(r *rbac.Row) { r.Verbs = nil }, "the verbs are missing"},
		"misspelt verb":     {func(r *rbac.Row) { r.Verbs = []string{"read"} }, `the verb "read" is none of`},
		"escalate":          {func(r *rbac.Row) { r.Verbs = []string{"escalate"} }, `the verb "escalate" is none of`},
		"empty name":        {func(r *rbac.Row) { r.Names = []string{""} }, "one of the names is empty"},
		"named create":      {func(r *rbac.Row) { r.Verbs = []string{"create"} }, "create cannot be restricted to names"},
		"named collection": {func(r *rbac.Row) { r.Verbs = []string{"deletecollection"} },
			"deletecollection cannot be restricted to names"},
		"named create of a sub-resource": {func(r *rbac.Row) {
			r.Resource, r.Verbs = "pods/eviction", []string{"create"}
		}, ""},
		"create":  {func(r *rbac.Row) { r.Verbs, r.Names = []string{"create"}, nil }, ""},
		"no why":  {func(r *rbac.Row) { r.Why = " " }, "it does not say why it is needed"},
		"no user": {func(r *rbac.Row) { r.UsedBy = "" }, "it does not say what uses it"},
	} {
		t.Run(name, func(t *testing.T) {
			row := good()
			test.spoil(&row)
			err := rbac.Table{good(), row}.Check()
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			want := fmt.Sprintf("row 2 (%s): %s", row, test.want)
			if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line %q", err, want)
			}
		})
	}
}

func TestObjectsRefuse(t *testing.T) {
	in := rbac.Installation{Name: "a", Home: "h", ServiceAccount: "s"}
	for name, test := range map[string]struct {
		table rbac.Table
		spoil func(*rbac.Installation)
		want  string
	}{
		"a bad table":       {rbac.Table{{}}, func(*rbac.Installation) {}, "check the table of rights: row 1"},
		"no name":           {table, func(i *rbac.Installation) { i.Name = "" }, `the name "" is not valid`},
		"no home":           {table, func(i *rbac.Installation) { i.Home = "" }, `the home namespace "" is not valid`},
		"no account":        {table, func(i *rbac.Installation) { i.ServiceAccount = "" }, `the service account "" is not`},
		"a wild namespace":  {table, func(i *rbac.Installation) { i.Namespaces = []string{"*"} }, `the namespace "*" is not`},
		"a blank namespace": {table, func(i *rbac.Installation) { i.Namespaces = []string{"b", ""} }, `the namespace "" is`},
	} {
		t.Run(name, func(t *testing.T) {
			in := in
			test.spoil(&in)
			for _, render := range []func() error{
				func() error { _, err := test.table.Objects(in); return err },
				func() error { _, err := test.table.YAML(in); return err },
			} {
				if err := render(); err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
			}
		})
	}
}

func TestWords(t *testing.T) {
	row := rbac.Row{Scope: rbac.Cluster, Group: "apps", Resource: "deployments/scale", Names: []string{"b", "a"},
		Why: "grow", UsedBy: "act"}
	for want, got := range map[string]fmt.Stringer{
		`deployments.apps/scale "a", "b"`: row,
		`may not get, patch deployments.apps/scale "a", "b" in the cluster: act needs this to grow ` +
			`(the API server says: no)`: rbac.Missing{Row: row, Verbs: []string{"get", "patch"}, Reason: "no"},
		`nothing was seen to get deployments.apps/scale "a", although act is said to need this to grow`: rbac.Unused{
			Row: row, Verb: "get", Name: "a"},
		`get pods/log "x" in namespace "y"`: rbac.Use{Verb: "get", Resource: "pods/log", Name: "x", Namespace: "y"},
		`list deployments.apps`:             rbac.Use{Verb: "list", Group: "apps", Resource: "deployments"},
	} {
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Error(diff)
		}
	}
	row.Scope = rbac.Watched
	if got := (rbac.Missing{Row: row}).String(); !strings.Contains(got, "in all namespaces") {
		t.Error(got)
	}
}
