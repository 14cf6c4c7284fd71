package plan

import (
	"slices"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// writeSettings waits for the lease: its UID is one of the settings.
func writeSettings(d *draft.Draft) {
	if d.Plan.Design.LeaseUID == "" {
		if !d.Invalid {
			d.Plan.Pending = append(d.Plan.Pending, "Create ConfigMap "+database.SettingsName(d.Name)+": it follows the lease")
		}
		return
	}
	d.WriteKind(d.Children, database.KindSettings, d.Change)
}

// addresses are the kinds that follow from the name of the database and its instances, and from nothing else.
var addresses = []string{
	database.KindAccount, database.KindRole, database.KindRoleBinding, database.KindService, database.KindSlice,
	database.KindPolicy, database.KindBudget,
}

// writeAddresses also repairs the addresses of a database whose spec became invalid after it was built: they do not
// come from the spec.
func writeAddresses(d *draft.Draft) {
	built := slices.ContainsFunc(d.Instances, func(instance database.Instance) bool { return instance.Set != nil })
	if d.Invalid && !built {
		return
	}
	for _, kind := range addresses {
		d.WriteKind(d.Children, kind, d.Upkeep)
	}
}

// removeSurplus takes away what the spec has asked for once.
func removeSurplus(d *draft.Draft) {
	for _, child := range d.Surplus {
		d.Change(database.Action{
			Do: database.Remove{}, Kind: child.Kind, Name: child.Name, UID: child.UID,
			ResourceVersion: child.ResourceVersion, Why: "the spec does not ask for it any more",
		})
	}
}
