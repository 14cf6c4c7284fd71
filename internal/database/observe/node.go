package observe

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
)

// readNodes looks at the nodes of pods that are not well. A node that cannot be read is not known to be lost.
func (p *pass) readNodes(ctx context.Context) error {
	for i := range p.facts.Instances {
		instance := &p.facts.Instances[i]
		pod := instance.Pod
		if pod == nil || pod.Node == "" || pod.Ready && !pod.Deleting {
			continue
		}
		var node corev1.Node
		found, err := get(ctx, p.Live, client.ObjectKey{Name: pod.Node}, &node)
		switch {
		case apierrors.IsForbidden(err):
		case err != nil:
			return err
		case !found:
			instance.Node.Gone = true
			if instance.Node.HasVolume, err = p.onNode(ctx, *instance, pod.Node); err != nil {
				return err
			}
		default:
			instance.Node = nodeFacts(&node)
		}
	}
	return nil
}

func nodeFacts(node *corev1.Node) database.Node {
	var facts database.Node
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			facts.AwaySince = condition.LastTransitionTime.Time
		}
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeOutOfService {
			facts.OutOfService = true
		}
	}
	return facts
}

// onNode says that a volume of an instance can be used on that node only, or is gone itself. One that cannot be read is
// not known to be so.
func (p *pass) onNode(ctx context.Context, instance database.Instance, node string) (bool, error) {
	for _, of := range p.facts.Claims(instance) {
		claim, err := p.claim(ctx, of.Name)
		if err != nil {
			return false, err
		}
		if claim == nil || claim.Spec.VolumeName == "" {
			continue
		}
		var volume corev1.PersistentVolume
		found, err := get(ctx, p.Live, client.ObjectKey{Name: claim.Spec.VolumeName}, &volume)
		switch {
		case apierrors.IsForbidden(err):
		case err != nil:
			return false, err
		case !found || boundTo(&volume, node):
			return true, nil
		}
	}
	return false, nil
}

// boundTo says that a volume can be used on one node alone: it is a folder or a disk of it, or it names this node, or a
// host, as the only place. A zone is a place with other nodes, and each term is another place.
func boundTo(volume *corev1.PersistentVolume, node string) bool {
	if volume.Spec.Local != nil || volume.Spec.HostPath != nil {
		return true
	}
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return false
	}
	terms := affinity.Required.NodeSelectorTerms
	if len(terms) != 1 {
		return false
	}
	places := slices.Concat(terms[0].MatchExpressions, terms[0].MatchFields)
	return slices.ContainsFunc(places, func(place corev1.NodeSelectorRequirement) bool {
		return place.Operator == corev1.NodeSelectorOpIn && len(place.Values) == 1 &&
			(place.Values[0] == node || place.Key == corev1.LabelHostname)
	})
}
