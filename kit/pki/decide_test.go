package pki_test

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/pki"
)

// week is a policy in round numbers: the next authority comes 31 hours (28 + 3)
// before the end of the newest, a leaf is replaced after 18 hours and 40 minutes.
func week() pki.Policy {
	return pki.Policy{Name: "week", AuthorityLifetime: 168 * time.Hour, LeafLifetime: 28 * time.Hour,
		Settle: time.Hour, Backdate: 10 * time.Minute, Leaves: profiles()}
}

func seeded() *rand.ChaCha8 { return seededBy(1) }

func seededBy(seed byte) *rand.ChaCha8 { return rand.NewChaCha8([32]byte{seed}) }

// begun is the state that the policy of a week has at its start.
func begun(t *testing.T) pki.State {
	t.Helper()
	return apply(t, pki.Decide(pki.State{}, start, week()), pki.State{}, seeded())
}

// outline writes the steps of a plan without serial numbers.
func outline(plan pki.Plan, state pki.State) []string {
	var lines []string
	for _, step := range plan.Steps {
		line := step.String()
		for i, authority := range state.Authorities {
			line = strings.ReplaceAll(line, authority.ID(), fmt.Sprint("#", i+1))
		}
		lines = append(lines, line)
	}
	return lines
}

func TestDecide(t *testing.T) {
	const outside = "it is valid from 2026-01-01T11:50:00Z to 2026-01-02T16:00:00Z only"
	leafOf := func(name string, state *pki.State) *pki.Leaf {
		for i := range state.Leaves {
			if state.Leaves[i].Name == name {
				return &state.Leaves[i]
			}
		}
		t.Fatalf("there is no leaf %s", name)
		return nil
	}
	for name, test := range map[string]struct {
		after  time.Duration
		change func(*pki.State, *pki.Policy)
		want   []string
		abrupt bool
	}{
		"nothing to do":    {after: 18 * time.Hour},
		"one more moment":  {after: 18*time.Hour + 39*time.Minute + 59*time.Second},
		"a third is left":  {after: 18*time.Hour + 40*time.Minute, want: allLeaves("it ends at 2026-01-02T16:00:00Z")},
		"the last moment":  {after: 28*time.Hour - time.Second, want: allLeaves("it ends at 2026-01-02T16:00:00Z")},
		"the leaves ended": {after: 29 * time.Hour, want: allLeaves(outside)},
		"the clock is back": {after: -time.Hour, abrupt: true, want: append([]string{
			"create authority week: there is no valid authority"}, allLeaves(outside)...)},
		"the clock is back within the backdating": {after: -10*time.Minute + time.Second},
		"the next authority": {after: 137 * time.Hour, change: func(state *pki.State, policy *pki.Policy) {
			policy.Leaves, state.Leaves = nil, nil
		}, want: []string{"introduce authority week: the newest one ends at 2026-01-08T12:00:00Z"}},
		"just before": {after: 137*time.Hour - time.Second, change: func(state *pki.State, policy *pki.Policy) {
			policy.Leaves, state.Leaves = nil, nil
		}},
		"everything has ended": {after: 200 * time.Hour, abrupt: true, want: append([]string{
			"create authority week: there is no valid authority", "drop authority #1: it ended at 2026-01-08T12:00:00Z",
		}, allLeaves(outside)...)},
		"the authorities are lost": {abrupt: true, change: func(state *pki.State, _ *pki.Policy) {
			state.Authorities = nil
		}, want: append([]string{"create authority week: there is no valid authority"},
			allLeaves("no authority of the bundle has signed it")...)},
		"a leaf is lost": {change: func(state *pki.State, _ *pki.Policy) {
			state.Leaves = state.Leaves[1:]
		}, want: []string{"issue leaf one: there is none"}},
		"a leaf is no longer wanted": {change: func(_ *pki.State, policy *pki.Policy) {
			policy.Leaves = policy.Leaves[:2]
		}, want: []string{"remove leaf three: it is no longer wanted"}},
		"a key is exchanged": {change: func(state *pki.State, _ *pki.Policy) {
			leafOf("one", state).Key = leafOf("two", state).Key
		}, want: []string{"issue leaf one: its key does not belong to it"}},
		"another name": {change: func(_ *pki.State, policy *pki.Policy) {
			policy.Leaves[1].DNSNames = []string{"*.example", "new.example"}
		}, want: []string{"issue leaf two: it was made for other names or another usage"}},
		"another common name": {change: func(_ *pki.State, policy *pki.Policy) {
			policy.Leaves[2].CommonName = "four"
		}, want: []string{"issue leaf three: it was made for other names or another usage"}},
		"another address": {change: func(_ *pki.State, policy *pki.Policy) {
			policy.Leaves[0].Addresses = policy.Leaves[0].Addresses[:1]
		}, want: []string{"issue leaf one: it was made for other names or another usage"}},
		"another usage": {change: func(_ *pki.State, policy *pki.Policy) {
			policy.Leaves[0].Usage = pki.Server
		}, want: []string{"issue leaf one: it was made for other names or another usage"}},
		"another order of the same names": {change: func(_ *pki.State, policy *pki.Policy) {
			one := &policy.Leaves[0]
			one.DNSNames = []string{"1.example", "one.example", "1.example"}
			one.Addresses = []netip.Addr{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("::ffff:10.0.0.1")}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			state, policy := begun(t), week()
			if test.change != nil {
				test.change(&state, &policy)
			}
			plan := pki.Decide(state, start.Truncate(time.Second).Add(test.after), policy)
			if diff := cmp.Diff(test.want, outline(plan, state)); diff != "" {
				t.Error(diff)
			}
			if plan.Abrupt != test.abrupt {
				t.Errorf("abrupt is %t", plan.Abrupt)
			}
			// Whatever was to be done is then done.
			next := apply(t, plan, state, seededBy(9))
			if again := pki.Decide(next, plan.At, policy); len(again.Steps) > 0 {
				t.Errorf("after the plan was carried out, there is still to do: %v", again.Steps)
			}
		})
	}
}

