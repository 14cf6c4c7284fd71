package invariant

import (
	"reflect"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// beginsAsAsked looks at what makes the agents begin: the settings and the pods.
func beginsAsAsked(s database.Snapshot, plan database.Plan, action database.Action) bool {
	bootstrap := s.Spec.Bootstrap
	if s.Record.Initialised || bootstrap.Restore == nil && bootstrap.Clone == nil {
		return true
	}
	writes := database.Does[database.Create](action) || database.Does[database.Update](action)
	if !writes || action.Kind != database.KindSettings && action.Kind != database.KindSet {
		return true
	}
	return s.Backup.Begin != nil && reflect.DeepEqual(plan.Design.Backup.Begin, s.Backup.Begin)
}

// asksForOneBase holds that a wish is replaced by another one only when it was carried out, and asked of an instance
// that stays.
func asksForOneBase(s database.Snapshot, plan database.Plan, action database.Action) bool {
	want, wants := action.Do.(database.WantBase)
	if !wants {
		return true
	}
	stored := s.Backup.Settings
	if stored == nil || s.Spec.Backup == nil || want.ID == "" || !plan.Design.Wants(want.Instance) {
		return false
	}
	asked := 0
	for _, other := range plan.Actions {
		if database.Does[database.WantBase](other) {
			asked++
		}
	}
	return asked == 1 && (stored.Base == nil || stored.Base.ID == want.ID || s.BaseDone(stored.Base.ID))
}

// keepsAccess holds that the Secret of a repository that is in use changes only together with what the agents are told.
func keepsAccess(s database.Snapshot, _ database.Plan, action database.Action) bool {
	store, stores := action.Do.(database.StoreAccess)
	if !stores || store.Begin || !s.Spec.Paused || s.Backup.Settings == nil {
		return true
	}
	return s.Spec.Backup != nil &&
		sameRepository(s.Backup.Settings.Repository, render.Repository(s.Spec.Backup.Repository))
}

func sameRepository(a, b wire.Repository) bool { return reflect.DeepEqual(a, b) }
