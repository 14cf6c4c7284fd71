package rbac_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"meridian.dev/meridian/kit/rbac"
)

// The universe of the random tables is small enough to ask every question.
var (
	allVerbs      = []string{"get", "list", "create", "patch", "delete"}
	allGroups     = []string{"", "apps"}
	allResources  = []string{"pods", "pods/status", "leases"}
	allNames      = []string{"", "a", "b", "list"}
	allNamespaces = []string{"", "home", "n1", "n2"}
)

func randomTable(random *rand.Rand) rbac.Table {
	var table rbac.Table
	for range 1 + random.IntN(8) {
		row := rbac.Row{Why: "be random", UsedBy: "this test",
			Scope:    []rbac.Scope{rbac.Watched, rbac.Home, rbac.Cluster}[random.IntN(3)],
			Group:    allGroups[random.IntN(len(allGroups))],
			Resource: allResources[random.IntN(len(allResources))],
		}
		for _, verb := range allVerbs {
			if random.IntN(2) == 0 {
				row.Verbs = append(row.Verbs, verb)
			}
		}
		for _, name := range allNames[1:] {
			if random.IntN(4) == 0 {
				row.Names = append(row.Names, name)
			}
		}
		random.Shuffle(len(row.Verbs), func(i, j int) { row.Verbs[i], row.Verbs[j] = row.Verbs[j], row.Verbs[i] })
		if (rbac.Table{row}).Check() == nil {
			table = append(table, row)
		}
	}
	return table
}

func randomInstallation(random *rand.Rand) rbac.Installation {
	namespaces := [][]string{nil, {"n1"}, {"n2", "n1"}, {"home"}, {"n1", "home", "n1"}}[random.IntN(5)]
	return rbac.Installation{Name: "it", Home: "home", ServiceAccount: "me", Namespaces: namespaces}
}

// wished is what a table means, read from its rows alone.
func wished(table rbac.Table, in rbac.Installation, use rbac.Use) bool {
	for _, row := range table {
		everywhere := row.Scope == rbac.Cluster || row.Scope == rbac.Watched && len(in.Namespaces) == 0
		here := row.Scope == rbac.Home && use.Namespace == in.Home ||
			row.Scope == rbac.Watched && slices.Contains(in.Namespaces, use.Namespace)
		if (everywhere || here) && row.Group == use.Group && row.Resource == use.Resource &&
			slices.Contains(row.Verbs, use.Verb) && (len(row.Names) == 0 || slices.Contains(row.Names, use.Name)) {
			return true
		}
	}
	return false
}

// authorized is what an API server would say, given the objects: a small
// authorizer of its own, which shares nothing with the package under test.
func authorized(objects []runtime.Object, use rbac.Use) bool {
	rules := map[string][]rbacv1.PolicyRule{} // By kind, namespace and name of the role.
	for _, object := range objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			rules["ClusterRole//"+o.Name] = o.Rules
		case *rbacv1.Role:
			rules["Role/"+o.Namespace+"/"+o.Name] = o.Rules
		}
	}
	me := rbacv1.Subject{Kind: "ServiceAccount", Namespace: "home", Name: "me"}
	for _, object := range objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRoleBinding:
			if slices.Contains(o.Subjects, me) && matches(rules[o.RoleRef.Kind+"//"+o.RoleRef.Name], use) {
				return true
			}
		case *rbacv1.RoleBinding:
			if slices.Contains(o.Subjects, me) && o.Namespace == use.Namespace &&
				matches(rules[o.RoleRef.Kind+"/"+o.Namespace+"/"+o.RoleRef.Name], use) {
				return true
			}
		}
	}
	return false
}

func matches(rules []rbacv1.PolicyRule, use rbac.Use) bool {
	return slices.ContainsFunc(rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, use.Group) && slices.Contains(rule.Resources, use.Resource) &&
			slices.Contains(rule.Verbs, use.Verb) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, use.Name))
	})
}

func everyUse(visit func(rbac.Use)) {
	for _, group := range allGroups {
		for _, resource := range allResources {
			for _, verb := range allVerbs {
				for _, namespace := range allNamespaces {
					for _, name := range allNames {
						visit(rbac.Use{Verb: verb, Group: group, Resource: resource, Namespace: namespace, Name: name})
					}
				}
			}
		}
	}
}

