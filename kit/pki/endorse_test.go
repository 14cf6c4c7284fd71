package pki_test

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/pki"
)

// TestOutsidersVerifyAtEveryMoment changes issuers, back and forth, while authorities and leaves rotate: whatever a
// server shows that has the material of at most Settle ago, every client verifies it that was told at most Settle ago.
func TestOutsidersVerifyAtEveryMoment(t *testing.T) {
	var seen struct{ handshakes, changes, shown, forgotten, renewed int }
	for seed := range uint64(3) {
		random, source := rand.New(rand.NewPCG(seed, 3)), rand.NewChaCha8([32]byte{byte(seed)})
		policy := constrained("cities-rw", "*.pods")
		policy.LeafLifetime, policy.Settle = 60*time.Hour, time.Hour
		policy.AuthorityLifetime = 2*(policy.LeafLifetime+3*policy.Settle) + time.Duration(random.IntN(200))*time.Hour
		root := found(t, "root", newKey(t), nil, nil)
		issuers := []*pki.Issuer{
			nil, found(t, "one", newKey(t), nil, nil).issuer(t), found(t, "two", newKey(t), &root, nil).issuer(t, root),
			found(t, "three", newKey(t), &root, nil).issuer(t, root),
		}
		var past history
		var state pki.State
		wish := pki.Wish{Issuer: issuers[random.IntN(len(issuers))], First: true, Forward: true}
		step := func() time.Duration { return time.Duration(random.IntN(50)+5) * time.Minute }
		for now := start; now.Before(start.Add(500 * time.Hour)); now = now.Add(step()) {
			if random.IntN(15) == 0 {
				wish.Issuer = issuers[random.IntN(len(issuers))]
				seen.changes++
			}
			if random.IntN(200) == 0 {
				policy.Renew = now
				seen.renewed++
			}
			before, plan := state, pki.Decide(state, now, policy)
			state = forward(t, apply(t, plan, state, source), now, policy, wish)
			if wish.First = false; len(state.Endorsements) > 3 {
				t.Fatalf("there are %d endorsements", len(state.Endorsements))
			}
			if len(before.Endorsements) > len(state.Endorsements) {
				seen.forgotten++
			}
			if last := len(state.Endorsements) - 1; last > 0 && !state.Endorsements[last].Shown.IsZero() {
				seen.shown++
			}
			if len(plan.Steps) > 0 || !sameEndorsements(t, before, state) {
				past = append(past, struct {
					from  time.Time
					state pki.State
				}{now, state})
			}
			for _, told := range past.since(now, policy.Settle) {
				for _, shown := range past.since(now, policy.Settle) {
					seen.handshakes++
					if err := outside(told, shown, "server", "cities-rw", now); err != nil {
						t.Fatalf("seed %d, at %s: %v", seed, now, err)
					}
				}
			}
		}
	}
	t.Logf("%+v", seen)
	if seen.handshakes < 4000 || seen.changes < 50 || seen.shown < 50 || seen.forgotten < 20 || seen.renewed < 3 {
		t.Errorf("too little happened: %+v", seen)
	}
}

func sameEndorsements(t *testing.T, a, b pki.State) bool {
	t.Helper()
	one, err := pki.EncodeEndorsements(a.Endorsements)
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.EncodeEndorsements(b.Endorsements)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(one, other)
}

