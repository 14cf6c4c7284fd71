package apply_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/apply"
)

const fleet = types.UID("fleet-uid")

var author = apply.Author{Scheme: scheme.Scheme, Prefix: "example.com", Manager: "fleet-controller"}

func intend(t testing.TB, obj client.Object) apply.Intent {
	t.Helper()
	want, err := author.Intent(obj, fleet)
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// ship is a StatefulSet with everything that is hard to compare.
func ship(change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	two := int32(2)
	labels := map[string]string{"app": "ship"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "ship", Labels: map[string]string{"app": "ship", "tier": "sea"},
			OwnerReferences: controlledBy("north", string(fleet)),
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &two, ServiceName: "ship", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "rig", Image: "rig:1"}, {Name: "load", Image: "load:1"}},
					Containers: []corev1.Container{{
						Name: "main", Image: "ship:1", Args: []string{"--sail", "--north"},
						Env:   []corev1.EnvVar{{Name: "SPEED", Value: "9"}, {Name: "FLAG", Value: "on"}},
						Ports: []corev1.ContainerPort{{Name: "bridge", ContainerPort: 80}},
						Resources: corev1.ResourceRequirements{
							Requests: corev1.ResourceList{"memory": resource.MustParse("1024Mi")},
						},
						LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{
							HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)},
						}},
						VolumeMounts: []corev1.VolumeMount{{Name: "hold", MountPath: "/hold"}},
					}},
					Tolerations: []corev1.Toleration{{Key: "storm", Operator: corev1.TolerationOpExists}},
					Volumes: []corev1.Volume{{Name: "hold", VolumeSource: corev1.VolumeSource{
						EmptyDir: &corev1.EmptyDirVolumeSource{},
					}}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "cargo"},
				Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}},
			}},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

// defaulted does to a StatefulSet what API server, controllers and webhooks of a real cluster do.
func defaulted(obj client.Object) {
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return
	}
	set.Generation, set.Status.Replicas = 1, 2
	set.CreationTimestamp = metav1.Time{Time: time.Unix(1700000000, 0)}
	set.Spec.PodManagementPolicy = "OrderedReady"
	if strategy := &set.Spec.UpdateStrategy; defaultTo(strategy.Type, "RollingUpdate") == "RollingUpdate" {
		first := int32(0)
		strategy.Type, strategy.RollingUpdate = "RollingUpdate", &appsv1.RollingUpdateStatefulSetStrategy{Partition: &first}
	}
	pod := &set.Spec.Template.Spec
	pod.RestartPolicy, pod.DNSPolicy, pod.SchedulerName = "Always", "ClusterFirst", "default-scheduler"
	pod.SecurityContext = &corev1.PodSecurityContext{}
	for i := range pod.Containers {
		main := &pod.Containers[i]
		main.ImagePullPolicy, main.TerminationMessagePath = "IfNotPresent", "/dev/termination-log"
		for j := range main.Ports {
			main.Ports[j].Protocol = defaultTo(main.Ports[j].Protocol, "TCP")
		}
		if probe := main.LivenessProbe; probe != nil {
			probe.TimeoutSeconds, probe.PeriodSeconds = 1, 10
			if probe.HTTPGet != nil {
				probe.HTTPGet.Scheme = "HTTP"
			}
		}
	}
	filesystem := corev1.PersistentVolumeFilesystem
	for i := range set.Spec.VolumeClaimTemplates {
		claim := &set.Spec.VolumeClaimTemplates[i]
		claim.Kind, claim.APIVersion, claim.Status.Phase = "PersistentVolumeClaim", "v1", "Pending"
		claim.Spec.VolumeMode = &filesystem
	}
}

