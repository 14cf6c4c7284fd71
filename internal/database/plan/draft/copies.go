package draft

import (
	"fmt"
	"slices"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
)

// ClaimStays says that the claims of an instance outlive its pod.
func (d *Draft) ClaimStays(instance database.Instance) bool {
	return !d.ClaimGone(instance) && !d.ClaimDeleting(instance)
}

// HandOver is the command by which a human says that a claim belongs to this database.
func (d *Draft) HandOver(claim string) string {
	return fmt.Sprintf("kubectl -n %s annotate --overwrite persistentvolumeclaim %s %s=%s",
		d.Namespace, claim, database.AnnotationOwner, d.UID)
}

// ClaimGone says that an instance lacks a claim, ClaimDeleting that it is about to. Data and log are one copy: without
// either, the other is worth nothing.
func (d *Draft) ClaimGone(instance database.Instance) bool {
	return slices.ContainsFunc(d.Claims(instance), func(claim database.ClaimOf) bool { return claim.Claim == nil })
}

// ClaimDeleting says that somebody has deleted a claim of an instance.
func (d *Draft) ClaimDeleting(instance database.Instance) bool {
	return slices.ContainsFunc(d.Claims(instance), func(claim database.ClaimOf) bool {
		return claim.Claim != nil && claim.Deleting
	})
}

// Weigh makes a number of an answer, for ranks.
func Weigh(so bool) int {
	if so {
		return 1
	}
	return 0
}

// Without are the names but that one.
func Without(roster []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(roster), func(each string) bool { return each == name })
}

// CountHealthy counts those that are.
func (d *Draft) CountHealthy(names []string) int {
	count := 0
	for _, name := range names {
		if instance, found := d.Instance(name); found && d.Healthy(instance) {
			count++
		}
	}
	return count
}

// UnwantedClaims are those of these instances that the spec does not keep, and that are not being deleted yet.
func (d *Draft) UnwantedClaims(instances ...database.Instance) []database.ClaimOf {
	if d.Orphaning || d.Spec.Storage.Reclaim != v1alpha1.ReclaimDelete {
		return nil
	}
	var claims []database.ClaimOf
	for _, instance := range instances {
		for _, claim := range d.Claims(instance) {
			if claim.Claim != nil && !claim.Deleting {
				claims = append(claims, claim)
			}
		}
	}
	return claims
}
