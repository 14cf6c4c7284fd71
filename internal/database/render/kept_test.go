package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
)

// taken is a database that has taken two volumes over, of two classes, and has no settings yet.
func taken() database.Snapshot {
	parting := &database.Parting{DatabaseUID: "db-0", LeaseUID: "lease-0", Instances: []string{"cities-1", "cities-2"}}
	var snapshot database.Snapshot
	snapshot.Identity = database.Identity{Namespace: "gis", Name: "cities", UID: "db-1", Origin: "db-0"}
	snapshot.Spec.Instances = 2
	for serial, class := range []string{"old", "new"} {
		snapshot.Instances = append(snapshot.Instances, database.Instance{
			Serial: serial + 1, Name: database.InstanceName("cities", serial+1),
			Claim: &database.Claim{Class: class, Origin: "db-0", Parting: parting},
		})
	}
	return snapshot
}

// TestVolumesKeepTheirClass has a database take volumes over without a word about their class: a claim that was made
// with one cannot lose it.
func TestVolumesKeepTheirClass(t *testing.T) {
	snapshot := taken()
	classOf := func(name string) string {
		design := design.Outline(snapshot)
		return ptr.Deref(render.Claim(design, name, snapshot.Spec.Storage.Size).Spec.StorageClassName, "")
	}
	if first, second := classOf("cities-1"), classOf("cities-2"); first != "old" || second != "new" {
		t.Errorf("the claims get the classes %q and %q", first, second)
	}
	if other := classOf("cities-3"); other != "" {
		t.Errorf("a new claim gets the class %q", other)
	}
	snapshot.Spec.Storage.Class = "said"
	if made, fresh := classOf("cities-1"), classOf("cities-3"); made != "old" || fresh != "said" {
		t.Errorf("a claim that is there gets the class %q, a new one %q", made, fresh)
	}
	snapshot.Spec.Storage.Class, snapshot.Origin = "", ""
	if class := classOf("cities-1"); class != "" {
		t.Errorf("a claim of the default class gets %q written into it", class)
	}
}

// TestNoteStays has the lease of the database that is gone be there for a while: what its claims tell is needed still.
func TestNoteStays(t *testing.T) {
	snapshot := taken()
	for lease, stays := range map[*database.Lease]bool{
		{}: true, {UID: "lease-0", Foreign: "belongs to somebody else"}: true, {UID: "lease-1"}: false,
	} {
		snapshot.Lease = *lease
		if design.Outline(snapshot).Parting != nil != stays {
			t.Errorf("with the lease %+v the note is to stay: %v", *lease, stays)
		}
	}
}

// TestAccessMode renders claims that are new and claims that are there, before and after a change of the spec: the mode
// of a claim cannot be changed, so it is written as it is, and nothing is stuck when the change is taken back.
func TestAccessMode(t *testing.T) {
	pod := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	node := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for name, test := range map[string]struct {
		spec          v1alpha1.AccessMode
		has, rendered []corev1.PersistentVolumeAccessMode
		fresh         corev1.PersistentVolumeAccessMode
	}{
		"as ever":                     {rendered: pod, fresh: corev1.ReadWriteOncePod},
		"said":                        {spec: v1alpha1.AccessPod, rendered: pod, fresh: corev1.ReadWriteOncePod},
		"changed":                     {spec: v1alpha1.AccessNode, rendered: pod, fresh: corev1.ReadWriteOnce},
		"made so":                     {spec: v1alpha1.AccessNode, has: node, rendered: node, fresh: corev1.ReadWriteOnce},
		"made so and then taken back": {has: node, rendered: node, fresh: corev1.ReadWriteOncePod},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := database.Snapshot{
				Identity:  database.Identity{Namespace: "gis", Name: "cities", UID: "u"},
				Spec:      v1alpha1.GeoDatabaseSpec{Instances: 1, Storage: v1alpha1.Storage{AccessMode: test.spec}},
				Instances: []database.Instance{{Serial: 1, Name: "cities-1", Claim: &database.Claim{Modes: test.has}}},
			}
			there := render.Claim(design.Outline(snapshot), "cities-1", resource.MustParse("2Gi"))
			if diff := cmp.Diff(test.rendered, there.Spec.AccessModes); diff != "" {
				t.Errorf("a claim that is there (-want +got):\n%s", diff)
			}
			fresh := render.Claim(design.Outline(snapshot), "cities-2", resource.MustParse("2Gi"))
			if len(fresh.Spec.AccessModes) != 1 || fresh.Spec.AccessModes[0] != test.fresh {
				t.Errorf("a new claim asks for %v, want %s", fresh.Spec.AccessModes, test.fresh)
			}
		})
	}
}

// TestClaimOfNoClass renders a claim that was made by hand for a volume without a class, under a spec that names one.
func TestClaimOfNoClass(t *testing.T) {
	snapshot := database.Snapshot{
		Identity: database.Identity{Namespace: "gis", Name: "cities", UID: "u"},
		Spec:     v1alpha1.GeoDatabaseSpec{Instances: 1, Storage: v1alpha1.Storage{Class: "fast"}},
		Instances: []database.Instance{
			{Serial: 1, Name: "cities-1", Claim: &database.Claim{Classless: true}},
			{Serial: 2, Name: "cities-2", Claim: &database.Claim{}},
		},
	}
	for name, want := range map[string]string{"cities-1": "", "cities-2": "fast"} {
		claim := render.Claim(design.Outline(snapshot), name, resource.MustParse("2Gi"))
		if claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName != want {
			t.Errorf("%s is rendered with class %v, want %q", name, claim.Spec.StorageClassName, want)
		}
	}
}

// TestClaimKeepsItsClass renders a claim that was restored in another class and with another access mode. Neither can
// be changed, and the API server refuses a write that tries, together with the size in it.
func TestClaimKeepsItsClass(t *testing.T) {
	snapshot := database.Snapshot{
		Identity: database.Identity{Namespace: "gis", Name: "cities", UID: "u"},
		Spec: v1alpha1.GeoDatabaseSpec{Instances: 1, Storage: v1alpha1.Storage{
			Class: "fast", Size: resource.MustParse("2Gi"),
		}},
		Instances: []database.Instance{{Serial: 1, Name: "cities-1", Claim: &database.Claim{
			Class: "slow", Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Requested: resource.MustParse("1Gi"),
		}}},
	}
	claim := render.Claim(design.Outline(snapshot), "cities-1", resource.MustParse("2Gi"))
	if *claim.Spec.StorageClassName != "slow" || claim.Spec.AccessModes[0] != corev1.ReadWriteOnce {
		t.Errorf("the claim is rendered with class %s and access modes %v, want those that it has",
			*claim.Spec.StorageClassName, claim.Spec.AccessModes)
	}
	fresh := render.Claim(design.Outline(snapshot), "cities-2", resource.MustParse("2Gi"))
	if *fresh.Spec.StorageClassName != "fast" || fresh.Spec.AccessModes[0] != corev1.ReadWriteOncePod {
		t.Errorf("a new claim is rendered with class %s and access modes %v, want those of the spec",
			*fresh.Spec.StorageClassName, fresh.Spec.AccessModes)
	}
}
