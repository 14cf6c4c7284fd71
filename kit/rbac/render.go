package rbac

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Objects returns the roles and bindings that give the installation exactly the
// rights of the table: first those for the whole cluster, if any are needed, then
// those of each namespace. The order and the content depend on nothing but the
// rights: neither on the order of the rows nor on how they overlap.
func (t Table) Objects(in Installation) ([]runtime.Object, error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("check the table of rights: %w", err)
	}
	if err := in.check(); err != nil {
		return nil, fmt.Errorf("check the installation: %w", err)
	}
	var objects []runtime.Object
	granted := t.granted(in)
	for _, place := range slices.Sorted(maps.Keys(granted)) {
		if len(granted[place]) == 0 {
			continue
		}
		rules := fold(granted[place])
		if place == everywhere {
			objects = append(objects, in.clusterRole(rules), in.clusterBinding())
		} else {
			objects = append(objects, in.role(place, rules), in.binding(place))
		}
	}
	return objects, nil
}

// YAML returns the objects as a file for kubectl.
func (t Table) YAML(in Installation) ([]byte, error) {
	objects, err := t.Objects(in)
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	for _, object := range objects {
		document, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("encode %T: %w", object, err)
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}

func (i Installation) clusterRole(rules []rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{TypeMeta: kind("ClusterRole"), ObjectMeta: i.meta(everywhere), Rules: rules}
}

func (i Installation) clusterBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{TypeMeta: kind("ClusterRoleBinding"), ObjectMeta: i.meta(everywhere),
		RoleRef: i.reference("ClusterRole"), Subjects: i.subjects()}
}

func (i Installation) role(namespace string, rules []rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{TypeMeta: kind("Role"), ObjectMeta: i.meta(namespace), Rules: rules}
}

func (i Installation) binding(namespace string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{TypeMeta: kind("RoleBinding"), ObjectMeta: i.meta(namespace),
		RoleRef: i.reference("Role"), Subjects: i.subjects()}
}

func (i Installation) meta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: i.Name, Namespace: namespace, Labels: maps.Clone(i.Labels)}
}

func (i Installation) reference(kind string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: i.Name}
}

func (i Installation) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: i.Home, Name: i.ServiceAccount}}
}

func kind(name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: name}
}

// fold puts rights together into as few rules as can be read easily: one for the
// resources of a group that share verbs and names. A rule gives every one of its
// verbs on every one of its resources, so only what is equal may be put together.
func fold(rights []right) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, one := range rights {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{one.group}, Resources: []string{one.resource},
			Verbs: []string{one.verb}, ResourceNames: nameList(one.name)})
	}
	rules = foldBy(rules, func(r *rbacv1.PolicyRule) *[]string { return &r.Verbs })
	rules = foldBy(rules, func(r *rbacv1.PolicyRule) *[]string { return &r.ResourceNames })
	rules = foldBy(rules, func(r *rbacv1.PolicyRule) *[]string { return &r.Resources })
	slices.SortFunc(rules, compareRules)
	return rules
}

func nameList(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// foldBy puts rules together that differ in nothing but the given list. A rule for
// all names never meets one for some names and the same verbs: the rights of the
// latter would be needless, and are left out before.
func foldBy(rules []rbacv1.PolicyRule, list func(*rbacv1.PolicyRule) *[]string) []rbacv1.PolicyRule {
	var folded []rbacv1.PolicyRule
	for _, rule := range rules {
		rest := rule
		*list(&rest) = nil
		at := slices.IndexFunc(folded, func(other rbacv1.PolicyRule) bool {
			*list(&other) = nil
			return compareRules(other, rest) == 0
		})
		if at < 0 {
			folded = append(folded, rule)
			continue
		}
		into := list(&folded[at])
		*into = sortedVerbs(append(slices.Clone(*into), *list(&rule)...))
	}
	return folded
}

// sortedVerbs sorts verbs in their usual order, and anything else by letters.
func sortedVerbs(list []string) []string {
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(slices.Index(verbs, a), slices.Index(verbs, b)), cmp.Compare(a, b))
	})
	return slices.Compact(list)
}

func compareRules(a, b rbacv1.PolicyRule) int {
	return cmp.Or(compareTexts(a.APIGroups, b.APIGroups), compareTexts(a.Resources, b.Resources),
		compareTexts(a.ResourceNames, b.ResourceNames), compareTexts(a.Verbs, b.Verbs))
}
