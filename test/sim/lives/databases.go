package lives

import (
	"slices"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/sim/search"
)

// names are those of instances, by number.
func names(numbers ...int) []string {
	var list []string
	for _, number := range numbers {
		list = append(list, database.InstanceName(Cities.Name, number))
	}
	return list
}

// upTo are the first instances.
func upTo(last int) []string {
	var list []string
	for number := 1; number <= last; number++ {
		list = append(list, names(number)...)
	}
	return list
}

var (
	created1 = Life{
		Name: "create one", Script: []search.Step{createDatabase(1, v1alpha1.ReclaimRetain)},
		End: all(served(upTo(1)...), claims(upTo(1)...)),
	}
	created3 = Life{
		Name: "create three", Script: []search.Step{createDatabase(3, v1alpha1.ReclaimDelete)},
		End: all(served(upTo(3)...), claims(upTo(3)...)),
	}
	kept3 = Life{
		Name: "create three to keep", Script: []search.Step{createDatabase(3, v1alpha1.ReclaimRetain)},
		End: all(served(upTo(3)...), claims(upTo(3)...)),
	}

	one, three, keptThree = after(created1), after(created3), after(kept3)

	deletedAndKept = Life{
		Name: "deleted and kept", From: keptThree, Restarts: 1, Script: []search.Step{drop()},
		End: all(gone, claims(upTo(3)...)),
	}
	adoptable = after(deletedAndKept)
)

// Databases are the lives of a database.
func Databases() []Life {
	return slices.Concat(births(), wishes(), growing(), rotations(), rolls(), losses(), ends(), oddities())
}

func births() []Life {
	return []Life{
		created1, created3,
		{Name: "a name is taken", End: isStuck, Script: []search.Step{squat(), createDatabase(3, v1alpha1.ReclaimDelete)}},
	}
}

// wishes need no restart.
func wishes() []Life {
	return []Life{
		{Name: "scale up", From: three, Script: []search.Step{scale(4)}, End: served(upTo(4)...)},
		{Name: "scale down", From: three, Restarts: 1, Script: []search.Step{scale(2)},
			End: all(served(upTo(2)...), claims(upTo(2)...))},
		{Name: "scale down and keep", From: keptThree, Restarts: 1, Script: []search.Step{scale(2)},
			End: all(served(upTo(2)...), claims(upTo(3)...))},
		{Name: "scale up and think again", From: three, Restarts: 1, Script: []search.Step{scale(4), scale(3)},
			End: all(served(upTo(3)...), claims(upTo(3)...))},
		{Name: "another parameter", From: three, End: all(served(upTo(3)...), hasParameter("work_mem", "7MB")),
			Script: []search.Step{parameter("work_mem", "7MB")}},
		{Name: "grow volumes", From: three, Script: []search.Step{grow("2Gi")}, End: all(served(upTo(3)...), hasSize("2Gi"))},
		{Name: "switchover", From: three, Script: []search.Step{switchTo("cities-2")}, Moves: 1,
			End: all(served(upTo(3)...), isPrimary("cities-2"))},
		{Name: "paused", From: three, End: func(state search.State) error { return hasInstances(state, upTo(3)...) },
			Script: []search.Step{pause(true), scale(4)}},
		{Name: "paused and not any more", From: three, End: served(upTo(4)...),
			Script: []search.Step{pause(true), scale(4), pause(false)}},
	}
}

