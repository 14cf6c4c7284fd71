package render_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/pki"
	"meridian.dev/meridian/kit/scenario"
)

var author = apply.Author{Scheme: scheme.Scheme, Prefix: database.AnnotationPrefix, Manager: database.FieldManager}

// TestGolden renders snapshots. A difference in a StatefulSet here is a restart of every database out there.
func TestGolden(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var snapshot database.Snapshot
		in.YAML("snapshot.yaml", &snapshot)
		children, err := render.Children(design.Of(snapshot))
		if err != nil {
			in.Fail(err)
		}
		for _, child := range children {
			out.SetYAML(strings.ToLower(child.Kind)+"-"+child.Name+".yaml", child.Object)
		}
		return out
	})
}

// TestWhatAChangeTouches says for each change of the spec which children it reaches: no more, and no fewer.
func TestWhatAChangeTouches(t *testing.T) {
	const start = `{"name":"cities","namespace":"gis","uid":"db-1","images":{"agent":"m:1","server":"postgis"},
		"settings":{"instances":["cities-1"],"leaseUID":"lease-1"},"route":{"family":"IPv4"},
		"spec":{"instances":1,"version":"17","storage":{"size":"1Gi"},"bootstrap":{"database":"app","owner":"app"}}}`
	tests := map[string]struct {
		change string
		want   []string
	}{
		"nothing":      {change: `{}`},
		"a parameter":  {change: `{"spec":{"parameters":{"work_mem":"64MB"}}}`, want: []string{"ConfigMap"}},
		"the profile":  {change: `{"spec":{"profile":"tiles"}}`, want: []string{"ConfigMap"}},
		"an extension": {change: `{"spec":{"extensions":["postgis"]}}`, want: []string{"ConfigMap"}},
		"the image":    {change: `{"spec":{"image":"mine:1"}}`, want: []string{"StatefulSet"}},
		"the memory": {
			change: `{"spec":{"resources":{"memory":"4Gi"}}}`, want: []string{"ConfigMap", "StatefulSet"},
		},
		"the size": {
			change: `{"spec":{"storage":{"size":"20Gi"}}}`, want: []string{"ConfigMap", "PersistentVolumeClaim"},
		},
		"the reclaim policy": {change: `{"spec":{"storage":{"reclaim":"Delete"}}}`},
		"the number":         {change: `{"spec":{"instances":3}}`, want: []string{"ConfigMap"}},
		"the lease duration": {change: `{"spec":{"leaseDuration":"20s"}}`, want: []string{"ConfigMap"}},
		"who has a copy": {
			change: `{"settings":{"instances":["cities-2"]}}`,
			want:   []string{"ConfigMap", "PersistentVolumeClaim", "Role", "StatefulSet"},
		},
		"the clients": {
			change: `{"spec":{"network":{"clients":[{"cidr":"10.0.0.0/8"}]}}}`, want: []string{"NetworkPolicy"},
		},
		"the pause":      {change: `{"spec":{"paused":true}}`},
		"a new operator": {change: `{"images":{"agent":"m:2"}}`, want: []string{"StatefulSet"}},
		"the recorded system": {
			change: `{"record":{"initialised":true,"systemIdentifier":"7001"}}`,
			want:   []string{"ConfigMap", "PersistentVolumeClaim"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := hashes(t, start), hashes(t, start, test.change)
			var touched []string
			for i := range before {
				if before[i] != after[i] {
					kind, _, _ := strings.Cut(before[i], " ")
					touched = append(touched, kind)
				}
			}
			if got, want := strings.Join(touched, " "), strings.Join(test.want, " "); got != want {
				t.Errorf("touches %q, want %q", got, want)
			}
		})
	}
}

