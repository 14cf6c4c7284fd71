package plan

import (
	"fmt"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/database"
)

// keepCertificates makes the authority once and then keeps it alive. Replacing what exists is safety and goes on while
// changes are stopped.
func keepCertificates(d *draft) {
	certificates := d.Certificates
	switch {
	case certificates.Problem != "":
		d.hold(database.Stalled, 0, "AuthorityUnreadable", fmt.Sprintf(
			"the Secret %s cannot be read: %s; %s", database.AuthorityName(d.Name), certificates.Problem, d.newAuthority()))
		return
	case certificates.Authority.Foreign != "" || certificates.Leaf.Foreign != "":
		return
	case d.AuthorityLost():
		d.hold(database.Stalled, 0, "AuthorityLost", fmt.Sprintf(
			"the Secret %s has no authority any more, and one is trusted; %s", database.AuthorityName(d.Name),
			d.newAuthority()))
		return
	case len(certificates.Steps) == 0:
		renewCertificates(d)
		return
	}
	action := database.Action{
		Do: database.StoreCertificates{}, Kind: database.KindSecret, Name: database.LeafName(d.Name),
		UID: certificates.Leaf.UID, ResourceVersion: certificates.Leaf.ResourceVersion,
		Why: strings.Join(certificates.Steps, "; "),
	}
	if certificates.Leaf.Exists {
		d.do(action)
	} else {
		d.change(action)
	}
}

// newAuthority says how a human replaces an authority that cannot be used. It takes all that rests on the old one.
func (d *draft) newAuthority() string {
	return fmt.Sprintf("bring it back; or delete it together with the Secrets %s and %s to have new ones made, which "+
		"interrupts every client that trusts the old authority", database.LeafName(d.Name), database.AppSecretName(d.Name))
}

// createBinding makes the credentials of the application. It waits for the authority, which is
// part of what is made.
func createBinding(d *draft) {
	if d.invalid || d.Binding.Exists || d.Binding.Foreign != "" {
		return
	}
	if !d.Certificates.Leaf.Exists {
		d.plan.Pending = append(d.plan.Pending, "CreateBinding Secret "+database.AppSecretName(d.Name)+
			": it follows the certificate")
		return
	}
	d.change(database.Action{
		Do: database.CreateBinding{}, Kind: database.KindSecret, Name: database.AppSecretName(d.Name),
		Why: "applications need credentials",
	})
}

// bindCaches writes the addresses of the caches into the Secret for applications. A cache whose addresses cannot be
// read, or that is not there yet, holds nothing up: it is looked for again.
func bindCaches(d *draft) {
	binding, caches := d.Binding, d.Caches
	unread := slices.ContainsFunc(caches.List, func(cache database.Cache) bool { return cache.Problem != "" })
	if caches.Problem != "" || unread {
		d.plan.Again = min(d.plan.Again, later)
	}
	// While changes are stopped nothing is pending either: the database lacks nothing.
	if len(caches.Unbound) == 0 || !binding.Exists || binding.Foreign != "" || binding.Deleting || d.stopped {
		return
	}
	d.do(database.Action{
		Do: database.BindCaches{}, Kind: database.KindSecret, Name: database.AppSecretName(d.Name),
		UID: binding.UID, ResourceVersion: binding.ResourceVersion,
		Why: "applications get the addresses: " + strings.Join(caches.Unbound, " "),
	})
}

// writeSettings waits for the lease: its UID is one of the settings.
func writeSettings(d *draft) {
	if d.plan.Design.LeaseUID == "" {
		if !d.invalid {
			d.plan.Pending = append(d.plan.Pending, "Create ConfigMap "+database.SettingsName(d.Name)+": it follows the lease")
		}
		return
	}
	writeKind(d, database.KindSettings, d.change)
}

// addresses are the kinds that follow from the name of the database and its instances, and from nothing else.
var addresses = []string{
	database.KindAccount, database.KindRole, database.KindRoleBinding, database.KindService, database.KindSlice,
	database.KindPolicy, database.KindBudget,
}

