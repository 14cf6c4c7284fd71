package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// readInstances finds instances by label and then reads each part of them by name: a part that has lost its label is
// still seen, and repaired.
func (p *pass) readInstances(ctx context.Context) error {
	serials, err := p.serials(ctx)
	if err != nil {
		return err
	}
	for _, serial := range serials {
		instance, err := p.readInstance(ctx, serial)
		if err != nil {
			return err
		}
		if instance.Claim != nil || instance.LogClaim != nil || instance.Set != nil || instance.Pod != nil {
			p.facts.Instances = append(p.facts.Instances, instance)
		}
	}
	sortInstances(p.facts.Instances)
	return nil
}

// serials are the numbers of the instances that there may be: those that the spec begins with, and those that are seen.
func (p *pass) serials(ctx context.Context) ([]int, error) {
	seen := map[int]bool{}
	for serial := 1; serial <= max(int(p.object.Spec.Instances), 1); serial++ {
		seen[serial] = true
	}
	selector := []client.ListOption{
		client.InNamespace(p.object.Namespace), client.MatchingLabels{database.LabelDatabase: p.object.Name},
	}
	var claims corev1.PersistentVolumeClaimList
	if err := p.reader.List(ctx, &claims, selector...); err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	for i := range claims.Items {
		name, _ := database.ClaimOwner(claims.Items[i].Name)
		if serial, ok := database.SerialOf(p.object.Name, name); ok && p.ours(&claims.Items[i]) {
			seen[serial] = true
		}
	}
	var pods corev1.PodList
	if err := p.reader.List(ctx, &pods, selector...); err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		name := strings.TrimSuffix(pods.Items[i].Name, "-0")
		if serial, ok := database.SerialOf(p.object.Name, name); ok {
			seen[serial] = true
		}
	}
	var sets appsv1.StatefulSetList
	if err := p.reader.List(ctx, &sets, selector...); err != nil {
		return nil, fmt.Errorf("list stateful sets: %w", err)
	}
	for i := range sets.Items {
		if serial, ok := database.SerialOf(p.object.Name, sets.Items[i].Name); ok && p.ours(&sets.Items[i]) {
			seen[serial] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

func (p *pass) readInstance(ctx context.Context, serial int) (database.Instance, error) {
	instance := database.Instance{Serial: serial, Name: database.InstanceName(p.object.Name, serial)}
	var err error
	if instance.Claim, err = p.readClaim(ctx, instance.Name); err != nil {
		return instance, err
	}
	if p.object.Spec.Storage.WALSize != nil {
		if instance.LogClaim, err = p.readClaim(ctx, database.LogClaimName(instance.Name)); err != nil {
			return instance, err
		}
	}
	var set appsv1.StatefulSet
	found, err := p.find(ctx, instance.Name, &set)
	if err != nil {
		return instance, err
	}
	if found && p.ours(&set) {
		instance.Set = setFacts(&set)
		instance.Set.Shares = p.shares(set.Spec.Template.Spec)
	}
	var pod corev1.Pod
	found, err = p.find(ctx, database.PodName(instance.Name), &pod)
	if err == nil && found && p.runs(&pod, &set) {
		instance.Pod = podFacts(&pod, p.facts.Now)
		instance.Pod.Stuck = cmp.Or(instance.Pod.Stuck, service.NotSetUp(ctx, p.Live, &pod, p.facts.Now))
		instance.Pod.Shares = p.shares(pod.Spec)
	}
	return instance, err
}

// shares says that a pod mounts the certificate that instances of an earlier version have in common.
func (p *pass) shares(pod corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Volumes, func(volume corev1.Volume) bool {
		return volume.Secret != nil && volume.Secret.SecretName == database.LeafName(p.object.Name)
	})
}

// readClaim is nil if there is none of ours.
func (p *pass) readClaim(ctx context.Context, name string) (*database.Claim, error) {
	claim, err := p.claim(ctx, name)
	if err != nil || claim == nil || !p.ours(claim) {
		return nil, err
	}
	return claimFacts(claim), nil
}

// claim reads a claim once in a pass, nil if there is none.
func (p *pass) claim(ctx context.Context, name string) (*corev1.PersistentVolumeClaim, error) {
	if known, read := p.claims[name]; read {
		return known, nil
	}
	claim := &corev1.PersistentVolumeClaim{}
	found, err := p.find(ctx, name, claim)
	if err != nil {
		return nil, err
	}
	if !found {
		claim = nil
	}
	p.claims[name] = claim
	return claim, nil
}

// runs says that a pod is that of an instance of ours: made by its StatefulSet, or left behind by it.
func (p *pass) runs(pod *corev1.Pod, set *appsv1.StatefulSet) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil || controller.Kind != "StatefulSet" {
		return false
	}
	if set.UID != "" && controller.UID == set.UID {
		return p.ours(set)
	}
	return set.UID == "" && pod.Annotations[database.AnnotationOwner] == string(p.object.UID)
}