// TestAnIssuerIsToldThenShown follows one change with its words, from our own authority to an issuer and back.
func TestAnIssuerIsToldThenShown(t *testing.T) {
	policy := constrained("cities-rw")
	policy.Settle = time.Hour
	issuer := found(t, "company", newKey(t), nil, nil).issuer(t)
	state := apply(t, pki.Decide(pki.State{}, start, policy), pki.State{}, seeded())
	var told []string
	for hour := range 8 {
		now, wish := start.Add(time.Duration(hour)*time.Hour), pki.Wish{Issuer: issuer, Forward: true}
		if hour >= 4 {
			wish.Issuer = nil
		}
		next, steps, _, err := pki.Endorse(state, now, policy, wish)
		if err != nil {
			t.Fatal(err)
		}
		state = next
		leaf, _ := state.Leaf("server")
		told = append(told, fmt.Sprintf("%d: %d told, %d shown; %d steps", hour,
			bytes.Count(state.Outside(), []byte("BEGIN")), bytes.Count(state.Path(leaf), []byte("BEGIN")), len(steps)))
	}
	want := []string{
		"0: 2 told, 0 shown; 2 steps", "1: 2 told, 1 shown; 1 steps", "2: 1 told, 1 shown; 1 steps",
		"3: 1 told, 1 shown; 0 steps", "4: 2 told, 1 shown; 1 steps", "5: 2 told, 0 shown; 1 steps",
		"6: 1 told, 0 shown; 1 steps", "7: 1 told, 0 shown; 0 steps",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
	if state.Endorsements != nil || !bytes.Equal(state.Outside(), state.Bundle()) {
		t.Error("something is left of the issuer")
	}
}

// TestNothingGoesForwardUnasked holds a change back: what is told and shown stays, and what ends is renewed.
func TestNothingGoesForwardUnasked(t *testing.T) {
	policy := constrained("cities-rw")
	one, other := found(t, "one", newKey(t), nil, nil).issuer(t), found(t, "other", newKey(t), nil, nil).issuer(t)
	state := endorsed(t, policy, one)
	next := forward(t, state, start.Add(time.Hour), policy, pki.Wish{Issuer: other})
	if !sameEndorsements(t, state, next) {
		t.Error("another issuer was told of")
	}
	now := start.Add(policy.LeafLifetime * 3 / 4)
	_, steps, _, err := pki.Endorse(state, now, policy, pki.Wish{Issuer: one})
	if err != nil || len(steps) != 1 {
		t.Errorf("late in the life of its word: %v, %v", steps, err)
	}
	_, steps, again, err := pki.Endorse(state, start.Add(time.Minute), policy, pki.Wish{Issuer: one})
	if err != nil || len(steps) > 0 || !again.After(start) {
		t.Errorf("early in it: %v, again at %s, %v", steps, again, err)
	}
}

// TestAnIssuerIsNobodyToTheParties has the issuer sign what an attacker would like: certificates that call themselves
// the operator and have the names of instances, directly and through an authority that is called like ours.
func TestAnIssuerIsNobodyToTheParties(t *testing.T) {
	policy := constrained("cities-rw", "*.pods")
	boss := found(t, "company", newKey(t), nil, nil)
	state := endorsed(t, policy, boss.issuer(t))
	ours := state.Authorities[0].Certificate
	twin := found(t, "", newKey(t), &boss, func(c *x509.Certificate) { c.RawSubject = ours.RawSubject })
	leaf := func(by company) *x509.Certificate {
		return found(t, "meridian:operator", newKey(t), &by, func(c *x509.Certificate) {
			c.IsCA, c.KeyUsage, c.DNSNames = false, x509.KeyUsageDigitalSignature, []string{"cities-rw", "one.pods"}
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
		}).certificate
	}
	for about, forged := range map[string]*x509.Certificate{"by the issuer": leaf(boss), "by a twin of ours": leaf(twin)} {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth} {
			options := x509.VerifyOptions{
				Roots: state.Trust(), Intermediates: x509.NewCertPool(), CurrentTime: start,
				KeyUsages: []x509.ExtKeyUsage{usage},
			}
			for _, one := range append(state.Endorsements[0].Crosses, twin.certificate, boss.certificate) {
				options.Intermediates.AddCert(one)
			}
			if _, err := forged.Verify(options); err == nil {
				t.Errorf("a party accepts what was signed %s", about)
			}
		}
	}
	own, _ := state.Leaf("server")
	peer := x509.VerifyOptions{Roots: state.Trust(), DNSName: "one.pods", CurrentTime: start}
	if _, err := own.Certificate.Verify(peer); err != nil {
		t.Errorf("a party does not accept its peer: %v", err)
	}
	if bytes.Contains(state.Bundle(), boss.pem()) {
		t.Error("the parties are told of the issuer")
	}
}

// TestAStolenAuthorityHasTheNamesOfItsIssuersWord signs for other names with our own key: clients of the issuer refuse,
// by the certificate that it has given us, also where our own has no constraints.
func TestAStolenAuthorityHasTheNamesOfItsIssuersWord(t *testing.T) {
	for _, constrain := range []bool{true, false} {
		policy := constrained("cities-rw")
		policy.Constrain = constrain
		state := endorsed(t, policy, found(t, "company", newKey(t), nil, nil).issuer(t))
		stolen := company{certificate: state.Authorities[0].Certificate, key: state.Authorities[0].Key}
		forged := found(t, "bank", newKey(t), &stolen, func(c *x509.Certificate) {
			c.IsCA, c.DNSNames = false, []string{"bank.example"}
		})
		state.Leaves = []pki.Leaf{{Name: "server", Certificate: forged.certificate}}
		if err := outside(state, state, "server", "bank.example", start); err == nil {
			t.Errorf("with constrained %t a client accepts a server of another name", constrain)
		}
	}
}

func TestEndorsementsAreStored(t *testing.T) {
	policy := constrained("cities-rw")
	root := found(t, "root", newKey(t), nil, nil)
	state := endorsed(t, policy, found(t, "one", newKey(t), &root, nil).issuer(t, root))
	state = forward(t, state, start.Add(time.Hour), policy, pki.Wish{Forward: true})
	encoded, err := pki.EncodeEndorsements(state.Endorsements)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := pki.DecodeEndorsements(encoded)
	if err != nil || !sameEndorsements(t, state, pki.State{Endorsements: decoded}) || len(decoded) != 2 {
		t.Errorf("%d read back: %v", len(decoded), err)
	}
	if bytes.Contains(encoded, []byte("PRIVATE")) {
		t.Error("a key is stored")
	}
	for about, spoilt := range map[string][]byte{
		"another version": bytes.Replace(encoded, []byte(`"version": 1`), []byte(`"version": 2`), 1),
		"another field":   bytes.Replace(encoded, []byte(`"told"`), []byte(`"untold"`), 1),
		"no certificate":  bytes.Replace(encoded, []byte("BEGIN CERTIFICATE"), []byte("BEGIN CERT"), 1),
	} {
		if _, err := pki.DecodeEndorsements(spoilt); err == nil {
			t.Errorf("%s: read", about)
		}
	}
	if none, err := pki.DecodeEndorsements(nil); none != nil || err != nil {
		t.Errorf("nothing is read as %v, %v", none, err)
	}
}
