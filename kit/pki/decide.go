package pki

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Verb is what a step does.
type Verb string

const (
	// CreateAuthority makes an authority and signs with it at once, because there
	// is no other that could.
	CreateAuthority Verb = "create authority"
	// IntroduceAuthority makes the next authority and adds it to the bundle. It will
	// sign once that has settled.
	IntroduceAuthority Verb = "introduce authority"
	// DropAuthority takes an authority out of the bundle.
	DropAuthority Verb = "drop authority"
	// IssueLeaf makes a leaf with a new key, in the place of the old one if any.
	IssueLeaf Verb = "issue leaf"
	// RemoveLeaf forgets a leaf that is no longer wanted.
	RemoveLeaf Verb = "remove leaf"
)

// Step is one thing to do. It holds all that is needed to do it.
type Step struct {
	Verb Verb
	// Subject is the ID of the authority, the name of the leaf, or the beginning of
	// the common name of an authority that is to be made.
	Subject string
	// Why says why, for people.
	Why string
	// NotBefore and NotAfter limit the validity of what is made.
	NotBefore, NotAfter time.Time
	// Profile describes the leaf that is made; of an authority, the names that it signs for, if it is constrained.
	Profile Profile
}

// String returns the step in one line.
func (s Step) String() string { return fmt.Sprintf("%s %s: %s", s.Verb, s.Subject, s.Why) }

// Plan is what is to be done at one moment. Without steps, all is well.
type Plan struct {
	// At is the moment for which the plan was made.
	At time.Time
	// Steps are to be done in this order, and stored together.
	Steps []Step
	// Issuer is the ID of the authority that signs. It is empty when this plan
	// creates that authority.
	Issuer string
	// Abrupt says that parties which still hold older material will not get along
	// with those that hold the new one: what they trust has ended or is lost,
	// because nobody has asked for a plan in time, or someone has deleted it.
	Abrupt bool
	// Again is when to ask again. When there are no steps and the state stays as it
	// is, every plan before this moment has no steps and the same issuer.
	Again time.Time
}

// Decide returns what is to be done now, so that the state follows the policy. It
// is a pure function. The policy must be one that Check accepts.
func Decide(state State, now time.Time, policy Policy) Plan {
	d := decision{state: state, now: now, policy: policy, plan: Plan{At: now}}
	d.issuer = d.chooseIssuer()
	d.renewAuthorities()
	d.dropAuthorities()
	d.issueLeaves()
	d.removeLeaves()
	return d.plan
}

// decision gathers a plan.
type decision struct {
	state  State
	now    time.Time
	policy Policy
	issuer int // Index of the authority that signs, or -1 for one to be created.
	plan   Plan
}

func (d *decision) add(step Step) { d.plan.Steps = append(d.plan.Steps, step) }

// expect notes a moment in the future at which the plan may change.
func (d *decision) expect(moment time.Time) {
	if moment.After(d.now) && (d.plan.Again.IsZero() || moment.Before(d.plan.Again)) {
		d.plan.Again = moment
	}
}

// chooseIssuer picks the newest authority that everyone has had time to trust. When
// there is none, it is the one that has been trusted for longest: the very first
// authority, or what is left after an interruption.
func (d *decision) chooseIssuer() int {
	chosen := -1
	for i, authority := range d.state.Authorities {
		settled := authority.Trusted.Add(d.policy.Settle)
		if !authority.validAt(d.now) {
			continue
		}
		d.expect(settled)
		if chosen < 0 || !d.now.Before(settled) {
			chosen = i
		}
	}
	return chosen
}

// renewAuthorities makes an authority when there is none that could sign, and
// introduces the next one when the newest comes near its end.
func (d *decision) renewAuthorities() {
	authorities := d.state.Authorities
	step := Step{Verb: CreateAuthority, Subject: d.policy.Name, Why: "there is no valid authority",
		NotBefore: d.now.Add(-d.policy.Backdate), NotAfter: d.now.Add(d.policy.AuthorityLifetime)}
	if d.policy.Constrain {
		step.Profile = d.policy.names()
	}
	if d.issuer < 0 {
		d.plan.Abrupt = len(authorities)+len(d.state.Leaves) > 0
		d.add(step)
		return
	}
	issuer := authorities[d.issuer]
	d.plan.Issuer = issuer.ID()
	d.plan.Abrupt = len(authorities) > 1 && d.now.Before(issuer.Trusted.Add(d.policy.Settle))
	newest := authorities[len(authorities)-1]
	ends := newest.Certificate.NotAfter
	due := ends.Add(-d.policy.lead())
	step.Verb = IntroduceAuthority
	switch {
	case newest.Trusted.Before(d.policy.Renew):
		step.Why = "a new one was asked for"
	case d.policy.Constrain && !newest.permits(d.policy.names()):
		step.Why = "the newest one may not sign for all names that are wanted"
	case d.now.Before(due):
		d.expect(due)
		return
	default:
		step.Why = fmt.Sprintf("the newest one ends at %s", format(ends))
	}
	if d.policy.Keep {
		return
	}
	d.add(step)
}

// dropAuthorities takes away what has ended, and what has been succeeded and has
// no leaf left that is valid.
func (d *decision) dropAuthorities() {
	for i, authority := range d.state.Authorities {
		// A verifier accepts a certificate for the whole of its last second.
		ended := authority.Certificate.NotAfter.Add(time.Second)
		unused := d.unused(authority)
		step := Step{Verb: DropAuthority, Subject: authority.ID()}
		switch {
		case !d.now.Before(ended):
			step.Why = fmt.Sprintf("it ended at %s", format(authority.Certificate.NotAfter))
		case i < d.issuer && !d.now.Before(unused):
			step.Why = "it no longer signs, and no leaf of it is valid"
			if d.now.Before(d.state.outstanding(authority)) {
				step.Why = "it no longer signs, and everyone has had time to take leaves of its successor"
			}
		default:
			d.expect(ended)
			if i < d.issuer {
				d.expect(unused)
			}
			continue
		}
		d.add(step)
	}
}

