package render

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/database"
)

// setOf renders the StatefulSet of one instance. It replaces no pod by itself (OnDelete): when a running pod is
// replaced is a decision of the plan.
func setOf(design database.Design, instance database.InstanceDesign) (*appsv1.StatefulSet, error) {
	template, err := podTemplate(design, instance)
	if err != nil {
		return nil, err
	}
	replicas := int32(1)
	if instance.Stopped {
		replicas = 0
	}
	set := &appsv1.StatefulSet{
		ObjectMeta: meta(design, instance.Name, "instance"),
		Spec: appsv1.StatefulSetSpec{
			ServiceName:    database.PodsName(design.Name),
			Replicas:       &replicas,
			Selector:       &metav1.LabelSelector{MatchLabels: instanceLabels(design, instance.Name)},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Template:       template,
		},
	}
	set.Labels[database.LabelInstance] = instance.Name
	return set, nil
}
