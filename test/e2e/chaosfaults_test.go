//go:build cluster

package e2e_test

import (
	"errors"
	"os/exec"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	processes "meridian.dev/meridian/test/e2e/faults"
)

var ofFailover = client.MatchingLabels{"meridian.dev/database": failoverName}

// mischief is one kind of fault of the chaos.
type mischief struct {
	name string
	// shortest and longest are how long it lasts.
	shortest, longest time.Duration
	// node says that it takes the node out of the way of the traffic, and is done alone on it.
	node bool
	// asks says that it needs the API server to be done.
	asks bool
	// do does it, stays for as long as it lasts, and undoes it.
	do func(c *chaos, instance, node string, lasts time.Duration) error
}

var mischiefs = []mischief{
	{name: "switchover", asks: true, do: func(c *chaos, _, _ string, _ time.Duration) error {
		return c.run("kubectl", "-n", c.c.space, "annotate", "gdb", failoverName, "meridian.dev/switchover=any",
			"--overwrite")
	}},
	{name: "pod delete", asks: true, do: func(c *chaos, instance, _ string, _ time.Duration) error {
		return c.run("kubectl", "-n", c.c.space, "delete", "pod", instance+"-0", "--wait=false")
	}},
	{name: "kill -9 postmaster", do: killOne(func(found processes.Instance) int { return found.Postmaster })},
	{name: "kill -9 agent", do: killOne(func(found processes.Instance) int { return found.Agent })},
	{name: "freeze postgres", shortest: 2 * time.Second, longest: 25 * time.Second,
		do: freezeSome(func(found processes.Instance) []int { return found.Server })},
	{name: "freeze pod", shortest: 2 * time.Second, longest: 25 * time.Second,
		do: freezeSome(processes.Instance.All)},
	{name: "node power-off", node: true, shortest: 3 * time.Second, longest: 30 * time.Second, do: (*chaos).powerOff},
	{name: "node cut from all", node: true, shortest: 3 * time.Second, longest: 30 * time.Second, do: cutFrom("all")},
	{name: "node cut from its peers", node: true, shortest: 3 * time.Second, longest: 30 * time.Second,
		do: cutFrom("peers")},
	{name: "node cut from API", node: true, shortest: 3 * time.Second, longest: 40 * time.Second, do: cutFrom("api")},
	{name: "API server away", shortest: 3 * time.Second, longest: 30 * time.Second, do: (*chaos).takeAPIAway},
	{name: "etcd restart", do: func(c *chaos, _, _ string, _ time.Duration) error {
		c.away.Lock()
		defer c.away.Unlock()
		return c.run("etcd", "restart")
	}},
	{name: "operator away", asks: true, shortest: 5 * time.Second, longest: 30 * time.Second,
		do: (*chaos).takeOperatorAway},
	{name: "disk full", asks: true, node: true, shortest: 5 * time.Second, longest: 20 * time.Second,
		do: (*chaos).fillDisk},
	{name: "disk hangs", asks: true, node: true, shortest: time.Second, longest: 12 * time.Second,
		do: (*chaos).hangDisk},
}

// pick chooses the next fault, and returns what does it. All that is random is drawn here, in the order of the episode.
func (c *chaos) pick(rest time.Duration) func() {
	one := mischiefs[c.random.IntN(len(mischiefs))]
	lasts := one.shortest
	if one.longest > one.shortest {
		lasts += time.Duration(c.random.Int64N(int64(one.longest - one.shortest)))
	}
	lasts = max(min(lasts, rest), one.shortest)
	roll := c.random.IntN(9)
	return func() {
		instance, node := c.victim(roll)
		done := incident{name: one.name + " of " + instance, begin: c.traffic.Now()}
		if err := c.try(one, instance, node, lasts); err != nil {
			done.problem = "(" + err.Error() + ")"
		}
		done.end = c.traffic.Now()
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.done = append(c.done, done)
	}
}

func (c *chaos) try(one mischief, instance, node string, lasts time.Duration) error {
	if one.asks {
		if !c.away.TryRLock() {
			return errors.New("not done: the API server is away")
		}
		c.away.RUnlock()
	}
	if one.node {
		if !c.strike(node) {
			return errors.New("not done: another fault has the node")
		}
		c.steerAround()
		defer func() {
			c.spare(node)
			c.steerAround()
		}()
	}
	return one.do(c, instance, node, lasts)
}

