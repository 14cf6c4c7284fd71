package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// SharedName is the provisioner of volumes that many nodes mount at once: folders of this machine, which all nodes see
// under the same path. They have no size of their own, and no faults.
const SharedName = "shared.sandbox.meridian.dev"

// Shared is where the content of such a volume is, on this machine and on each node.
func (s Store) Shared(volume string) string { return filepath.Join(s.Dir, "shared", volume) }

// Share makes the folder. Anybody may write there: the kubelet gives no such folder to the group of a pod.
func (s Store) Share(volume string) error {
	folder := s.Shared(volume)
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.Chmod(folder, 0o777)); err != nil {
		return fmt.Errorf("make shared volume %s: %w", volume, err)
	}
	return nil
}

// Unshare removes it with its content.
func (s Store) Unshare(volume string) error {
	if err := os.RemoveAll(s.Shared(volume)); err != nil {
		return fmt.Errorf("delete shared volume %s: %w", volume, err)
	}
	return nil
}

// provisionShared makes a folder for a claim, wherever its pods will be.
func (c *Controller) provisionShared(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class, err := c.classes.Get(ptr.Deref(claim.Spec.StorageClassName, ""))
	if err != nil {
		return fmt.Errorf("find the storage class: %w", err)
	}
	name := "pvc-" + string(claim.UID)
	if err := c.store.Share(name); err != nil {
		return err
	}
	size := claim.Spec.Resources.Requests.Storage().Value()
	return c.create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: SharedName}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)},
			AccessModes: claim.Spec.AccessModes, StorageClassName: class.Name,
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: c.store.Shared(name), Type: ptr.To(corev1.HostPathDirectory),
			}},
		},
	})
}

func isShared(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[provisionedBy] == SharedName && volume.Spec.HostPath != nil
}
