package observe

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/service"
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
		p.facts.Rotation = rotationOf(&leaf, &binding)
	}
	if facts.Authority.Foreign != "" || facts.Leaf.Foreign != "" {
		return nil
	}
	state, err := render.Material(&authority, &leaf)
	if err != nil {
		facts.Problem = err.Error()
		return nil //nolint:nilerr // What cannot be read is a fact, and a reason to stop.
	}
	if material, err := state.Material(render.OperatorProfile); err == nil {
		p.material = &material
	}
	if err := p.judgeCertificates(ctx, state, &leaf); err != nil {
		return err
	}
	if p.facts.Binding.Exists && p.facts.Binding.Foreign == "" {
		settle := render.Policy(p.facts.Identity, p.facts.Spec).Settle
		facts.Published(&binding, state.Outside(), settle, p.facts.Now)
	}
	return facts.Compare(ctx, p.AskTime, p.Now)
}

// judgeCertificates asks kit/pki what is to be done. Nothing of the keys gets into the facts.
func (p *pass) judgeCertificates(ctx context.Context, state pki.State, leaf *corev1.Secret) error {
	facts := &p.facts.Certificates
	if facts.Leaf.Exists {
		facts.Identity = wire.CertificateIdentity(
			leaf.Data[wire.KeyCertificate], leaf.Data[wire.KeyPrivateKey], leaf.Data[wire.KeyAuthority])
	}
	issuer := render.IssuerOf(p.facts.Identity, p.facts.Spec, p.facts.Now)
	if _, err := issuer.Judge(ctx, p.Live, state, facts); err != nil {
		return err
	}
	if len(facts.Steps) == 0 {
		facts.Steps = service.Unlike(leaf, state, render.LeafProfile)
	}
	if len(facts.Steps) == 0 && render.CredentialsOf(leaf).Replication == "" {
		facts.Steps = []string{"make the password of replication"}
	}
	return nil
}

// rotationOf is how far the rotation of the application's password has come: it begins beside the certificate, and is
// over in the Secret for applications. One whose next password is not there has not begun.
func rotationOf(leaf, binding *corev1.Secret) service.Rotation {
	begun, told := service.RotationOf(leaf), service.RotationOf(binding)
	next := string(leaf.Data[wire.KeyNextRotation])
	whole := len(leaf.Data[wire.KeyNextPassword]) > 0 && next == strconv.FormatInt(begun.Number, 10)
	if told.Number >= begun.Number || !whole {
		return told
	}
	return begun
}
