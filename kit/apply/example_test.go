package apply_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"meridian.dev/meridian/kit/apply"
)

// The children of a Fleet are written under one name. A ConfigMap is created, then found unchanged, then changed by
// somebody else and repaired, and last it loses a key that is no longer wanted while a label of others stays.
func Example() {
	ctx := context.Background()
	api := newServer() // In a controller: the manager's client, and its API reader for Live.
	author := apply.Author{Scheme: scheme.Scheme, Prefix: "example.com", Manager: "fleet-controller"}
	actor := apply.Actor{Client: api, Live: api}

	pass := func(data map[string]string) {
		want, err := author.Intent(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "a", Name: "chart", OwnerReferences: controlledBy("north", "fleet-uid"),
			},
			Data: data,
		}, "fleet-uid")
		if err != nil {
			fmt.Println(err)
			return
		}
		difference := apply.Compare(want, api.live(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "chart"},
		}))
		fmt.Println(difference.State)
		action, needed := difference.Action()
		if !needed {
			return
		}
		for _, change := range difference.Changes {
			fmt.Println("  " + change.String())
		}
		result, err := actor.Do(ctx, action)
		fmt.Println("  "+action.String()+":", result.Outcome, err)
	}

	pass(map[string]string{"north": "1", "south": "2"})
	pass(map[string]string{"north": "1", "south": "2"})

	somebody := api.objects["ConfigMap a/chart"].DeepCopyObject().(*corev1.ConfigMap)
	somebody.Data["north"] = "9"
	somebody.Labels = map[string]string{"team": "blue"}
	api.store(somebody, nil)
	pass(map[string]string{"north": "1", "south": "2"})

	pass(map[string]string{"north": "1"})
	fmt.Println(api.live(somebody).(*corev1.ConfigMap).Data, api.live(somebody).GetLabels())

	// Output:
	// Absent
	//   Create ConfigMap a/chart: Done <nil>
	// Same
	// Drifted
	//   data.north: "9" → "1"
	//   Update ConfigMap a/chart at 102: Done <nil>
	// Changed
	//   data.south: "2" → absent
	//   Update ConfigMap a/chart at 103: Done <nil>
	// map[north:1] map[team:blue]
}
