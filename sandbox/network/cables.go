package network

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Names of network devices: a machine's only card, the bridge inside the switch, and the switch's end of the host's
// cable.
const (
	inside   = "eth0"
	bridge   = "switch"
	hostPort = "host"
)

// Raise makes the bridge in the namespace of the switch, whose init is pid, and lays the host's cable to it.
func Raise(pid int) error {
	if err := Remove(); err != nil { // The end of a cable to an earlier switch.
		return err
	}
	cable := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: HostCard}, PeerName: hostPort, PeerNamespace: netlink.NsPid(pid),
	}
	if err := netlink.LinkAdd(cable); err != nil {
		return fmt.Errorf("lay the host's cable: %w", err)
	}
	err := within(pid, func(handle *netlink.Handle) error {
		if err := handle.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridge}}); err != nil {
			return fmt.Errorf("make bridge: %w", err)
		}
		if err := setUp(handle, bridge, ""); err != nil {
			return err
		}
		return attach(handle, hostPort)
	})
	if err != nil {
		return err
	}
	err = within(os.Getpid(), func(handle *netlink.Handle) error { return setUp(handle, HostCard, HostAddress) })
	if err != nil {
		return err
	}
	return refuseOnCard(HostCard)
}

// Remove removes the host's cable and, with it, the host's routes.
func Remove() error {
	card, err := netlink.LinkByName(HostCard)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the host's cable: %w", err)
	}
	if err := netlink.LinkDel(card); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove the host's cable: %w", err)
	}
	return nil
}

// Plug lays a cable from the switch into the network namespace of process pid and gives its end the address.
func Plug(switchPID int, machine string, pid int, address string) error {
	err := within(switchPID, func(handle *netlink.Handle) error {
		if old, err := handle.LinkByName(machine); err == nil { // Its machine was killed a moment ago.
			if err := handle.LinkDel(old); err != nil && !errors.Is(err, unix.ENODEV) {
				return fmt.Errorf("remove old cable: %w", err)
			}
		}
		cable := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: machine}, PeerName: inside, PeerNamespace: netlink.NsPid(pid),
		}
		if err := handle.LinkAdd(cable); err != nil {
			return fmt.Errorf("lay cable to %s: %w", machine, err)
		}
		return attach(handle, machine)
	})
	if err != nil {
		return err
	}
	return within(pid, func(handle *netlink.Handle) error {
		if err := setUp(handle, "lo", ""); err != nil {
			return err
		}
		return setUp(handle, inside, address)
	})
}

// attach connects one end of a cable to the bridge.
func attach(handle *netlink.Handle, port string) error {
	link, err := handle.LinkByName(port)
	if err != nil {
		return fmt.Errorf("find %s: %w", port, err)
	}
	master, err := handle.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("find bridge: %w", err)
	}
	if err := handle.LinkSetMasterByIndex(link, master.Attrs().Index); err != nil {
		return fmt.Errorf("attach %s: %w", port, err)
	}
	return setUp(handle, port, "")
}

// setUp gives a device its address, if it has one, and sets it up.
func setUp(handle *netlink.Handle, name, address string) error {
	link, err := handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find %s: %w", name, err)
	}
	if address != "" {
		addr := &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(address), Mask: mustRange(MachineRange).Mask}}
		if err := handle.AddrReplace(link, addr); err != nil {
			return fmt.Errorf("set address of %s: %w", name, err)
		}
	}
	if err := handle.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	return nil
}

// RouteInside gives the machine of process pid, which is node self or 0 for none, the routes to the pods of all other
// nodes, and the host as the way to everything else: a kubelet wants to see a default route.
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
	card, err := netlink.LinkByName(HostCard)
	if err != nil {
		return fmt.Errorf("find the host's cable: %w", err)
	}
	index := card.Attrs().Index
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
