package apply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/apply"
)

func harbour() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "harbour", OwnerReferences: controlledBy("north", string(fleet))},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "ship"}, Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
}

func budget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "budget", OwnerReferences: controlledBy("north", string(fleet))},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ship"}},
		},
	}
}

// strait lets everything of the namespace in, and into ships only.
func strait() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "strait", OwnerReferences: controlledBy("north", string(fleet))},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "ship"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
				{PodSelector: &metav1.LabelSelector{}},
			}}},
		},
	}
}

var night = []metav1.LabelSelectorRequirement{{Key: "night", Operator: metav1.LabelSelectorOpExists}}

// TestSelectorsAreClosed has somebody add a condition to a selector. Other maps have room for the entries of others;
// here one more entry means that nothing is selected any more, so it is drift like any other.
func TestSelectorsAreClosed(t *testing.T) {
	for name, test := range map[string]struct {
		wanted client.Object
		edit   func(*server)
		want   []string
	}{
		"key in the selector of a Service": {
			wanted: harbour(),
			edit: func(s *server) {
				edit(t, s, harbour(), func(s *corev1.Service) { s.Spec.Selector["port"] = "none" })
			},
			want: []string{`spec.selector.port: "none" → absent`},
		},
		"key and value in the selector of a Service": {
			wanted: harbour(),
			edit: func(s *server) {
				edit(t, s, harbour(), func(s *corev1.Service) {
					s.Spec.Selector = map[string]string{"app": "boat", "a.b/c": "d"}
				})
			},
			want: []string{`spec.selector.app: "boat" → "ship"`, `spec.selector["a.b/c"]: "d" → absent`},
		},
		"label in a label selector": {
			wanted: budget(),
			edit: func(s *server) {
				edit(t, s, budget(), func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["port"] = "none" })
			},
			want: []string{`spec.selector.matchLabels.port: "none" → absent`},
		},
		"expression in a label selector": {
			wanted: budget(),
			edit: func(s *server) {
				edit(t, s, budget(), func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchExpressions = night })
			},
			want: []string{`spec.selector.matchExpressions: [{"key":"night","operator":"Exists"}] → absent`},
		},
		"label in a selector of everything, within a list": {
			wanted: strait(),
			edit: func(s *server) {
				edit(t, s, strait(), func(p *networkingv1.NetworkPolicy) {
					p.Spec.Ingress[0].From[0].PodSelector.MatchLabels = map[string]string{"port": "none"}
				})
			},
			want: []string{`spec.ingress: [{"from":[{"podSelector":{"matchLabels":{"port":"none"}}}]}] → ` +
				`[{"from":[{"podSelector":{}}]}]`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			do(t, s, test.wanted)
			if got := do(t, s, test.wanted); got.State != apply.Same {
				t.Fatalf("before anybody came: %s %v", got.State, got.Changes)
			}
			test.edit(s)
			got := do(t, s, test.wanted)
			if got.State != apply.Drifted {
				t.Errorf("the state is %s", got.State)
			}
			if diff := cmp.Diff(test.want, words(got.Changes)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if after := do(t, s, test.wanted); after.State != apply.Same {
				t.Errorf("after the repair: %s %v", after.State, after.Changes)
			}
		})
	}
}

// TestOtherMapsStayOpen shows where the line is: what is called a selector and does not select by labels is a
// structure, with room for defaults, and so is what nodes are chosen by.
func TestOtherMapsStayOpen(t *testing.T) {
	s := newServer()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", OwnerReferences: controlledBy("north", string(fleet))},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"disk": "fast"},
			Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
					TopologyKey: "node", MatchLabelKeys: []string{"revision"},
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ship"}},
				}},
			}},
		},
	}
	do(t, s, pod)
	edit(t, s, pod, func(p *corev1.Pod) {
		p.Spec.NodeSelector["zone"] = "a" // An admission plugin does this.
		// And the API server this, from MatchLabelKeys.
		p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector.MatchExpressions =
			[]metav1.LabelSelectorRequirement{{Key: "revision", Operator: "In", Values: []string{"1"}}}
	})
	if got := do(t, s, pod); got.State != apply.Same {
		t.Errorf("%s: %v", got.State, got.Changes)
	}
}
