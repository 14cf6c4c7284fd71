package plan

import (
	"fmt"
	"strings"

	"meridian.dev/meridian/internal/cache"
)

// keepCertificates makes the authority once and then keeps it alive. Replacing what exists is safety and goes on while
// changes are stopped.
func keepCertificates(d *draft) {
	certificates := d.Certificates
	wayOut := fmt.Sprintf("bring it back; or delete it together with the Secrets %s and %s to have new ones made, which "+
		"interrupts every client that trusts the old authority", cache.LeafName(d.Name), cache.AppSecretName(d.Name))
	switch {
	case certificates.Problem != "":
		d.hold(cache.Stalled, 0, "AuthorityUnreadable", fmt.Sprintf("the Secret %s cannot be read: %s; %s",
			cache.AuthorityName(d.Name), certificates.Problem, wayOut))
		return
	case certificates.Authority.Foreign != "" || certificates.Leaf.Foreign != "":
		return
	case d.AuthorityLost():
		d.hold(cache.Stalled, 0, "AuthorityLost", fmt.Sprintf(
			"the Secret %s has no authority any more, and one is trusted; %s", cache.AuthorityName(d.Name), wayOut))
		return
	case len(certificates.Steps) == 0:
		return
	}
	action := cache.Action{
		Verb: cache.StoreCertificates, Kind: cache.KindSecret, Name: cache.LeafName(d.Name),
		UID: certificates.Leaf.UID, ResourceVersion: certificates.Leaf.ResourceVersion,
		Why: strings.Join(certificates.Steps, "; "),
	}
	if certificates.Leaf.Exists {
		d.do(action)
	} else {
		d.change(action)
	}
}

// createBinding makes the credentials of the application, and only makes them. It waits for the authority, which is
// part of what is made.
func createBinding(d *draft) {
	action := cache.Action{
		Verb: cache.CreateBinding, Kind: cache.KindSecret, Name: cache.AppSecretName(d.Name),
		Why: "applications need credentials",
	}
	switch {
	case d.invalid || d.Binding.Exists || d.Binding.Foreign != "":
	case d.Certificates.Leaf.Exists:
		d.change(action)
	default:
		d.plan.Pending = append(d.plan.Pending, "CreateBinding Secret "+action.Name+": it follows the certificate")
	}
}

// writeAccess also goes on for a cache whose spec became invalid: the agents of a running one need it.
func writeAccess(d *draft) {
	for _, kind := range []string{
		cache.KindAccount, cache.KindRole, cache.KindRoleBinding, cache.KindPolicy, cache.KindBudget,
	} {
		if !d.invalid || d.Built() {
			writeKind(d, kind, d.upkeep)
		}
	}
}

func writeSettings(d *draft) { writeKind(d, cache.KindSettings, d.change) }

// writeServices also repairs the addresses of a cache whose spec became invalid after it was built: they do not come
// from the spec.
func writeServices(d *draft) {
	if !d.invalid || d.Built() {
		writeKind(d, cache.KindService, d.upkeep)
		writeKind(d, cache.KindSlice, d.upkeep)
	}
}

func writeSets(d *draft) { writeKind(d, cache.KindSet, d.change) }

// writeKind brings the children of a kind to what is wanted, those that are ours to write.
func writeKind(d *draft, kind string, add func(cache.Action)) {
	for _, child := range d.Children {
		if child.Kind != kind {
			continue
		}
		action := cache.Action{
			Kind: child.Kind, Name: child.Name, UID: child.UID, ResourceVersion: child.ResourceVersion,
		}
		switch child.State {
		case cache.Absent:
			action.Verb, action.Why = cache.Create, "it is wanted and not there"
		case cache.Changed:
			action.Verb, action.Why = cache.Update, "wanted: "+summary(child.Changes)
		case cache.Drifted:
			action.Verb, action.Repair = cache.Update, true
			action.Why = "somebody else has changed it: " + summary(child.Changes)
		case cache.Terminating:
			d.hold(cache.Progressing, 0, "ChildTerminating", fmt.Sprintf(
				"the %s %s is being deleted and will be made again when it is gone", child.Kind, child.Name))
			continue
		case cache.Same, cache.Foreign, cache.Unreadable:
			continue
		}
		add(action)
	}
}

// summary names some changes: a message is read by people.
func summary(changes []string) string {
	const most = 3
	switch {
	case len(changes) == 0:
		return "a mark of ours"
	case len(changes) > most:
		return strings.Join(changes[:most], ", ") + fmt.Sprintf(" and %d more", len(changes)-most)
	}
	return strings.Join(changes, ", ")
}

// tellTolerated names the fields that admission changes whenever they are written. They hold nothing up.
func tellTolerated(d *draft) {
	for _, child := range d.Children {
		if len(child.Tolerated) > 0 {
			d.plan.Pending = append(d.plan.Pending, fmt.Sprintf("admission in this cluster changes the %s %s whenever it is "+
				"written, and that is left as it is: %s", child.Kind, child.Name, summary(child.Tolerated)))
		}
	}
}
