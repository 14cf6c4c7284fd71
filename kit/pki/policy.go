package pki

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Policy says which certificates there should be, and how long they live.
type Policy struct {
	// Name begins the common name of each authority.
	Name string
	// AuthorityLifetime is how long an authority is valid.
	AuthorityLifetime time.Duration
	// LeafLifetime is how long a leaf is valid.
	LeafLifetime time.Duration
	// Settle is how long a stored change takes, at most, until every party uses it:
	// the time to write it, to mount it or to watch it, and to reload it.
	Settle time.Duration
	// Backdate puts the beginning of each validity into the past, for parties whose
	// clocks are behind.
	Backdate time.Duration
	// Renew is a moment: what was made before it is replaced, authorities as well as leaves, although it would last
	// longer. Zero for no such wish. It must not lie in the future.
	Renew time.Time
	// Constrain has each new authority say for which names it signs: those of the leaves, and no others. Whoever steals
	// its key is nobody else's server by it. An authority that was made without stays in use until it is replaced.
	Constrain bool
	// Domains are names that a constrained authority signs for although no leaf has them now, with all names below them:
	// leaves may come and go there without another authority.
	Domains []string
	// Keep introduces no other authority: there is nobody now who would vouch for it.
	Keep bool
	// Leaves are the wanted leaves.
	Leaves []Profile
}

// Profile describes a wanted leaf.
type Profile struct {
	// Name identifies the leaf in the state. It is not in the certificate.
	Name string
	// CommonName names the holder, for programs that look at it.
	CommonName string
	// DNSNames and Addresses are what a server is reached by.
	DNSNames  []string
	Addresses []netip.Addr
	// Usage is what the leaf may be used for.
	Usage Usage
}

// Usage is what a leaf may be used for. Usages add up: Server | Client.
type Usage uint8

const (
	// Server leaves are presented by the one who is called.
	Server Usage = 1 << iota
	// Client leaves are presented by the one who calls.
	Client
)

// Check returns an error that names everything in the policy that cannot work.
//
// Two relations between the durations carry the promise of the package. A leaf is
// replaced when a third of its life is left, and that third must leave room for a
// late decision and for the replacement to settle. An authority is replaced early
// enough to live longer than every leaf it signs, and must have a life before that.
func (p Policy) Check() error {
	var problems []error
	report := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	report(strings.TrimSpace(p.Name) == "", "the name of the authority is missing")
	report(p.Settle < time.Second, "the time to settle is %v, at least a second is needed", p.Settle)
	report(p.Backdate < 0, "the backdating is negative")
	report(p.LeafLifetime < 6*p.Settle, "a leaf lives for %v, at least six times the time to settle (%v) is needed",
		p.LeafLifetime, p.Settle)
	report(p.AuthorityLifetime < 2*p.lead(), "an authority lives for %v, at least %v is needed for leaves of %v",
		p.AuthorityLifetime, 2*p.lead(), p.LeafLifetime)
	seen := map[string]bool{}
	for _, profile := range p.Leaves {
		report(seen[profile.Name], "the leaf %q is there twice", profile.Name)
		seen[profile.Name] = true
		for _, problem := range profile.problems() {
			report(true, "the leaf %q: %s", profile.Name, problem)
		}
	}
	return errors.Join(problems...)
}

// lead is how long before its end an authority gets a successor: time to decide,
// to settle, and to decide again, and then the whole life of the last leaf that the
// old one has signed.
func (p Policy) lead() time.Duration { return p.LeafLifetime + 3*p.Settle }

func (p Profile) problems() []string {
	var problems []string
	if p.Name == "" {
		problems = append(problems, "the name is missing")
	}
	if p.Usage == 0 || p.Usage&^(Server|Client) != 0 {
		problems = append(problems, "the usage is neither Server nor Client nor both")
	}
	if p.Usage&Server != 0 && len(p.DNSNames)+len(p.Addresses) == 0 {
		problems = append(problems, "a server needs a DNS name or an address")
	}
	for _, name := range p.DNSNames {
		if len(validation.IsDNS1123Subdomain(name)) > 0 && len(validation.IsWildcardDNS1123Subdomain(name)) > 0 {
			problems = append(problems, fmt.Sprintf("the DNS name %q is not valid", name))
		}
	}
	for _, address := range p.Addresses {
		if !address.IsValid() || address.Zone() != "" {
			problems = append(problems, fmt.Sprintf("the address %q is not valid in a certificate", address))
		}
	}
	return problems
}
