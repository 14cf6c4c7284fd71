package condition_test

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/kit/condition"
)

const (
	AllWell    condition.Reason = "AllWell"
	AwaitingIt condition.Reason = "AwaitingPods"
)

func Example() {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

	// The first pass finds two of three Pods.
	first := condition.Merge(nil, condition.At{Generation: 1, Now: noon},
		condition.False(condition.Ready, AwaitingIt, "2 of 3 Pods are ready"),
		condition.True(condition.Reconciling, AwaitingIt, "2 of 3 Pods are ready"),
	)
	// A minute later all are there.
	second := condition.Merge(first, condition.At{Generation: 1, Now: noon.Add(time.Minute)},
		condition.True(condition.Ready, AllWell, "3 of 3 Pods are ready"),
		condition.False(condition.Reconciling, AllWell, "nothing is under way"),
	)
	// Another minute later nothing has changed, the times have not either.
	third := condition.Merge(second, condition.At{Generation: 1, Now: noon.Add(2 * time.Minute)},
		condition.True(condition.Ready, AllWell, "3 of 3 Pods are ready"),
		condition.False(condition.Reconciling, AllWell, "nothing is under way"),
	)

	for _, conditions := range [][]metav1.Condition{first, second, third} {
		verdict, why := condition.Read(condition.View{Generation: 1, ObservedGeneration: 1, Conditions: conditions})
		since := condition.Find(conditions, condition.Ready).LastTransitionTime.Format(time.TimeOnly)
		fmt.Printf("%s, Ready changed at %s (%s)\n", verdict, since, why)
	}
	// Output:
	// InProgress, Ready changed at 12:00:00 (Reconciling is True: AwaitingPods: 2 of 3 Pods are ready)
	// Current, Ready changed at 12:01:00 (Ready is True: AllWell: 3 of 3 Pods are ready)
	// Current, Ready changed at 12:01:00 (Ready is True: AllWell: 3 of 3 Pods are ready)
}

// An object that claims to be ready in the middle of a change is read differently
// by different tools.
func ExampleCheck() {
	conditions := condition.Merge(nil, condition.At{Generation: 7, Now: time.Unix(0, 0)},
		condition.True(condition.Ready, "AllWell", ""),
		condition.True(condition.Progressing, "rolling out", ""),
	)
	for _, problem := range condition.Check(condition.View{Generation: 7, ObservedGeneration: 7, Conditions: conditions}) {
		fmt.Println(problem)
	}
	// Output:
	// WellFormed: condition "Progressing": the reason "rolling out" is not a CamelCase word
	// ReadyAlone: Ready and Progressing are both True
}

// A test compares the catalogue with the pages of the runbook.
func ExampleCatalogue_Compare() {
	catalogue := condition.MustCatalogue(
		condition.Entry{Reason: AllWell, Means: "Everything is as the spec wishes."},
		condition.Entry{Reason: AwaitingIt, Means: "Some Pods are not ready yet."},
	)
	missing, orphaned := catalogue.Compare([]string{"AllWell", "OutOfFashion"})
	fmt.Println("no page for:", missing)
	fmt.Println("no reason for:", orphaned)
	// Output:
	// no page for: [AwaitingPods]
	// no reason for: [OutOfFashion]
}