func defaultTo[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// sea is a server with the ship on it.
func sea(t *testing.T, admit func(client.Object)) *server {
	t.Helper()
	s := newServer()
	s.admit = admit
	do(t, s, ship())
	s.writes = nil
	return s
}

// do compares the live object with what is wanted and carries the action out.
func do(t *testing.T, s *server, want client.Object) apply.Difference {
	t.Helper()
	difference := apply.Compare(intend(t, want), s.live(want))
	if action, needed := difference.Action(); needed {
		result, err := apply.Actor{Client: s, Live: s}.Do(t.Context(), action)
		if err != nil {
			t.Fatal(err)
		}
		if result.Outcome != apply.Done || len(result.Unheld) > 0 {
			t.Fatalf("result = %+v, want done", result)
		}
	}
	return difference
}

func (s *server) live(like client.Object) client.Object {
	return s.objects[keyIn(like, client.ObjectKeyFromObject(like))]
}

func main0(set *appsv1.StatefulSet) *corev1.Container { return &set.Spec.Template.Spec.Containers[0] }

func TestUnchangedIntentWritesNothing(t *testing.T) {
	s := sea(t, defaulted)
	for range 3 {
		if got := do(t, s, ship()); got.State != apply.Same || len(got.Changes) > 0 {
			t.Errorf("difference = %s %v, want the same", got.State, got.Changes)
		}
	}
	if diff := cmp.Diff([]string(nil), s.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// TestChanges makes one change to the intent at a time, and expects exactly that change and nothing afterwards.
func TestChanges(t *testing.T) {
	const main = "spec.template.spec.containers[name=main]"
	cases := map[string]struct {
		change func(*appsv1.StatefulSet)
		want   []string
	}{
		"a value": {
			func(s *appsv1.StatefulSet) { main0(s).Image = "ship:2" },
			[]string{main + `.image: "ship:1" → "ship:2"`},
		},
		"a label removed": {
			func(s *appsv1.StatefulSet) { delete(s.Labels, "tier") },
			[]string{`metadata.labels.tier: "sea" → absent`},
		},
		"all labels removed": {
			func(s *appsv1.StatefulSet) { s.Labels = nil },
			[]string{`metadata.labels.app: "ship" → absent`, `metadata.labels.tier: "sea" → absent`},
		},
		"an annotation added where there was none of ours": {
			func(s *appsv1.StatefulSet) { s.Annotations = map[string]string{"example.com/flag": "~red/white"} },
			[]string{`metadata.annotations["example.com/flag"]: absent → "~red/white"`},
		},
		"an entry of a list of named things removed": {
			func(s *appsv1.StatefulSet) { main0(s).Env = main0(s).Env[1:] },
			[]string{main + `.env[name=SPEED]: {"name":"SPEED","value":"9"} → absent`},
		},
		"an entry added in the middle": {
			func(s *appsv1.StatefulSet) {
				init := &s.Spec.Template.Spec.InitContainers
				*init = []corev1.Container{(*init)[0], {Name: "paint"}, (*init)[1]}
			},
			[]string{`spec.template.spec.initContainers[name=paint]: absent → {"name":"paint"}`},
		},
		"entries in another order": {
			func(s *appsv1.StatefulSet) {
				init := s.Spec.Template.Spec.InitContainers
				init[0], init[1] = init[1], init[0]
			},
			[]string{`spec.template.spec.initContainers[name=rig]: out of order → in order`},
		},
		"an entry of a plain list removed": {
			func(s *appsv1.StatefulSet) { main0(s).Args = main0(s).Args[:1] },
			[]string{main + `.args: ["--sail","--north"] → ["--sail"]`},
		},
		"a plain list removed": {
			func(s *appsv1.StatefulSet) { main0(s).Args = nil },
			[]string{main + `.args: ["--sail","--north"] → absent`},
		},
		"a field inside a plain list removed": {
			func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Tolerations[0].Operator = "" },
			[]string{`spec.template.spec.tolerations: [{"key":"storm","operator":"Exists"}] → [{"key":"storm"}]`},
		},
		"a structure removed with the defaults inside it": {
			func(s *appsv1.StatefulSet) { main0(s).LivenessProbe = nil },
			[]string{main + `.livenessProbe: {"httpGet":{"path":"/","port":80,"scheme":"HTTP"},` +
				`"periodSeconds":10,"timeoutSeconds":1} → absent`},
		},
		"one of a kind replaced by another": {
			func(s *appsv1.StatefulSet) {
				main0(s).LivenessProbe.ProbeHandler = corev1.ProbeHandler{
					TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)},
				}
			},
			[]string{
				main + `.livenessProbe.httpGet: {"path":"/","port":80,"scheme":"HTTP"} → absent`,
				main + `.livenessProbe.tcpSocket: absent → {"port":80}`,
			},
		},
		"a volume's source changed": {
			func(s *appsv1.StatefulSet) {
				s.Spec.Template.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
					SecretName: "key",
				}}
			},
			[]string{
				"spec.template.spec.volumes[name=hold].emptyDir: {} → absent",
				`spec.template.spec.volumes[name=hold].secret: absent → {"secretName":"key"}`,
			},
		},
		"a second port of the same number": {
			func(s *appsv1.StatefulSet) {
				main0(s).Ports = append(main0(s).Ports, corev1.ContainerPort{ContainerPort: 80, Protocol: "UDP"})
			},
			[]string{main + `.ports[containerPort=80,protocol=UDP]: absent → {"containerPort":80,"protocol":"UDP"}`},
		},
		"a type whose other fields have defaults that the next type forbids": {
			func(s *appsv1.StatefulSet) { s.Spec.UpdateStrategy.Type = "OnDelete" },
			[]string{`spec.updateStrategy: {"rollingUpdate":{"partition":0},"type":"RollingUpdate"} → {"type":"OnDelete"}`},
		},
		"a pointer to zero": {
			func(s *appsv1.StatefulSet) { zero := int32(0); s.Spec.Replicas = &zero },
			[]string{"spec.replicas: 2 → 0"},
		},
		"a quantity in other words is no change": {
			func(s *appsv1.StatefulSet) { main0(s).Resources.Requests["memory"] = resource.MustParse("1Gi") },
			nil,
		},
		"a quantity": {
			func(s *appsv1.StatefulSet) { main0(s).Resources.Requests["memory"] = resource.MustParse("2Gi") },
			[]string{main + `.resources.requests.memory: "1Gi" → "2Gi"`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := sea(t, defaulted)
			got := do(t, s, ship(tc.change))
			if diff := cmp.Diff(tc.want, words(got.Changes)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if again := do(t, s, ship(tc.change)); again.State != apply.Same {
				t.Errorf("after the write: %s %v", again.State, again.Changes)
			}
			back := do(t, s, ship())
			if len(back.Changes) == 0 && len(tc.want) > 0 {
				t.Error("the way back changed nothing")
			}
			if again := do(t, s, ship()); again.State != apply.Same {
				t.Errorf("after the way back: %s %v", again.State, again.Changes)
			}
			want := ship()
			defaulted(want)
			if diff := cmp.Diff(want.Spec, s.live(want).(*appsv1.StatefulSet).Spec); diff != "" {
				t.Errorf("there and back again is not where we started (-want +got):\n%s", diff)
			}
		})
	}
}

