package plan

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
)

// Violation is an invariant that a plan would break.
type Violation struct {
	Rule, Detail string
}

// invariants are written from what must never happen, not from the rules. They see a plan as a stranger would.
var invariants = []struct {
	id    string
	holds func(database.Snapshot, database.Plan, database.Action) bool
	never string
}{
	{"DB1", deletesOnlyWhatMayGo, "a claim is deleted only with its database, by the word of its spec, and by its UID"},
	{"DB1", releasesOnlyWhenDone, "the finalizer stays while a claim that must go is there"},
	{"DB2", touchesNothingInvalid, "nothing that comes from an invalid spec is written"},
	{"DB3", touchesNothingForeign, "an object of another owner is never touched"},
	{"DB4", makesCredentialsOnce, "credentials that exist are never rewritten"},
	{"DB12", replacesNoAuthority, "no new authority takes the place of one that is trusted"},
	{"DB5", shrinksNothing, "no claim asks for less than it has"},
	{"DB6", replacesNoVolume, "no empty claim takes the place of one that had data"},
	{"DB6", keepsCopies, "the record of the data is written where it is missing, and never changes"},
	{"DB7", deletesOnlyStuckPods, "a pod in which PostgreSQL may run is not deleted"},
	{"DB11", keepsDataOfDeletedClaims, "no pod is deleted while its claim is gone, unseen or being deleted"},
	{"DB8", isConditional, "a write names the version that it was decided on, a create names none"},
	{"DB9", respectsPause, "while the database is paused nothing but safety is written"},
	{"DB10", buildsNothingForTheDead, "nothing is made or changed for a database that is being deleted"},
}

// Check says which invariants the plan would break. It is asked before every write.
func Check(snapshot database.Snapshot, plan database.Plan) []Violation {
	var violations []Violation
	for _, action := range plan.Actions {
		for _, invariant := range invariants {
			if !invariant.holds(snapshot, plan, action) {
				violations = append(violations, Violation{invariant.id, fmt.Sprintf(
					"%s %s %s: %s", action.Verb, action.Kind, action.Name, invariant.never)})
			}
		}
	}
	return append(violations, repeated(plan)...)
}

func deletesOnlyWhatMayGo(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if action.Verb != database.DeleteClaim {
		return true
	}
	ours := slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return instance.Name == action.Name && instance.Claim != nil && instance.Claim.UID == action.UID
	})
	return ours && s.Deleting && s.Spec.Storage.Reclaim == v1alpha1.ReclaimDelete
}

func releasesOnlyWhenDone(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if action.Verb != database.Release || s.Spec.Storage.Reclaim != v1alpha1.ReclaimDelete {
		return true
	}
	return s.Deleting && !slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return instance.Claim != nil && !instance.Claim.Deleting
	})
}

// touchesNothingInvalid lists what does not come from the spec, and growth, which comes from one field of it.
func touchesNothingInvalid(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if s.Deleting || len(Problems(s)) == 0 {
		return true
	}
	switch action.Verb {
	case database.StoreRecord, database.Release:
		return true
	case database.Grow:
		return SizeCounts(s)
	case database.StoreCertificates:
		return s.Certificates.Leaf.Exists
	case database.Create, database.Update:
		return action.Kind == database.KindService && len(s.Instances) > 0
	default:
		return false
	}
}

func touchesNothingForeign(s database.Snapshot, _ database.Plan, action database.Action) bool {
	child, found := s.Child(action.Kind, action.Name)
	if found && (child.State == database.Foreign || child.State == database.Unreadable) {
		return false
	}
	switch action.Verb {
	case database.CreateBinding:
		return s.Binding.Foreign == ""
	case database.StoreCertificates:
		return s.Certificates.Authority.Foreign == "" && s.Certificates.Leaf.Foreign == "" &&
			s.Certificates.Problem == ""
	default:
		return true
	}
}

func makesCredentialsOnce(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if action.Kind != database.KindSecret || action.Name != database.BindingName(s.Name) {
		return true
	}
	return action.Verb == database.CreateBinding && !s.Binding.Exists
}

func replacesNoAuthority(s database.Snapshot, _ database.Plan, action database.Action) bool {
	trusted := s.Certificates.Leaf.Exists || s.Binding.Exists
	return action.Verb != database.StoreCertificates || s.Certificates.Authorities > 0 || !trusted
}