// unused is when nobody presents a leaf of the authority any more: when the last one has ended; or, of an authority
// that is to be replaced, when everyone has had time to take the leaves that were issued in the place of its own.
func (d *decision) unused(authority Authority) time.Time {
	ended := d.state.outstanding(authority).Add(time.Second)
	if !authority.Trusted.Before(d.policy.Renew) {
		return ended
	}
	var replaced time.Time
	for _, leaf := range d.state.Leaves {
		if authority.signed(leaf) {
			return ended
		}
		replaced = latest(replaced, d.made(leaf))
	}
	// A certificate tells its beginning in whole seconds.
	return earliest(ended, replaced.Add(d.policy.Settle+time.Second))
}

// made is when a leaf was issued, to the second.
func (d *decision) made(leaf Leaf) time.Time {
	return leaf.Certificate.NotBefore.Add(d.policy.Backdate)
}

func (d *decision) issueLeaves() {
	for _, profile := range d.policy.Leaves {
		step := Step{Verb: IssueLeaf, Subject: profile.Name, Profile: profile,
			NotBefore: d.now.Add(-d.policy.Backdate), NotAfter: d.now.Add(d.policy.LeafLifetime)}
		if d.issuer >= 0 {
			// A leaf outside of the life of its authority would not verify.
			issuer := d.state.Authorities[d.issuer].Certificate
			step.NotBefore = latest(step.NotBefore, issuer.NotBefore)
			step.NotAfter = earliest(step.NotAfter, issuer.NotAfter)
			// A leaf that nobody would verify is worth less than the present one: the next authority signs for these names.
			if _, found := d.state.Leaf(profile.Name); found && !d.state.Authorities[d.issuer].permits(profile) {
				continue
			}
		}
		if step.Why = d.objection(profile, step.NotAfter); step.Why != "" {
			d.add(step)
		}
	}
}

// objection says why the leaf of the profile must be issued, or nothing when it is
// still good. The reasons are asked in this order, the most telling first.
func (d *decision) objection(profile Profile, renewedUntil time.Time) string {
	leaf, found := d.state.Leaf(profile.Name)
	if !found {
		return "there is none"
	}
	ends := leaf.Certificate.NotAfter
	d.expect(ends.Add(time.Second))
	d.expect(leaf.Certificate.NotBefore)
	switch {
	case !leaf.Key.PublicKey.Equal(leaf.Certificate.PublicKey):
		return "its key does not belong to it"
	case !profile.describes(leaf.Certificate):
		return "it was made for other names or another usage"
	case !validAt(leaf.Certificate, d.now):
		return fmt.Sprintf("it is valid from %s to %s only", format(leaf.Certificate.NotBefore), format(ends))
	case !d.trusted(leaf):
		return "no authority of the bundle has signed it"
	case !d.made(leaf).Add(time.Second).After(d.policy.Renew):
		return "a new one was asked for"
	case d.outlived(leaf):
		return "its authority is being replaced"
	}
	// A leaf that ends with its authority cannot be made to last longer until the
	// next authority signs, so it is left alone until then.
	due := ends.Add(-d.policy.LeafLifetime / 3)
	if d.now.Before(due) {
		d.expect(due)
	} else if renewedUntil.Truncate(time.Second).After(ends) {
		return fmt.Sprintf("it ends at %s", format(ends))
	}
	return ""
}

// outlived reports whether the leaf is of an authority that is to be replaced, and its successor signs by now.
func (d *decision) outlived(leaf Leaf) bool {
	old := func(authority Authority) bool { return authority.Trusted.Before(d.policy.Renew) }
	return d.issuer >= 0 && !old(d.state.Authorities[d.issuer]) &&
		slices.ContainsFunc(d.state.Authorities, func(authority Authority) bool {
			return old(authority) && authority.signed(leaf)
		})
}

// trusted reports whether one of the valid authorities has signed the leaf.
func (d *decision) trusted(leaf Leaf) bool {
	return slices.ContainsFunc(d.state.Authorities, func(authority Authority) bool {
		return authority.validAt(d.now) && authority.signed(leaf)
	})
}

func (d *decision) removeLeaves() {
	for _, leaf := range d.state.Leaves {
		wanted := func(profile Profile) bool { return profile.Name == leaf.Name }
		if !slices.ContainsFunc(d.policy.Leaves, wanted) {
			d.add(Step{Verb: RemoveLeaf, Subject: leaf.Name, Why: "it is no longer wanted"})
		}
	}
}

// describes reports whether the certificate says what the profile wants. The order
// of names means nothing.
func (p Profile) describes(certificate *x509.Certificate) bool {
	var addresses []string
	for _, ip := range certificate.IPAddresses {
		address, _ := netip.AddrFromSlice(ip)
		addresses = append(addresses, address.Unmap().String())
	}
	var wanted []string
	for _, address := range p.Addresses {
		wanted = append(wanted, address.Unmap().String())
	}
	return certificate.Subject.CommonName == p.CommonName && sameSet(certificate.DNSNames, p.DNSNames) &&
		sameSet(addresses, wanted) && slices.Equal(certificate.ExtKeyUsage, p.Usage.extended())
}

func sameSet(a, b []string) bool {
	sorted := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return slices.Equal(sorted(a), sorted(b))
}

func format(moment time.Time) string { return moment.UTC().Format(time.RFC3339) }

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