func words(changes []apply.Change) []string {
	var out []string
	for _, change := range changes {
		out = append(out, change.String())
	}
	return out
}

// others adds to the ship what admission, webhooks and other controllers add to objects.
func others(set *appsv1.StatefulSet) {
	set.Labels["team"] = "blue"
	set.Annotations["audit.example.org/seen"] = "yes"
	pod := &set.Spec.Template.Spec
	pod.Containers = append([]corev1.Container{{Name: "proxy", Image: "proxy:1"}}, pod.Containers...)
	main := &pod.Containers[1]
	main.Env = append([]corev1.EnvVar{{Name: "REGION", Value: "x"}}, main.Env...)
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{Name: "token", MountPath: "/var/token"})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "token"})
	pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: "not-ready", Operator: "Exists"})
	pod.NodeSelector = map[string]string{"zone": "1"}
	set.OwnerReferences = append(set.OwnerReferences, metav1.OwnerReference{Kind: "Report", Name: "r", UID: "report"})
}

func TestAdditionsOfOthers(t *testing.T) {
	s := sea(t, defaulted)
	edit(t, s, ship(), others)
	if got := do(t, s, ship()); got.State != apply.Same {
		t.Fatalf("additions count as %s: %v", got.State, got.Changes)
	}

	// A change of ours, with removals, leaves theirs alone.
	change := func(set *appsv1.StatefulSet) {
		delete(set.Labels, "tier")
		main0(set).Image = "ship:2"
		main0(set).Env = []corev1.EnvVar{{Name: "FLAG", Value: "off"}, {Name: "WIND", Value: "west"}}
		set.Spec.Template.Spec.Volumes = nil
		main0(set).VolumeMounts = nil
	}
	do(t, s, ship(change))
	if got := do(t, s, ship(change)); got.State != apply.Same {
		t.Fatalf("after the write: %s %v", got.State, got.Changes)
	}
	want := ship(change)
	want.Annotations = map[string]string{}
	others(want)
	main := &want.Spec.Template.Spec.Containers[1]
	main.Env = []corev1.EnvVar{{Name: "REGION", Value: "x"}, {Name: "FLAG", Value: "off"}, {Name: "WIND", Value: "west"}}
	defaulted(want)
	got := s.live(want).(*appsv1.StatefulSet)
	for _, key := range []string{"example.com/intent", "example.com/owner"} {
		delete(got.Annotations, key)
	}
	want.UID, want.ResourceVersion = got.UID, got.ResourceVersion
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
}

