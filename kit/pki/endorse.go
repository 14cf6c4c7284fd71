package pki

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Endorsement is one answer to whom those outside trust: an issuer, or our own authorities. State.Endorsements has the
// present one, and during a change those before and after it; none stands for our own authorities alone.
//
// Those outside do not see a change at the same moment, as little as the parties do. So the roots of another issuer are
// told first, beside those of before; then leaves are shown with its certificates; then the roots of before are told no
// longer, each when the step before it has settled.
type Endorsement struct {
	// Roots are what those outside trust by it; none for our own authorities.
	Roots []*x509.Certificate
	// Path are the certificates between a root and Crosses.
	Path []*x509.Certificate
	// Crosses are the issuer's certificates of our authorities, with the names and the keys that those have.
	Crosses []*x509.Certificate
	// Told is since when those outside are told of the roots, Shown since when leaves are shown with it, zero for not yet.
	Told, Shown time.Time
}

// Wish is what is wanted of endorsements.
type Wish struct {
	// Issuer is whom those outside shall trust, nil for our own authorities.
	Issuer *Issuer
	// First says that nobody outside trusts anything yet.
	First bool
	// Forward takes the next step of a change, if its time has come. Without it only what is due is renewed.
	Forward bool
}

// Endorse is what is to be done about endorsements: the state that results, and each step in words. It is a pure
// function: signing needs no randomness. The policy is that of Decide. again is when to ask again, zero for never.
func Endorse(
	state State, now time.Time, policy Policy, wish Wish,
) (next State, steps []string, again time.Time, err error) {
	e := endorsing{state: state, now: now, policy: policy, list: slices.Clone(state.Endorsements)}
	if len(e.list) == 0 && wish.Issuer != nil {
		e.begin(wish)
	}
	if wish.Forward {
		e.turn(wish.Issuer)
	}
	if err := e.renew(wish.Issuer); err != nil {
		return State{}, nil, time.Time{}, err
	}
	e.advance(wish.Forward)
	next = state
	next.Endorsements = e.list
	if len(e.list) == 1 && e.list[0].own() {
		next.Endorsements = nil
	}
	return next, e.steps, e.again, nil
}

type endorsing struct {
	state  State
	now    time.Time
	policy Policy
	list   []Endorsement
	steps  []string
	again  time.Time
}

func (e *endorsing) say(format string, args ...any) {
	e.steps = append(e.steps, fmt.Sprintf(format, args...))
}

func (e *endorsing) expect(moment time.Time) {
	if moment.After(e.now) && (e.again.IsZero() || moment.Before(e.again)) {
		e.again = moment
	}
}

// begin has nobody wait where nobody trusts anything yet; else our own authorities are those of before.
func (e *endorsing) begin(wish Wish) {
	if wish.First {
		e.list = []Endorsement{{Roots: wish.Issuer.Roots, Told: e.now, Shown: e.now}}
		e.say("begin with the issuer %s", wish.Issuer)
		return
	}
	since := e.now
	if len(e.state.Authorities) > 0 {
		since = e.state.Authorities[0].Trusted
	}
	e.list = []Endorsement{{Told: since, Shown: since}}
}

// turn begins a change. One that was begun, and that nobody was shown yet, is given up for it.
func (e *endorsing) turn(issuer *Issuer) {
	if len(e.list) == 0 || e.newest().of(issuer) {
		return
	}
	for len(e.list) > 1 && e.newest().Shown.IsZero() {
		e.list = e.list[:len(e.list)-1]
	}
	if e.newest().of(issuer) {
		e.say("go back to %s", issuer)
		return
	}
	e.list = append(e.list, Endorsement{Told: e.now})
	if issuer != nil {
		e.newest().Roots = issuer.Roots
	}
	e.say("tell of %s beside that of before", issuer)
}

func (e *endorsing) newest() *Endorsement { return &e.list[len(e.list)-1] }

// renew has the issuer of the newest endorsement vouch for every authority of ours, where that is due.
func (e *endorsing) renew(issuer *Issuer) error {
	if issuer == nil || len(e.list) == 0 || !e.newest().of(issuer) {
		return nil
	}
	newest := e.newest()
	var crosses []*x509.Certificate
	for _, authority := range e.state.Authorities {
		wanted, present := issuer.cross(authority, e.policy, e.now), newest.cross(authority)
		why := e.stale(present, wanted, issuer)
		if why != "" {
			e.say("have %s vouch for the authority %s: %s", issuer, authority.ID(), why)
			var err error
			if present, err = issuer.sign(wanted, authority); err != nil {
				return fmt.Errorf("have %s vouch for the authority %s: %w", issuer, authority.ID(), err)
			}
		}
		crosses = append(crosses, present)
	}
	if !sameCertificates(newest.Path, issuer.Path) && len(newest.Crosses) > 0 {
		e.say("show another path to a root")
	}
	newest.Crosses, newest.Path = crosses, issuer.Path
	return nil
}

