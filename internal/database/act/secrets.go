package act

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// passwordBytes of randomness go into a password: more than anyone can guess.
const passwordBytes = 24

// createBinding makes the credentials. It is a plain create: when they exist already, they stay as they are.
func (p *pass) createBinding(ctx context.Context) (database.Result, error) {
	var leaf corev1.Secret
	if err := p.secret(ctx, database.LeafName(p.design.Name), &leaf); err != nil {
		return database.Result{}, err
	}
	bundle := leaf.Data[wire.KeyAuthority]
	if len(bundle) == 0 {
		return database.Result{}, errors.New("the authority that goes into it is not stored yet")
	}
	random := make([]byte, passwordBytes)
	if _, err := io.ReadFull(p.Random, random); err != nil {
		return database.Result{}, fmt.Errorf("make a password: %w", err)
	}
	return p.write(ctx, render.Binding(p.design, base64.RawURLEncoding.EncodeToString(random), bundle), nil)
}

// storeCertificates has kit/pki decide once more on what is stored now, and writes the result: first the authorities,
// then the leaf with the bundle, because an authority must be known before anyone presents a leaf of it. A crash
// between the two loses a leaf that nobody has seen; the next pass issues another.
func (p *pass) storeCertificates(ctx context.Context, action database.Action) (database.Result, error) {
	var authority, leaf corev1.Secret
	if err := p.secret(ctx, database.AuthorityName(p.design.Name), &authority); err != nil {
		return database.Result{}, err
	}
	if err := p.secret(ctx, database.LeafName(p.design.Name), &leaf); err != nil {
		return database.Result{}, err
	}
	if string(leaf.UID) != action.UID || leaf.ResourceVersion != action.ResourceVersion {
		return database.Result{}, moved(action, "it was changed since")
	}
	state, err := render.Material(&authority, &leaf)
	if err != nil {
		return database.Result{}, fmt.Errorf("read the stored authorities: %w", err)
	}
	if err := p.authorityIsNew(ctx, action, state, &leaf); err != nil {
		return database.Result{}, err
	}
	state, err = pki.Decide(state, p.Now(), render.Policy(p.design.Identity)).Apply(state, p.Random)
	if err != nil {
		return database.Result{}, fmt.Errorf("make certificates: %w", err)
	}
	wantedAuthority, wantedLeaf, err := p.renderCertificates(state)
	if err != nil {
		return database.Result{}, err
	}
	written, err := p.write(ctx, wantedAuthority, existing(&authority))
	switch {
	case err != nil:
		return database.Result{}, err
	case authority.UID == "" && !written.Wrote:
		// Somebody was faster. A leaf of our authority, which nobody will ever trust, must not be stored.
		return database.Result{}, moved(action, "another authority was stored meanwhile")
	}
	return p.write(ctx, wantedLeaf, existing(&leaf))
}

// authorityIsNew refuses to make the first authority when somebody trusts one already.
func (p *pass) authorityIsNew(
	ctx context.Context, action database.Action, state pki.State, leaf *corev1.Secret,
) error {
	if len(state.Authorities) > 0 {
		return nil
	}
	var binding corev1.Secret
	if err := p.secret(ctx, database.BindingName(p.design.Name), &binding); err != nil {
		return err
	}
	if leaf.UID != "" || binding.UID != "" {
		return moved(action, "the authority that is trusted is gone")
	}
	return nil
}

func (p *pass) renderCertificates(state pki.State) (authority, leaf *corev1.Secret, err error) {
	encoded, err := pki.EncodeAuthorities(state.Authorities)
	if err != nil {
		return nil, nil, fmt.Errorf("encode the authorities: %w", err)
	}
	own, ownKey, err := encodeLeaf(state, render.OperatorProfile)
	if err != nil {
		return nil, nil, err
	}
	certificate, key, err := encodeLeaf(state, render.LeafProfile)
	if err != nil {
		return nil, nil, err
	}
	return render.Authority(p.design, encoded, own, ownKey), render.Leaf(p.design, certificate, key, state.Bundle()), nil
}

func encodeLeaf(state pki.State, profile string) (certificate, key []byte, err error) {
	issued, found := state.Leaf(profile)
	if !found {
		return nil, nil, fmt.Errorf("no leaf %s was issued", profile)
	}
	if certificate, key, err = issued.Encode(); err != nil {
		return nil, nil, fmt.Errorf("encode the leaf %s: %w", profile, err)
	}
	return certificate, key, nil
}

// secret reads a Secret live. One that does not exist is left blank.
func (p *pass) secret(ctx context.Context, name string, into *corev1.Secret) error {
	err := p.Live.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, into)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the Secret %s live: %w", name, err)
	}
	return nil
}

// existing is the live object that a write starts from, nothing for one that does not exist.
func existing(secret *corev1.Secret) client.Object {
	if secret.UID == "" {
		return nil
	}
	return secret
}