// TestTemplates tells templates from which another pod would be made from those that differ in what is changed in
// place.
func TestTemplates(t *testing.T) {
	name := func(documents ...string) string {
		const start = `{"name":"cities","namespace":"gis","uid":"db-1","images":{"agent":"m:1","server":"postgis"},
			"settings":{"instances":["cities-1"]},"spec":{"version":"17","storage":{"size":"1Gi"}}}`
		var snapshot database.Snapshot
		for _, document := range append([]string{start}, documents...) {
			if err := yaml.Unmarshal([]byte(document), &snapshot); err != nil {
				t.Fatal(err)
			}
		}
		return render.Template(design.Of(snapshot), "cities-1")
	}
	for change, want := range map[string]bool{
		`{"images":{"agent":"m:2"}}`:                                       true,
		`{"spec":{"image":"mine:1"}}`:                                      true,
		`{"spec":{"restart":"now"}}`:                                       true,
		`{"spec":{"podTemplate":{"spec":{"priorityClassName":"high"}}}}`:   true,
		`{"spec":{"resources":{"memory":"4Gi","cpu":"3"}}}`:                false,
		`{"spec":{"podTemplate":{"metadata":{"labels":{"team":"maps"}}}}}`: false,
		`{"spec":{"parameters":{"work_mem":"64MB"}}}`:                      false,
		`{"spec":{"hibernated":true}}`:                                     false,
		`{"spec":{"podTemplate":{"spec":{"nodeSelector":{}}}}}`:            false,
	} {
		if got := name() != name(change); got != want || name() == "" {
			t.Errorf("%s: another template: %t, want %t", change, got, want)
		}
	}
	var first database.Snapshot
	if err := yaml.Unmarshal([]byte(`{"spec":{"version":"17","image":"a:1"}}`), &first); err != nil {
		t.Fatal(err)
	}
	// What the version before this one has written down counts as long as nothing has changed since.
	const written = "e4aa28c5650471df"
	if !render.SameWish(first.Spec, written) {
		t.Errorf("the wish of an older version is not known any more")
	}
	if first.Spec.Image = "a:2"; render.SameWish(first.Spec, written) {
		t.Errorf("another image is the same wish")
	}
}

// TestWishIsTheUsers tells what a user asks of a pod from what Meridian brings: every field of the spec that takes a
// new pod changes the wish, and nothing else does.
func TestWishIsTheUsers(t *testing.T) {
	wish := func(documents ...string) string {
		snapshot := database.Snapshot{}
		for _, document := range documents {
			if err := yaml.Unmarshal([]byte(document), &snapshot); err != nil {
				t.Fatal(err)
			}
		}
		return render.Wish(snapshot.Spec)
	}
	const start = `{"spec":{"version":"17"}}`
	for change, want := range map[string]bool{
		`{"spec":{"version":"18"}}`:                                                  true,
		`{"spec":{"image":"mine:1"}}`:                                                true,
		`{"spec":{"resources":{"memory":"4Gi"}}}`:                                    false,
		`{"spec":{"resources":{"cpu":"2"}}}`:                                         false,
		`{"spec":{"podTemplate":{"spec":{"priorityClassName":"high"}}}}`:             true,
		`{"spec":{"podTemplate":{"metadata":{"labels":{"team":"maps"}}}}}`:           false,
		`{"spec":{"parameters":{"work_mem":"64MB"},"storage":{"size":"2Gi"}}}`:       false,
		`{"images":{"agent":"m:2","server":"other"}}`:                                false,
		`{"spec":{"podTemplate":{"spec":{}}}}`:                                       false,
		`{"spec":{"podTemplate":{"spec":{"nodeSelector":{}}}}}`:                      false,
		`{"spec":{"podTemplate":{"spec":{"volumes":[{"name":"x","emptyDir":{}}]}}}}`: true,
	} {
		if got := wish(start) != wish(start, change); got != want {
			t.Errorf("%s: another wish: %t, want %t", change, got, want)
		}
	}
}

