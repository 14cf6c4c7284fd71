package observe

import (
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// assumed is in the place of what only the operator may read.
const assumed = "assumed"

// readSecrets looks at the Secrets of the authority and for applications. Values of Secrets stay in this file: facts
// say that they exist, and what kit/pki would do about certificates.
func (p *pass) readSecrets(ctx context.Context) error {
	if p.Outside {
		whole := database.Secret{Exists: true, UID: assumed, ResourceVersion: assumed}
		p.facts.Binding = whole
		p.facts.Certificates = database.Certificates{Authority: whole, Authorities: 1}
		return nil
	}
	authority, fact, err := p.secret(ctx, database.AuthorityName(p.object.Name))
	if err != nil {
		return err
	}
	p.facts.Certificates.Authority = fact
	binding, fact, err := p.secret(ctx, database.AppSecretName(p.object.Name))
	if err != nil {
		return err
	}
	if p.facts.Binding = fact; fact.Exists && fact.Foreign == "" {
		p.binding = binding
	}
	p.judgeCredentials(binding)
	if p.facts.Certificates.Authority.Foreign != "" {
		return nil
	}
	p.authority = authority
	// One that cannot be read is told of when the certificates are judged.
	if state, err := render.Material(authority, nil); err == nil {
		if material, err := state.Material(render.OperatorProfile); err == nil {
			p.material = &material
		}
	}
	return nil
}

// secret reads a Secret live, blank if there is none.
func (p *pass) secret(ctx context.Context, name string) (*corev1.Secret, database.Secret, error) {
	secret := &corev1.Secret{}
	found, err := get(ctx, p.Live, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, secret)
	if err != nil || !found {
		return &corev1.Secret{}, database.Secret{}, err
	}
	return secret, p.secretFacts(secret), nil
}

// readCertificates looks at those of the instances: the wanted ones, and those that were written down.
func (p *pass) readCertificates(ctx context.Context) error {
	facts, holders := &p.facts.Certificates, render.HoldersOf(design.Outline(p.facts))
	leaves := map[string]*corev1.Secret{}
	for _, name := range p.certified(holders.Instances) {
		serial, _ := database.SerialOf(p.object.Name, name)
		own := database.Certificate{Instance: name, Unwanted: !slices.Contains(holders.Instances, name)}
		if p.Outside {
			own.Secret = facts.Authority
			facts.Own = append(facts.Own, own)
			continue
		}
		secret, fact, err := p.secret(ctx, database.CertificateName(p.object.Name, serial))
		if err != nil {
			return err
		}
		own.Secret, own.Identity = fact, identityOf(secret)
		facts.Own = append(facts.Own, own)
		if !own.Unwanted {
			leaves[name] = secret
		}
	}
	if p.Outside {
		return nil
	}
	shared, fact, err := p.secret(ctx, database.LeafName(p.object.Name))
	if err != nil {
		return err
	}
	if holders.Shared || fact.Foreign == "" { // What is another's and nobody here mounts is no concern of ours.
		facts.Leaf, facts.Identity = fact, identityOf(shared)
	}
	if holders.Shared {
		leaves[render.SharedProfile] = shared
	}
	if p.authority == nil || facts.Foreign() != "" {
		return nil
	}
	return p.judgeCertificates(ctx, leaves, holders)
}

// certified are the instances that may have a certificate of their own, by serial number.
func (p *pass) certified(holders []string) []string {
	serials := map[int]string{}
	names := holders
	if p.authority != nil {
		names = slices.Concat(holders, render.Listed(p.authority))
	}
	for _, name := range names {
		if serial, known := database.SerialOf(p.object.Name, name); known {
			serials[serial] = name
		}
	}
	var sorted []string
	for _, serial := range slices.Sorted(maps.Keys(serials)) {
		sorted = append(sorted, serials[serial])
	}
	return sorted
}

// identityOf is what a certificate is called in reports, empty if there is none.
func identityOf(secret *corev1.Secret) string {
	if secret.UID == "" {
		return ""
	}
	return wire.CertificateIdentity(
		secret.Data[wire.KeyCertificate], secret.Data[wire.KeyPrivateKey], secret.Data[wire.KeyAuthority])
}

// judgeCredentials finds out how far a rotation has come. One whose next credentials are not there has not begun.
func (p *pass) judgeCredentials(binding *corev1.Secret) {
	if p.facts.Binding.Foreign != "" {
		return
	}
	rotation := render.RotationOf(binding)
	if next, found := render.NextLogin(binding); rotation.UnderWay() && (!found || next.Number != rotation.Number) {
		rotation = database.Rotation{}
	}
	p.facts.Credentials = rotation
}

func (p *pass) secretFacts(secret *corev1.Secret) database.Secret {
	facts := database.Secret{
		Exists: true, UID: string(secret.UID), ResourceVersion: secret.ResourceVersion,
		Deleting: secret.DeletionTimestamp != nil,
	}
	if !p.ours(secret) {
		facts.Foreign = "the Secret " + secret.Name + " belongs to somebody else"
	}
	return facts
}

// judgeCertificates asks kit/pki what is to be done. Nothing of the keys gets into the facts.
func (p *pass) judgeCertificates(
	ctx context.Context, leaves map[string]*corev1.Secret, holders render.Holders,
) error {
	facts := &p.facts.Certificates
	state, err := render.Material(p.authority, leaves)
	if err != nil {
		facts.Problem = err.Error()
		return nil //nolint:nilerr // What cannot be read is a fact, and a reason to stop.
	}
	policy, err := service.IssuerOf{
		Namespace: p.object.Namespace, Spec: p.facts.Spec.Certificates, Now: p.facts.Now,
		Policy: render.Policy(p.facts.Identity, p.facts.Spec, holders),
	}.Judge(ctx, p.Live, state, facts)
	if err != nil {
		return err
	}
	p.judgeRenewal(p.authority, state, policy)
	if len(facts.Steps) == 0 {
		facts.Steps = p.unlike(leaves, state)
	}
	if p.binding != nil {
		facts.Published(p.binding, state.Outside(), policy.Settle, p.facts.Now)
	}
	return facts.Compare(ctx, p.AskTime, p.Now)
}

// unlike says what is stored in another way than it would be written now.
func (p *pass) unlike(leaves map[string]*corev1.Secret, state pki.State) []string {
	var steps []string
	for _, profile := range slices.Sorted(maps.Keys(leaves)) {
		steps = append(steps, service.Unlike(leaves[profile], state, profile)...)
	}
	listed := render.Listed(p.authority)
	for _, own := range p.facts.Certificates.Own {
		switch {
		case own.Unwanted && !own.Exists:
			steps = append(steps, "forget the certificate of "+own.Instance)
		case !own.Unwanted && !slices.Contains(listed, own.Instance):
			steps = append(steps, "write down the certificate of "+own.Instance)
		}
	}
	return steps
}

// judgeRenewal asks kit/pki what the rotation takes next that is under way or asked for.
func (p *pass) judgeRenewal(authority *corev1.Secret, state pki.State, policy pki.Policy) {
	facts := &p.facts.Certificates
	facts.Rotation = render.RotationOf(authority)
	wanted := facts.Rotation
	if rotate := p.facts.Spec.Rotate; rotate != nil && wanted.Asked(rotate.Certificates) {
		wanted = database.Rotation{Token: rotate.Certificates, Began: p.facts.Now}
	}
	if len(state.Authorities) == 0 || !wanted.UnderWay() {
		return
	}
	plan := pki.Decide(state, p.facts.Now, design.Renewal(policy, wanted))
	facts.Renewal = nil
	for _, step := range plan.Steps {
		facts.Renewal = append(facts.Renewal, step.String())
	}
	facts.Again = service.Sooner(facts.Again, plan.Again)
}
