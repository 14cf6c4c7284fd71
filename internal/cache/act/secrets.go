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
	bundle := leaf.Data[wire.KeyAuthority]
	if len(bundle) == 0 {
		return cache.Result{}, errors.New("the authority that goes into it is not stored yet")
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
func (p *pass) storeCertificates(ctx context.Context, action cache.Action) (cache.Result, error) {
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
	wantedAuthority, wantedLeaf, err := p.renew(ctx, action, authority, leaf)
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
	ctx context.Context, action cache.Action, authority, leaf *corev1.Secret,
) (wantedAuthority, wantedLeaf *corev1.Secret, err error) {
	state, err := render.Material(authority, leaf)
	if err != nil {
		return nil, nil, fmt.Errorf("read the stored authorities: %w", err)
	}
	if len(state.Authorities) == 0 {
		binding, err := p.secret(ctx, cache.AppSecretName(p.design.Name))
		switch {
		case err != nil:
			return nil, nil, err
		case leaf.UID != "" || binding.UID != "":
			return nil, nil, moved(action, "the authority that is trusted is gone")
		}
	}
	state, err = pki.Decide(state, p.Now(), render.Policy(p.design.Identity)).Apply(state, p.Random)
	if err != nil {
		return nil, nil, fmt.Errorf("make certificates: %w", err)
	}
	encoded, err := pki.EncodeAuthorities(state.Authorities)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the authorities: %w", err)
	}
	certificate, key, err := encodeLeaf(state, render.LeafProfile)
	if err != nil {
		return nil, nil, err
	}
	own, ownKey, err := encodeLeaf(state, render.OperatorProfile)
	if err != nil {
		return nil, nil, err
	}
	credentials := render.CredentialsOf(leaf)
	if credentials.Replication == "" {
		if credentials.Replication, err = p.newPassword(); err != nil {
			return nil, nil, err
		}
	}
	return render.Authority(p.design, encoded, own, ownKey),
		render.Leaf(p.design, certificate, key, state.Bundle(), credentials), nil
}

func encodeLeaf(state pki.State, profile string) (certificate, key []byte, err error) {
	issued, found := state.Leaf(profile)
	if !found {
		return nil, nil, fmt.Errorf("no leaf was issued for %s", profile)
	}
	if certificate, key, err = issued.Encode(); err != nil {
		return nil, nil, fmt.Errorf("encode the leaf: %w", err)
	}
	return certificate, key, nil
}

// secret reads a Secret live. One that does not exist is blank.
func (p *pass) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	found := &corev1.Secret{}
	if err := p.Secret(ctx, name, found); err != nil {
		return nil, err
	}
	return found, nil
}
