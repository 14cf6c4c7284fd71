package act

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// patience is how long an agent may take to accept a request.
const patience = 3 * time.Second

// deleteSet deletes the StatefulSet of an instance, whose pod goes with it.
func (p *pass) deleteSet(ctx context.Context, action cache.Action) (cache.Result, error) {
	var set appsv1.StatefulSet
	if err := p.ReadAsDecided(ctx, action, &set); err != nil {
		return cache.Result{}, err
	}
	return p.Delete(ctx, action, &set, client.PropagationPolicy(metav1.DeletePropagationForeground))
}

// tellPod writes onto a pod which settings are stored. The kubelet brings the mounted files up to date whenever its pod
// changes, and otherwise only once in a while.
func (p *pass) tellPod(ctx context.Context, action cache.Action, hash string) (cache.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return cache.Result{}, err
	}
	after := pod.DeepCopy()
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[cache.AnnotationSettings] = hash
	return p.Patch(ctx, action, &pod, after)
}

// changeCache changes the GeoCache itself: it takes a request away that was carried out, or binds it to its database.
func (p *pass) changeCache(
	ctx context.Context, action cache.Action, change func(*v1alpha1.GeoCache),
) (cache.Result, error) {
	var now v1alpha1.GeoCache
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(p.object), &now); err != nil {
		return cache.Result{}, fmt.Errorf("read the cache live: %w", err)
	}
	if now.UID != p.object.UID || now.DeletionTimestamp != nil ||
		now.Annotations[cache.AnnotationFlush] != p.object.Annotations[cache.AnnotationFlush] {
		return cache.Result{}, moved(action, "the cache was changed since")
	}
	after := now.DeepCopy()
	change(after)
	return p.Patch(ctx, action, &now, after)
}

// bind makes the database an owner of the cache, or no owner with an empty UID. It blocks nothing: the database does
// not wait for its caches.
func bind(object *v1alpha1.GeoCache, database string) {
	object.OwnerReferences = slices.DeleteFunc(object.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.APIVersion == v1alpha1.GroupVersion.String() && owner.Kind == "GeoDatabase"
	})
	if database != "" {
		object.OwnerReferences = append(object.OwnerReferences, metav1.OwnerReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "GeoDatabase", Name: object.Spec.DatabaseRef.Name,
			UID: types.UID(database),
		})
	}
}

// deleteCache deletes the cache after its database, which a live read must not find any more.
func (p *pass) deleteCache(ctx context.Context, action cache.Action, of string) (cache.Result, error) {
	var database v1alpha1.GeoDatabase
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: of}, &database)
	switch {
	case err == nil:
		return cache.Result{}, moved(action, "the database exists")
	case !apierrors.IsNotFound(err):
		return cache.Result{}, fmt.Errorf("read the database live: %w", err)
	}
	var now v1alpha1.GeoCache
	err = p.Live.Get(ctx, client.ObjectKeyFromObject(p.object), &now)
	switch {
	case apierrors.IsNotFound(err):
		return cache.Result{Done: true}, nil
	case err != nil:
		return cache.Result{}, fmt.Errorf("read the cache live: %w", err)
	case string(now.UID) != action.UID || !now.Spec.FollowDatabase || now.Spec.Paused:
		return cache.Result{}, moved(action, "the cache was changed since")
	}
	return p.Delete(ctx, action, &now, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// askFlush asks the agent of the primary. Asking twice for the same request is asking once.
func (p *pass) askFlush(ctx context.Context, action cache.Action, request string) (cache.Result, error) {
	var pod corev1.Pod
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: cache.PodName(action.Name)}, &pod)
	if err != nil {
		return cache.Result{}, fmt.Errorf("read the pod live: %w", err)
	}
	if string(pod.UID) != action.UID || pod.Status.PodIP == "" {
		return cache.Result{}, moved(action, "it is another pod")
	}
	authority, err := p.secret(ctx, cache.AuthorityName(p.design.Name))
	if err != nil {
		return cache.Result{}, err
	}
	leaf, err := p.secret(ctx, cache.LeafName(p.design.Name))
	if err != nil {
		return cache.Result{}, err
	}
	state, err := render.Material(authority, leaf)
	if err != nil {
		return cache.Result{}, fmt.Errorf("read the stored authorities: %w", err)
	}
	material, err := state.Material(render.OperatorProfile)
	if err != nil {
		return cache.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	agent := service.Agent{Address: pod.Status.PodIP, Host: render.AgentHost(p.design.Identity), Material: material}
	err = p.Flush(ctx, agent, wire.Flush{ID: request})
	return cache.Result{Done: err == nil}, err
}

// FlushAgent asks an agent to empty its server.
func FlushAgent(ctx context.Context, agent service.Agent, request wire.Flush) error {
	answer, err := agent.Post(ctx, wire.PathFlush, request)
	if err == nil && answer.Status >= http.StatusMultipleChoices {
		err = fmt.Errorf("the agent answers %d", answer.Status)
	}
	return err
}