func shrinksNothing(s database.Snapshot, plan database.Plan, action database.Action) bool {
	if action.Kind != database.KindClaim || action.Verb == database.DeleteClaim {
		return true
	}
	instance, _ := s.Instance(action.Name)
	wanted := slices.IndexFunc(plan.Design.Instances, func(design database.InstanceDesign) bool {
		return design.Name == action.Name
	})
	return wanted >= 0 &&
		(instance.Claim == nil || plan.Design.Instances[wanted].Size.Cmp(instance.Claim.Requested) >= 0)
}

func replacesNoVolume(s database.Snapshot, _ database.Plan, action database.Action) bool {
	return action.Verb != database.Create || action.Kind != database.KindClaim || !s.Record.Initialised
}

// keepsCopies holds what a plan would write against every copy as it was read, and not against what the pass has made
// of them.
func keepsCopies(s database.Snapshot, plan database.Plan, action database.Action) bool {
	writes := action.Verb == database.Create || action.Verb == database.Update || action.Verb == database.StoreRecord
	if !writes || action.Kind != database.KindSettings && action.Kind != database.KindClaim {
		return true
	}
	copies := []database.Record{s.Settings.Copy}
	for _, instance := range s.Instances {
		if instance.Claim != nil {
			copies = append(copies, instance.Claim.Copy)
		}
	}
	wanted := plan.Design.Record
	return s.Settings.Problem == "" && wanted.Initialised == (wanted.SystemIdentifier != "") &&
		!slices.ContainsFunc(copies, func(copied database.Record) bool { return copied.Initialised && copied != wanted })
}

func deletesOnlyStuckPods(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if action.Verb != database.DeletePod {
		return true
	}
	return slices.ContainsFunc(s.Instances, func(instance database.Instance) bool {
		return database.PodName(instance.Name) == action.Name && instance.Pod != nil &&
			instance.Pod.UID == action.UID && instance.Pod.Stuck != "" && !instance.Pod.Ready
	})
}

// keepsDataOfDeletedClaims looks for the claim by what mounts it, so that an unknown pod counts as one without.
func keepsDataOfDeletedClaims(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if action.Verb != database.DeletePod {
		return true
	}
	for _, instance := range s.Instances {
		if instance.Pod != nil && instance.Pod.UID == action.UID {
			return instance.Claim != nil && instance.Claim.UID != "" && !instance.Claim.Deleting
		}
	}
	return false
}

func isConditional(_ database.Snapshot, _ database.Plan, action database.Action) bool {
	conditional := action.UID != "" && action.ResourceVersion != ""
	switch action.Verb {
	case database.Update, database.Grow, database.StoreRecord, database.DeleteClaim, database.DeletePod:
		return conditional
	case database.Create, database.CreateBinding:
		return action.UID == "" && action.ResourceVersion == ""
	case database.StoreCertificates, database.Guard, database.Release:
		// The first takes both forms; the others are conditional on the database itself, which act holds.
		return true
	default:
		return false
	}
}

func respectsPause(s database.Snapshot, _ database.Plan, action database.Action) bool {
	if !s.Spec.Paused || s.Deleting {
		return true
	}
	switch action.Verb {
	case database.Release, database.StoreRecord:
		return true
	case database.StoreCertificates:
		return s.Certificates.Leaf.Exists
	default:
		return false
	}
}

func buildsNothingForTheDead(s database.Snapshot, _ database.Plan, action database.Action) bool {
	return !s.Deleting || action.Verb == database.DeleteClaim || action.Verb == database.Release
}

// repeated finds objects that are written twice: the second write was decided on a state that the first one ends.
func repeated(plan database.Plan) []Violation {
	var violations []Violation
	for index, action := range plan.Actions {
		if slices.ContainsFunc(plan.Actions[:index], func(earlier database.Action) bool {
			return earlier.Kind == action.Kind && earlier.Name == action.Name
		}) {
			violations = append(violations, Violation{"DB8", fmt.Sprintf(
				"%s %s %s: an object is written once in a plan", action.Verb, action.Kind, action.Name)})
		}
	}
	return violations
}
