package admit_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/cache"
	cachedesign "meridian.dev/meridian/internal/cache/design"
	cacherender "meridian.dev/meridian/internal/cache/render"
	nouns "meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
)

// rendered is the pod that is really made for a database.
func rendered(t *testing.T, object *v1alpha1.GeoDatabase) corev1.PodSpec {
	t.Helper()
	object.Spec.Bootstrap.Database, object.Spec.Bootstrap.Owner = "app", "app" // As the schema defaults it.
	children, err := render.Children(design.Of(nouns.Snapshot{
		Identity: nouns.Identity{Namespace: "gis", Name: object.Name, UID: "u"},
		Images:   nouns.Images{Agent: "agent", Server: "server"}, Spec: object.Spec,
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		if set, ok := child.Object.(*appsv1.StatefulSet); ok {
			return set.Spec.Template.Spec
		}
	}
	t.Fatal("no StatefulSet is rendered")
	return corev1.PodSpec{}
}

// TestNothingRenderedIsExposed holds the lists of this package against the pod: what is added there must be added here.
func TestNothingRenderedIsExposed(t *testing.T) {
	if exposed := admit.Exposed(rendered(t, database(t, "{}"))); len(exposed) > 0 {
		t.Errorf("a template could change these of the pod unnoticed: %v; add them to databasePod", exposed)
	}
}

func TestNothingRenderedIsExposedOfACache(t *testing.T) {
	children, err := cacherender.Children(cachedesign.Of(cache.Snapshot{
		Identity: cache.Identity{Namespace: "gis", Name: "tiles", UID: "u"}, Lease: cache.Lease{UID: "l"},
		Images: cache.Images{Agent: "agent", Redis: "redis", Valkey: "valkey"},
		Spec: v1alpha1.GeoCacheSpec{
			Engine: v1alpha1.EngineRedis, Memory: new(resource.MustParse("256Mi")), EvictionPolicy: v1alpha1.EvictAllLRU,
			DatabaseRef: v1alpha1.DatabaseRef{Name: "cities"},
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, child := range children {
		if set, ok := child.Object.(*appsv1.StatefulSet); ok {
			found = true
			if exposed := admit.ExposedOfCache(set.Spec.Template.Spec); len(exposed) > 0 {
				t.Errorf("a template could change these of the pod unnoticed: %v; add them to cachePod", exposed)
			}
		}
	}
	if !found {
		t.Fatal("no StatefulSet is rendered")
	}
}

// TestPrivateStaysPrivate lays thousands of random templates over the pod. Of those that are taken, none lets a
// container that is not Meridian's see a volume that is.
func TestPrivateStaysPrivate(t *testing.T) {
	plain := rendered(t, database(t, "{}"))
	random := rand.New(rand.NewPCG(1, 2))
	taken, refused, shared := 0, 0, 0
	for range 6_000 {
		raw, err := json.Marshal(randomTemplate(random, plain))
		if err != nil {
			t.Fatal(err)
		}
		object := database(t, "{}")
		object.Spec.PodTemplate = &v1alpha1.PodTemplate{Spec: &runtime.RawExtension{Raw: raw}}
		if len(admit.Database(object, nil, admit.Facts{})) > 0 {
			refused++
			continue
		}
		taken++
		seen := visible(rendered(t, object), plain)
		if len(seen.private) > 0 {
			t.Fatalf("the template %s is taken, and lets others see %v", raw, seen.private)
		}
		shared += seen.own
	}
	if taken < 300 || refused < 300 || shared < 50 {
		t.Errorf("%d templates were taken, %d refused, %d mounts seen: this says little", taken, refused, shared)
	}
}

// sight is what containers that are not Meridian's see: volumes of their own, by number, and private ones, by name.
type sight struct {
	own     int
	private []string
}

// visible judges by what is behind a volume, not by its name.
func visible(merged, plain corev1.PodSpec) sight {
	ours := map[string]bool{}
	for _, container := range slices.Concat(plain.InitContainers, plain.Containers) {
		ours[container.Name] = true
	}
	private := map[string]bool{}
	for _, volume := range plain.Volumes {
		private[source(volume)] = true
	}
	delete(private, "secret cities-app") // It is for applications.
	var found sight
	for _, container := range slices.Concat(merged.InitContainers, merged.Containers) {
		for _, mount := range container.VolumeMounts {
			at := slices.IndexFunc(merged.Volumes, func(volume corev1.Volume) bool { return volume.Name == mount.Name })
			switch {
			case ours[container.Name] || at < 0:
			case private[source(merged.Volumes[at])]:
				found.private = append(found.private, container.Name+": "+mount.Name)
			default:
				found.own++
			}
		}
	}
	return found
}

func source(volume corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return "claim " + volume.PersistentVolumeClaim.ClaimName
	case volume.Secret != nil:
		return "secret " + volume.Secret.SecretName
	case volume.Projected != nil && volume.Projected.Sources[0].Secret != nil:
		return "secret " + volume.Projected.Sources[0].Secret.Name
	default:
		return "volume " + volume.Name
	}
}

// randomTemplate has one or two volumes and one or two containers, from names that are ours and names that are not.
func randomTemplate(random *rand.Rand, plain corev1.PodSpec) map[string]any {
	names := []string{"mine", "yours", "cities-1", "x"}
	for _, volume := range plain.Volumes {
		names = append(names, volume.Name)
	}
	pick := func(list []string) string { return list[random.IntN(len(list))] }
	objects := []string{"cities-1", "cities-2", "cities-tls", "cities-cert2", "cities-ca", "cities-repository",
		"cities-source", "cities-app", "archive", "other"}
	volumes, mounts := []any{}, []any{}
	for i := range random.IntN(3) {
		name := pick(names[:4])
		if random.IntN(6) == 0 {
			name = pick(names)
		}
		volume := map[string]any{"name": name}
		switch random.IntN(4) {
		case 0:
			volume["persistentVolumeClaim"] = map[string]any{"claimName": pick(objects), "readOnly": random.IntN(2) == 0}
		case 1:
			volume["secret"] = map[string]any{"secretName": pick(objects)}
		case 2:
			volume["projected"] = map[string]any{"sources": []any{
				map[string]any{"secret": map[string]any{"name": pick(objects)}},
			}}
		default:
			volume["emptyDir"] = map[string]any{}
		}
		volumes = append(volumes, volume)
		if random.IntN(3) == 0 {
			name = pick(names)
		}
		mounts = append(mounts, map[string]any{
			"name": name, "mountPath": fmt.Sprintf("/mnt/%d", i), "readOnly": random.IntN(2) == 0,
		})
	}
	container := map[string]any{
		"name": pick([]string{"proxy", "exporter", "database", "install"}), "volumeMounts": mounts,
	}
	if random.IntN(4) > 0 {
		container["image"] = "x"
		container["securityContext"] = map[string]any{
			"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}},
		}
	}
	return map[string]any{
		"volumes": volumes, pick([]string{"containers", "initContainers"}): []any{container},
	}
}