func hashes(t *testing.T, documents ...string) []string {
	t.Helper()
	var snapshot database.Snapshot
	for _, document := range documents {
		if err := yaml.Unmarshal([]byte(document), &snapshot); err != nil {
			t.Fatal(err)
		}
	}
	children, err := render.Children(design.Of(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, child := range children {
		intent, err := author.Intent(child.Object, types.UID(snapshot.UID))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, child.Kind+" "+intent.Hash())
	}
	return list
}

// Each instance has all names that clients use, and of those that instances call each other by its own alone.
func TestCertificatesAreForEveryName(t *testing.T) {
	identity := database.Identity{Namespace: "gis", Name: "cities"}
	own := []string{"cities-1-0.cities-pods", "cities-1-0.cities-pods.gis", render.AgentHost(identity, "cities-1")}
	for about, test := range map[string]struct {
		holders        render.Holders
		leaf           string
		more, unwanted []string
	}{
		"of an instance": {render.Holders{Instances: []string{"cities-1", "cities-2"}}, "cities-1", own,
			[]string{render.AgentHost(identity, "cities-2"), "*.cities-pods.gis.svc"}},
		"of before": {render.Holders{Instances: []string{"cities-1"}, Shared: true}, render.SharedProfile,
			[]string{"*.cities-pods", "*.cities-pods.gis.svc"}, own},
	} {
		policy := render.Policy(identity, v1alpha1.GeoDatabaseSpec{}, test.holders)
		if err := policy.Check(); err != nil {
			t.Fatalf("the policy cannot work: %v", err)
		}
		at := slices.IndexFunc(policy.Leaves, func(leaf pki.Profile) bool { return leaf.Name == test.leaf })
		names := policy.Leaves[at].DNSNames
		services := []string{"cities-rw", "cities-rw.gis.svc", "cities-ro.gis.svc.cluster.local", "localhost"}
		for _, name := range append(test.more, services...) {
			if !slices.Contains(names, name) {
				t.Errorf("%s: %s is not among %s", about, name, names)
			}
		}
		for _, name := range test.unwanted {
			if slices.Contains(names, name) {
				t.Errorf("%s: %s is among %s", about, name, names)
			}
		}
	}
}

func TestBinding(t *testing.T) {
	design := database.Design{Identity: database.Identity{Namespace: "gis", Name: "cities", UID: "db-1"}}
	design.Spec.Bootstrap.Database, design.Spec.Bootstrap.Owner = "app", "owner"
	login := render.Login{Name: "owner", Password: "p/@ss", Number: 7}
	secret := render.Binding(design, login, database.Rotation{}, []byte("authority"))
	for key, want := range map[string]string{
		"host": "cities-rw.gis.svc", "port": "5432", "dbname": "app", "user": "owner", "username": "owner",
		"rotation": "7", "password": "p/@ss", "ca.crt": "authority", "type": "postgresql", "provider": "meridian",
		"uri":    "postgresql://owner:p%2F%40ss@cities-rw.gis.svc:5432/app?sslmode=require",
		"ro-uri": "postgresql://owner:p%2F%40ss@cities-ro.gis.svc:5432/app?sslmode=require",
	} {
		if got := string(secret.Data[key]); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

func TestNextLogin(t *testing.T) {
	design := database.Design{Identity: database.Identity{Namespace: "gis", Name: "cities", UID: "db-1"}}
	design.Spec.Bootstrap.Database, design.Spec.Bootstrap.Owner = "app", "owner"
	secret := render.Binding(design, render.Login{Name: "owner", Password: "first", Number: 7}, database.Rotation{}, nil)
	before := secret.DeepCopy()
	if _, found := render.NextLogin(secret); found {
		t.Error("a login is made ready before anyone has asked")
	}
	render.PutNextLogin(secret, render.Login{Name: "meridian_app", Password: "second", Number: 8})
	for key, value := range before.Data {
		if string(secret.Data[key]) != string(value) {
			t.Errorf("%s has changed while the next login is made ready", key)
		}
	}
	next, found := render.NextLogin(secret)
	if want := (render.Login{Name: "meridian_app", Password: "second", Number: 8}); !found || next != want {
		t.Fatalf("the next login is %+v, %t", next, found)
	}
	render.PutLogin(design, secret, next)
	if _, found := render.NextLogin(secret); found || len(secret.Data) != len(before.Data) {
		t.Errorf("after the move there are %d keys, want %d", len(secret.Data), len(before.Data))
	}
	for key, want := range map[string]string{
		"user": "meridian_app", "username": "meridian_app", "password": "second", "rotation": "8",
		"uri":    "postgresql://meridian_app:second@cities-rw.gis.svc:5432/app?sslmode=require",
		"ro-uri": "postgresql://meridian_app:second@cities-ro.gis.svc:5432/app?sslmode=require",
	} {
		if got := string(secret.Data[key]); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}

// What is written down beside a Secret is read as it was, and what somebody has spoilt was not written.
func TestRotationIsNoted(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	want := database.Rotation{Token: `a "token"`, Number: 9, Began: began, Signs: began.Add(time.Hour)}
	var secret corev1.Secret
	render.Note(&secret, want)
	if got := render.RotationOf(&secret); got != want || !got.UnderWay() || got.Asked(want.Token) || !got.Asked("b") {
		t.Errorf("it is %+v, want %+v", got, want)
	}
	secret.Annotations[database.AnnotationRotation] = "{"
	if got := render.RotationOf(&secret); got != (database.Rotation{}) {
		t.Errorf("it is %+v", got)
	}
}

// TestNobodyPrunesWhatHasNoOwner: Argo CD takes objects with the label app.kubernetes.io/instance for those of the
// application of that name, and prunes what it did not install, unless an owner answers for it.
func TestNobodyPrunesWhatHasNoOwner(t *testing.T) {
	snapshot := database.Snapshot{
		Identity: database.Identity{Namespace: "gis", Name: "cities", UID: "u"}, Lease: database.Lease{UID: "l"},
		Images: database.Images{Agent: "agent", Server: "server"}, Route: database.Route{Family: "IPv4"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: 2, Version: "17", Bootstrap: v1alpha1.Bootstrap{Database: "app", Owner: "app"},
			Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi"), WALSize: new(resource.MustParse("1Gi"))},
		},
	}
	children, err := render.Children(design.Of(snapshot))
	if err != nil {
		t.Fatal(err)
	}
	ownerless := 0
	for _, child := range children {
		_, labelled := child.Object.GetLabels()[database.LabelAppOf]
		owned := len(child.Object.GetOwnerReferences()) > 0
		if !owned {
			ownerless++
		}
		if labelled != owned {
			t.Errorf("%s %s has an owner: %t, and the label: %t", child.Kind, child.Name, owned, labelled)
		}
	}
	if ownerless != 4 {
		t.Errorf("%d children have no owner, want the 4 claims", ownerless)
	}
}

// TestPlace renders pods as OpenShift and a registry with a password want them: no account is named, PostgreSQL's
// programs find a name for whatever account it is, and the Secret of the registry comes along. Without that a pod is as
// it was.
func TestPlace(t *testing.T) {
	snapshot := database.Snapshot{
		Identity: database.Identity{Namespace: "gis", Name: "cities", UID: "u"}, Lease: database.Lease{UID: "l"},
		Images: database.Images{Agent: "agent", Server: "server"}, Route: database.Route{Family: "IPv4"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: 1, Version: "17", Bootstrap: v1alpha1.Bootstrap{Database: "app", Owner: "app"},
			Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")},
		},
	}
	podOf := func(place service.Place) corev1.PodSpec {
		snapshot.Images.Place = place
		made, err := render.Children(design.Of(snapshot))
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range made {
			if set, is := child.Object.(*appsv1.StatefulSet); is {
				return set.Spec.Template.Spec
			}
		}
		t.Fatal("there is no StatefulSet")
		return corev1.PodSpec{}
	}
	plain, placed := podOf(service.Place{}), podOf(service.Place{AnyUser: true, PullSecrets: []string{"registry"}})
	if plain.SecurityContext.RunAsUser == nil || len(plain.ImagePullSecrets) > 0 {
		t.Errorf("without a word a pod has account %v and Secrets %v", plain.SecurityContext, plain.ImagePullSecrets)
	}
	security := placed.SecurityContext
	if security.RunAsUser != nil || security.RunAsGroup != nil || security.FSGroup != nil || !*security.RunAsNonRoot {
		t.Errorf("the accounts are not left to the cluster: %+v", security)
	}
	if len(placed.ImagePullSecrets) != 1 || placed.ImagePullSecrets[0].Name != "registry" {
		t.Errorf("the Secrets of the registry are %v", placed.ImagePullSecrets)
	}
	if command := placed.InitContainers[0].Command; !slices.Contains(command, "--name-user=/agent/passwd") {
		t.Errorf("nobody gives the account a name: %v", command)
	}
	mounted := slices.ContainsFunc(placed.Containers[0].VolumeMounts, func(mount corev1.VolumeMount) bool {
		return mount.MountPath == "/etc/passwd" && mount.SubPath == "passwd" && mount.Name == "agent"
	})
	if !mounted {
		t.Errorf("the name of the account is not where programs look for it: %v", placed.Containers[0].VolumeMounts)
	}
}
