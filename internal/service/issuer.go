package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// Issuing is what is known of the authority of the user's own, and of a change of whom applications trust.
type Issuing struct {
	// Secret is the name of its Secret, empty if the spec names none.
	Secret string `json:"secret,omitempty"`
	// Problem is why it cannot vouch for ours, with the Secret and the key; empty if it can.
	Problem string `json:"problem,omitempty"`
	// Ends is when it ends, zero if that is far.
	Ends time.Time `json:"ends,omitzero"`
	// Changing says that applications are told of more than one. Change is what is to be done next about that, in words.
	Changing bool     `json:"changing,omitempty"`
	Change   []string `json:"change,omitempty"`
}

// look is how often the Secret of an issuer is read: it is not watched.
const look = 30 * time.Second

// secretKeys are where the parts of an issuer are.
var secretKeys = map[pki.Part]string{
	pki.PartCertificate: wire.KeyCertificate, pki.PartKey: wire.KeyPrivateKey, pki.PartRoots: wire.KeyAuthority,
}

// IssuerOf is what an issuer is asked for: to vouch for authorities of a policy.
type IssuerOf struct {
	Namespace string
	Spec      *v1alpha1.Certificates
	Policy    pki.Policy
	Now       time.Time
}

// Read reads the issuer that the spec names, and finds out whether it can vouch for them. It is nil if there is none,
// or if it cannot; the facts say why. Nothing of its key gets into them.
func (o IssuerOf) Read(ctx context.Context, live client.Reader) (*pki.Issuer, Issuing, error) {
	if o.Spec == nil || o.Spec.Issuer == nil {
		return nil, Issuing{}, nil
	}
	facts := Issuing{Secret: o.Spec.Issuer.Secret.Name}
	secrets, err := Secrets(ctx, live, o.Namespace, []string{facts.Secret})
	if err != nil {
		return nil, facts, err
	}
	secret, found := secrets[facts.Secret]
	if !found {
		facts.Problem = fmt.Sprintf("the Secret %s is not there", facts.Secret)
		return nil, facts, nil
	}
	issuer, err := usable(secret, o.Policy, o.Now)
	if err != nil {
		facts.Problem = fmt.Sprintf("the Secret %s: %v", facts.Secret, err)
		if part, ok := errors.AsType[*pki.PartError](err); ok {
			facts.Problem = fmt.Sprintf("the Secret %s, key %s: %v", facts.Secret, secretKeys[part.Part], part.Err)
		}
		return nil, facts, nil
	}
	if ends, soon := issuer.Ending(o.Now); soon {
		facts.Ends = ends
	}
	return issuer, facts, nil
}

func usable(secret *corev1.Secret, policy pki.Policy, now time.Time) (*pki.Issuer, error) {
	issuer, err := pki.DecodeIssuer(
		secret.Data[wire.KeyCertificate], secret.Data[wire.KeyPrivateKey], secret.Data[wire.KeyAuthority])
	if err != nil {
		return nil, err
	}
	if err := issuer.Check(policy, now, rand.Reader); err != nil {
		return nil, err
	}
	return &issuer, nil
}

// Judge finds out what is to be done about whom applications trust: steps that are due whatever else is, and when to
// ask again. What comes of a change of the spec is in the facts.
func (i *Issuing) Judge(
	state pki.State, now time.Time, policy pki.Policy, issuer *pki.Issuer,
) (steps []string, again time.Time, err error) {
	i.Changing = len(state.Endorsements) > 1
	if i.Problem != "" || len(state.Authorities) == 0 {
		return nil, time.Time{}, nil
	}
	_, steps, again, err = pki.Endorse(state, now, policy, pki.Wish{Issuer: issuer})
	if err == nil && len(steps) == 0 {
		_, i.Change, _, err = pki.Endorse(state, now, policy, pki.Wish{Issuer: issuer, Forward: true})
	}
	return steps, again, err
}

// tellIssuing says what is wrong with an issuer. It reports that there is nothing in the way of using it.
func (d *Draft[Step]) tellIssuing(issuing Issuing) bool {
	if issuing.Secret == "" || d.Invalid {
		return true
	}
	d.Drawn.Again = min(d.Drawn.Again, look)
	switch {
	case issuing.Problem != "":
		d.Hold(Stalled, look, "IssuerUnusable", fmt.Sprintf("spec.certificates.issuer: %s; mend it, or name another; "+
			"servers go on with what they have", issuing.Problem))
		return false
	case !issuing.Ends.IsZero():
		d.Hold(Background, look, "IssuerEnding", fmt.Sprintf("spec.certificates.issuer: the Secret %s, key %s: the "+
			"authority ends at %s; put its successor there before, or applications refuse every server",
			issuing.Secret, wire.KeyCertificate, issuing.Ends.UTC().Format(time.RFC3339)))
	}
	return true
}
