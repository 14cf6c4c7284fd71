package act

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// replacePod deletes a pod, so that its StatefulSet makes it anew. Everything that this rests on is read live: the pod
// is the one that was meant, its StatefulSet has the template that was meant and its controller has seen it, the claim
// outlives the pod, and the instance is not the primary of others.
func (p *pass) replacePod(
	ctx context.Context, action database.Action, replace database.ReplacePod,
) (database.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	controller := metav1.GetControllerOfNoCopy(&pod)
	if controller == nil {
		return database.Result{}, moved(action, "it belongs to nobody")
	}
	var set appsv1.StatefulSet
	if err := p.live(ctx, controller.Name, &set); err != nil {
		return database.Result{}, err
	}
	switch {
	case set.UID != controller.UID || set.DeletionTimestamp != nil:
		return database.Result{}, moved(action, "its StatefulSet is another one")
	case set.Spec.Template.Annotations[database.AnnotationTemplate] != replace.Template:
		return database.Result{}, moved(action, "its StatefulSet has another template")
	case set.Status.ObservedGeneration != set.Generation:
		return database.Result{}, moved(action, "its StatefulSet was not seen yet")
	}
	if err := p.claimStays(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	if err := p.leadsNobody(ctx, action, set.Name, &pod); err != nil {
		return database.Result{}, err
	}
	return p.Delete(ctx, action, &pod)
}

// leadsNobody refuses the pod of a primary that others could take over from. One that does not work leads nobody.
func (p *pass) leadsNobody(ctx context.Context, action database.Action, instance string, pod *corev1.Pod) error {
	var lease coordinationv1.Lease
	if err := p.live(ctx, database.LeaseName(p.object.Name), &lease); err != nil {
		return err
	}
	ready := false
	for _, condition := range pod.Status.Conditions {
		ready = ready || condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	}
	holds := lease.Spec.HolderIdentity != nil && wire.ParseMember(*lease.Spec.HolderIdentity).Name == instance
	if holds && ready && len(p.design.Instances) > 1 {
		return moved(action, "it holds the lease")
	}
	return nil
}

// deletePod deletes a pod that is still as the plan has seen it, in which no PostgreSQL runs, and whose claim outlives
// it: a deleted claim lives only as long as a pod uses it.
func (p *pass) deletePod(ctx context.Context, action database.Action) (database.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == database.ContainerDatabase && status.State.Running != nil {
			return database.Result{}, moved(action, "its database runs")
		}
	}
	if err := p.claimStays(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	return p.Delete(ctx, action, &pod)
}

// claimStays reads every claim that a pod uses live, as the pod itself names them.
func (p *pass) claimStays(ctx context.Context, action database.Action, pod *corev1.Pod) error {
	seen := false
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim == nil {
			continue
		}
		var claim corev1.PersistentVolumeClaim
		key := client.ObjectKey{Namespace: pod.Namespace, Name: volume.PersistentVolumeClaim.ClaimName}
		switch err := p.Live.Get(ctx, key, &claim); {
		case apierrors.IsNotFound(err):
			return moved(action, "its claim "+key.Name+" is gone")
		case err != nil:
			return fmt.Errorf("read its claim live: %w", err)
		case claim.DeletionTimestamp != nil:
			return moved(action, "its claim "+key.Name+" is being deleted")
		}
		seen = true
	}
	if !seen {
		return moved(action, "it uses no claim")
	}
	return nil
}

// resizePod changes CPU and memory of the database container through the subresource that is made for it. No other
// field of the pod is touched.
func (p *pass) resizePod(
	ctx context.Context, action database.Action, resize database.ResizePod,
) (database.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	patch := client.StrategicMergeFrom(pod.DeepCopy(), client.MergeFromWithOptimisticLock{})
	render.Resize(&pod, resize.Size)
	err := p.Client.SubResource("resize").Patch(ctx, &pod, patch, client.FieldOwner(database.FieldManager))
	if err != nil {
		// A refusal is told by the next pass, which tries the size before it plans.
		p.Doubt(action, err)
		return database.Result{}, err
	}
	p.ledger.Wrote(&pod)
	return database.Result{Done: true, Wrote: true}, nil
}

// labelPod gives a pod the labels and annotations that its template has from the user, and takes those away that the
// user gave it before. What the pod was not given by a user stays.
func (p *pass) labelPod(ctx context.Context, action database.Action) (database.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	rendered, err := render.Find(p.design, database.KindSet, strings.TrimSuffix(action.Name, "-0"))
	if err != nil {
		return database.Result{}, err
	}
	template := rendered.(*appsv1.StatefulSet).Spec.Template
	wanted := template.Annotations[database.AnnotationMetadata]
	had, has := given(pod.Annotations[database.AnnotationMetadata]), given(wanted)
	after := pod.DeepCopy()
	after.Labels = exchange(pod.Labels, had.Labels, has.Labels, template.Labels)
	after.Annotations = exchange(pod.Annotations, had.Annotations, has.Annotations, template.Annotations)
	annotate(after, database.AnnotationMetadata, wanted)
	return p.Patch(ctx, action, &pod, after)
}

// given reads what a user has given to a pod. What cannot be read was not given.
func given(text string) v1alpha1.PodMetadata {
	var metadata v1alpha1.PodMetadata
	_ = json.Unmarshal([]byte(text), &metadata)
	return metadata
}

// exchange takes the keys of before out of a map and puts those of now in, with the values of the template, in which
// Meridian's own win.
func exchange(live, before, now, template map[string]string) map[string]string {
	result := map[string]string{}
	for key, value := range live {
		if _, gone := before[key]; !gone || template[key] == value {
			result[key] = value
		}
	}
	for key := range now {
		result[key] = template[key]
	}
	return result
}