// stale says why a cross certificate is to be made anew, empty if it is still good.
func (e *endorsing) stale(present, wanted *x509.Certificate, issuer *Issuer) string {
	if present == nil {
		return "it did not yet"
	}
	ends, due := present.NotAfter, present.NotAfter.Add(-e.policy.LeafLifetime/3)
	e.expect(due)
	switch {
	case !bytes.Equal(present.RawIssuer, issuer.Certificate.RawSubject) || !signatures.hold(issuer.Certificate, present):
		return "it has another name or key now"
	case !slices.Equal(present.PermittedDNSDomains, wanted.PermittedDNSDomains):
		return "for other names"
	case !e.now.Before(due) && wanted.NotAfter.Truncate(time.Second).After(ends),
		ends.After(issuer.Certificate.NotAfter):
		return fmt.Sprintf("its word ends at %s", format(ends))
	}
	return ""
}

// advance forgets what was shown before that which was shown for long enough, and shows what was told for long enough.
func (e *endorsing) advance(forward bool) {
	shown := len(e.list) - 1
	for shown > 0 && e.list[shown].Shown.IsZero() {
		shown--
	}
	if shown > 0 && e.due(e.list[shown].Shown, forward) {
		e.list = e.list[shown:]
		e.say("tell no longer of that of before")
	}
	if len(e.list) > 0 && e.newest().Shown.IsZero() && e.due(e.newest().Told, forward) {
		e.newest().Shown = e.now
		e.say("show the certificates of the next one")
		e.expect(e.now.Add(e.policy.Settle))
	}
}

// due says that a step which comes after that of the given moment is to be taken now.
func (e *endorsing) due(since time.Time, forward bool) bool {
	moment := since.Add(e.policy.Settle)
	e.expect(moment)
	return forward && !e.now.Before(moment)
}

// cross is what the issuer is to sign: a certificate with the name and the key of one of our authorities. It is for the
// names of that authority, or, if it has no constraint, those of the policy; and it lasts as long as a leaf, because
// nobody can call it back.
func (i Issuer) cross(authority Authority, policy Policy, now time.Time) *x509.Certificate {
	ours := authority.Certificate
	template := &x509.Certificate{
		RawSubject: ours.RawSubject, SubjectKeyId: ours.SubjectKeyId, KeyUsage: ours.KeyUsage,
		NotBefore:             latest(latest(now.Add(-policy.Backdate), ours.NotBefore), i.Certificate.NotBefore),
		NotAfter:              earliest(earliest(now.Add(policy.LeafLifetime), ours.NotAfter), i.Certificate.NotAfter),
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: ours.PermittedDNSDomains,
		PermittedIPRanges: ours.PermittedIPRanges, ExcludedIPRanges: ours.ExcludedIPRanges,
	}
	if len(ours.PermittedDNSDomains) == 0 {
		constrain(template, policy.names())
	}
	sum := sha256.New()
	for _, part := range [][]byte{ours.Raw, i.Certificate.Raw, []byte(format(template.NotBefore))} {
		sum.Write(part)
	}
	serial := sum.Sum(nil)[:serialBytes]
	serial[0] = serial[0]&0x7f | 0x40
	template.SerialNumber = new(big.Int).SetBytes(serial)
	return template
}

