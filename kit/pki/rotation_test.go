package pki_test

import (
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/pki"
)

// byValue compares addresses, which hide what they are made of.
var byValue = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

var start = time.Date(2026, 1, 1, 12, 0, 0, 123456789, time.UTC)

func profiles() []pki.Profile {
	return []pki.Profile{
		{Name: "one", CommonName: "one", DNSNames: []string{"one.example", "1.example"},
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")},
			Usage:     pki.Server | pki.Client},
		{Name: "two", DNSNames: []string{"*.example"}, Usage: pki.Server},
		{Name: "three", CommonName: "three", Usage: pki.Client},
	}
}

// apply fails the test when a plan cannot be carried out.
func apply(t *testing.T, plan pki.Plan, state pki.State, random *rand.ChaCha8) pki.State {
	t.Helper()
	next, err := plan.Apply(state, random)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// history is what was stored when: each entry holds until the next.
type history []struct {
	from  time.Time
	state pki.State
}

// since returns all states that someone may hold whose material is not older than
// age: the one that was stored then, and all later ones.
func (h history) since(now time.Time, age time.Duration) []pki.State {
	var states []pki.State
	for i, entry := range h {
		if i == len(h)-1 || h[i+1].from.After(now.Add(-age)) {
			states = append(states, entry.state)
		}
	}
	return states
}

// tally counts what a test has seen, so that one that has seen nothing fails.
type tally struct {
	handshakes, introduced, dropped, issued, overlaps, renewed int
}

// TestEveryoneVerifiesEveryone is the promise of the package. It takes random
// policies through several lives of authorities, with decisions at random moments
// as late as is allowed. Around every change, and at random moments between, every
// leaf that any party may present by then is verified against every bundle that any
// other party may hold.
func TestEveryoneVerifiesEveryone(t *testing.T) {
	var seen tally
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			rotate(t, rand.New(rand.NewPCG(seed, 11)), &seen)
		})
	}
	t.Logf("%+v", seen)
	if seen.handshakes < 5000 || seen.introduced < 20 || seen.dropped < 20 || seen.issued < 200 || seen.overlaps < 50 ||
		seen.renewed < 20 {
		t.Errorf("too little happened: %+v", seen)
	}
}

func randomPolicy(random *rand.Rand) pki.Policy {
	between := func(low, high float64) time.Duration {
		return time.Duration((low + (high-low)*random.Float64()) * float64(time.Minute))
	}
	policy := pki.Policy{Name: "random", Settle: between(0.1, 60), Backdate: between(0, 30), Leaves: profiles()}
	policy.LeafLifetime = policy.Settle*6 + between(0, 600)*time.Duration(random.IntN(2))
	policy.AuthorityLifetime = 2*(policy.LeafLifetime+3*policy.Settle) + between(0, 2000)*time.Duration(random.IntN(2))
	policy.Constrain = random.IntN(2) == 0
	return policy
}

func rotate(t *testing.T, random *rand.Rand, seen *tally) {
	policy := randomPolicy(random)
	if err := policy.Check(); err != nil {
		t.Fatal(err)
	}
	source := rand.NewChaCha8([32]byte{byte(random.Uint32())})
	var past history
	var state pki.State
	end := start.Add(3 * policy.AuthorityLifetime)
	for now := start; now.Before(end); {
		if renew(t, random, state, now, &policy) {
			seen.renewed++
		}
		plan := pki.Decide(state, now, policy)
		checkPlan(t, plan, state, policy)
		if len(plan.Steps) > 0 {
			before := state
			state = apply(t, plan, state, source)
			checkKept(t, plan, before, state)
			past = append(past, struct {
				from  time.Time
				state pki.State
			}{now, state})
			count(seen, plan, state)
			checkParties(t, past, now, policy, seen)
		}
		// The next decision is late by up to Settle, and the parties talk meanwhile.
		quiet := pki.Decide(state, now, policy)
		checkPlan(t, quiet, state, policy)
		next := quiet.Again
		if len(quiet.Steps) > 0 || !next.After(now) {
			t.Fatalf("at %v there is still to do %v, and then at %v", now, quiet.Steps, next)
		}
		late := time.Duration(random.Int64N(int64(policy.Settle)))
		if random.IntN(3) == 0 {
			late = policy.Settle // As late as can be.
		}
		between := now.Add(time.Duration(random.Int64N(int64(next.Sub(now)))))
		for _, moment := range []time.Time{between, next, next.Add(late)} {
			checkParties(t, past, moment, policy, seen)
		}
		now = next.Add(late)
	}
}

