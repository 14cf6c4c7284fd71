package act

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	login, err := p.newLogin(p.design.Spec.Bootstrap.Owner, 0)
	if err != nil {
		return database.Result{}, err
	}
	// What is made new needs no rotation.
	rotation := database.Rotation{}
	if rotate := p.design.Spec.Rotate; rotate != nil && rotate.Password != "" {
		rotation = database.Rotation{Token: rotate.Password, Done: p.Now()}
	}
	return p.write(ctx, render.Binding(p.design, login, rotation, bundle), nil)
}

// newLogin makes a password, with a number that is higher than those of before, also of a Secret that was deleted.
func (p *pass) newLogin(name string, before int64) (render.Login, error) {
	random := make([]byte, passwordBytes)
	if _, err := io.ReadFull(p.Random, random); err != nil {
		return render.Login{}, fmt.Errorf("make a password: %w", err)
	}
	return render.Login{
		Name: name, Password: base64.RawURLEncoding.EncodeToString(random), Number: max(p.Now().UnixMilli(), before+1),
	}, nil
}

// beginLogin makes the next credentials and writes them beside the present ones. This one write is all that knows them:
// when it fails, no server has ever heard of them, and when it is done, they are not made again.
func (p *pass) beginLogin(
	ctx context.Context, action database.Action, begin database.BeginLogin,
) (database.Result, error) {
	return p.editBinding(ctx, action, func(binding *corev1.Secret) error {
		present, _ := strconv.ParseInt(string(binding.Data[wire.KeyRotation]), 10, 64) // One from before has no number.
		name := wire.LoginAfter(string(binding.Data[wire.KeyUsername]), p.design.Spec.Bootstrap.Owner)
		next, err := p.newLogin(name, present)
		if err != nil {
			return err
		}
		render.PutNextLogin(binding, next)
		render.Note(binding, database.Rotation{Token: begin.Token, Number: next.Number, Began: p.Now()})
		return nil
	})
}

// moveLogin puts the next credentials in the place of the present ones, all keys in one write.
func (p *pass) moveLogin(
	ctx context.Context, action database.Action, move database.MoveLogin,
) (database.Result, error) {
	return p.editBinding(ctx, action, func(binding *corev1.Secret) error {
		next, found := render.NextLogin(binding)
		if !found || next.Number != move.Number {
			return moved(action, "other credentials are made ready")
		}
		rotation := render.RotationOf(binding)
		rotation.Done = p.Now()
		render.PutLogin(p.design, binding, next)
		render.Note(binding, rotation)
		return nil
	})
}

// publishBundle gives applications the authorities that are trusted now.
func (p *pass) publishBundle(ctx context.Context, action database.Action) (database.Result, error) {
	var leaf corev1.Secret
	if err := p.secret(ctx, database.LeafName(p.design.Name), &leaf); err != nil {
		return database.Result{}, err
	}
	return p.editBinding(ctx, action, func(binding *corev1.Secret) error {
		if len(leaf.Data[wire.KeyAuthority]) == 0 {
			return moved(action, "the authorities are gone")
		}
		binding.Data[wire.KeyAuthority] = leaf.Data[wire.KeyAuthority]
		return nil
	})
}

// editBinding changes the Secret for applications as it was when the action was decided on, and nothing else of it:
// whoever has added to it keeps what is theirs.
func (p *pass) editBinding(
	ctx context.Context, action database.Action, edit func(*corev1.Secret) error,
) (database.Result, error) {
	var live corev1.Secret
	if err := p.readAsDecided(ctx, action, &live); err != nil {
		return database.Result{}, err
	}
	after := live.DeepCopy()
	if after.Data == nil {
		after.Data = map[string][]byte{}
	}
	if err := edit(after); err != nil {
		return database.Result{}, err
	}
	if equality.Semantic.DeepEqual(&live, after) {
		return database.Result{Done: true}, nil
	}
	return p.patch(ctx, action, &live, after)
}

// storeCertificates has kit/pki decide once more on what is stored now, and writes the result: first the authorities,
// then the leaf with the bundle, because an authority must be known before anyone presents a leaf of it. A crash
// between the two loses a leaf that nobody has seen; the next pass issues another.
func (p *pass) storeCertificates(
	ctx context.Context, action database.Action, store database.StoreCertificates,
) (database.Result, error) {
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
	rotation := p.rotationOf(&authority, store.Token)
	policy := render.Policy(p.design.Identity, p.design.Spec)
	if store.Token != "" {
		policy = render.Renewal(policy, rotation)
	}
	state, err = pki.Decide(state, p.Now(), policy).Apply(state, p.Random)
	if err != nil {
		return database.Result{}, fmt.Errorf("make certificates: %w", err)
	}
	wantedAuthority, wantedLeaf, err := p.renderCertificates(state, render.Advance(rotation, state, p.Now()))
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

// rotationOf is the rotation that the authority is in: that of before, or the one that the action begins. An authority
// that is made new needs none.
func (p *pass) rotationOf(authority *corev1.Secret, token string) database.Rotation {
	rotation := render.RotationOf(authority)
	rotate := p.design.Spec.Rotate
	switch {
	case authority.UID == "" && rotate != nil && rotate.Certificates != "":
		return database.Rotation{Token: rotate.Certificates, Done: p.Now()}
	case rotation.Asked(token):
		return database.Rotation{Token: token, Began: p.Now()}
	}
	return rotation
}

// authorityIsNew refuses to make the first authority when somebody trusts one already.
func (p *pass) authorityIsNew(
	ctx context.Context, action database.Action, state pki.State, leaf *corev1.Secret,
) error {
	if len(state.Authorities) > 0 {
		return nil
	}
	var binding corev1.Secret
	if err := p.secret(ctx, database.AppSecretName(p.design.Name), &binding); err != nil {
		return err
	}
	if leaf.UID != "" || binding.UID != "" {
		return moved(action, "the authority that is trusted is gone")
	}
	return nil
}

func (p *pass) renderCertificates(
	state pki.State, rotation database.Rotation,
) (authority, leaf *corev1.Secret, err error) {
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
	authority = render.Authority(p.design, rotation, encoded, own, ownKey)
	return authority, render.Leaf(p.design, certificate, key, state.Bundle()), nil
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