func (i Issuer) sign(cross *x509.Certificate, authority Authority) (*x509.Certificate, error) {
	encoded, err := x509.CreateCertificate(nil, cross, i.Certificate, authority.Certificate.PublicKey, i.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(encoded)
}

// String names whom those outside trust.
func (i *Issuer) String() string {
	if i == nil {
		return "the own authority"
	}
	return "the issuer " + i.Certificate.Subject.String()
}

// of reports whether the endorsement is by this issuer: whoever trusts its roots trusts it.
func (e Endorsement) of(issuer *Issuer) bool {
	if issuer == nil {
		return e.own()
	}
	return sameCertificates(e.Roots, issuer.Roots)
}

func (e Endorsement) own() bool { return len(e.Roots) == 0 }

// cross is the certificate of one of our authorities, nil if there is none.
func (e Endorsement) cross(authority Authority) *x509.Certificate {
	for _, one := range e.Crosses {
		if bytes.Equal(one.RawSubject, authority.Certificate.RawSubject) &&
			bytes.Equal(one.RawSubjectPublicKeyInfo, authority.Certificate.RawSubjectPublicKeyInfo) {
			return one
		}
	}
	return nil
}

func sameCertificates(a, b []*x509.Certificate) bool {
	return slices.EqualFunc(a, b, func(one, other *x509.Certificate) bool { return one.Equal(other) })
}

// Outside returns what those outside trust, as PEM. The parties themselves trust State.Bundle, and nothing else.
func (s State) Outside() []byte {
	var told []*x509.Certificate
	add := func(one *x509.Certificate) {
		if !slices.ContainsFunc(told, one.Equal) {
			told = append(told, one)
		}
	}
	for _, endorsement := range s.Endorsements {
		for _, root := range endorsement.Roots {
			add(root)
		}
	}
	if len(s.Endorsements) == 0 || slices.ContainsFunc(s.Endorsements, Endorsement.own) {
		for _, authority := range s.Authorities {
			add(authority.Certificate)
		}
	}
	return encodeCertificates(told)
}

// Path returns what is presented behind a leaf, as PEM: how those outside get from it to a root. Whoever trusts our own
// authorities needs none of it.
func (s State) Path(leaf Leaf) []byte {
	signer := slices.IndexFunc(s.Authorities, func(authority Authority) bool { return authority.signed(leaf) })
	if signer < 0 {
		return nil
	}
	shown := slices.Clone(s.Endorsements)
	slices.Reverse(shown)
	// What is shown comes first; an authority that came after its issuer had gone has the word of the next one alone.
	slices.SortStableFunc(shown, func(a, b Endorsement) int {
		return boolean(a.Shown.IsZero()) - boolean(b.Shown.IsZero())
	})
	for _, endorsement := range shown {
		if endorsement.own() {
			return nil
		}
		if cross := endorsement.cross(s.Authorities[signer]); cross != nil {
			return encodeCertificates(append([]*x509.Certificate{cross}, endorsement.Path...))
		}
	}
	return nil
}

func boolean(is bool) int {
	if is {
		return 1
	}
	return 0
}

func encodeCertificates(list []*x509.Certificate) []byte {
	var encoded bytes.Buffer
	for _, one := range list {
		encoded.Write(encodeCertificate(one))
	}
	return encoded.Bytes()
}

type storedEndorsements struct {
	Version      int                 `json:"version"`
	Endorsements []storedEndorsement `json:"endorsements"`
}

type storedEndorsement struct {
	Roots   string    `json:"roots,omitempty"`
	Path    string    `json:"path,omitempty"`
	Crosses string    `json:"crosses,omitempty"`
	Told    time.Time `json:"told"`
	Shown   time.Time `json:"shown,omitzero"`
}

// EncodeEndorsements returns endorsements in a form to store, nothing for none. It holds no keys.
func EncodeEndorsements(endorsements []Endorsement) ([]byte, error) {
	if len(endorsements) == 0 {
		return nil, nil
	}
	stored := storedEndorsements{Version: storedVersion}
	for _, one := range endorsements {
		stored.Endorsements = append(stored.Endorsements, storedEndorsement{
			Roots: string(encodeCertificates(one.Roots)), Path: string(encodeCertificates(one.Path)),
			Crosses: string(encodeCertificates(one.Crosses)), Told: one.Told.UTC(), Shown: one.Shown.UTC(),
		})
	}
	encoded, err := json.MarshalIndent(stored, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the endorsements: %w", err)
	}
	return append(encoded, '\n'), nil
}

// DecodeEndorsements is the reverse of EncodeEndorsements. What cannot be read must not be taken for none: those
// outside would be told of other roots at once.
func DecodeEndorsements(encoded []byte) ([]Endorsement, error) {
	if len(encoded) == 0 {
		return nil, nil
	}
	var stored storedEndorsements
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&stored); err != nil {
		return nil, fmt.Errorf("decode the endorsements: %w", err)
	}
	if stored.Version != storedVersion {
		return nil, fmt.Errorf("decode the endorsements: the version is %d, not %d", stored.Version, storedVersion)
	}
	var endorsements []Endorsement
	for _, one := range stored.Endorsements {
		decoded := Endorsement{Told: one.Told, Shown: one.Shown}
		for _, list := range []struct {
			text string
			into *[]*x509.Certificate
		}{{one.Roots, &decoded.Roots}, {one.Path, &decoded.Path}, {one.Crosses, &decoded.Crosses}} {
			if list.text == "" {
				continue
			}
			var err error
			if *list.into, err = decodeCertificates("", []byte(list.text)); err != nil {
				return nil, fmt.Errorf("decode the endorsements: %w", err)
			}
		}
		endorsements = append(endorsements, decoded)
	}
	return endorsements, nil
}
