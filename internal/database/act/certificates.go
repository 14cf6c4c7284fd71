package act

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/pki"
)

// vault is what is stored of the authority and of all leaves, as it was read live.
type vault struct {
	authority corev1.Secret
	leaves    map[string]*corev1.Secret
	state     pki.State
}

func (p *pass) openVault(ctx context.Context) (*vault, error) {
	v := &vault{leaves: map[string]*corev1.Secret{}}
	if err := p.Secret(ctx, database.AuthorityName(p.design.Name), &v.authority); err != nil {
		return nil, err
	}
	profiles := p.design.Holders()
	if p.design.Shared {
		profiles = append(profiles, render.SharedProfile)
	}
	for _, profile := range profiles {
		v.leaves[profile] = &corev1.Secret{}
		if err := p.Secret(ctx, render.LeafSecret(p.design.Name, profile), v.leaves[profile]); err != nil {
			return nil, err
		}
	}
	var err error
	if v.state, err = render.Material(&v.authority, v.leaves); err != nil {
		return nil, fmt.Errorf("read the stored authorities: %w", err)
	}
	return v, nil
}

// issued says that somebody may present something already.
func (v *vault) issued() bool {
	for _, leaf := range v.leaves {
		if leaf.UID != "" {
			return true
		}
	}
	return false
}

// storeCertificates has kit/pki decide once more on what is stored now, and writes the result: first the authorities,
// then the leaves with the bundle, because an authority must be known before anyone presents a leaf of it. A crash
// between two of them loses leaves that nobody has seen; the next pass issues others.
func (p *pass) storeCertificates(
	ctx context.Context, action database.Action, store database.StoreCertificates,
) (database.Result, error) {
	v, err := p.openVault(ctx)
	if err != nil {
		return database.Result{}, err
	}
	if string(v.authority.UID) != action.UID || v.authority.ResourceVersion != action.ResourceVersion {
		return database.Result{}, moved(action, "it was changed since")
	}
	if err := p.authorityIsNew(ctx, action, v); err != nil {
		return database.Result{}, err
	}
	rotation := p.rotationOf(&v.authority, store.Token)
	policy := render.Policy(p.design.Identity, p.design.Spec, render.HoldersOf(p.design))
	if store.Token != "" {
		policy = design.Renewal(policy, rotation)
	}
	state, refused, err := service.IssuerOf{
		Namespace: p.object.Namespace, Spec: p.design.Spec.Certificates, Policy: policy, Now: p.Now(),
	}.Sign(ctx, p.Live, v.state, store.Issuer, p.Random)
	switch {
	case err != nil:
		return database.Result{}, err
	case refused != "":
		return database.Result{}, moved(action, refused)
	}
	return p.writeCertificates(ctx, action, v, state, design.Advance(rotation, state, p.Now()))
}

func (p *pass) writeCertificates(
	ctx context.Context, action database.Action, v *vault, state pki.State, rotation database.Rotation,
) (database.Result, error) {
	listed, err := p.listed(ctx, &v.authority)
	if err != nil {
		return database.Result{}, err
	}
	wanted, err := p.renderAuthority(state, rotation, listed)
	if err != nil {
		return database.Result{}, err
	}
	result, err := p.Write(ctx, wanted, service.Existing(&v.authority))
	switch {
	case err != nil:
		return database.Result{}, err
	case v.authority.UID == "" && !result.Wrote:
		// Somebody was faster. A leaf of our authority, which nobody will ever trust, must not be stored.
		return database.Result{}, moved(action, "another authority was stored meanwhile")
	}
	for _, leaf := range state.Leaves {
		stored, mounted := v.leaves[leaf.Name]
		if !mounted {
			continue // It is the operator's own, which is beside the authority.
		}
		certificate, key, err := service.Shown(state, leaf)
		if err != nil {
			return database.Result{}, fmt.Errorf("encode the leaf %s: %w", leaf.Name, err)
		}
		secret := render.Leaf(p.design, leaf.Name, certificate, key, state.Bundle())
		written, err := p.Write(ctx, secret, service.Existing(stored))
		if err != nil {
			return database.Result{}, err
		}
		result.Wrote = result.Wrote || written.Wrote
		result.Unheld = append(result.Unheld, written.Unheld...)
	}
	return result, nil
}