// rolls restart instances, one at a time.
func rolls() []Life {
	return []Life{
		{Name: "another image", From: three, Restarts: 1, Moves: 1, Script: []search.Step{image("postgis:17-1")},
			End: all(served(upTo(3)...), runs("postgis:17-1"))},
		{Name: "an image that is not there, and back", From: three, Restarts: 2, Moves: 1, End: served(upTo(3)...),
			Script: []search.Step{image(missing + ":1"), image("")}},
		{Name: "a restart", From: three, Restarts: 1, Moves: 1, End: served(upTo(3)...), Script: []search.Step{restart()}},
		{Name: "a parameter that takes a start", From: three, Moves: 1,
			Script: []search.Step{parameter("max_connections", "150")},
			End:    all(served(upTo(3)...), hasParameter("max_connections", "150"))},
		{Name: "more memory for instances", From: three, Moves: 1, Script: []search.Step{enlarge("2Gi")},
			End: served(upTo(3)...)},
		{Name: "hibernate and wake", From: three, Restarts: 1, Script: []search.Step{hibernate(true), hibernate(false)},
			End: all(served(upTo(3)...), claims(upTo(3)...))},
		{Name: "one instance gets another image", From: one, Restarts: 1, Script: []search.Step{image("postgis:17-1")},
			End: all(served(upTo(1)...), runs("postgis:17-1"))},
		{Name: "another version of the operator", From: three, End: served(upTo(3)...),
			Script: []search.Step{upgrade(databaseOperator)}},
		{Name: "another version, and the window is open", From: three, Restarts: 1, Moves: 1,
			Script: []search.Step{maintain("daily 00:00-23:59"), upgrade(databaseOperator)},
			End:    all(served(upTo(3)...), installs("meridian:2"))},
	}
}

func losses() []Life {
	return []Life{
		{Name: "a replica ends", From: three, Restarts: 1, Script: []search.Step{endPodOf("cities-3")},
			End: served(upTo(3)...)},
		{Name: "the primary ends", From: three, Restarts: 1, Moves: 1, Script: []search.Step{endPodOf("cities-1")},
			End: served(upTo(3)...)},
		{Name: "one instance restarts", From: one, Restarts: 1, Script: []search.Step{endPodOf("cities-1")},
			End: served(upTo(1)...)},
		{Name: "a node is lost", From: three, Script: []search.Step{loseNodeOf(3)}, Restarts: 2,
			End: served(names(1, 2, 4)...)},
		{Name: "the node of the primary is lost", From: three, Script: []search.Step{loseNodeOf(1)}, Restarts: 2,
			End: served(names(2, 3, 4)...)},
		{Name: "a node is away for a minute", From: three, Restarts: 1, End: served(upTo(3)...), Script: []search.Step{
			loseNodeOf(3), {Name: "node3 is back", Do: bringBack(3)},
		}},
		{Name: "a claim is lost", From: three, Restarts: 1, Script: []search.Step{loseClaimOf("cities-3")},
			End: served(names(1, 2, 4)...)},
		{Name: "the claim of the primary is lost", From: three, Restarts: 1, Moves: 1,
			Script: []search.Step{loseClaimOf("cities-1")}, End: served(names(2, 3, 4)...)},
		{Name: "the lease is lost", From: three, Script: []search.Step{loseLease()}, End: served(upTo(3)...)},
		{Name: "children are spoilt", From: three, Script: []search.Step{spoil()}, End: served(upTo(3)...)},
		{Name: "certificates end", From: three, Script: []search.Step{
			{Name: "40 days pass", Wait: 40 * 24 * time.Hour}, {Name: "40 days pass", Wait: 40 * 24 * time.Hour},
		}, End: all(served(upTo(3)...), hasNewSecret(database.LeafName(Cities.Name)))},
	}
}

func ends() []Life {
	return []Life{
		deletedAndKept,
		{Name: "deleted with all", From: three, Restarts: 1, Script: []search.Step{drop()}, End: all(gone, claims())},
		{Name: "deleted, and then kept", From: three, Restarts: 1, End: all(gone, claims(upTo(3)...)),
			Script: []search.Step{reclaim(v1alpha1.ReclaimRetain), drop()}},
		{Name: "deleted before it was there", Restarts: 1, End: all(gone, claims()),
			Script: []search.Step{createDatabase(3, v1alpha1.ReclaimDelete), drop()}},
	}
}

func oddities() []Life {
	return []Life{
		// O1 in README.md: to hand over what was kept leads nowhere yet. What is checked is that nothing is lost by it.
		{Name: "adopted", From: adoptable, End: all(isStalled, claims(upTo(3)...)),
			Script: []search.Step{createDatabase(3, v1alpha1.ReclaimRetain), handOver()}},
	}
}