func setFacts(set *appsv1.StatefulSet) *database.Set {
	return &database.Set{
		UID: string(set.UID), ResourceVersion: set.ResourceVersion, Deleting: set.DeletionTimestamp != nil,
		Observed: set.Status.ObservedGeneration == set.Generation,
		Revision: set.Status.UpdateRevision,
		Wish:     set.Spec.Template.Annotations[database.AnnotationWish],
		Template: set.Spec.Template.Annotations[database.AnnotationTemplate],
		Restart:  set.Spec.Template.Annotations[database.AnnotationRestart],
		Stopped:  set.Spec.Replicas != nil && *set.Spec.Replicas == 0,
		CPU:      requested(set.Spec.Template.Spec)[corev1.ResourceCPU],
		Memory:   requested(set.Spec.Template.Spec)[corev1.ResourceMemory],
	}
}

// requested is what the database container of a pod asks for.
func requested(pod corev1.PodSpec) corev1.ResourceList {
	for _, container := range pod.Containers {
		if container.Name == database.ContainerDatabase {
			return container.Resources.Requests
		}
	}
	return nil
}

// granted is the memory that the database container has by the kubelet's word, zero if it does not say.
func granted(pod *corev1.Pod) resource.Quantity {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == database.ContainerDatabase && status.Resources != nil {
			return status.Resources.Requests[corev1.ResourceMemory]
		}
	}
	return resource.Quantity{}
}

func claimFacts(claim *corev1.PersistentVolumeClaim) *database.Claim {
	facts := &database.Claim{
		UID: string(claim.UID), ResourceVersion: claim.ResourceVersion,
		Bound: claim.Status.Phase == corev1.ClaimBound, Deleting: claim.DeletionTimestamp != nil,
		Requested: claim.Spec.Resources.Requests[corev1.ResourceStorage],
		Capacity:  claim.Status.Capacity[corev1.ResourceStorage],
	}
	if identifier, found := claim.Annotations[database.AnnotationSystemIdentifier]; found {
		facts.Copy = database.Record{Initialised: true, SystemIdentifier: identifier}
	}
	facts.Origin, facts.Parting = originOf(claim), partingOf(claim)
	_, facts.Prunable = claim.Labels[database.LabelAppOf]
	if claim.Spec.StorageClassName != nil {
		facts.Class = *claim.Spec.StorageClassName
		facts.Classless = facts.Class == ""
	}
	if !slices.Equal(claim.Spec.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}) {
		facts.Modes = claim.Spec.AccessModes
	}
	if facts.Bound && facts.Requested.Cmp(facts.Capacity) > 0 {
		facts.Resize, facts.Message = resizeOf(claim)
	}
	return facts
}

// resizeOf says how far a growth has come, and what the cluster says if it cannot go on.
func resizeOf(claim *corev1.PersistentVolumeClaim) (database.Resize, string) {
	stage := database.ResizeRunning
	message := ""
	for _, condition := range claim.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case corev1.PersistentVolumeClaimFileSystemResizePending:
			stage = database.ResizeFileSystem
		case corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
			message = condition.Message
		default:
		}
	}
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return database.ResizeFailed, message
	default:
		return stage, message
	}
}

