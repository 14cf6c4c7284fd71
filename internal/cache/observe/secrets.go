package observe

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// readSecrets looks at the Secrets of the cache. Their values stay in this file: facts say that they exist, and what
// kit/pki would do about certificates.
func (p *pass) readSecrets(ctx context.Context) error {
	var authority, leaf, binding corev1.Secret
	facts := &p.facts.Certificates
	for _, read := range []struct {
		name string
		into *corev1.Secret
		fact *cache.Secret
	}{
		{cache.AuthorityName(p.object.Name), &authority, &facts.Authority},
		{cache.LeafName(p.object.Name), &leaf, &facts.Leaf},
		{cache.AppSecretName(p.object.Name), &binding, &p.facts.Binding},
	} {
		found, err := p.find(ctx, p.Live, read.name, read.into)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		*read.fact = cache.Secret{
			Exists: true, UID: string(read.into.UID), ResourceVersion: read.into.ResourceVersion,
		}
		if !p.ours(read.into) {
			read.fact.Foreign = "the Secret " + read.name + " belongs to somebody else"
		}
	}
	if facts.Leaf.Foreign == "" && p.facts.Binding.Foreign == "" {
		p.facts.Rotation = render.RotationOf(&leaf, &binding)
	}
	if facts.Authority.Foreign == "" && facts.Leaf.Foreign == "" {
		p.judgeCertificates(&authority, &leaf)
	}
	return facts.Compare(ctx, p.AskTime, p.Now)
}

// judgeCertificates asks kit/pki what is to be done. Nothing of the keys gets into the facts.
func (p *pass) judgeCertificates(authority, leaf *corev1.Secret) {
	facts := &p.facts.Certificates
	state, err := render.Material(authority, leaf)
	if err != nil {
		facts.Problem = err.Error()
		return
	}
	plan := pki.Decide(state, p.facts.Now, render.Policy(p.facts.Identity))
	facts.Again, facts.Authorities = plan.Again, len(state.Authorities)
	for _, step := range plan.Steps {
		facts.Steps = append(facts.Steps, step.String())
	}
	if len(facts.Steps) == 0 && !bytes.Equal(leaf.Data[wire.KeyAuthority], state.Bundle()) {
		facts.Steps = []string{"publish the bundle of authorities"}
	}
	if len(facts.Steps) == 0 && render.CredentialsOf(leaf).Replication == "" {
		facts.Steps = []string{"make the password of replication"}
	}
	if material, err := state.Material(render.OperatorProfile); err == nil {
		p.material = &material
	}
}