// listed are the instances that have a certificate of their own, or will in a moment: those that get one, and those of
// before whose Secret is still there.
func (p *pass) listed(ctx context.Context, authority *corev1.Secret) ([]string, error) {
	names := p.design.Holders()
	for _, name := range render.Listed(authority) {
		if slices.Contains(names, name) {
			continue
		}
		var secret corev1.Secret
		if err := p.Secret(ctx, render.LeafSecret(p.design.Name, name), &secret); err != nil {
			return nil, err
		}
		if secret.UID != "" {
			names = append(names, name)
		}
	}
	return names, nil
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
func (p *pass) authorityIsNew(ctx context.Context, action database.Action, v *vault) error {
	if len(v.state.Authorities) > 0 {
		return nil
	}
	var binding, shared corev1.Secret
	if err := p.Secret(ctx, database.AppSecretName(p.design.Name), &binding); err != nil {
		return err
	}
	if err := p.Secret(ctx, database.LeafName(p.design.Name), &shared); err != nil {
		return err
	}
	if v.issued() || binding.UID != "" || shared.UID != "" {
		return moved(action, "the authority that is trusted is gone")
	}
	return nil
}

func (p *pass) renderAuthority(
	state pki.State, rotation database.Rotation, listed []string,
) (*corev1.Secret, error) {
	encoded, err := pki.EncodeAuthorities(state.Authorities)
	if err != nil {
		return nil, fmt.Errorf("encode the authorities: %w", err)
	}
	issued, found := state.Leaf(render.OperatorProfile)
	if !found {
		return nil, fmt.Errorf("no leaf %s was issued", render.OperatorProfile)
	}
	certificate, key, err := issued.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode the leaf %s: %w", render.OperatorProfile, err)
	}
	endorsements, err := pki.EncodeEndorsements(state.Endorsements)
	if err != nil {
		return nil, err
	}
	return render.Authority(p.design, rotation, render.Stored{
		Authorities: encoded, Certificate: certificate, Key: key, Holders: listed, Endorsements: endorsements,
	}), nil
}

// removeCertificate deletes a certificate that nobody mounts, by what is there now: a pod whose Secret is gone cannot
// be made again.
func (p *pass) removeCertificate(ctx context.Context, action database.Action) (database.Result, error) {
	var secret corev1.Secret
	if err := p.ReadAsDecided(ctx, action, &secret); err != nil {
		return database.Result{}, err
	}
	selector := []client.ListOption{
		client.InNamespace(p.object.Namespace), client.MatchingLabels{database.LabelDatabase: p.object.Name},
	}
	var pods corev1.PodList
	if err := p.Live.List(ctx, &pods, selector...); err != nil {
		return database.Result{}, fmt.Errorf("list pods live: %w", err)
	}
	var sets appsv1.StatefulSetList
	if err := p.Live.List(ctx, &sets, selector...); err != nil {
		return database.Result{}, fmt.Errorf("list stateful sets live: %w", err)
	}
	var specs []corev1.PodSpec
	for i := range pods.Items {
		specs = append(specs, pods.Items[i].Spec)
	}
	for i := range sets.Items {
		specs = append(specs, sets.Items[i].Spec.Template.Spec)
	}
	for _, spec := range specs {
		for _, volume := range spec.Volumes {
			if volume.Secret != nil && volume.Secret.SecretName == secret.Name {
				return database.Result{}, moved(action, "a pod mounts it")
			}
		}
	}
	return p.Remove(ctx, &secret)
}
