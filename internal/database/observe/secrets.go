package observe

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// assumed is in the place of what only the operator may read.
const assumed = "assumed"

// readSecrets looks at the Secrets of the database. Their values stay in this function: facts say that they exist, and
// what kit/pki would do about certificates.
func (p *pass) readSecrets(ctx context.Context) error {
	if p.Outside {
		whole := database.Secret{Exists: true, UID: assumed, ResourceVersion: assumed}
		p.facts.Binding = whole
		p.facts.Certificates = database.Certificates{Authority: whole, Leaf: whole, Authorities: 1}
		return nil
	}
	var authority, leaf, binding corev1.Secret
	facts := &p.facts.Certificates
	for _, read := range []struct {
		name string
		into *corev1.Secret
		fact *database.Secret
	}{
		{database.AuthorityName(p.object.Name), &authority, &facts.Authority},
		{database.LeafName(p.object.Name), &leaf, &facts.Leaf},
		{database.AppSecretName(p.object.Name), &binding, &p.facts.Binding},
	} {
		found, err := get(ctx, p.Live, client.ObjectKey{Namespace: p.object.Namespace, Name: read.name}, read.into)
		if err != nil {
			return err
		}
		if found {
			*read.fact = p.secretFacts(read.into)
		}
	}
	if p.facts.Binding.Exists && p.facts.Binding.Foreign == "" {
		p.binding = &binding
	}
	p.judgeCredentials(&binding)
	if facts.Authority.Foreign != "" || facts.Leaf.Foreign != "" {
		return nil
	}
	p.judgeCertificates(&authority, &leaf)
	facts.Unpublished = p.facts.Binding.Exists && p.facts.Binding.Foreign == "" && facts.Leaf.Exists &&
		!bytes.Equal(leaf.Data[wire.KeyAuthority], binding.Data[wire.KeyAuthority])
	return nil
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
func (p *pass) judgeCertificates(authority, leaf *corev1.Secret) {
	facts := &p.facts.Certificates
	state, err := render.Material(authority, leaf)
	if err != nil {
		facts.Problem = err.Error()
		return
	}
	policy := render.Policy(p.facts.Identity, p.facts.Spec)
	plan := pki.Decide(state, p.facts.Now, policy)
	facts.Again, facts.Authorities = plan.Again, len(state.Authorities)
	facts.Steps = words(plan.Steps)
	if facts.Leaf.Exists {
		facts.Identity = wire.CertificateIdentity(
			leaf.Data[wire.KeyCertificate], leaf.Data[wire.KeyPrivateKey], leaf.Data[wire.KeyAuthority])
	}
	p.judgeRenewal(authority, state, policy)
	if len(facts.Steps) == 0 && !bytes.Equal(leaf.Data[wire.KeyAuthority], state.Bundle()) {
		facts.Steps = []string{"publish the bundle of authorities"}
	}
	if material, err := state.Material(render.OperatorProfile); err == nil {
		p.material = &material
	}
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
	plan := pki.Decide(state, p.facts.Now, render.Renewal(policy, wanted))
	facts.Renewal = words(plan.Steps)
	if facts.Again.IsZero() || !plan.Again.IsZero() && plan.Again.Before(facts.Again) {
		facts.Again = plan.Again
	}
}

func words(steps []pki.Step) []string {
	var list []string
	for _, step := range steps {
		list = append(list, step.String())
	}
	return list
}