func allLeaves(why string) []string {
	return []string{"issue leaf one: " + why, "issue leaf two: " + why, "issue leaf three: " + why}
}

// TestLeafEndsWithItsAuthority: when no successor has settled in time, a leaf can
// only last as long as its authority, and is not made anew again and again.
func TestLeafEndsWithItsAuthority(t *testing.T) {
	state, policy := begun(t), week()
	end := state.Authorities[0].Certificate.NotAfter
	now := end.Add(-2 * time.Hour)
	for pass := range 3 {
		plan := pki.Decide(state, now, policy)
		state = apply(t, plan, state, seeded())
		leaf, _ := state.Leaf("one")
		if !leaf.Certificate.NotAfter.Equal(end) {
			t.Fatalf("the leaf ends at %v, the authority at %v", leaf.Certificate.NotAfter, end)
		}
		if want := map[int]int{0: 4}[pass]; len(plan.Steps) != want {
			t.Fatalf("pass %d: %v", pass, plan.Steps)
		}
		now = now.Add(10 * time.Minute)
	}
	// The successor has settled 60 minutes after the first of these passes.
	plan := pki.Decide(state, end.Add(-time.Hour), policy)
	if len(plan.Steps) != 3 || plan.Issuer != state.Authorities[1].ID() || plan.Abrupt {
		t.Fatalf("%+v", plan)
	}
}

