package sim

import (
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Delete ends an object at once, or marks it when a finalizer or a grace period holds it. It follows the real server
// step by step, because controllers meet every one of these combinations. The garbage collector comes later: see
// Collect.
func (s *Server) Delete(at Target, options metav1.DeleteOptions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	table, key, err := s.open(at)
	if err != nil {
		return err
	}
	old := table.now(key)
	if old == nil {
		return apierrors.NewNotFound(table.kind.resource(), key.Name)
	}
	if err := checkPreconditions(table.kind, key, old, options.Preconditions); err != nil {
		return err
	}
	if !at.DryRun && losesItsVersion(table.kind, old, options) {
		return conflict(table.kind, key, "Precondition failed: ResourceVersion in object meta: 0")
	}
	if !at.DryRun {
		s.end(table, old, options)
	}
	return nil
}

// losesItsVersion tells a case in which the real server fails: it takes the last finalizer, which stood for another
// treatment of dependents, away in memory, and then misses the version that it was asked to check.
func losesItsVersion(kind *Kind, old *unstructured.Unstructured, options metav1.DeleteOptions) bool {
	had := old.GetFinalizers()
	grace := old.GetDeletionGracePeriodSeconds()
	graceful := kind.Graceful && (old.GetDeletionTimestamp() == nil || grace != nil && *grace > 0)
	return !graceful && len(had) > 0 && len(finalizersFor(had, options)) == 0 &&
		options.Preconditions != nil && options.Preconditions.ResourceVersion != nil
}

func checkPreconditions(
	kind *Kind, key types.NamespacedName, old *unstructured.Unstructured, wanted *metav1.Preconditions,
) error {
	if wanted == nil {
		return nil
	}
	if wanted.UID != nil && *wanted.UID != old.GetUID() {
		return conflict(kind, key, "Precondition failed: UID in precondition: "+string(*wanted.UID)+
			", UID in object meta: "+string(old.GetUID()))
	}
	if wanted.ResourceVersion != nil && *wanted.ResourceVersion != old.GetResourceVersion() {
		return conflict(kind, key, "Precondition failed: ResourceVersion in precondition: "+*wanted.ResourceVersion+
			", ResourceVersion in object meta: "+old.GetResourceVersion())
	}
	return nil
}

// end carries out a deletion whose preconditions hold.
func (s *Server) end(t *table, old *unstructured.Unstructured, options metav1.DeleteOptions) {
	object := old.DeepCopy()
	graceful, pending := s.beginGracefully(t.kind, object, options)
	if pending {
		return
	}
	finalizers := finalizersFor(old.GetFinalizers(), options)
	if !slices.Equal(finalizers, old.GetFinalizers()) {
		object.SetFinalizers(finalizers)
	}
	switch {
	case !graceful && len(finalizers) == 0:
		s.remove(t, keyOf(old))
		return
	case !graceful:
		s.markDeleted(object)
	}
	if !sameContent(object, old) {
		s.put(t, object)
	}
	// A grace period of zero is written down first and carried out then: watchers see both.
	if finished(object) {
		s.remove(t, keyOf(old))
	}
}

// beginGracefully writes the grace period into an object whose kind has one. Pending means that it is already being
// deleted, no later than is asked for now.
func (s *Server) beginGracefully(
	kind *Kind, object *unstructured.Unstructured, options metav1.DeleteOptions,
) (graceful, pending bool) {
	if !kind.Graceful {
		return false, false
	}
	since, had := object.GetDeletionTimestamp(), object.GetDeletionGracePeriodSeconds()
	if since != nil {
		switch {
		case had == nil || *had == 0:
			return false, false
		case options.GracePeriodSeconds == nil || *options.GracePeriodSeconds >= *had:
			return false, true
		}
		sooner := metav1.NewTime(since.Add(time.Duration(*options.GracePeriodSeconds-*had) * time.Second))
		object.SetDeletionTimestamp(&sooner)
		object.SetDeletionGracePeriodSeconds(options.GracePeriodSeconds)
		return true, false
	}
	period := gracePeriod(object, options)
	at := metav1.NewTime(s.now().UTC().Add(time.Duration(period) * time.Second))
	object.SetDeletionTimestamp(&at)
	object.SetDeletionGracePeriodSeconds(&period)
	bumpGeneration(object)
	return true, false
}

// gracePeriod is that of a pod: none if nothing of it runs.
func gracePeriod(object *unstructured.Unstructured, options metav1.DeleteOptions) int64 {
	period := int64(0)
	if configured, ok := valueAt(object.Object, "spec.terminationGracePeriodSeconds").(int64); ok {
		period = configured
	}
	if options.GracePeriodSeconds != nil {
		period = *options.GracePeriodSeconds
	}
	node, _ := valueAt(object.Object, "spec.nodeName").(string)
	phase, _ := valueAt(object.Object, "status.phase").(string)
	switch {
	case node == "", phase == "Failed", phase == "Succeeded":
		return 0
	case period < 0:
		return 1
	}
	return period
}

// markDeleted is the deletion of an object that finalizers keep.
func (s *Server) markDeleted(object *unstructured.Unstructured) {
	now := metav1.NewTime(s.now().UTC())
	since := object.GetDeletionTimestamp()
	if since == nil {
		bumpGeneration(object)
	}
	if since == nil || since.After(now.Time) {
		object.SetDeletionTimestamp(&now)
	}
	object.SetDeletionGracePeriodSeconds(new(int64(0)))
}

// bumpGeneration makes controllers look again at what is going away.
func bumpGeneration(object *unstructured.Unstructured) {
	if object.GetGeneration() > 0 {
		object.SetGeneration(object.GetGeneration() + 1)
	}
}

// finalizersFor adds the finalizer that stands for the wanted treatment of dependents, and takes the other one away.
func finalizersFor(had []string, options metav1.DeleteOptions) []string {
	policy := metav1.DeletePropagationBackground
	switch {
	case options.PropagationPolicy != nil:
		policy = *options.PropagationPolicy
	case slices.Contains(had, metav1.FinalizerOrphanDependents):
		policy = metav1.DeletePropagationOrphan
	case slices.Contains(had, metav1.FinalizerDeleteDependents):
		policy = metav1.DeletePropagationForeground
	}
	var finalizers []string
	for _, name := range had {
		if name != metav1.FinalizerOrphanDependents && name != metav1.FinalizerDeleteDependents {
			finalizers = append(finalizers, name)
		}
	}
	switch policy {
	case metav1.DeletePropagationOrphan:
		finalizers = append(finalizers, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		finalizers = append(finalizers, metav1.FinalizerDeleteDependents)
	case metav1.DeletePropagationBackground:
	}
	if sameSet(finalizers, had) {
		return had
	}
	return finalizers
}

func sameSet(a, b []string) bool {
	within := func(x, y []string) bool {
		return !slices.ContainsFunc(x, func(name string) bool { return !slices.Contains(y, name) })
	}
	return within(a, b) && within(b, a)
}
