// Package network wires machines together: a switch, which is a bridge in the network namespace of a machine of its
// own, a cable from it to each machine and one to the host, and routes, with no address translation between
// machines. The bridge is not in the host's namespace, because there the host's own packet filters (those of Docker,
// for one) would decide about packets between nodes. Cuts are packet filters inside a node's namespace. All of it
// ends with the machines; only the host's end of its cable is removed by name.
package network

import (
	"fmt"
	"net/netip"
)

// The ranges are fixed: they are part of certificates and of what the control plane was started with. Preflight looks
// whether the host uses any of them already.
const (
	// HostCard is the name of the host's end of its cable.
	HostCard = "meridian0"
	// HostAddress is the host's own address, from which tests reach pods and services.
	HostAddress = "10.77.0.1"
	// Registry is where nodes look for a registry of the host's, by plain HTTP: for images with names that begin so.
	Registry = HostAddress + ":5000"
	// ControlAddress is where the API server listens. It is not the host's address, so that a node can be cut from the
	// API server and still be reached by a client on the host.
	ControlAddress = "10.77.0.2"
	// MachineRange holds the addresses of all machines.
	MachineRange = "10.77.0.0/24"
	// PodRange is divided among the nodes.
	PodRange = "10.244.0.0/16"
	// ServiceRange holds the addresses of Services.
	ServiceRange = "10.96.0.0/16"
	// APIService is the address of the Service by which pods find the API server: the first of its range.
	APIService = "10.96.0.1"
	// DNSService is the address of the Service of the name server.
	DNSService = "10.96.0.10"
	// MaxNodes is how many nodes the address plan has room for.
	MaxNodes = 9
)

// NodeAddress is the address of node n, counted from 1.
func NodeAddress(n int) string { return fmt.Sprintf("10.77.0.%d", 10+n) }

// NodePods is the range of the pods of node n.
func NodePods(n int) string { return fmt.Sprintf("10.244.%d.0/24", n) }

// Ranges lists all that the sandbox claims.
func Ranges() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix(MachineRange), netip.MustParsePrefix(PodRange), netip.MustParsePrefix(ServiceRange),
	}
}
