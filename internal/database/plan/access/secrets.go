package access

import (
	"fmt"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// KeepCertificates makes the authority once and then keeps it alive. Replacing what exists is safety and goes on while
// changes are stopped.
func KeepCertificates(d *draft.Draft) {
	certificates := d.Certificates
	switch {
	case certificates.Problem != "":
		d.Hold(database.Stalled, 0, "AuthorityUnreadable", fmt.Sprintf(
			"the Secret %s cannot be read: %s; %s", database.AuthorityName(d.Name), certificates.Problem, newAuthority(d)))
		return
	case certificates.Authority.Foreign != "" || certificates.Leaf.Foreign != "":
		return
	case d.AuthorityLost():
		d.Hold(database.Stalled, 0, "AuthorityLost", fmt.Sprintf(
			"the Secret %s has no authority any more, and one is trusted; %s", database.AuthorityName(d.Name),
			newAuthority(d)))
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
		d.Do(action)
	} else {
		d.Change(action)
	}
}

// newAuthority says how a human replaces an authority that cannot be used. It takes all that rests on the old one.
func newAuthority(d *draft.Draft) string {
	return fmt.Sprintf("bring it back; or delete it together with the Secrets %s and %s to have new ones made, which "+
		"interrupts every client that trusts the old authority", database.LeafName(d.Name), database.AppSecretName(d.Name))
}

// CreateBinding makes the credentials of the application. It waits for the authority, which is
// part of what is made.
func CreateBinding(d *draft.Draft) {
	if d.Invalid || d.Binding.Exists || d.Binding.Foreign != "" {
		return
	}
	if !d.Certificates.Leaf.Exists {
		d.Plan.Pending = append(d.Plan.Pending, "CreateBinding Secret "+database.AppSecretName(d.Name)+
			": it follows the certificate")
		return
	}
	d.Change(database.Action{
		Do: database.CreateBinding{}, Kind: database.KindSecret, Name: database.AppSecretName(d.Name),
		Why: "applications need credentials",
	})
}

// BindCaches writes the addresses of the caches into the Secret for applications. A cache whose addresses cannot be
// read, or that is not there yet, holds nothing up: it is looked for again.
func BindCaches(d *draft.Draft) {
	binding, caches := d.Binding, d.Caches
	unread := slices.ContainsFunc(caches.List, func(cache database.Cache) bool { return cache.Problem != "" })
	if caches.Problem != "" || unread {
		d.Plan.Again = min(d.Plan.Again, draft.Later)
	}
	// While changes are stopped nothing is pending either: the database lacks nothing.
	if len(caches.Unbound) == 0 || !binding.Exists || binding.Foreign != "" || binding.Deleting || d.Stopped {
		return
	}
	d.Do(database.Action{
		Do: database.BindCaches{}, Kind: database.KindSecret, Name: database.AppSecretName(d.Name),
		UID: binding.UID, ResourceVersion: binding.ResourceVersion,
		Why: "applications get the addresses: " + strings.Join(caches.Unbound, " "),
	})
}