// TestRolesGiveExactlyTheTable asks an authorizer about every possible use, for
// many random tables: what is wished is allowed, and nothing else; and Audit
// agrees with both.
func TestRolesGiveExactlyTheTable(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	allowed, refused := 0, 0
	for range 300 {
		table, in := randomTable(random), randomInstallation(random)
		objects, err := table.Objects(in)
		if err != nil {
			t.Fatal(err)
		}
		everyUse(func(use rbac.Use) {
			want := wished(table, in, use)
			if got := authorized(objects, use); got != want {
				t.Fatalf("%s: the roles say %t, the table says %t\n%+v", use, got, want, table)
			}
			if uncovered, _ := table.Audit(in, []rbac.Use{use}); (len(uncovered) == 0) != want {
				t.Fatalf("%s: Audit disagrees with %t\n%+v", use, want, table)
			}
			if want {
				allowed++
			} else {
				refused++
			}
		})
	}
	if allowed < 1000 || refused < 1000 {
		t.Errorf("allowed %d, refused %d", allowed, refused)
	}
}

// TestNothingIsNeedless takes away each verb, resource and name of each rule in
// turn: every time, something must get lost.
func TestNothingIsNeedless(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	taken := 0
	for range 100 {
		table, in := randomTable(random), randomInstallation(random)
		objects, err := table.Objects(in)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range objects {
			rules := rulesOf(object)
			for i := range rules {
				for _, list := range []*[]string{&rules[i].Verbs, &rules[i].Resources, &rules[i].ResourceNames} {
					whole := *list
					for j := range whole {
						*list = slices.Delete(slices.Clone(whole), j, j+1)
						if len(*list) == 0 {
							*list = []string{"nothing"} // No names would mean all names.
						}
						taken++
						if !losesSomething(table, in, objects) {
							t.Fatalf("%q of %v is needless", whole[j], rules[i])
						}
					}
					*list = whole
				}
			}
		}
	}
	if taken < 1000 {
		t.Errorf("only %d parts were taken away", taken)
	}
}

func rulesOf(object runtime.Object) []rbacv1.PolicyRule {
	switch o := object.(type) {
	case *rbacv1.ClusterRole:
		return o.Rules
	case *rbacv1.Role:
		return o.Rules
	}
	return nil
}

func losesSomething(table rbac.Table, in rbac.Installation, objects []runtime.Object) (loses bool) {
	everyUse(func(use rbac.Use) {
		loses = loses || wished(table, in, use) && !authorized(objects, use)
	})
	return loses
}

// TestOrderDoesNotMatter shuffles and doubles rows: the file stays the same, byte
// by byte.
func TestOrderDoesNotMatter(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	for range 100 {
		table, in := randomTable(random), randomInstallation(random)
		want, err := table.YAML(in)
		if err != nil {
			t.Fatal(err)
		}
		shuffled := slices.Concat(table, table)
		random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		for i := range shuffled {
			shuffled[i].Verbs = slices.Sorted(slices.Values(shuffled[i].Verbs))
		}
		got, err := shuffled.YAML(in)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestRenderingDoesNotChangeTheTable(t *testing.T) {
	row := rbac.Row{Scope: rbac.Watched, Resource: "pods", Verbs: []string{"watch", "get"}, Names: []string{"b", "a"},
		Why: "know", UsedBy: "observe"}
	labels := map[string]string{"a": "b"}
	in := rbac.Installation{Name: "it", Home: "h", ServiceAccount: "s", Labels: labels}
	objects, err := rbac.Table{row, row}.Objects(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"watch", "get", "b", "a"}, slices.Concat(row.Verbs, row.Names)); diff != "" {
		t.Error(diff)
	}
	role := objects[0].(*rbacv1.ClusterRole)
	role.Labels["a"] = "changed"
	if labels["a"] != "b" {
		t.Error("the labels are shared with the objects")
	}
	want := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "watch"},
		ResourceNames: []string{"a", "b"}}}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Error(diff)
	}
}
