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
	if d.invalid || !binding.Exists || binding.Foreign != "" || !leaf.Exists || leaf.Foreign != "" ||
		d.writes(cache.KindSecret, cache.LeafName(d.Name)) || !d.Rotation.UnderWay() && !d.Rotation.Asked(token) {
		return
	}
	lacking := d.LacksPassword()
	switch {
	case d.Asleep():
		d.plan.Pending = append(d.plan.Pending, "applications get another password when the database is awake")
	case !d.Rotation.UnderWay():
		d.change(cache.Action{
			Verb: cache.BeginPassword, Kind: cache.KindSecret, Name: cache.LeafName(d.Name), UID: leaf.UID,
			ResourceVersion: leaf.ResourceVersion, Text: token, Why: "another password is asked for",
		})
	case lacking == "":
		d.change(cache.Action{
			Verb: cache.MovePassword, Kind: cache.KindSecret, Name: cache.AppSecretName(d.Name), UID: binding.UID,
			ResourceVersion: binding.ResourceVersion, Number: d.Rotation.Number,
			Why: "every instance accepts the next password; the one of before stays valid until the next rotation",
		})
	case !d.stopped:
		d.hold(cache.Progressing, soon, "RotatingPassword", "applications get another password: "+lacking)
	}
}

// tellScripting says that scripts are still allowed, and until when.
func tellScripting(d *draft) {
	design := d.plan.Design
	if design.Spec.Scripting == v1alpha1.ScriptingRefused && !design.ReplicationAlone && !d.invalid {
		d.plan.Pending = append(d.plan.Pending,
			"spec.scripting: scripts are refused when every instance was restarted with this version of Meridian")
	}
}
