package design

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/database"
)

// sizeOf never asks for less than is there: somebody may have grown the claim by hand, and it cannot shrink. A volume
// that is still to be made is as large as the others, because it gets a copy of what they hold.
func sizeOf(spec v1alpha1.GeoDatabaseSpec, growth database.Growth, claim *database.Claim) resource.Quantity {
	wanted := spec.Storage.Size
	if claim == nil || spec.Storage.AutoGrow != nil {
		wanted = growth.Size
	}
	if claim != nil && claim.Requested.Cmp(wanted) > 0 {
		return claim.Requested
	}
	return wanted
}

// logSizeOf is the same for the volume of the log. It does not grow by itself: what fills it is most often an instance
// that does not take its log, and no size is enough for that.
func logSizeOf(snapshot database.Snapshot, roster []string, claim *database.Claim) *resource.Quantity {
	if snapshot.Spec.Storage.WALSize == nil {
		return nil
	}
	wanted := snapshot.Spec.Storage.WALSize.DeepCopy()
	for _, name := range roster {
		other, _ := snapshot.Instance(name)
		if claim == nil && other.LogClaim != nil && !other.LogClaim.Deleting && other.LogClaim.Requested.Cmp(wanted) > 0 {
			wanted = other.LogClaim.Requested
		}
	}
	if claim != nil && claim.Requested.Cmp(wanted) > 0 {
		wanted = claim.Requested
	}
	return &wanted
}

// SizeCounts says that the size of the volumes of the data, or of the log, can be relied upon, whatever else is wrong
// with the spec.
func SizeCounts(snapshot database.Snapshot, log bool) bool {
	field, size := "spec.storage.size", &snapshot.Spec.Storage.Size
	if log {
		field, size = "spec.storage.walSize", snapshot.Spec.Storage.WALSize
	}
	return size != nil && size.Sign() > 0 && !slices.ContainsFunc(refused(snapshot), func(problem admit.Problem) bool {
		return problem.Field == field
	})
}
