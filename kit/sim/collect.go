package sim

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Collect takes one step of the controllers that come with every cluster and end what nobody needs any more: the
// garbage collector, and the protection of claims. It reports whether there was anything to do, so a caller that wants
// all of it calls until there is not. Real ones lag behind by any time, so nothing of this happens by itself.
//
// A dependent whose owners are all gone is deleted; if only some are, it loses the references to them. The finalizers
// of a foreground or an orphaning deletion are carried out and taken away. The claim protection goes from a claim that
// is being deleted when no pod names it.
func (s *Server) Collect() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, table := range s.tables {
		for _, key := range table.keys {
			if object := table.now(key); object != nil && concerned(object) && s.collect(table, object) {
				return true
			}
		}
	}
	return false
}

// concerned says that an object could be of interest: it has an owner, or is being deleted.
func concerned(object *unstructured.Unstructured) bool {
	metadata, _ := object.Object["metadata"].(map[string]any)
	return metadata["ownerReferences"] != nil || metadata["deletionTimestamp"] != nil
}

func (s *Server) collect(t *table, object *unstructured.Unstructured) bool {
	if object.GetDeletionTimestamp() != nil {
		return s.finishDependents(t, object) || s.releaseClaim(t, object)
	}
	owners := object.GetOwnerReferences()
	var gone []types.UID
	waiting := false
	for _, owner := range owners {
		if !s.ownerHolds(object.GetNamespace(), owner) {
			gone = append(gone, owner.UID)
			waiting = waiting || s.owner(object.GetNamespace(), owner) != nil
		}
	}
	switch {
	case len(gone) == 0:
		return false
	case len(gone) < len(owners):
		s.orphan(dependent{table: t, object: object}, gone...)
		return true
	}
	// An owner that waits for its dependents waits for theirs, too.
	policy := metav1.DeletePropagationBackground
	if waiting && len(s.dependents(object)) > 0 {
		policy = metav1.DeletePropagationForeground
	}
	s.end(t, object, metav1.DeleteOptions{PropagationPolicy: &policy})
	return true
}

// ownerHolds reports whether an owner keeps its dependents. One of an unknown kind does: the real collector, too, does
// not delete what it cannot look up.
func (s *Server) ownerHolds(namespace string, reference metav1.OwnerReference) bool {
	if _, known := s.byKind[kindOf(reference)]; !known {
		return true
	}
	owner := s.owner(namespace, reference)
	return owner != nil &&
		(owner.GetDeletionTimestamp() == nil || !slices.Contains(owner.GetFinalizers(), metav1.FinalizerDeleteDependents))
}

// owner finds the object that a reference means, by UID: one of the same name is another. An owner in another namespace
// is none.
func (s *Server) owner(namespace string, reference metav1.OwnerReference) *unstructured.Unstructured {
	table, known := s.byKind[kindOf(reference)]
	if !known {
		return nil
	}
	if table.kind.Cluster {
		namespace = ""
	}
	found := table.now(types.NamespacedName{Namespace: namespace, Name: reference.Name})
	if found == nil || found.GetUID() != reference.UID {
		return nil
	}
	return found
}

func kindOf(reference metav1.OwnerReference) schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
}

// dependent is an object with a reference to the owner in question.
type dependent struct {
	table  *table
	object *unstructured.Unstructured
	blocks bool // whether a foreground deletion waits for it
}

func (s *Server) dependents(owner *unstructured.Unstructured) []dependent {
	var found []dependent
	for _, table := range s.tables {
		for _, key := range table.keys {
			object := table.now(key)
			if object == nil {
				continue
			}
			if !concerned(object) {
				continue
			}
			for _, reference := range object.GetOwnerReferences() {
				if reference.UID == owner.GetUID() {
					blocks := reference.BlockOwnerDeletion != nil && *reference.BlockOwnerDeletion
					found = append(found, dependent{table, object, blocks})
				}
			}
		}
	}
	return found
}

// finishDependents carries out the finalizer of a deletion that cares for dependents.
func (s *Server) finishDependents(t *table, owner *unstructured.Unstructured) bool {
	switch finalizers := owner.GetFinalizers(); {
	case slices.Contains(finalizers, metav1.FinalizerOrphanDependents):
		if dependents := s.dependents(owner); len(dependents) > 0 {
			s.orphan(dependents[0], owner.GetUID())
			return true
		}
		return s.dropFinalizer(t, owner, metav1.FinalizerOrphanDependents)
	case slices.Contains(finalizers, metav1.FinalizerDeleteDependents):
		for _, each := range s.dependents(owner) {
			if each.blocks {
				return false // It is deleted as one without an owner, and waited for here.
			}
		}
		return s.dropFinalizer(t, owner, metav1.FinalizerDeleteDependents)
	default:
		return false
	}
}

// orphan takes references to owners away.
func (s *Server) orphan(from dependent, owners ...types.UID) {
	object := from.object.DeepCopy()
	object.SetOwnerReferences(slices.DeleteFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return slices.Contains(owners, reference.UID)
	}))
	s.put(from.table, object)
}

func (s *Server) dropFinalizer(t *table, object *unstructured.Unstructured, name string) bool {
	object = object.DeepCopy()
	object.SetFinalizers(slices.DeleteFunc(object.GetFinalizers(), func(each string) bool { return each == name }))
	if finished(object) {
		s.remove(t, keyOf(object))
	} else {
		s.put(t, object)
	}
	return true
}

// releaseClaim takes the protection from a claim that no pod uses.
func (s *Server) releaseClaim(t *table, claim *unstructured.Unstructured) bool {
	if t.kind.GroupVersionKind != coreV1.WithKind("PersistentVolumeClaim") ||
		!slices.Contains(claim.GetFinalizers(), ProtectionFinalizer) {
		return false
	}
	pods, _, err := s.find(Query{Kind: coreV1.WithKind("Pod"), Namespace: claim.GetNamespace()})
	if err != nil && !meta.IsNoMatchError(err) {
		return false
	}
	for _, pod := range pods {
		for _, volume := range listAt(pod.object.Object, "spec.volumes") {
			if valueAt(volume, "persistentVolumeClaim.claimName") == claim.GetName() {
				return false
			}
		}
	}
	return s.dropFinalizer(t, claim, ProtectionFinalizer)
}
