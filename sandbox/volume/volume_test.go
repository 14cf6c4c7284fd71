package volume

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGrowNeverShrinks(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	file := store.File("node1", "v")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ asked, want int64 }{{100, 100}, {300, 300}, {200, 300}} {
		if err := store.Grow("node1", "v", step.asked); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil || info.Size() != step.want {
			t.Errorf("asked for %d: %d, %v; want %d", step.asked, info.Size(), err, step.want)
		}
	}
	if err := store.Grow("node1", "lost", 100); err == nil {
		t.Error("a volume that is not there was grown: a lost disk would come back empty")
	}
}

// TestVolumeBelongsToOneLifeOfItsClaim checks the name and the reference by which a volume is bound: a claim that was
// deleted and made again under its name must not get the data of the first.
func TestVolumeBelongsToOneLifeOfItsClaim(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "data", UID: "first", Annotations: map[string]string{selectedNode: "node2"},
	}}
	first := volumeFor(claim, &storagev1.StorageClass{}, minimum)
	claim.UID = "second"
	second := volumeFor(claim, &storagev1.StorageClass{}, minimum)
	if first.Name == second.Name || first.Spec.ClaimRef.UID != "first" || second.Spec.ClaimRef.UID != "second" {
		t.Errorf("two lives share a volume: %s, %s", first.Name, second.Name)
	}
	if node, ours := NodeOf(first); node != "node2" || !ours {
		t.Errorf("the volume is on %q", node)
	}
	if policy := first.Spec.PersistentVolumeReclaimPolicy; policy != corev1.PersistentVolumeReclaimDelete {
		t.Errorf("a class without a policy gives %s", policy)
	}
}

// TestSharedVolumeIsOneFolder checks that a volume of many nodes is a folder that anybody may write to, made once, and
// gone with its volume.
func TestSharedVolumeIsOneFolder(t *testing.T) {
	store := Store{Dir: t.TempDir()}
	for range 2 {
		if err := store.Share("pvc-1"); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(store.Shared("pvc-1"))
		if err != nil || info.Mode().Perm() != 0o777 {
			t.Fatalf("the folder is %v, %v", info, err)
		}
	}
	if err := os.WriteFile(filepath.Join(store.Shared("pvc-1"), "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Unshare("pvc-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(store.Shared("pvc-1")); !os.IsNotExist(err) {
		t.Errorf("the content is left: %v", err)
	}
}
