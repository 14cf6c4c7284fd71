package pki_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"meridian.dev/meridian/kit/pki"
)

// One year of a webhook's certificates, passed in a moment.
func Example() {
	const day = 24 * time.Hour
	policy := pki.Policy{
		Name: "example webhook", AuthorityLifetime: 300 * day, LeafLifetime: 90 * day, Settle: time.Hour,
		Leaves: []pki.Profile{{Name: "server", DNSNames: []string{"webhook.garden.svc"}, Usage: pki.Server}},
	}
	random := rand.NewChaCha8([32]byte{}) // A program uses crypto/rand.Reader.
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

	var state pki.State
	for now := start; now.Before(start.Add(400 * day)); {
		plan := pki.Decide(state, now, policy)
		for _, step := range plan.Steps {
			fmt.Printf("day %3.0f: %s: %s\n", now.Sub(start).Hours()/24, step.Verb, step.Why)
		}
		if len(plan.Steps) == 0 {
			now = plan.Again
			continue
		}
		var err error
		if state, err = plan.Apply(state, random); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// day   0: create authority: there is no valid authority
	// day   0: issue leaf: there is none
	// day  60: issue leaf: it ends at 2026-04-01T00:00:00Z
	// day 120: issue leaf: it ends at 2026-05-31T00:00:00Z
	// day 180: issue leaf: it ends at 2026-07-30T00:00:00Z
	// day 210: introduce authority: the newest one ends at 2026-10-28T00:00:00Z
	// day 240: issue leaf: it ends at 2026-09-28T00:00:00Z
	// day 270: drop authority: it no longer signs, and no leaf of it is valid
	// day 300: issue leaf: it ends at 2026-11-27T00:00:00Z
	// day 360: issue leaf: it ends at 2027-01-26T00:00:00Z
}

// A configuration is made once, and follows every rotation by itself.
func ExampleServerConfig() {
	var state pki.State // Kept up to date by someone else.
	config := pki.ServerConfig(nil, func() (pki.Material, error) { return state.Material("server") })

	_, err := config.GetCertificate(nil)
	fmt.Println(err)

	policy := pki.Policy{Name: "example", AuthorityLifetime: 100 * time.Hour, LeafLifetime: 10 * time.Hour,
		Settle: time.Minute, Leaves: []pki.Profile{{Name: "server", DNSNames: []string{"garden"}, Usage: pki.Server}}}
	plan := pki.Decide(state, time.Unix(0, 0), policy)
	if state, err = plan.Apply(state, rand.NewChaCha8([32]byte{})); err != nil {
		fmt.Println(err)
		return
	}
	certificate, err := config.GetCertificate(nil)
	fmt.Println(certificate.Leaf.DNSNames, err)
	// Output:
	// read the current material: there is no leaf "server"
	// [garden] <nil>
}
