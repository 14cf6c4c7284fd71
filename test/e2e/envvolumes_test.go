//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

const (
	staticClass = "environment-static"
	// volumesFolder is where the sandbox has the volumes of its nodes.
	volumesFolder = "/var/lib/meridian-sandbox/volumes"
)

// makeVolumes makes a volume on each node by hand. They can be mounted by one node and know no other access mode.
func makeVolumes(c *cluster) {
	c.t.Helper()
	var nodes corev1.NodeList
	if err := c.List(c.t.Context(), &nodes); err != nil {
		c.t.Fatal(err)
	}
	for _, node := range nodes.Items {
		volume := staticVolume(node.Name)
		file := filepath.Join(volumesFolder, node.Name, volume.Name+".img")
		c.command("mkdir", "-p", filepath.Dir(file))
		c.command("truncate", "--size=1G", file)
		c.command("mkfs.xfs", "-q", "-f", file)
		c.t.Cleanup(func() {
			_ = c.Delete(context.Background(), volume)
			_ = os.Remove(file)
		})
		if err := c.Create(c.t.Context(), volume); err != nil {
			c.t.Fatal(err)
		}
	}
}

func staticVolume(node string) *corev1.PersistentVolume {
	name := "environment-" + node
	const driver, key = "xfs.sandbox.meridian.dev", "topology.sandbox.meridian.dev/node"
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: staticClass,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: driver, VolumeHandle: name, FSType: "xfs", VolumeAttributes: map[string]string{"node": node},
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
				}}},
			}},
		},
	}
}

// tryStatic has the volumes grow under traffic, and loses the primary.
func (f *failover) tryStatic() {
	pods := f.podUIDs()
	end := f.begin(5 * time.Second)
	f.patch(`{"spec":{"storage":{"size":"1536Mi"}}}`)
	wanted := resource.MustParse("1536Mi")
	took := f.c.until("the volumes have grown", 3*time.Minute, func(ctx context.Context) (bool, string) {
		var claims corev1.PersistentVolumeClaimList
		if err := f.c.List(ctx, &claims, client.InNamespace(f.c.space)); err != nil {
			return false, err.Error()
		}
		grown := 0
		for _, claim := range claims.Items {
			if !strings.HasPrefix(claim.Spec.VolumeName, "environment-") {
				f.t.Fatalf("%s is bound to %s, which nobody has made by hand", claim.Name, claim.Spec.VolumeName)
			}
			if size := claim.Status.Capacity[corev1.ResourceStorage]; size.Cmp(wanted) >= 0 {
				grown++
			}
		}
		return grown == 3, fmt.Sprint(grown)
	})
	f.t.Logf("the volumes have grown after %s", took.Round(100*time.Millisecond))
	end()
	if count := changed(pods, f.podUIDs()); count > 0 {
		f.t.Errorf("%d pods were made anew", count)
	}
	f.tryOnce(fault{name: "pod delete", moves: true, gap: 2 * time.Second, do: (*failover).deletePod}, 1)
}

// tryImport does what a backup of a whole namespace does: it keeps the objects, deletes the namespace under the living
// database, and makes objects and claims again, on the same disks and with other UIDs.
func (f *failover) tryImport() {
	end := f.begin(5 * time.Second)
	end()
	before := f.present()
	database, err := f.get(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	claims, note := f.exportNamespace()
	f.deleteNamespace()
	f.c.namespace(f.c.space)
	f.importClaims(claims, string(database.UID), note)
	again := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: f.c.space, Name: failoverName}}
	again.Spec = database.Spec
	again.Spec.Storage.Adopt = string(database.UID)
	begun := time.Now()
	if err := f.c.Create(f.t.Context(), again); err != nil {
		f.t.Fatal(err)
	}
	f.awaitStatus("the database is back", 4*time.Minute, func(database *v1alpha1.GeoDatabase) bool {
		return condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionReady) && database.Status.Replicas == "2/2"
	})
	f.t.Logf("Ready %s after it was made again", time.Since(begun).Round(100*time.Millisecond))
	f.c.until("the Secret is there", time.Minute, func(ctx context.Context) (bool, string) {
		err := f.readSecret(ctx)
		return err == nil, fmt.Sprint(err)
	})
	after := f.present()
	f.t.Logf("%d rows before, and %d after", len(before), len(after))
	there := map[int64]bool{}
	for _, id := range after {
		there[id] = true
	}
	for _, id := range before {
		if !there[id] {
			f.t.Fatalf("row %d is not there any more", id)
		}
	}
	if len(before) == 0 {
		f.t.Error("there were no rows: this shows nothing")
	}
	f.patch(`{"spec":{"storage":{"reclaim":"Delete"}}}`)
}

// exportNamespace keeps the claims, and has their disks outlive them. The settings are the note by which the agents
// will agree, as docs/guide/platforms.md says.
func (f *failover) exportNamespace() (claims []corev1.PersistentVolumeClaim, note string) {
	f.t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := f.c.List(f.t.Context(), &list, client.InNamespace(f.c.space)); err != nil {
		f.t.Fatal(err)
	}
	for _, claim := range list.Items {
		f.c.kubectl("patch", "pv", claim.Spec.VolumeName, "--type=merge", "-p",
			`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
	}
	var settings corev1.ConfigMap
	if err := f.c.Get(f.t.Context(), f.named("-settings"), &settings); err != nil {
		f.t.Fatal(err)
	}
	note = settings.Data["settings.json"]
	if note == "" {
		f.t.Fatalf("the settings are not where they were: %v", settings.Data)
	}
	return list.Items, note
}

// deleteNamespace deletes it as somebody does who knows nothing of what is in it.
func (f *failover) deleteNamespace() {
	f.t.Helper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.c.space}}
	if err := f.c.Delete(f.t.Context(), space); err != nil {
		f.t.Fatal(err)
	}
	took := f.c.until("the namespace is gone", 4*time.Minute, func(ctx context.Context) (bool, string) {
		err := f.c.Get(ctx, client.ObjectKeyFromObject(space), space)
		return apierrors.IsNotFound(err), fmt.Sprintf("%+v", space.Status)
	})
	f.t.Logf("the namespace is gone after %s", took.Round(100*time.Millisecond))
}

// importClaims makes the claims again, each for the disk that it had.
func (f *failover) importClaims(claims []corev1.PersistentVolumeClaim, uid, note string) {
	f.t.Helper()
	for _, claim := range claims {
		f.c.kubectl("patch", "pv", claim.Spec.VolumeName, "--type=json", "-p",
			`[{"op":"remove","path":"/spec/claimRef"}]`)
		again := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: f.c.space, Name: claim.Name, Labels: claim.Labels, Annotations: claim.Annotations,
			},
			Spec: claim.Spec,
		}
		for key := range again.Annotations {
			if strings.Contains(key, "kubernetes.io/") {
				delete(again.Annotations, key)
			}
		}
		if again.Annotations["meridian.dev/owner"] != uid {
			f.t.Fatalf("the claim %s does not bear the UID of its database: %v", claim.Name, again.Annotations)
		}
		again.Annotations["meridian.dev/parting"] = note
		if err := f.c.Create(f.t.Context(), again); err != nil {
			f.t.Fatal(err)
		}
		// Whether a disk under another claim is as it was left is known to whoever has put it there.
		f.c.kubectl("-n", f.c.space, "annotate", "pvc", again.Name, "meridian.dev/accept-copy="+string(again.UID))
	}
}
