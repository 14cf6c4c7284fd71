package access

import (
	"slices"
	"strings"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/service"
)

// KeepCertificates keeps the authority and the certificates of the instances, and replaces them when a user asks.
func KeepCertificates(d *draft.Draft) {
	if d.Draft.KeepCertificates(service.Keeping[database.Step]{
		Certificates: d.Certificates, Authority: database.AuthorityName(d.Name), Leaf: database.LeafName(d.Name),
		App: database.AppSecretName(d.Name), AppSecret: d.Binding, Store: database.StoreCertificates{},
	}) {
		renewCertificates(d)
	}
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