// renew asks now and then for everything to be made anew, and finds out whether what was asked for is done in time: the
// new authority settles, and then the leaves of it do, each with a decision that is as late as can be. It reports that
// one was over.
func renew(t *testing.T, random *rand.Rand, state pki.State, now time.Time, policy *pki.Policy) (over bool) {
	t.Helper()
	if state.Older(policy.Renew) {
		if late := now.Sub(policy.Renew); late > 4*policy.Settle+4*time.Second {
			t.Fatalf("what was asked for at %v is not done after %v", policy.Renew, late)
		}
		return false
	}
	over = !policy.Renew.IsZero()
	policy.Renew = time.Time{}
	if len(state.Authorities) > 0 && random.IntN(8) == 0 {
		policy.Renew = now
	}
	return over
}

func count(seen *tally, plan pki.Plan, state pki.State) {
	for _, step := range plan.Steps {
		switch step.Verb {
		case pki.IntroduceAuthority:
			seen.introduced++
		case pki.DropAuthority:
			seen.dropped++
		case pki.IssueLeaf:
			seen.issued++
		}
	}
	if len(state.Authorities) > 1 {
		seen.overlaps++
	}
}

// checkParties verifies all leaves of all states that may be in use against all
// bundles that may be in use.
func checkParties(t *testing.T, past history, now time.Time, policy pki.Policy, seen *tally) {
	t.Helper()
	held := past.since(now, policy.Settle)
	for i, holder := range held {
		for _, leaf := range holder.Leaves {
			for j, verifier := range held {
				seen.handshakes++
				usage := leaf.Certificate.ExtKeyUsage[0]
				options := x509.VerifyOptions{Roots: verifier.Trust(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}}
				if _, err := leaf.Certificate.Verify(options); err != nil {
					t.Fatalf("at %v leaf %s of state %d does not verify with state %d of %d: %v\n%+v",
						now, leaf.Name, i, j, len(held), err, policy)
				}
			}
		}
	}
}

// checkPlan states what holds for every plan of a rotation in time.
func checkPlan(t *testing.T, plan pki.Plan, state pki.State, policy pki.Policy) {
	t.Helper()
	if plan.Abrupt {
		t.Fatalf("at %v the plan interrupts: %v", plan.At, plan.Steps)
	}
	if diff := cmp.Diff(plan, pki.Decide(state, plan.At, policy), byValue); diff != "" {
		t.Fatalf("two decisions differ:\n%s", diff)
	}
	if len(state.Authorities) > 3 {
		t.Fatalf("there are %d authorities", len(state.Authorities))
	}
	if len(plan.Steps) > 0 {
		return
	}
	almost := pki.Decide(state, plan.Again.Add(-1), policy)
	if len(almost.Steps) > 0 || almost.Issuer != plan.Issuer {
		t.Fatalf("at %v nothing was to be done until %v, but just before: %v", plan.At, plan.Again, almost.Steps)
	}
}

// checkKept states that nothing changed that the plan does not name: a good key is
// never made anew.
func checkKept(t *testing.T, plan pki.Plan, before, after pki.State) {
	t.Helper()
	named := func(subject string) bool {
		return slices.ContainsFunc(plan.Steps, func(step pki.Step) bool { return step.Subject == subject })
	}
	for _, leaf := range before.Leaves {
		now, found := after.Leaf(leaf.Name)
		if kept := found && now.Certificate == leaf.Certificate && now.Key == leaf.Key; kept == named(leaf.Name) {
			t.Fatalf("leaf %s: kept is %t with %v", leaf.Name, kept, plan.Steps)
		}
	}
	for _, authority := range before.Authorities {
		kept := slices.ContainsFunc(after.Authorities, func(other pki.Authority) bool {
			return other.Certificate == authority.Certificate && other.Key == authority.Key &&
				other.Trusted.Equal(authority.Trusted) && !other.Outstanding.Before(authority.Outstanding)
		})
		if kept == named(authority.ID()) {
			t.Fatalf("authority %s: kept is %t with %v", authority.ID(), kept, plan.Steps)
		}
	}
}