func TestPolicyCheck(t *testing.T) {
	zoned := netip.MustParseAddr("fe80::1%x")
	if err := week().Check(); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		spoil func(*pki.Policy)
		want  string
	}{
		"no name":           {func(p *pki.Policy) { p.Name = " " }, "the name of the authority is missing"},
		"no time to settle": {func(p *pki.Policy) { p.Settle = 0 }, "the time to settle is 0s, at least a second"},
		"negative":          {func(p *pki.Policy) { p.Backdate = -1 }, "the backdating is negative"},
		"short leaves": {func(p *pki.Policy) { p.Settle = 5 * time.Hour },
			"a leaf lives for 28h0m0s, at least six times the time to settle (5h0m0s)"},
		"short authorities": {func(p *pki.Policy) { p.AuthorityLifetime = 61 * time.Hour },
			"an authority lives for 61h0m0s, at least 62h0m0s is needed"},
		"twice":          {func(p *pki.Policy) { p.Leaves[1].Name = "one" }, `the leaf "one" is there twice`},
		"nameless":       {func(p *pki.Policy) { p.Leaves[1].Name = "" }, `the leaf "": the name is missing`},
		"useless":        {func(p *pki.Policy) { p.Leaves[1].Usage = 0 }, `the leaf "two": the usage is neither`},
		"strange usage":  {func(p *pki.Policy) { p.Leaves[1].Usage = 4 }, `the leaf "two": the usage is neither`},
		"unreachable":    {func(p *pki.Policy) { p.Leaves[1].DNSNames = nil }, `the leaf "two": a server needs a DNS name`},
		"bad name":       {func(p *pki.Policy) { p.Leaves[1].DNSNames[0] = "a b" }, `the DNS name "a b" is not valid`},
		"bad wildcard":   {func(p *pki.Policy) { p.Leaves[1].DNSNames[0] = "a.*" }, `the DNS name "a.*" is not valid`},
		"zone":           {func(p *pki.Policy) { p.Leaves[0].Addresses[0] = zoned }, "the address"},
		"no address":     {func(p *pki.Policy) { p.Leaves[0].Addresses[0] = netip.Addr{} }, "the address"},
		"the least life": {func(p *pki.Policy) { p.AuthorityLifetime = 62 * time.Hour }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			policy := week()
			test.spoil(&policy)
			err := policy.Check()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestCertificates looks at what is in the certificates.
func TestCertificates(t *testing.T) {
	state := begun(t)
	authority := state.Authorities[0].Certificate
	if !authority.IsCA || !authority.MaxPathLenZero || authority.KeyUsage&x509.KeyUsageCertSign == 0 ||
		authority.PublicKeyAlgorithm != x509.ECDSA || !strings.HasPrefix(authority.Subject.CommonName, "week ") {
		t.Errorf("authority %+v", authority)
	}
	one, _ := state.Leaf("one")
	if one.Certificate.IsCA || one.Certificate.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("leaf %+v", one.Certificate)
	}
	if want := start.Add(-10 * time.Minute).Truncate(time.Second); !one.Certificate.NotBefore.Equal(want) {
		t.Errorf("valid from %v", one.Certificate.NotBefore)
	}
	if want := start.Add(28 * time.Hour).Truncate(time.Second); !one.Certificate.NotAfter.Equal(want) {
		t.Errorf("valid to %v", one.Certificate.NotAfter)
	}
	serials := map[string]bool{}
	for _, certificate := range []*x509.Certificate{authority, state.Leaves[0].Certificate, state.Leaves[1].Certificate} {
		if size := certificate.SerialNumber.BitLen(); size != 127 {
			t.Errorf("the serial number has %d bits", size)
		}
		serials[certificate.SerialNumber.String()] = true
	}
	if len(serials) != 3 {
		t.Error("serial numbers repeat")
	}
	for name, test := range map[string]struct {
		leaf, host string
		usage      x509.ExtKeyUsage
		verifies   bool
	}{
		"name":              {"one", "one.example", x509.ExtKeyUsageServerAuth, true},
		"address":           {"one", "10.0.0.1", x509.ExtKeyUsageServerAuth, true},
		"long address":      {"one", "fd00::1", x509.ExtKeyUsageClientAuth, true},
		"wrong name":        {"one", "two.example", x509.ExtKeyUsageServerAuth, false},
		"wrong address":     {"one", "10.0.0.2", x509.ExtKeyUsageServerAuth, false},
		"wildcard":          {"two", "any.example", x509.ExtKeyUsageServerAuth, true},
		"not a client":      {"two", "any.example", x509.ExtKeyUsageClientAuth, false},
		"client":            {"three", "", x509.ExtKeyUsageClientAuth, true},
		"not a server":      {"three", "", x509.ExtKeyUsageServerAuth, false},
		"nothing but usage": {"one", "", x509.ExtKeyUsageCodeSigning, false},
	} {
		t.Run(name, func(t *testing.T) {
			leaf, _ := state.Leaf(test.leaf)
			_, err := leaf.Certificate.Verify(x509.VerifyOptions{Roots: state.Trust(), DNSName: test.host, CurrentTime: start,
				KeyUsages: []x509.ExtKeyUsage{test.usage}})
			if (err == nil) != test.verifies {
				t.Error(err)
			}
		})
	}
}

// TestSameRandomnessSameResult: keys, serial numbers and signatures come from the
// reader and from nowhere else.
func TestSameRandomnessSameResult(t *testing.T) {
	encode := func(seed byte) string {
		plan := pki.Decide(pki.State{}, start, week())
		state := apply(t, plan, pki.State{}, seededBy(seed))
		encoded, err := pki.EncodeAuthorities(state.Authorities)
		if err != nil {
			t.Fatal(err)
		}
		for _, leaf := range state.Leaves {
			certificate, key, err := leaf.Encode()
			if err != nil {
				t.Fatal(err)
			}
			encoded = append(append(encoded, certificate...), key...)
		}
		return string(encoded)
	}
	if diff := cmp.Diff(encode(1), encode(1)); diff != "" {
		t.Errorf("the same reader gives two results:\n%s", diff)
	}
	if encode(1) == encode(2) {
		t.Error("two readers give the same result")
	}
}

type constant byte

func (c constant) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = byte(c)
	}
	return len(into), nil
}

