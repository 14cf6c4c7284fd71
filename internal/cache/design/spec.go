package design

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/cache"
)

// Problems says what is wrong with the spec.
func Problems(snapshot cache.Snapshot) []string {
	var problems []string
	object := &v1alpha1.GeoCache{
		ObjectMeta: metav1.ObjectMeta{Namespace: snapshot.Namespace, Name: snapshot.Name}, Spec: snapshot.Spec,
	}
	for _, problem := range admit.Cache(object, nil, admit.Facts{}) {
		problems = append(problems, problem.String())
	}
	if snapshot.Problem != "" && len(problems) == 0 {
		problems = append(problems, snapshot.Problem)
	}
	return problems
}
