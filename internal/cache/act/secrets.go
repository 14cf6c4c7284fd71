package act

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// passwordBytes of randomness go into a password: more than anyone can guess, also from its hash.
const passwordBytes = 24

// createBinding makes the credentials. It is a plain create: when they exist already, they stay as they are.
func (p *pass) createBinding(ctx context.Context) (cache.Result, error) {
	leaf, err := p.secret(ctx, cache.LeafName(p.design.Name))
	if err != nil {
		return cache.Result{}, err
	}
	bundle, err := p.bundle(ctx)
	if err != nil {
		return cache.Result{}, err
	}
	password, err := p.newPassword()
	if err != nil {
		return cache.Result{}, err
	}
	// It is a new password whatever is asked for, so that nothing is left to do about a wish for one.
	rotation := service.Rotation{Number: render.CredentialsOf(leaf).Rotation.Number}
	if rotate := p.design.Spec.Rotate; rotate != nil && rotate.Password != "" {
		rotation.Token, rotation.Done = rotate.Password, p.Now()
	}
	return p.Write(ctx, render.Binding(p.design, password, rotation, bundle), nil)
}

// bundle is what applications trust, as it is stored.
func (p *pass) bundle(ctx context.Context) ([]byte, error) {
	authority, err := p.secret(ctx, cache.AuthorityName(p.design.Name))
	if err != nil {
		return nil, err
	}
	state, err := render.Material(authority, &corev1.Secret{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the stored authorities: %w", err)
	case len(state.Authorities) == 0:
		return nil, errors.New("the authority that goes into it is not stored yet")
	}
	return state.Outside(), nil
}

// publishBundle gives applications the authorities that are trusted now.
func (p *pass) publishBundle(ctx context.Context, action cache.Action) (cache.Result, error) {
	bundle, err := p.bundle(ctx)
	if err != nil {
		return cache.Result{}, err
	}
	return p.PublishBundle(ctx, action, bundle, p.Now())
}

func (p *pass) newPassword() (string, error) {
	random := make([]byte, passwordBytes)
	if _, err := io.ReadFull(p.Random, random); err != nil {
		return "", fmt.Errorf("make a password: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(random), nil
}

// beginPassword writes the next password down beside the certificate, together with the present one: instances accept
// both until the next rotation. It is one write: if it fails, no server has heard of the password.
func (p *pass) beginPassword(ctx context.Context, action cache.Action, token string) (cache.Result, error) {
	var leaf corev1.Secret
	if err := p.ReadAsDecided(ctx, action, &leaf); err != nil {
		return cache.Result{}, err
	}
	binding, err := p.secret(ctx, cache.AppSecretName(p.design.Name))
	if err != nil {
		return cache.Result{}, err
	}
	present := string(binding.Data[wire.KeyPassword])
	if present == "" {
		return cache.Result{}, moved(action, "applications have no password")
	}
	credentials := render.CredentialsOf(&leaf)
	if credentials.Next, err = p.newPassword(); err != nil {
		return cache.Result{}, err
	}
	credentials.Previous = present
	// The number is one that was never used, also where a Secret was put back meanwhile: an instance that has mounted
	// another password under it would confirm what it does not accept.
	last := max(service.RotationOf(&leaf).Number, service.RotationOf(binding).Number)
	credentials.Rotation = service.Rotation{Token: token, Number: max(p.Now().UnixMilli(), last+1), Began: p.Now()}
	data := leaf.Data
	return p.Write(ctx, render.Leaf(p.design, data[wire.KeyCertificate], data[wire.KeyPrivateKey],
		data[wire.KeyAuthority], credentials), &leaf)
}

// movePassword tells applications the next password. What they trust stays as it is.
func (p *pass) movePassword(ctx context.Context, action cache.Action, number int64) (cache.Result, error) {
	var binding corev1.Secret
	if err := p.ReadAsDecided(ctx, action, &binding); err != nil {
		return cache.Result{}, err
	}
	leaf, err := p.secret(ctx, cache.LeafName(p.design.Name))
	if err != nil {
		return cache.Result{}, err
	}
	credentials := render.CredentialsOf(leaf)
	if credentials.Next == "" || credentials.Rotation.Number != number {
		return cache.Result{}, moved(action, "another password is made ready")
	}
	credentials.Rotation.Done = p.Now()
	return p.Write(ctx, render.Binding(p.design, credentials.Next, credentials.Rotation,
		binding.Data[wire.KeyAuthority]), &binding)
}

// storeCertificates has kit/pki decide once more on what is stored now, and writes the result: first the authorities,
// then the leaf with the bundle, because an authority must be known before anyone presents a leaf of it. A crash
// between the two loses a leaf that nobody has seen; the next pass issues another.
func (p *pass) storeCertificates(
	ctx context.Context, action cache.Action, store cache.StoreCertificates,
) (cache.Result, error) {
	authority, err := p.secret(ctx, cache.AuthorityName(p.design.Name))
	if err != nil {
		return cache.Result{}, err
	}
	leaf, err := p.secret(ctx, cache.LeafName(p.design.Name))
	switch {
	case err != nil:
		return cache.Result{}, err
	case string(leaf.UID) != action.UID || leaf.ResourceVersion != action.ResourceVersion:
		return cache.Result{}, moved(action, "it was changed since")
	}
	state, err := p.renew(ctx, action, store, authority, leaf)
	if err != nil {
		return cache.Result{}, err
	}
	wantedAuthority, wantedLeaf, err := p.renderCertificates(state, render.CredentialsOf(leaf))
	if err != nil {
		return cache.Result{}, err
	}
	written, err := p.Write(ctx, wantedAuthority, service.Existing(authority))
	switch {
	case err != nil:
		return cache.Result{}, err
	case authority.UID == "" && !written.Wrote:
		// Somebody was faster. A leaf of our authority, which nobody will ever trust, must not be stored.
		return cache.Result{}, moved(action, "another authority was stored meanwhile")
	}
	return p.Write(ctx, wantedLeaf, service.Existing(leaf))
}

// renew makes what is to be stored. It refuses to make the first authority when somebody trusts one already.
func (p *pass) renew(
	ctx context.Context, action cache.Action, store cache.StoreCertificates, authority, leaf *corev1.Secret,
) (pki.State, error) {
	state, err := render.Material(authority, leaf)
	if err != nil {
		return pki.State{}, fmt.Errorf("read the stored authorities: %w", err)
	}
	if len(state.Authorities) == 0 {
		binding, err := p.secret(ctx, cache.AppSecretName(p.design.Name))
		switch {
		case err != nil:
			return pki.State{}, err
		case leaf.UID != "" || binding.UID != "":
			return pki.State{}, moved(action, "the authority that is trusted is gone")
		}
	}
	issuer := render.IssuerOf(p.design.Identity, p.design.Spec, p.Now())
	state, refused, err := issuer.Sign(ctx, p.Live, state, store.Issuer, p.Random)
	if err == nil && refused != "" {
		err = moved(action, refused)
	}
	return state, err
}

func (p *pass) renderCertificates(
	state pki.State, credentials render.Credentials,
) (authority, leaf *corev1.Secret, err error) {
	var stored render.Stored
	if stored.Authorities, err = pki.EncodeAuthorities(state.Authorities); err != nil {
		return nil, nil, fmt.Errorf("encode the authorities: %w", err)
	}
	if stored.Endorsements, err = pki.EncodeEndorsements(state.Endorsements); err != nil {
		return nil, nil, err
	}
	own, found := state.Leaf(render.OperatorProfile)
	shared, also := state.Leaf(render.LeafProfile)
	if !found || !also {
		return nil, nil, errors.New("no leaf was issued for the operator or for the instances")
	}
	if stored.Certificate, stored.Key, err = own.Encode(); err != nil {
		return nil, nil, fmt.Errorf("encode the leaf of the operator: %w", err)
	}
	certificate, key, err := service.Shown(state, shared)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the leaf of the instances: %w", err)
	}
	if credentials.Replication == "" {
		if credentials.Replication, err = p.newPassword(); err != nil {
			return nil, nil, err
		}
	}
	return render.Authority(p.design, stored), render.Leaf(p.design, certificate, key, state.Bundle(), credentials), nil
}

// secret reads a Secret live. One that does not exist is blank.
func (p *pass) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	if err := p.Secret(ctx, name, found); err != nil {
		return nil, err
	}
	return found, nil
}
