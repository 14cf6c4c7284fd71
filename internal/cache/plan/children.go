package plan

import (
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
)

func keepCertificates(d *draft) {
	leaf := d.Certificates.Leaf
	store := cache.Action{
		Do: cache.StoreCertificates{}, Name: cache.LeafName(d.Name), UID: leaf.UID, ResourceVersion: leaf.ResourceVersion,
	}
	if d.KeepCertificates(service.Keeping[cache.Step]{
		Certificates: d.Certificates, Authority: cache.AuthorityName(d.Name), Issued: []string{cache.LeafName(d.Name)},
		App: cache.AppSecretName(d.Name), AppSecret: d.Binding, Store: store,
	}) {
		store.Do = cache.StoreCertificates{Issuer: true}
		d.FollowIssuer(service.Following[cache.Step]{
			Issuing: d.Certificates.Issuing, Store: store, Behind: d.LacksCertificate(),
		})
	}
}

// publishBundle keeps what applications trust as it is stored.
func publishBundle(d *draft) {
	d.PublishBundle(d.Certificates, d.Binding, cache.LeafName(d.Name), cache.Action{
		Do: cache.PublishBundle{}, Name: cache.AppSecretName(d.Name),
	})
}

// createBinding makes the credentials of the application, and only makes them. It waits for the authority, which is
// part of what is made.
func createBinding(d *draft) {
	action := cache.Action{
		Do: cache.CreateBinding{}, Kind: cache.KindSecret, Name: cache.AppSecretName(d.Name),
		Why: "applications need credentials",
	}
	switch {
	case d.Invalid || d.Binding.Exists || d.Binding.Foreign != "":
	case d.Certificates.Leaf.Exists:
		d.Change(action)
	default:
		d.Plan.Pending = append(d.Plan.Pending, "CreateBinding Secret "+action.Name+": it follows the certificate")
	}
}

// writeAccess also goes on for a cache whose spec became invalid: the agents of a running one need it.
func writeAccess(d *draft) {
	for _, kind := range []string{
		cache.KindAccount, cache.KindRole, cache.KindRoleBinding, cache.KindPolicy, cache.KindBudget,
	} {
		if !d.Invalid || d.Built() {
			d.WriteKind(d.Children, kind, d.Upkeep)
		}
	}
}

func writeSettings(d *draft) { d.WriteKind(d.Children, cache.KindSettings, d.Change) }

// writeServices also repairs the addresses of a cache whose spec became invalid after it was built: they do not come
// from the spec.
func writeServices(d *draft) {
	if !d.Invalid || d.Built() {
		d.WriteKind(d.Children, cache.KindService, d.Upkeep)
		d.WriteKind(d.Children, cache.KindSlice, d.Upkeep)
	}
}

func writeSets(d *draft) { d.WriteKind(d.Children, cache.KindSet, d.Change) }

func tellTolerated(d *draft) { d.TellTolerated(d.Children) }
