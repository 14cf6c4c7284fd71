package volume

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// retryAfter is how soon a pass with an error is tried again; without one a pass waits for the next event.
const retryAfter = 2 * time.Second

// Annotations by which the scheduler and the claim controller tell a provisioner what to do.
const (
	selectedNode  = "volume.kubernetes.io/selected-node"
	provisioner   = "volume.kubernetes.io/storage-provisioner"
	provisionedBy = "pv.kubernetes.io/provisioned-by"
)

// Controller makes, grows and deletes volumes as claims ask for it. Each pass looks at everything and may end
// anywhere: all it does is found done when it comes again.
type Controller struct {
	client  kubernetes.Interface
	store   Store
	claims  listers.PersistentVolumeClaimLister
	volumes listers.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	events  record.EventRecorder
	wake    chan struct{}
}

// RunController runs the controller until ctx ends.
func RunController(ctx context.Context, client kubernetes.Interface, store Store) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: client.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	c := &Controller{
		client: client, store: store, wake: make(chan struct{}, 1),
		claims:  core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(),
		classes: factory.Storage().V1().StorageClasses().Lister(),
		events:  broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: DriverName}),
	}
	poke := func(any) { c.poke() }
	watch := cache.ResourceEventHandlerFuncs{AddFunc: poke, UpdateFunc: func(_, _ any) { c.poke() }, DeleteFunc: poke}
	for _, informer := range []cache.SharedIndexInformer{
		core.PersistentVolumeClaims().Informer(), core.PersistentVolumes().Informer(),
		factory.Storage().V1().StorageClasses().Informer(),
	} {
		if _, err := informer.AddEventHandler(watch); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for {
		if err := c.pass(ctx); err != nil {
			fmt.Println(err)
			time.AfterFunc(retryAfter, c.poke)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.wake:
		}
	}
}

func (c *Controller) poke() {
	select {
	case c.wake <- struct{}{}:
	default: // A pass is due already.
	}
}

func (c *Controller) pass(ctx context.Context) error {
	claims, err := c.claims.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	var failed []error
	for _, claim := range claims {
		if err := c.serve(ctx, claim); err != nil {
			c.events.Event(claim, corev1.EventTypeWarning, "VolumeFailed", err.Error())
			failed = append(failed, fmt.Errorf("claim %s/%s: %w", claim.Namespace, claim.Name, err))
		}
	}
	for _, volume := range volumes {
		if err := c.reclaim(ctx, volume); err != nil {
			failed = append(failed, fmt.Errorf("volume %s: %w", volume.Name, err))
		}
	}
	return errors.Join(failed...)
}

func (c *Controller) serve(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	switch {
	case claim.DeletionTimestamp != nil:
		return nil
	case claim.Status.Phase == corev1.ClaimBound:
		return c.expand(ctx, claim)
	case claim.Spec.VolumeName == "" && claim.Annotations[provisioner] == SharedName:
		return c.provisionShared(ctx, claim)
	case claim.Spec.VolumeName == "" && claim.Annotations[provisioner] == DriverName &&
		claim.Annotations[selectedNode] != "":
		return c.provision(ctx, claim)
	}
	return nil
}

// provision makes the volume on the node that the scheduler chose. The volume's name holds the claim's UID, so that
// the claim of a later life never gets an older one's volume.
func (c *Controller) provision(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	if mode := claim.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		return errors.New("volumeMode Block is not offered: use Filesystem")
	}
	class, err := c.classes.Get(ptr.Deref(claim.Spec.StorageClassName, ""))
	if err != nil {
		return fmt.Errorf("find the storage class: %w", err)
	}
	node, name := claim.Annotations[selectedNode], "pvc-"+string(claim.UID)
	size := max(claim.Spec.Resources.Requests.Storage().Value(), minimum)
	if err := c.store.Create(node, name, size); err != nil {
		return err
	}
	return c.create(ctx, volumeFor(claim, class, size))
}

func (c *Controller) create(ctx context.Context, volume *corev1.PersistentVolume) error {
	_, err := c.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create volume: %w", err)
	}
	return nil
}

func volumeFor(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, size int64,
) *corev1.PersistentVolume {
	node, name := claim.Annotations[selectedNode], "pvc-"+string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: DriverName}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)},
			AccessModes: claim.Spec.AccessModes, StorageClassName: class.Name, MountOptions: class.MountOptions,
			PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: DriverName, VolumeHandle: name, FSType: "xfs", VolumeAttributes: map[string]string{"node": node},
			}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: NodeLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
				}}},
			}},
		},
	}
}

// NodeOf tells which node a volume of this driver is on.
func NodeOf(volume *corev1.PersistentVolume) (string, bool) {
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != DriverName {
		return "", false
	}
	return volume.Spec.CSI.VolumeAttributes["node"], true
}

// expand grows the volume to what the claim asks for and tells the kubelet, through the claim's status, to let the
// file system follow. The order is that of the steps' effects: file, volume, claim.
func (c *Controller) expand(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	volume, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return nil //nolint:nilerr // The volume's own event brings the claim back.
	}
	wanted, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	node, ours := NodeOf(volume)
	if !ours || wanted.Cmp(has) <= 0 {
		return nil
	}
	if err := c.store.Grow(node, volume.Name, wanted.Value()); err != nil {
		return err
	}
	if capacity := volume.Spec.Capacity[corev1.ResourceStorage]; capacity.Cmp(wanted) < 0 {
		grown := volume.DeepCopy()
		grown.Spec.Capacity[corev1.ResourceStorage] = wanted
		if _, err := c.client.CoreV1().PersistentVolumes().Update(ctx, grown, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("raise the volume's capacity: %w", err)
		}
	}
	pending := corev1.PersistentVolumeClaimNodeResizePending
	allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]
	stage := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	if allocated.Cmp(wanted) == 0 && stage != "" {
		return nil // The kubelet has it.
	}
	waiting := claim.DeepCopy()
	waiting.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: wanted}
	waiting.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
		corev1.ResourceStorage: pending,
	}
	waiting.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
		Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
		LastTransitionTime: metav1.Now(), Message: "waiting for the node to grow the file system",
	}}
	_, err = c.client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, waiting, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("tell the node to grow the file system: %w", err)
	}
	return nil
}

// reclaim deletes a volume whose claim is gone, if its policy says so.
func (c *Controller) reclaim(ctx context.Context, volume *corev1.PersistentVolume) error {
	node, ours := NodeOf(volume)
	if !ours && !isShared(volume) || volume.DeletionTimestamp != nil || volume.Status.Phase != corev1.VolumeReleased ||
		volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	// The informer may be behind, and a deleted disk does not come back: ask the API server itself first.
	live, err := c.client.CoreV1().PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || (err == nil && live.ResourceVersion != volume.ResourceVersion) {
		return nil // Its next event brings the volume back.
	}
	if err != nil {
		return fmt.Errorf("read volume: %w", err)
	}
	if isShared(volume) {
		err = c.store.Unshare(volume.Name)
	} else {
		err = c.store.Delete(node, volume.Name)
	}
	if err != nil {
		return err
	}
	err = c.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &volume.UID, ResourceVersion: &volume.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete volume object: %w", err)
	}
	return nil
}