func TestDrift(t *testing.T) {
	cases := map[string]struct {
		edit func(*appsv1.StatefulSet)
		want []string
	}{
		"a value changed": {
			func(s *appsv1.StatefulSet) { main0(s).Image = "ship:evil" },
			[]string{`spec.template.spec.containers[name=main].image: "ship:evil" → "ship:1"`},
		},
		"a label removed and another changed": {
			func(s *appsv1.StatefulSet) { delete(s.Labels, "app"); s.Labels["tier"] = "air" },
			[]string{
				`metadata.labels.app: absent → "ship"`,
				`metadata.labels.tier: "air" → "sea"`,
			},
		},
		"an entry removed": {
			func(s *appsv1.StatefulSet) { main0(s).Env = main0(s).Env[:1] },
			[]string{`spec.template.spec.containers[name=main].env[name=FLAG]: absent → {"name":"FLAG","value":"on"}`},
		},
		"an entry of a plain list changed": {
			func(s *appsv1.StatefulSet) { main0(s).Args[1] = "--south" },
			[]string{`spec.template.spec.containers[name=main].args: ["--sail","--south"] → ["--sail","--north"]` +
				``},
		},
		"the owner reference removed": {
			func(s *appsv1.StatefulSet) { s.OwnerReferences = nil },
			[]string{`metadata.ownerReferences: absent → [{"apiVersion":"example.com/v1","controller":true,` +
				`"kind":"Fleet","name":"north","uid":"fleet-uid"}]`},
		},
		"the order turned": {
			func(s *appsv1.StatefulSet) {
				init := s.Spec.Template.Spec.InitContainers
				init[0], init[1] = init[1], init[0]
			},
			[]string{`spec.template.spec.initContainers[name=load]: out of order → in order`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := sea(t, defaulted)
			edit(t, s, ship(), tc.edit)
			got := do(t, s, ship())
			if got.State != apply.Drifted {
				t.Errorf("state = %s, want drifted", got.State)
			}
			if diff := cmp.Diff(tc.want, words(got.Changes)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			if again := do(t, s, ship()); again.State != apply.Same {
				t.Errorf("after the repair: %s %v", again.State, again.Changes)
			}
		})
	}
}

// managed is what an API server notes of a create and of an edit by hand: it is no part of any intent.
func managed() []metav1.ManagedFieldsEntry {
	edited := metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{".":{},"f:tier":{}}}}`)
	return []metav1.ManagedFieldsEntry{
		{Manager: "fleet-controller", FieldsV1: edited}, {Manager: "kubectl-edit", FieldsV1: edited},
	}
}

func TestStates(t *testing.T) {
	now := metav1.Now()
	cases := map[string]struct {
		live    func(*appsv1.StatefulSet) client.Object
		want    apply.State
		problem string
	}{
		"absent":       {func(*appsv1.StatefulSet) client.Object { return nil }, apply.Absent, ""},
		"a nil object": {func(*appsv1.StatefulSet) client.Object { return (*appsv1.StatefulSet)(nil) }, apply.Absent, ""},
		"terminating": {func(s *appsv1.StatefulSet) client.Object {
			s.DeletionTimestamp = &now
			return s
		}, apply.Terminating, ""},
		"somebody else's": {func(s *appsv1.StatefulSet) client.Object {
			s.OwnerReferences = controlledBy("south", "other")
			return s
		}, apply.Foreign, "StatefulSet a/ship belongs to Fleet south: remove or rename it"},
		"nobody's": {func(s *appsv1.StatefulSet) client.Object {
			s.OwnerReferences, s.Annotations = nil, nil
			return s
		}, apply.Foreign, "StatefulSet a/ship exists and has no owner: remove or rename it"},
		"an earlier owner's of the same name": {func(s *appsv1.StatefulSet) client.Object {
			s.OwnerReferences, s.Annotations["example.com/owner"] = nil, "earlier"
			return s
		}, apply.Foreign, "StatefulSet a/ship exists and has no owner: remove or rename it"},
		"ours by reference, the annotations lost": {func(s *appsv1.StatefulSet) client.Object {
			s.Annotations = nil
			return s
		}, apply.Changed, ""},
		"ours, the record spoilt": {func(s *appsv1.StatefulSet) client.Object {
			s.Annotations["example.com/intent"] = "{"
			return s
		}, apply.Changed, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := sea(t, defaulted)
			got := apply.Compare(intend(t, ship()), tc.live(s.live(ship()).(*appsv1.StatefulSet)))
			if got.State != tc.want || got.Problem != tc.problem {
				t.Errorf("state = %s %q, want %s %q", got.State, got.Problem, tc.want, tc.problem)
			}
			writes := map[apply.State]bool{apply.Absent: true, apply.Changed: true, apply.Drifted: true}
			if _, needed := got.Action(); needed != writes[tc.want] {
				t.Errorf("an action is needed: %t", needed)
			}
		})
	}
}

func TestSecretsStayHidden(t *testing.T) {
	secret := func(password string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "key", OwnerReferences: controlledBy("north", string(fleet))},
			Data:       map[string][]byte{"user": []byte("captain")},
			StringData: map[string]string{"password": password},
		}
	}
	s := newServer()
	s.admit = func(obj client.Object) {
		if live, ok := obj.(*corev1.Secret); ok {
			for name, value := range live.StringData {
				live.Data[name] = []byte(value)
			}
			live.StringData = nil
		}
	}
	do(t, s, secret("hunter2"))
	if got := do(t, s, secret("hunter2")); got.State != apply.Same {
		t.Fatalf("stringData counts as %s: %v", got.State, got.Changes)
	}
	intent := intend(t, secret("hunter3"))
	difference := apply.Compare(intent, s.live(secret("")))
	action, _ := difference.Action()
	create, _ := apply.Compare(intent, nil).Action()
	printed := fmt.Sprintf("%v %+v %#v|%v %+v %#v|%v %+v %#v|%v",
		intent, intent, intent, action, action, action, create, create, create, difference.Changes)
	record := s.live(secret("")).GetAnnotations()["example.com/intent"]
	for _, leak := range []string{"hunter", "aHVudGVy", "104 117 110", "0x68, 0x75", "captain", "Y2FwdGFpb"} {
		if strings.Contains(printed, leak) || strings.Contains(record, leak) {
			t.Errorf("%q appears in %s or %s", leak, printed, record)
		}
	}
	want := []string{"data.password: (hidden) → (hidden)"}
	if diff := cmp.Diff(want, words(difference.Changes)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
