package network

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// inside is the name of a machine's only network card.
const inside = "eth0"

// Raise makes the bridge with the host's address, unless it is there.
func Raise() error {
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: Bridge}}
	if err := netlink.LinkAdd(bridge); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make bridge %s: %w", Bridge, err)
	}
	link, err := netlink.LinkByName(Bridge)
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	address := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(HostAddress), Mask: mustRange(MachineRange).Mask}}
	if err := netlink.AddrReplace(link, address); err != nil {
		return fmt.Errorf("give the bridge its address: %w", err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set the bridge up: %w", err)
	}
	return nil
}

// Remove removes the bridge, all cables and, with them, the host's routes.
func Remove() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list network devices: %w", err)
	}
	bridge, err := netlink.LinkByName(Bridge)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	for _, link := range links {
		if link.Attrs().MasterIndex == bridge.Attrs().Index {
			if err := netlink.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
				return fmt.Errorf("remove cable %s: %w", link.Attrs().Name, err)
			}
		}
	}
	if err := netlink.LinkDel(bridge); err != nil {
		return fmt.Errorf("remove bridge: %w", err)
	}
	return nil
}

// Plug lays a cable from the bridge into the network namespace of process pid and gives its end the address.
func Plug(machine string, pid int, address string) error {
	bridge, err := netlink.LinkByName(Bridge)
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	outside := "mrd-" + machine
	if len(outside) > 15 { // The kernel's limit for names of network devices.
		outside = outside[:15]
	}
	if old, err := netlink.LinkByName(outside); err == nil { // Its machine was killed a moment ago.
		if err := netlink.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove old cable: %w", err)
		}
	}
	cable := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: outside, MasterIndex: bridge.Attrs().Index, Flags: net.FlagUp},
		PeerName:  inside, PeerNamespace: netlink.NsPid(pid),
	}
	if err := netlink.LinkAdd(cable); err != nil {
		return fmt.Errorf("lay cable %s: %w", outside, err)
	}
	return within(pid, func(handle *netlink.Handle) error { return configure(handle, address) })
}

func configure(handle *netlink.Handle, address string) error {
	for name, ip := range map[string]string{"lo": "", inside: address} {
		link, err := handle.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if ip != "" {
			addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip), Mask: mustRange(MachineRange).Mask}}
			if err := handle.AddrReplace(link, addr); err != nil {
				return fmt.Errorf("set address of %s: %w", name, err)
			}
		}
		if err := handle.LinkSetUp(link); err != nil {
			return fmt.Errorf("set %s up: %w", name, err)
		}
	}
	return nil
}

// RouteInside gives the machine of process pid, which is node self or 0 for none, the routes to the pods of all
// nodes and a way out through the host for everything else.
func RouteInside(pid, self, nodes int) error {
	return within(pid, func(handle *netlink.Handle) error {
		link, err := handle.LinkByName(inside)
		if err != nil {
			return fmt.Errorf("find %s: %w", inside, err)
		}
		out := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: net.ParseIP(HostAddress), Dst: mustRange("0.0.0.0/0")}
		if err := handle.RouteReplace(out); err != nil {
			return fmt.Errorf("set default route: %w", err)
		}
		for n := 1; n <= nodes; n++ {
			if n == self {
				continue
			}
			route := &netlink.Route{
				LinkIndex: link.Attrs().Index, Gw: net.ParseIP(NodeAddress(n)), Dst: mustRange(NodePods(n)),
			}
			if err := handle.RouteReplace(route); err != nil {
				return fmt.Errorf("set route to the pods of node %d: %w", n, err)
			}
		}
		return nil
	})
}

// RouteHost gives the host the routes to the pods of every node and to Services through the nodes that are on: a dead
// next hop would swallow its share of all connections.
func RouteHost(nodes int, on []int) error {
	bridge, err := netlink.LinkByName(Bridge)
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	index := bridge.Attrs().Index
	for n := 1; n <= nodes; n++ {
		route := &netlink.Route{LinkIndex: index, Gw: net.ParseIP(NodeAddress(n)), Dst: mustRange(NodePods(n))}
		if err := netlink.RouteReplace(route); err != nil {
			return fmt.Errorf("set route to the pods of node %d: %w", n, err)
		}
	}
	services := &netlink.Route{Dst: mustRange(ServiceRange)}
	if len(on) == 0 {
		if err := netlink.RouteDel(services); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("remove route to services: %w", err)
		}
		return nil
	}
	for _, n := range on {
		hop := &netlink.NexthopInfo{LinkIndex: index, Gw: net.ParseIP(NodeAddress(n))}
		services.MultiPath = append(services.MultiPath, hop)
	}
	if err := netlink.RouteReplace(services); err != nil {
		return fmt.Errorf("set route to services: %w", err)
	}
	return nil
}

// within runs do with a handle on the network namespace of process pid.
func within(pid int, do func(*netlink.Handle) error) error {
	space, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("open network namespace of process %d: %w", pid, err)
	}
	defer func() { _ = space.Close() }()
	handle, err := netlink.NewHandleAt(space)
	if err != nil {
		return fmt.Errorf("enter network namespace of process %d: %w", pid, err)
	}
	defer handle.Close()
	return do(handle)
}

// mustRange parses one of this package's own constants.
func mustRange(cidr string) *net.IPNet {
	_, parsed, err := net.ParseCIDR(cidr)
	if err != nil {
		panic(err)
	}
	return parsed
}
