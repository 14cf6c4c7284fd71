package design

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/database"
)

// Problems says what is wrong with the spec.
func Problems(snapshot database.Snapshot) []string {
	var problems []string
	for _, problem := range refused(snapshot) {
		problems = append(problems, problem.String())
	}
	if snapshot.Problem != "" && len(problems) == 0 {
		problems = append(problems, snapshot.Problem)
	}
	return problems
}

// refused is what the rules of admission find wrong with the spec.
func refused(snapshot database.Snapshot) []admit.Problem {
	object := &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: snapshot.Namespace, Name: snapshot.Name}, Spec: snapshot.Spec,
	}
	// Claims are not told of: one that cannot grow or shrink holds back one change, and not the database.
	var facts admit.Facts
	for _, class := range snapshot.Classes {
		facts.Classes = append(facts.Classes, admit.StorageClass(class))
	}
	if facts.Classes == nil && snapshot.Classes != nil {
		facts.Classes = []admit.StorageClass{}
	}
	return admit.Database(object, nil, facts)
}
