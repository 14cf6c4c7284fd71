package pki_test

import (
	"crypto/x509"
	"net/netip"
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/kit/pki"
)

// constrained is a policy whose authorities sign for its own names only.
func constrained(names ...string) pki.Policy {
	policy := week()
	policy.Constrain = true
	policy.Leaves = []pki.Profile{
		{Name: "server", CommonName: "server", DNSNames: names, Usage: pki.Server | pki.Client},
		{Name: "caller", CommonName: "caller:x", Usage: pki.Client},
	}
	return policy
}

func verify(state pki.State, leaf, name string, now time.Time) error {
	issued, _ := state.Leaf(leaf)
	_, err := issued.Certificate.Verify(x509.VerifyOptions{
		Roots: state.Trust(), DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}

// TestAStolenAuthoritySignsForNobodyElse takes the key of an authority and signs for other names and addresses with it.
func TestAStolenAuthoritySignsForNobodyElse(t *testing.T) {
	policy := constrained("cities-rw", "cities-rw.gis.svc", "*.cities-pods.gis.svc")
	random := seeded()
	state := apply(t, pki.Decide(pki.State{}, start, policy), pki.State{}, random)
	for leaf, name := range map[string]string{"server": "cities-1-0.cities-pods.gis.svc", "caller": ""} {
		if err := verify(state, leaf, name, start); err != nil {
			t.Errorf("the leaf %s of the policy: %v", leaf, err)
		}
	}
	for about, profile := range map[string]pki.Profile{
		"another host":          {DNSNames: []string{"bank.example"}},
		"a database beside":     {DNSNames: []string{"roads-rw.gis.svc"}},
		"the API server":        {DNSNames: []string{"kubernetes.default.svc"}},
		"a wildcard above":      {DNSNames: []string{"*.gis.svc"}},
		"an address":            {DNSNames: []string{"cities-rw"}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}},
		"an address, version 6": {Addresses: []netip.Addr{netip.MustParseAddr("fd00::1")}},
	} {
		profile.Name, profile.CommonName, profile.Usage = "server", "server", pki.Server
		forged, err := pki.Plan{At: start, Issuer: state.Authorities[0].ID(), Steps: []pki.Step{{
			Verb: pki.IssueLeaf, Subject: "server", Profile: profile, NotBefore: start, NotAfter: start.Add(time.Hour),
		}}}.Apply(state, random)
		if err != nil {
			t.Fatal(err)
		}
		if err := verify(forged, "server", "", start); err == nil {
			t.Errorf("a leaf for %s is accepted", about)
		}
	}
}

// TestOtherNamesTakeAnotherAuthority changes the names: the present leaf stays until an authority signs that may.
func TestOtherNamesTakeAnotherAuthority(t *testing.T) {
	random, now := seeded(), start
	state := apply(t, pki.Decide(pki.State{}, now, constrained("old")), pki.State{}, random)
	policy := constrained("old", "new")
	for range 10 {
		plan := pki.Decide(state, now, policy)
		state = apply(t, plan, state, random)
		if err := verify(state, "server", "old", now); err != nil || plan.Abrupt {
			t.Fatalf("at %s: %v, abrupt %t", now, err, plan.Abrupt)
		}
		if verify(state, "server", "new", now) == nil {
			return
		}
		if plan.Again.IsZero() {
			break
		}
		now = plan.Again
	}
	t.Error("the other name was never signed for")
}

// TestLeavesComeAndGoWithinDomains has another leaf within a domain: the authority of before signs for it.
func TestLeavesComeAndGoWithinDomains(t *testing.T) {
	random := seeded()
	policy := constrained("cities-rw", "one.pods")
	policy.Domains = []string{"pods"}
	state := apply(t, pki.Decide(pki.State{}, start, policy), pki.State{}, random)
	policy.Leaves = append(policy.Leaves, pki.Profile{
		Name: "second", CommonName: "server", DNSNames: []string{"cities-rw", "two.pods"}, Usage: pki.Server,
	})
	state = apply(t, pki.Decide(state, start, policy), state, random)
	if err := verify(state, "second", "two.pods", start); err != nil || len(state.Authorities) != 1 {
		t.Errorf("another leaf: %v, %d authorities", err, len(state.Authorities))
	}
	if got := state.Authorities[0].Certificate.PermittedDNSDomains; !slices.Equal(got, []string{"cities-rw", "pods"}) {
		t.Errorf("the authority signs for %v", got)
	}
}
