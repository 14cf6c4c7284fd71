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
	authority := d.Certificates.Authority
	if d.Draft.KeepCertificates(service.Keeping[database.Step]{
		Certificates: d.Certificates, Authority: database.AuthorityName(d.Name), Issued: issuedTo(d),
		App: database.AppSecretName(d.Name), AppSecret: d.Binding, Store: database.Action{
			Do: database.StoreCertificates{}, Name: database.AuthorityName(d.Name), UID: authority.UID,
			ResourceVersion: authority.ResourceVersion,
		},
	}) {
		renewCertificates(d)
		followIssuer(d)
	}
}

// issuedTo are the Secrets of certificates that there are, or the one that there was in earlier versions.
func issuedTo(d *draft.Draft) []string {
	var names []string
	for _, own := range d.Certificates.Own {
		if serial, known := database.SerialOf(d.Name, own.Instance); known && own.Exists {
			names = append(names, database.CertificateName(d.Name, serial))
		}
	}
	if len(names) == 0 || d.Certificates.Leaf.Exists {
		names = append(names, database.LeafName(d.Name))
	}
	return names
}

// RemoveCertificates takes away what no pod mounts any more: of instances that are gone, and what instances had in
// common.
func RemoveCertificates(d *draft.Draft) {
	remove := func(name string, secret database.Secret, why string) {
		if secret.Exists && !secret.Deleting && secret.Foreign == "" && !d.Mounts(name) && !d.LeaseLost() {
			d.Change(database.Action{
				Do: database.RemoveCertificate{}, Kind: database.KindSecret, Name: name, UID: secret.UID,
				ResourceVersion: secret.ResourceVersion, Why: why,
			})
		}
	}
	for _, own := range d.Certificates.Own {
		serial, known := database.SerialOf(d.Name, own.Instance)
		if known && own.Unwanted {
			remove(database.CertificateName(d.Name, serial), own.Secret, "the instance is gone")
		}
	}
	if d.Certificates.Authorities > 0 {
		remove(database.LeafName(d.Name), d.Certificates.Leaf, "every instance has a certificate of its own")
	}
}

// CreateBinding makes the credentials of the application. It waits for the authority, which is
// part of what is made.
func CreateBinding(d *draft.Draft) {
	if d.Invalid || d.Binding.Exists || d.Binding.Foreign != "" {
		return
	}
	if !d.Certificates.Issued() {
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
