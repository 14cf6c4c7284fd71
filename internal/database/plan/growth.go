package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// warnFrom is how full a volume is, in percent, when a user is warned, if no spec.storage.autoGrow says it.
const warnFrom = 80

// warnOfFilling tells, before writes are refused, which volumes fill, and whether something is done about it. It is no
// hold: nothing waits for it.
func warnOfFilling(d *draft) {
	from, auto := warnFrom, d.Spec.Storage.AutoGrow
	if auto != nil && auto.AtPercent > 0 {
		from = int(auto.AtPercent)
	}
	growth := d.plan.Design.Growth
	for _, wanted := range d.plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		use := render.Use(instance)
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
		d.plan.Warnings = append(d.plan.Warnings, warning)
	}
}

// whoAsks names the field that a size comes from.
func (d *draft) whoAsks() string {
	if d.plan.Design.Growth.Size.Cmp(d.Spec.Storage.Size) > 0 {
		return "spec.storage.autoGrow"
	}
	return "spec.storage.size"
}

// whyGrown is what a step is for, in words that follow those of its size.
func (d *draft) whyGrown() string {
	if why := d.plan.Design.Growth.Why; why != "" {
		return ": " + why
	}
	return ""
}

// growsWithinLimit looks at what a claim would ask for, wherever that comes from.
func growsWithinLimit(s database.Snapshot, plan database.Plan, action database.Action) bool {
	if action.Kind != database.KindClaim || action.Verb != database.Grow && action.Verb != database.Create {
		return true
	}
	allowed := s.Spec.Storage.Size
	if auto := s.Spec.Storage.AutoGrow; auto != nil && auto.Limit.Cmp(allowed) > 0 {
		allowed = auto.Limit
	}
	for _, instance := range s.Instances {
		if instance.Claim != nil && instance.Claim.Requested.Cmp(allowed) > 0 {
			allowed = instance.Claim.Requested
		}
	}
	wanted, found := sizeFor(plan, action.Name)
	return !found || wanted.Cmp(allowed) <= 0
}

// growsOneStep lets a claim catch up with the spec or with another claim at any time. Beyond all of these it goes only
// when no volume of an instance that answers is on its way.
func growsOneStep(s database.Snapshot, plan database.Plan, action database.Action) bool {
	wanted, found := sizeFor(plan, action.Name)
	if action.Verb != database.Grow || !found || wanted.Cmp(s.Spec.Storage.Size) <= 0 {
		return true
	}
	moving := false
	for _, instance := range s.Instances {
		if instance.Claim == nil {
			continue
		}
		if instance.Claim.Requested.Cmp(wanted) >= 0 {
			return true
		}
		resize := instance.Claim.Resize
		moving = moving || instance.Report.Reachable &&
			(resize == database.ResizeRunning || resize == database.ResizeFileSystem)
	}
	return !moving
}

func sizeFor(plan database.Plan, instance string) (resource.Quantity, bool) {
	for _, wanted := range plan.Design.Instances {
		if wanted.Name == instance {
			return wanted.Size, true
		}
	}
	return resource.Quantity{}, false
}
