package storage

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// GrowClaims raises the size of claims. It stands before everything else: a full volume is often why everything else is
// broken.
func GrowClaims(d *draft.Draft) {
	for _, log := range []bool{false, true} {
		if !design.SizeCounts(d.Snapshot, log) {
			continue
		}
		for _, wanted := range d.Plan.Design.Instances {
			instance, _ := d.Instance(wanted.Name)
			for _, claim := range d.Claims(instance) {
				if size, found := d.Plan.Design.ClaimSize(claim.Name); found && claim.Log == log && claim.Claim != nil {
					growClaim(d, claim, size)
				}
			}
		}
	}
}

func growClaim(d *draft.Draft, claim database.ClaimOf, size resource.Quantity) {
	switch {
	case claim.Deleting || size.Cmp(claim.Requested) <= 0:
	case claim.Expansion == database.Fixed:
		d.Hold(database.Stalled, 0, "ClassCannotExpand", fmt.Sprintf(
			"%s asks for %s, but the storage class %s of the claim %s cannot expand volumes; "+
				"allow expansion in the class, or set the size back to %s",
			whoAsks(d, claim), size.String(), claim.Class, claim.Name, claim.Requested.String()))
	case !claim.Bound:
		d.Hold(database.Progressing, 0, "ClaimPending", fmt.Sprintf(
			"the claim %s grows to %s as soon as it has a volume", claim.Name, size.String()))
	default:
		d.Upkeep(database.Action{
			Do: database.Grow{}, Kind: database.KindClaim, Name: claim.Name,
			UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			Why: fmt.Sprintf("from %s to %s", claim.Requested.String(), size.String()) + whyGrown(d, claim),
		})
	}
}

// WaitForVolumes says how far a growth has come.
func WaitForVolumes(d *draft.Draft) {
	for _, instance := range d.Instances {
		for _, claim := range d.Claims(instance) {
			if claim.Claim != nil && claim.Bound {
				waitForVolume(d, claim)
			}
		}
	}
}

func waitForVolume(d *draft.Draft, claim database.ClaimOf) {
	if claim.Message != "" && (claim.Resize == database.ResizeRunning || claim.Resize == database.ResizeFileSystem) {
		d.Hold(database.Degraded, draft.Later, "VolumeResizeFailed", fmt.Sprintf(
			"the volume of %s has not grown to %s, and that is tried again: %s", claim.Name, claim.Requested.String(),
			claim.Message))
		return
	}
	switch claim.Resize {
	case database.ResizeFailed:
		d.Hold(database.Stalled, 0, "VolumeResizeFailed", fmt.Sprintf(
			"the volume of %s cannot grow to %s: %s", claim.Name, claim.Requested.String(), claim.Message))
	case database.ResizeFileSystem:
		d.Hold(database.Progressing, 0, "VolumeGrowing", fmt.Sprintf(
			"the file system of %s grows to %s while its pod runs", claim.Name, claim.Requested.String()))
	case database.ResizeRunning:
		d.Hold(database.Progressing, 0, "VolumeGrowing", fmt.Sprintf(
			"the volume of %s grows to %s", claim.Name, claim.Requested.String()))
	}
}

// warnFrom is how full a volume is, in percent, when a user is warned, if no spec.storage.autoGrow says it.
const warnFrom = 80

// WarnOfFilling tells, before writes are refused, which volumes fill, and whether something is done about it. It is no
// hold: nothing waits for it.
func WarnOfFilling(d *draft.Draft) {
	from, auto := warnFrom, d.Spec.Storage.AutoGrow
	if auto != nil && auto.AtPercent > 0 {
		from = int(auto.AtPercent)
	}
	growth := d.Plan.Design.Growth
	for _, wanted := range d.Plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		use, log := design.Use(instance), design.LogUse(instance)
		if log >= warnFrom {
			d.Plan.Warnings = append(d.Plan.Warnings, database.Warning{Name: "VolumeFilling", Message: fmt.Sprintf(
				"the WAL volume of %s is %d%% full; raise spec.storage.walSize", wanted.Name, log)})
		}
		if use < from {
			continue
		}
		warning := database.Warning{Name: "VolumeFilling"}
		switch {
		case auto == nil:
			warning.Message = fmt.Sprintf("the volume of %s is %d%% full; raise spec.storage.size, or let it grow by itself "+
				"with spec.storage.autoGrow", wanted.Name, use)
		case growth.Why != "" || growth.Moving:
			warning.Message = fmt.Sprintf("the volume of %s is %d%% full and grows to %s by itself", wanted.Name, use,
				growth.Size.String())
		case growth.Limited || growth.Size.Cmp(auto.Limit) >= 0:
			warning.Name = "GrowthLimitReached"
			warning.Message = fmt.Sprintf("the volume of %s is %d%% full and has grown to spec.storage.autoGrow.limit, %s; "+
				"raise the limit, or remove data", wanted.Name, use, auto.Limit.String())
		default:
			warning.Message = fmt.Sprintf("the volume of %s is %d%% full", wanted.Name, use)
		}
		d.Plan.Warnings = append(d.Plan.Warnings, warning)
	}
}

// whoAsks names the field that the size of a claim comes from.
func whoAsks(d *draft.Draft, claim database.ClaimOf) string {
	if claim.Log {
		return "spec.storage.walSize"
	}
	if d.Plan.Design.Growth.Size.Cmp(d.Spec.Storage.Size) > 0 {
		return "spec.storage.autoGrow"
	}
	return "spec.storage.size"
}

// whyGrown is what a step is for, in words that follow those of its size.
func whyGrown(d *draft.Draft, claim database.ClaimOf) string {
	if why := d.Plan.Design.Growth.Why; why != "" && !claim.Log {
		return ": " + why
	}
	return ""
}