func podFacts(pod *corev1.Pod, now time.Time) *database.Pod {
	facts := &database.Pod{
		UID: string(pod.UID), ResourceVersion: pod.ResourceVersion,
		Revision: pod.Labels[appsv1.StatefulSetRevisionLabel], Wish: pod.Annotations[database.AnnotationWish],
		Template: pod.Annotations[database.AnnotationTemplate], Restart: pod.Annotations[database.AnnotationRestart],
		Metadata: pod.Annotations[database.AnnotationMetadata],
		Deleting: pod.DeletionTimestamp != nil, Node: pod.Spec.NodeName, Stuck: stuckOf(pod, now),
		Address: pod.Status.PodIP, Settings: pod.Annotations[database.AnnotationSettings],
		Secrets: pod.Annotations[database.AnnotationSecrets], Backup: pod.Annotations[database.AnnotationBackup],
		CPU: requested(pod.Spec)[corev1.ResourceCPU], Memory: requested(pod.Spec)[corev1.ResourceMemory],
		Granted: granted(pod), UnplacedSince: service.UnplacedSince(pod),
	}
	// What cannot be read says nothing.
	facts.Use, _ = strconv.Atoi(pod.Annotations[wire.AnnotationVolumeUse])
	for _, condition := range pod.Status.Conditions {
		switch {
		case resizing(condition) != "":
			facts.Resize, facts.ResizeMessage = resizing(condition), condition.Message
		case condition.Type == corev1.PodReady:
			since := condition.LastTransitionTime.UTC()
			if facts.Ready = condition.Status == corev1.ConditionTrue; facts.Ready {
				facts.ReadySince = since
			} else {
				facts.UnreadySince = since
			}
		}
	}
	if facts.Ready && facts.Deleting {
		facts.UnreadySince = deletedAt(pod)
	}
	return facts
}

// deletedAt is when somebody deleted a pod: what it bears is the end of its grace.
func deletedAt(pod *corev1.Pod) time.Time {
	grace := time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second
	return pod.DeletionTimestamp.Add(-grace).UTC()
}

// resizing says how far the kubelet has come with another size.
func resizing(condition corev1.PodCondition) database.PodResize {
	switch {
	case condition.Status != corev1.ConditionTrue:
		return ""
	case condition.Type == corev1.PodResizePending && condition.Reason == corev1.PodReasonInfeasible:
		return database.PodResizeInfeasible
	case condition.Type == corev1.PodResizePending:
		return database.PodResizeDeferred
	case condition.Type == corev1.PodResizeInProgress:
		return database.PodResizeRunning
	}
	return ""
}

// hopeless are reasons of a waiting container that do not go away by waiting alone.
var hopeless = []string{
	"CrashLoopBackOff", "CreateContainerConfigError", "CreateContainerError", "ErrImageNeverPull", "ErrImagePull",
	"ImagePullBackOff", "InvalidImageName", "RunContainerError",
}

// stuckOf says why PostgreSQL does not run in a pod, empty if it does or is about to. Only our own containers count: a
// container that a user has added may fail while the database beside it works.
func stuckOf(pod *corev1.Pod, now time.Time) string {
	var reason string
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		switch waiting := status.State.Waiting; {
		case status.Name != database.ContainerInstall && status.Name != database.ContainerDatabase:
		case status.Name == database.ContainerDatabase && status.State.Running != nil:
			return ""
		case reason == "" && waiting != nil && slices.Contains(hopeless, waiting.Reason):
			reason = fmt.Sprintf("%s: %s: %s", status.Name, waiting.Reason, waiting.Message)
		}
	}
	return cmp.Or(service.Unschedulable(pod, now), reason)
}

// listClasses finds the classes that there are for a database that has no volume yet. If they cannot be listed, they
// stay unknown.
func (p *pass) listClasses(ctx context.Context) error {
	for _, instance := range p.facts.Instances {
		if instance.Claim != nil || instance.LogClaim != nil {
			return nil
		}
	}
	var classes storagev1.StorageClassList
	switch err := p.Live.List(ctx, &classes); {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return fmt.Errorf("list storage classes: %w", err)
	}
	p.facts.Classes = []database.StorageClass{}
	for _, class := range classes.Items {
		p.facts.Classes = append(p.facts.Classes, database.StorageClass{
			Name: class.Name, Default: class.Annotations[defaultClass] == "true",
			Expandable: class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion,
		})
	}
	slices.SortFunc(p.facts.Classes, func(a, b database.StorageClass) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// defaultClass marks the class of claims that name none.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

// readClasses asks about a storage class only when a claim has to grow. A class that cannot be read stays unknown: the
// API server has the last word anyway.
func (p *pass) readClasses(ctx context.Context) error {
	design := design.Outline(p.facts)
	for _, instance := range p.facts.Instances {
		for _, claim := range p.facts.Claims(instance) {
			wanted, found := design.ClaimSize(claim.Name)
			if !found || claim.Claim == nil || claim.Class == "" || wanted.Cmp(claim.Requested) <= 0 {
				continue
			}
			var class storagev1.StorageClass
			found, err := get(ctx, p.Live, client.ObjectKey{Name: claim.Class}, &class)
			switch {
			case apierrors.IsForbidden(err):
			case err != nil:
				return err
			case found && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion:
				claim.Expansion = database.Expandable
			case found:
				claim.Expansion = database.Fixed
			}
		}
	}
	return nil
}
