package plan

import (
	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
)

// rotatePassword gives applications another password: it is written down for the instances first, and told to
// applications when each instance that they may reach accepts it. The one before is accepted until the next rotation.
func rotatePassword(d *draft) {
	token := ""
	if d.Spec.Rotate != nil {
		token = d.Spec.Rotate.Password
	}
	binding, leaf := d.Binding, d.Certificates.Leaf
	written := d.Writes(cache.KindSecret, cache.LeafName(d.Name)) ||
		d.Writes(cache.KindSecret, cache.AppSecretName(d.Name))
	if d.Invalid || !binding.Exists || binding.Foreign != "" || !leaf.Exists || leaf.Foreign != "" || written ||
		!d.Rotation.UnderWay() && !d.Rotation.Asked(token) {
		return
	}
	lacking := d.LacksPassword()
	switch {
	case d.Asleep():
		d.Plan.Pending = append(d.Plan.Pending, "applications get another password when the database is awake")
	case !d.Rotation.UnderWay():
		d.Change(cache.Action{
			Do: cache.BeginPassword{Token: token}, Kind: cache.KindSecret, Name: cache.LeafName(d.Name), UID: leaf.UID,
			ResourceVersion: leaf.ResourceVersion, Why: "another password is asked for",
		})
	case lacking == "":
		d.Change(cache.Action{
			Do: cache.MovePassword{Number: d.Rotation.Number}, Kind: cache.KindSecret, Name: cache.AppSecretName(d.Name),
			UID: binding.UID, ResourceVersion: binding.ResourceVersion,
			Why: "every instance accepts the next password; the one of before stays valid until the next rotation",
		})
	case !d.Stopped:
		d.Hold(cache.Progressing, soon, "RotatingPassword", "applications get another password: "+lacking)
	}
}

// tellScripting says that scripts are still allowed, and until when.
func tellScripting(d *draft) {
	design := d.Plan.Design
	if design.Spec.Scripting == v1alpha1.ScriptingRefused && !design.ReplicationAlone && !d.Invalid {
		d.Plan.Pending = append(d.Plan.Pending,
			"spec.scripting: scripts are refused when every instance was restarted with this version of Meridian")
	}
}
