package invariant

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/kit/rule"
)

// judged is what an action is judged by: what was observed, the plan that it is a part of, and what comes before it.
type judged struct {
	cache.Snapshot
	plan   cache.Plan
	before []cache.Action
}

// invariants are written from what must never happen, not from the rules. They see a plan as a stranger would.
var invariants = []rule.Invariant[judged, cache.Action]{
	never("cache.build-nothing-for-a-deleted-cache", buildsNothingForTheDead,
		"nothing is written for a cache that is being deleted", "GC1"),
	never("cache.write-nothing-invalid", touchesNothingInvalid,
		"nothing that comes from an invalid spec is written", "GC2"),
	never("cache.respect-the-pause", respectsPause, "while the cache is paused nothing but safety is written", "GC3"),
	never("cache.touch-nothing-foreign", touchesNothingForeign, "an object of another owner is never touched", "GC4"),
	never("cache.replace-no-authority", replacesNoAuthority,
		"no new authority takes the place of one that is trusted", "GC5"),
	never("cache.change-the-issuer-step-by-step", changesIssuerStepByStep,
		"whom applications trust changes by a step when everyone has what the one before has brought"),
	never("cache.create-credentials-once", makesCredentialsOnce,
		"credentials are made once, and replaced only when every instance accepts the next ones", "GC6"),
	never("cache.never-shrink-below-usage", neverShrinksBelowUsage,
		"no container gets smaller than what its server takes", "GC7"),
	never("cache.delete-only-stuck-pods", deletesOnlyStuckPods, "a pod in which a server may run is not deleted", "GC8"),
	never("cache.write-conditionally", isConditional,
		"a write names the version that it was decided on, a create names none", "GC9"),
	never("cache.create-the-lease-once", makesTheLeaseOnce,
		"a lease that an agent has obeyed is never made again, nor another one named to it", "GC10"),
	never("cache.remove-no-primary", removesNoPrimary,
		"neither the primary nor an instance that could become it is taken away", "GC11"),
	never("cache.restart-beside-a-copy", restartsBesideACopy,
		"a pod is restarted only while another instance leads or has everything", "GC13"),
	never("cache.end-after-the-database", endsAfterItsDatabase,
		"a cache is deleted only if its spec says so, when its database does not exist", "GC14"),
	never("cache.flush-only-when-asked", emptiesOnlyWhenAsked,
		"a cache is emptied only when somebody asks, and by its primary", "GC12"),
	rule.Never("cache.keep-to-the-lease", namesAnotherLease,
		"the settings name another lease only when no instance knows the one before", "GC10"),
	rule.Never("cache.write-once", repeats, "the second write of an object was decided on a state that the first one ends",
		"GC9"),
}

func never(
	id string, holds func(cache.Snapshot, cache.Action) bool, why string, was ...string,
) rule.Invariant[judged, cache.Action] {
	return rule.Never(id, func(by judged, action cache.Action) string {
		if holds(by.Snapshot, action) {
			return ""
		}
		return describeBroken(action, why)
	}, why, was...)
}

func describeBroken(action cache.Action, why string) string {
	return fmt.Sprintf("%s %s %s: %s", action.Verb(), action.Kind, action.Name, why)
}

// Rules are what no plan may break.
func Rules() []rule.Rule { return rule.Invariants(invariants) }

// Check says which invariants the plan would break. It is asked before every write.
func Check(snapshot cache.Snapshot, plan cache.Plan) []rule.Violation {
	var violations []rule.Violation
	for index, action := range plan.Actions {
		violations = append(violations, rule.Check(invariants, judged{snapshot, plan, plan.Actions[:index]}, action)...)
	}
	return violations
}

func repeats(by judged, action cache.Action) string {
	if !slices.ContainsFunc(by.before, func(earlier cache.Action) bool {
		return earlier.Kind == action.Kind && earlier.Name == action.Name
	}) {
		return ""
	}
	return describeBroken(action, "an object is written once in a plan")
}
