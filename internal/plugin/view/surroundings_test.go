package view_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/plugin/view"
)

// friendly is a cluster in which nothing is amiss.
func friendly() view.Surroundings {
	yes := true
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "database", Image: "postgis:17", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m")},
		},
	}}}}
	return view.Surroundings{
		Namespace: "gis", Version: "v1.36.3", Asked: pod, Answered: pod.DeepCopy(),
		Classes: []storagev1.StorageClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{
				"storageclass.kubernetes.io/is-default-class": "true",
			}},
			Provisioner: "disks.example", AllowVolumeExpansion: &yes,
		}},
		Unread: map[string]string{},
	}
}

// TestCheckSurroundings takes one thing at a time away from a friendly cluster: that check alone does not pass, and its
// message says the way out.
func TestCheckSurroundings(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*view.Surroundings)
		check   string
		outcome view.Outcome
		message string
	}{
		"friendly": {change: func(*view.Surroundings) {}},
		"too old": {func(s *view.Surroundings) { s.Version = "v1.31.0" },
			view.CheckVersion, view.Failed, "needs 1.33 or newer"},
		"unreadable": {func(s *view.Surroundings) { s.Version = "latest" },
			view.CheckVersion, view.Warned, "cannot be read"},
		"no class": {func(s *view.Surroundings) { s.Classes = nil },
			view.CheckClass, view.Failed, "install a driver"},
		"no default": {func(s *view.Surroundings) { s.Classes[0].Annotations = nil },
			view.CheckClass, view.Warned, "name one in spec.storage.class of each database: fast"},
		"no growth": {func(s *view.Surroundings) { s.Classes[0].AllowVolumeExpansion = nil },
			view.CheckClass, view.Warned, "set allowVolumeExpansion"},
		"local": {func(s *view.Surroundings) { s.Classes[0].Provisioner = "rancher.io/local-path" },
			view.CheckClass, view.Warned, "set spec.storage.accessMode: ReadWriteOnce"},
		"refused": {func(s *view.Surroundings) { s.Refusal = "denied by policy x" },
			view.CheckTaken, view.Failed, "denied by policy x; change what refuses it"},
		"refused on OpenShift": {func(s *view.Surroundings) { s.Refusal, s.OpenShift = "no SCC", true },
			view.CheckTaken, view.Failed, "--any-user"},
		"not tried as a pod": {func(s *view.Surroundings) { s.Answered = nil },
			view.CheckTaken, view.Unknown, "not tried"},
		"image rewritten": {func(s *view.Surroundings) { s.Answered.Spec.Containers[0].Image = "mirror/postgis:17" },
			view.CheckTaken, view.Warned, "changes the image (to mirror/postgis:17)"},
		"request raised": {
			func(s *view.Surroundings) {
				s.Answered.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			},
			view.CheckTaken, view.Warned, "the request of cpu (to 1)",
		},
		"sidecar": {
			func(s *view.Surroundings) {
				s.Answered.Spec.Containers = append(s.Answered.Spec.Containers, corev1.Container{Name: "mesh"})
			},
			view.CheckTaken, view.Warned, "adds mesh",
		},
		"native sidecar": {
			func(s *view.Surroundings) { s.Answered.Spec.InitContainers = []corev1.Container{{Name: "mesh"}} },
			view.CheckTaken, view.Warned, "the init containers (adds mesh)",
		},
		"quota": {
			func(s *view.Surroundings) {
				s.Quotas = []corev1.ResourceQuota{{
					ObjectMeta: metav1.ObjectMeta{Name: "team"},
					Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
						"limits.memory": resource.MustParse("4Gi"), "count/secrets": resource.MustParse("9"),
					}},
					Status: corev1.ResourceQuotaStatus{Used: corev1.ResourceList{"limits.memory": resource.MustParse("3Gi")}},
				}}
			},
			view.CheckQuota, view.Warned, "quota team: 3Gi of 4Gi limits.memory is used; one instance more",
		},
		"range": {
			func(s *view.Surroundings) {
				s.Ranges = []corev1.LimitRange{{
					ObjectMeta: metav1.ObjectMeta{Name: "sizes"},
					Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
						Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
					}}},
				}}
			},
			view.CheckQuota, view.Warned, "range sizes: a container has at most 1Gi of memory",
		},
		"denied": {
			func(s *view.Surroundings) {
				s.Policies = []networkingv1.NetworkPolicy{{
					ObjectMeta: metav1.ObjectMeta{Name: "default-deny"},
					Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}},
				}}
			},
			view.CheckOutwards, view.Warned, "default-deny; set spec.network.egress: Needed",
		},
		"some may go out": {change: func(s *view.Surroundings) {
			s.Policies = []networkingv1.NetworkPolicy{{Spec: networkingv1.NetworkPolicySpec{
				PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			}}}
		}},
		"not allowed to look": {func(s *view.Surroundings) { s.Unread[view.CheckQuota] = "forbidden" },
			view.CheckQuota, view.Unknown, "could not be read: forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			facts := friendly()
			test.change(&facts)
			findings := view.CheckSurroundings(facts)
			if len(findings) != 5 {
				t.Fatalf("there are %d checks: %v", len(findings), findings)
			}
			for _, finding := range findings {
				want := view.Passed
				if finding.Check == test.check {
					want = test.outcome
				}
				if finding.Outcome != want {
					t.Errorf("%q is %s (%s), want %s", finding.Check, finding.Outcome, finding.Message, want)
				}
				if finding.Check == test.check && !strings.Contains(finding.Message, test.message) {
					t.Errorf("the message is %q, want %q in it", finding.Message, test.message)
				}
			}
		})
	}
}