func killOne(which func(processes.Instance) int) func(*chaos, string, string, time.Duration) error {
	return func(c *chaos, instance, _ string, _ time.Duration) error {
		found, err := processes.Find(c.c.space, instance)
		if err != nil {
			return err
		}
		return processes.Signal(syscall.SIGKILL, which(found))
	}
}

func freezeSome(which func(processes.Instance) []int) func(*chaos, string, string, time.Duration) error {
	return func(c *chaos, instance, _ string, lasts time.Duration) error {
		found, err := processes.Find(c.c.space, instance)
		if err != nil {
			return err
		}
		err = processes.Signal(syscall.SIGSTOP, which(found)...)
		time.Sleep(lasts)
		return errors.Join(err, processes.Signal(syscall.SIGCONT, which(found)...))
	}
}

func (c *chaos) powerOff(_, node string, lasts time.Duration) error {
	err := c.sandboxNode("stop", node)
	time.Sleep(lasts)
	// A node that starts is waited for until the API server says that it is there.
	c.away.RLock()
	defer c.away.RUnlock()
	return errors.Join(err, c.insist(func() error { return c.sandboxNode("start", node) }))
}

func cutFrom(whom string) func(*chaos, string, string, time.Duration) error {
	return func(c *chaos, _, node string, lasts time.Duration) error {
		err := c.sandboxNode("cut", node, "--from", whom)
		time.Sleep(lasts)
		return errors.Join(err, c.insist(func() error { return c.sandboxNode("heal", node) }))
	}
}

func (c *chaos) sandboxNode(verb, node string, more ...string) error {
	return c.run(append([]string{"node", verb, c.number(node)}, more...)...)
}

func (c *chaos) takeAPIAway(_, _ string, lasts time.Duration) error {
	c.away.Lock()
	defer c.away.Unlock()
	err := c.run("apiserver", "stop")
	time.Sleep(lasts)
	return errors.Join(err, c.insist(func() error { return c.run("apiserver", "start") }))
}

func (c *chaos) takeOperatorAway(_, _ string, lasts time.Duration) error {
	scale := func(to string) func() error {
		return func() error {
			return c.run("kubectl", "-n", operatorNamespace, "scale", "deployment/meridian-operator", "--replicas="+to)
		}
	}
	err := scale("0")()
	time.Sleep(lasts)
	c.away.RLock()
	defer c.away.RUnlock()
	return errors.Join(err, c.insist(scale("2")))
}

// claim is the claim of the data of an instance.
func (c *chaos) claim(instance string) []string {
	return []string{instance, "-n", c.c.space} // The claim has the name of its instance.
}

func (c *chaos) fillDisk(instance, _ string, lasts time.Duration) error {
	if err := c.run(append([]string{"volume", "fill"}, c.claim(instance)...)...); err != nil {
		return err
	}
	time.Sleep(lasts)
	c.away.RLock()
	defer c.away.RUnlock()
	return c.insist(func() error { return c.run(append([]string{"volume", "unfill"}, c.claim(instance)...)...) })
}

func (c *chaos) hangDisk(instance, _ string, lasts time.Duration) error {
	return c.run(append([]string{"volume", "hang", "--for", lasts.String()}, c.claim(instance)...)...)
}

// addresses are those of the nodes.
func (f *failover) addresses() map[string]string {
	f.t.Helper()
	var nodes corev1.NodeList
	if err := f.c.List(f.t.Context(), &nodes); err != nil {
		f.t.Fatal(err)
	}
	found := map[string]string{}
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP {
				found[node.Name] = address.Address
			}
		}
	}
	return found
}

// steerAround sends the traffic through a node that no fault has, if there is one.
func (c *chaos) steerAround() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.hit[c.way] == 0 && c.way != "" {
		return
	}
	for node, address := range c.nodes {
		if c.hit[node] > 0 {
			continue
		}
		if exec.Command("ip", "route", "replace", c.address+"/32", "via", address).Run() == nil {
			c.way = node
			return
		}
	}
}
