package apply_test

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/apply"
)

func pilots() *rbacv1.Role {
	return &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "pilots", OwnerReferences: controlledBy("north", string(fleet))},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}},
	}
}

func crew() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "crew", OwnerReferences: controlledBy("north", string(fleet))},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pilots"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "a", Name: "pilot"}},
	}
}

// TestGrantsAreClosed has somebody add to what says who may do what: it lets more in, so it is drift, and goes.
func TestGrantsAreClosed(t *testing.T) {
	for name, test := range map[string]struct {
		wanted client.Object
		edit   func(*server)
		want   string
	}{
		"rule in a Role": {pilots(), func(s *server) {
			edit(t, s, pilots(), func(r *rbacv1.Role) {
				r.Rules = append(r.Rules, rbacv1.PolicyRule{Resources: []string{"secrets"}, Verbs: []string{"get"}})
			})
		}, "rules"},
		"verb in a rule": {pilots(), func(s *server) {
			edit(t, s, pilots(), func(r *rbacv1.Role) { r.Rules[0].Verbs = append(r.Rules[0].Verbs, "delete") })
		}, "rules"},
		"subject of a RoleBinding": {crew(), func(s *server) {
			edit(t, s, crew(), func(b *rbacv1.RoleBinding) {
				b.Subjects = append(b.Subjects, rbacv1.Subject{Kind: rbacv1.UserKind, Name: "eve"})
			})
		}, "subjects"},
		"peer in a NetworkPolicy": {strait(), func(s *server) {
			edit(t, s, strait(), func(p *networkingv1.NetworkPolicy) {
				p.Spec.Ingress[0].From = append(p.Spec.Ingress[0].From,
					networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}})
			})
		}, "spec.ingress"},
		"rule in a NetworkPolicy": {strait(), func(s *server) {
			edit(t, s, strait(), func(p *networkingv1.NetworkPolicy) {
				p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
			})
		}, "spec.ingress"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			do(t, s, test.wanted)
			if got := do(t, s, test.wanted); got.State != apply.Same {
				t.Fatalf("before anybody came: %s %v", got.State, got.Changes)
			}
			test.edit(s)
			got := do(t, s, test.wanted)
			if got.State != apply.Drifted || len(got.Changes) != 1 || got.Changes[0].Path != test.want {
				t.Errorf("%s with the changes %v, want %s drifted", got.State, got.Changes, test.want)
			}
			if after := do(t, s, test.wanted); after.State != apply.Same {
				t.Errorf("after the repair: %s %v", after.State, after.Changes)
			}
		})
	}
}
