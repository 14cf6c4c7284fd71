package rule_test

import (
	"fmt"

	"meridian.dev/meridian/kit/rule"
)

// world is what was observed, draft the plan in the making.
type (
	world struct{ replicas, wanted int }
	draft struct {
		world
		remove int
	}
)

var steps = []rule.Step[*draft]{
	rule.Do("fleet.wait-for-a-wish", func(d *draft) bool { return d.wanted == 0 },
		"without a wish nothing is begun"),
	rule.Do("fleet.remove-what-is-too-much", func(d *draft) bool {
		d.remove = d.replicas - d.wanted
		return false
	}, "what nobody wants costs money"),
}

var invariants = []rule.Invariant[world, int]{
	rule.Never("fleet.keep-the-last", func(w world, remove int) string {
		if remove >= w.replicas {
			return fmt.Sprintf("%d of %d replicas would be removed", remove, w.replicas)
		}
		return ""
	}, "the last replica has the only copy"),
}

func Example() {
	plan := draft{world: world{replicas: 3, wanted: 1}}
	rule.Run(steps, &plan)
	fmt.Println("remove", plan.remove, rule.Check(invariants, plan.world, plan.remove))
	fmt.Println(rule.Check(invariants, plan.world, 3))
	for _, each := range append(rule.Steps(steps), rule.Invariants(invariants)...) {
		fmt.Printf("%s: %s, because %s\n", each.Loop(), each.Name(), each.Why)
	}
	// Output:
	// remove 2 []
	// [fleet.keep-the-last: 3 of 3 replicas would be removed]
	// fleet: wait for a wish, because without a wish nothing is begun
	// fleet: remove what is too much, because what nobody wants costs money
	// fleet: keep the last, because the last replica has the only copy
}
