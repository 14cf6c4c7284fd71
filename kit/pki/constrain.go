package pki

import (
	"crypto/x509"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// names are those of all leaves and the domains, as an authority is constrained to them: that of a wildcard stands for
// all below it, and a domain too.
func (p Policy) names() Profile {
	all := Profile{DNSNames: slices.Clone(p.Domains)}
	for _, profile := range p.Leaves {
		for _, name := range profile.DNSNames {
			if !covered(p.Domains, name) {
				all.DNSNames = append(all.DNSNames, strings.TrimPrefix(name, "*."))
			}
		}
		all.Addresses = append(all.Addresses, profile.Addresses...)
	}
	slices.Sort(all.DNSNames)
	all.DNSNames = slices.Compact(all.DNSNames)
	return all
}

// everywhere is every address there is, of both families.
var everywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// constrain has an authority sign for these names only, and for no address where none is named.
func constrain(authority *x509.Certificate, names Profile) {
	if len(names.DNSNames) == 0 {
		return
	}
	authority.PermittedDNSDomainsCritical = true
	authority.PermittedDNSDomains = names.DNSNames
	for _, address := range names.Addresses {
		address = address.Unmap()
		alone := network(netip.PrefixFrom(address, address.BitLen()))
		authority.PermittedIPRanges = append(authority.PermittedIPRanges, alone)
	}
	if len(names.Addresses) == 0 {
		for _, prefix := range everywhere {
			authority.ExcludedIPRanges = append(authority.ExcludedIPRanges, network(prefix))
		}
	}
}

func network(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: prefix.Addr().AsSlice(), Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())}
}

// permits reports whether a leaf of the authority with these names is one that verifiers accept.
func (a Authority) permits(names Profile) bool {
	permitted := a.Certificate.PermittedDNSDomains
	if len(permitted) == 0 {
		return true
	}
	for _, name := range names.DNSNames {
		if !covered(permitted, name) {
			return false
		}
	}
	for _, address := range names.Addresses {
		inside := func(ip *net.IPNet) bool { return ip.Contains(net.IP(address.Unmap().AsSlice())) }
		if !slices.ContainsFunc(a.Certificate.PermittedIPRanges, inside) {
			return false
		}
	}
	return true
}

// covered says that a name, or what a wildcard stands for, is one of the domains or below one.
func covered(domains []string, name string) bool {
	name = strings.TrimPrefix(name, "*.")
	return slices.ContainsFunc(domains, func(domain string) bool {
		return name == domain || strings.HasSuffix(name, "."+domain)
	})
}