func TestApplyFails(t *testing.T) {
	first := pki.Decide(pki.State{}, start, week())
	leaf := pki.Decide(pki.State{}, start, week())
	leaf.Steps = leaf.Steps[1:]
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		plan   pki.Plan
		random io.Reader
		want   string
	}{
		"no randomness":      {first, iotest.ErrReader(broken), "create authority week: draw a serial number: broken"},
		"too little":         {first, io.LimitReader(constant(1), 20), "create authority week: draw a key: "},
		"zeros only":         {first, constant(0), "draw a key: the source of randomness is broken"},
		"ones only":          {first, constant(0xff), "draw a key: the source of randomness is broken"},
		"too little, later":  {first, io.LimitReader(constant(1), 50), "issue leaf one: draw a serial number: "},
		"no issuer":          {leaf, constant(1), "issue leaf one: the authority that should sign is not in the state"},
		"another issuer":     {pki.Plan{Issuer: "abc", Steps: leaf.Steps}, constant(1), "is not in the state"},
		"an unknown verb":    {pki.Plan{Steps: []pki.Step{{Verb: "wait", Subject: "x"}}}, constant(1), "wait x: the verb"},
		"a name beyond form": {badName(first), constant(1), "issue leaf one: sign the certificate: "},
	} {
		t.Run(name, func(t *testing.T) {
			state, err := test.plan.Apply(pki.State{}, test.random)
			if err == nil || !strings.Contains(err.Error(), test.want) || len(state.Authorities) > 0 {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func badName(plan pki.Plan) pki.Plan {
	bad := plan
	bad.Steps = append([]pki.Step{}, plan.Steps...)
	bad.Steps[1].Profile.DNSNames = []string{"ä"}
	return bad
}
