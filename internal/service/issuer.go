package service

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
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

const (
	// look is how often the Secret of an issuer is read: it is not watched.
	look = 30 * time.Second
	// glance is for what an agent can say and no event tells.
	glance = 3 * time.Second
)

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

// Judge asks kit/pki what is to be done about certificates in this state. Nothing of the keys gets into the facts. The
// policy that it returns introduces no authority that nobody would vouch for.
func (o IssuerOf) Judge(
	ctx context.Context, live client.Reader, state pki.State, facts *Certificates,
) (pki.Policy, error) {
	policy := o.Policy
	issuer, issuing, err := o.Read(ctx, live)
	if err != nil {
		return policy, err
	}
	facts.Issuing, policy.Keep = issuing, issuing.Problem != ""
	plan := pki.Decide(state, o.Now, policy)
	facts.Again, facts.Authorities = plan.Again, len(state.Authorities)
	facts.Steps = nil
	for _, step := range plan.Steps {
		facts.Steps = append(facts.Steps, step.String())
	}
	steps, again, err := facts.Issuing.judge(state, o.Now, policy, issuer)
	facts.Steps, facts.Again = append(facts.Steps, steps...), Sooner(facts.Again, again)
	return policy, err
}

// Sooner is the earlier of two moments. Zero is no moment.
func Sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Unlike says what is stored of a leaf in another way than it would be written now.
func Unlike(stored *corev1.Secret, state pki.State, profile string) []string {
	var steps []string
	if !bytes.Equal(stored.Data[wire.KeyAuthority], state.Bundle()) {
		steps = append(steps, "publish the bundle of authorities to "+profile)
	}
	leaf, _ := state.Leaf(profile)
	if !bytes.Equal(pki.Behind(stored.Data[wire.KeyCertificate]), state.Path(leaf)) {
		steps = append(steps, "show another path to the root from "+profile)
	}
	return steps
}

// Sign has kit/pki decide once more on what is stored now, and makes what is to be stored next. Forward takes the next
// step of a change of whom applications trust. It refuses, in words, what an issuer that cannot be used would have to
// vouch for.
func (o IssuerOf) Sign(
	ctx context.Context, live client.Reader, state pki.State, forward bool, random io.Reader,
) (next pki.State, refused string, err error) {
	issuer, issuing, err := o.Read(ctx, live)
	first := len(state.Authorities) == 0
	switch {
	case err != nil:
		return pki.State{}, "", err
	case issuing.Problem != "" && (first || forward):
		return pki.State{}, issuing.Problem, nil
	}
	policy := o.Policy
	policy.Keep = issuing.Problem != ""
	if next, err = pki.Decide(state, o.Now, policy).Apply(state, random); err != nil {
		return pki.State{}, "", fmt.Errorf("make certificates: %w", err)
	}
	if issuing.Problem == "" {
		next, _, _, err = pki.Endorse(next, o.Now, policy, pki.Wish{Issuer: issuer, First: first, Forward: forward})
	}
	return next, "", err
}

// Shown is what an instance presents: its certificate, and behind it how applications get to the root that they trust.
// Whoever trusts our own authority needs none of that.
func Shown(state pki.State, leaf pki.Leaf) (certificate, key []byte, err error) {
	certificate, key, err = leaf.Encode()
	return append(certificate, state.Path(leaf)...), key, err
}

// judge finds out what is to be done about whom applications trust: steps that are due whatever else is, and when to
// ask again. What comes of a change of the spec is in the facts.
func (i *Issuing) judge(
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

// Following is a change of whom applications trust: what stores its next step, and who has not got yet what the step
// before has brought, in words, empty for nobody.
type Following[Step any] struct {
	Issuing Issuing
	Store   Action[Step]
	Behind  string
}

// FollowIssuer takes the next step of a change of whom applications trust. Its time is known to kit/pki; and it is not
// taken before everyone has what the step before has brought.
func (d *Draft[Step]) FollowIssuer(following Following[Step]) {
	issuing := following.Issuing
	if !issuing.Changing && len(issuing.Change) == 0 {
		return
	}
	recheck, waiting := look, "what is trusted and shown changes by one step at a time, spec.rotate.overlap apart"
	if following.Behind != "" {
		recheck, waiting = glance, following.Behind
	} else if len(issuing.Change) > 0 && !d.Writes(KindSecret, following.Store.Name) {
		action := following.Store
		action.Kind = KindSecret
		action.Why = "applications are to trust another authority: " + strings.Join(issuing.Change, "; ")
		d.Change(action)
	}
	if !d.Invalid {
		d.Hold(Background, recheck, "RotatingCertificates", "applications are to trust another authority: "+waiting)
	}
}

// AnnotationTold is, on the Secret for applications, when it was told of other authorities last. That they are stored
// is no start of the time that applications have: whoever stores them may end before it tells.
const AnnotationTold = "meridian.dev/told"

// Published finds out whether the Secret for applications tells of the authorities, and whether applications have had
// the time that the policy gives them. A moment of the future says nothing: no clock of ours was there.
func (c *Certificates) Published(app *corev1.Secret, wanted []byte, settle time.Duration, now time.Time) {
	if c.Authorities == 0 {
		return
	}
	c.Unpublished = !bytes.Equal(wanted, app.Data[wire.KeyAuthority])
	told, err := time.Parse(time.RFC3339, app.Annotations[AnnotationTold])
	if err != nil || told.After(now.Add(Tolerance)) || !now.Before(told.Add(settle)) {
		return
	}
	c.Settles = told.Add(settle).UTC()
	c.Again = Sooner(c.Again, c.Settles)
}

// Untold says what of the stored authorities applications are not told yet, or have had no time for; empty for nothing.
func (c Certificates) Untold() string {
	switch {
	case c.Unpublished:
		return "applications are not told of the authorities yet"
	case !c.Settles.IsZero():
		return "applications have until " + c.Settles.Format(time.RFC3339) + " for what they were told last"
	}
	return ""
}

// PublishBundle keeps what applications trust as it is stored, by an action that names the Secret for applications. It
// goes on while changes are stopped: whoever does not know an authority refuses the servers of it. What is about to be
// stored comes first.
func (d *Draft[Step]) PublishBundle(certificates Certificates, app Secret, stores string, publish Action[Step]) {
	if !certificates.Unpublished || app.Deleting || certificates.Foreign() != "" || certificates.Authorities == 0 ||
		d.Writes(KindSecret, stores) || d.Writes(KindSecret, publish.Name) {
		return
	}
	publish.Kind, publish.UID, publish.ResourceVersion = KindSecret, app.UID, app.ResourceVersion
	publish.Why = "other authorities are trusted than it tells"
	d.Do(publish)
}