// writeAddresses also repairs the addresses of a database whose spec became invalid after it was built: they do not
// come from the spec.
func writeAddresses(d *draft) {
	built := slices.ContainsFunc(d.Instances, func(instance database.Instance) bool { return instance.Set != nil })
	if d.invalid && !built {
		return
	}
	for _, kind := range addresses {
		writeKind(d, kind, d.upkeep)
	}
}

// removeSurplus takes away what the spec has asked for once.
func removeSurplus(d *draft) {
	for _, child := range d.Surplus {
		d.change(database.Action{
			Do: database.Remove{}, Kind: child.Kind, Name: child.Name, UID: child.UID,
			ResourceVersion: child.ResourceVersion, Why: "the spec does not ask for it any more",
		})
	}
}

func writeSets(d *draft) {
	for _, child := range d.Children {
		if child.Kind == database.KindSet && (child.State != database.Changed || !d.withheld(child.Name)) {
			writeChild(d, child, d.change)
		}
	}
}

func writeKind(d *draft, kind string, add func(database.Action)) {
	for _, child := range d.Children {
		if child.Kind == kind {
			writeChild(d, child, add)
		}
	}
}

// writeChild brings one child to what is wanted, if it is ours to write.
func writeChild(d *draft, child database.Child, add func(database.Action)) {
	action := database.Action{
		Kind: child.Kind, Name: child.Name, UID: child.UID, ResourceVersion: child.ResourceVersion,
	}
	if d.writes(child.Kind, child.Name) {
		return
	}
	switch child.State {
	case database.Absent:
		action.Do, action.Why = database.Create{}, "it is wanted and not there"
	case database.Changed:
		action.Do, action.Why = database.Update{}, "wanted: "+summary(child.Changes)
	case database.Drifted:
		action.Do = database.Update{Repair: true}
		action.Why = "somebody else has changed it: " + summary(child.Changes)
	case database.Terminating:
		d.hold(database.Progressing, 0, "ChildTerminating", fmt.Sprintf(
			"the %s %s is being deleted and will be made again when it is gone", child.Kind, child.Name))
		return
	case database.Same, database.Foreign, database.Unreadable:
		return
	}
	add(action)
}

// summary names some changes: a message is read by people.
func summary(changes []string) string {
	const most = 3
	changes = slices.DeleteFunc(slices.Clone(changes), func(change string) bool {
		return strings.Contains(change, database.AnnotationTemplate) || strings.Contains(change, database.AnnotationWish)
	})
	if len(changes) == 0 {
		return "a mark of ours"
	}
	if len(changes) > most {
		return strings.Join(changes[:most], ", ") + fmt.Sprintf(" and %d more", len(changes)-most)
	}
	return strings.Join(changes, ", ")
}

// replaceStuckPods deletes a pod whose containers never started when its StatefulSet has another template for it by
// now. A StatefulSet with a pod that is not ready waits for ever; a corrected spec must not. A claim that is deleted,
// or that nobody sees, may live by this pod alone.
func replaceStuckPods(d *draft) {
	for _, instance := range d.Instances {
		pod := instance.Pod
		if pod == nil || pod.Stuck == "" || pod.Deleting || !outdated(instance) || !d.claimStays(instance) ||
			d.writes(database.KindPod, database.PodName(instance.Name)) {
			continue
		}
		d.change(database.Action{
			Do: database.DeletePod{}, Kind: database.KindPod, Name: database.PodName(instance.Name),
			UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			Why: "it could not start (" + pod.Stuck + ") and its template has changed since",
		})
	}
}

// claimStays says that the claims of an instance outlive its pod.
func (d *draft) claimStays(instance database.Instance) bool {
	return !d.claimGone(instance) && !d.claimDeleting(instance)
}

// outdated says that the pod was made from another template than its StatefulSet has now. The revision counts only when
// the StatefulSet controller has seen the latest template.
func outdated(instance database.Instance) bool {
	return instance.Set != nil && instance.Set.Observed && instance.Pod != nil &&
		instance.Set.Revision != "" && instance.Pod.Revision != instance.Set.Revision
}
