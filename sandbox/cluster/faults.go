package cluster

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/network"
	"meridian.dev/meridian/sandbox/volume"
)

// StopNode powers node n off: every process of it ends at once. Its disks stay.
func (c *Cluster) StopNode(ctx context.Context, n int) error {
	config, err := c.node(n)
	if err != nil {
		return err
	}
	return c.exclusively(ctx, func() error {
		if err := machine.PowerOff(nodeName(n)); err != nil {
			return err
		}
		return network.RouteHost(config.Nodes, c.nodesOn(config))
	})
}

// StartNode powers node n on and waits until it is Ready. A node that is on is healed and thawed.
func (c *Cluster) StartNode(ctx context.Context, n int) error {
	config, err := c.node(n)
	if err != nil {
		return err
	}
	err = c.exclusively(ctx, func() error {
		if err := c.startNode(ctx, config, n); err != nil {
			return err
		}
		return network.RouteHost(config.Nodes, c.nodesOn(config))
	})
	if err != nil {
		return err
	}
	return c.awaitNodes(ctx, []int{n})
}

// CutNode cuts node n from others on the network. Its processes live on and see silence.
func (c *Cluster) CutNode(ctx context.Context, n int, from network.From) error {
	return c.withNodeOn(ctx, n, func(config Config, pid int) error {
		return network.Cut(ctx, pid, n, config.Nodes, from)
	})
}

// HealNode undoes CutNode.
func (c *Cluster) HealNode(ctx context.Context, n int) error {
	return c.withNodeOn(ctx, n, func(_ Config, pid int) error { return network.Heal(ctx, pid) })
}

// FreezeNode stops every process of node n where it is, as a hung host would; the network stays connected.
func (c *Cluster) FreezeNode(ctx context.Context, n int) error {
	return c.withNodeOn(ctx, n, func(Config, int) error { return machine.Freeze(nodeName(n)) })
}

// ThawNode undoes FreezeNode.
func (c *Cluster) ThawNode(ctx context.Context, n int) error {
	return c.withNodeOn(ctx, n, func(Config, int) error { return machine.Thaw(nodeName(n)) })
}

// withNodeOn runs do with the process id of node n's init, which has to be on. No other command can end the node
// meanwhile, so the id stays that of the node.
func (c *Cluster) withNodeOn(ctx context.Context, n int, do func(config Config, pid int) error) error {
	config, err := c.node(n)
	if err != nil {
		return err
	}
	return c.exclusively(ctx, func() error {
		pid := c.pid(nodeName(n))
		if pid == 0 {
			return fmt.Errorf("node %d is off: start it with 'sandbox node start %d'", n, n)
		}
		return do(config, pid)
	})
}

// StopAPIServer kills the API server and keeps it down.
func (c *Cluster) StopAPIServer(ctx context.Context) error {
	return c.tellControl(ctx, "kube-apiserver", machine.Hold)
}

// StartAPIServer starts it again and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if err := c.tellControl(ctx, "kube-apiserver", machine.Release); err != nil {
		return err
	}
	return c.awaitAPI(ctx)
}

// RestartEtcd kills etcd, which starts again at once, and waits until the API server is ready.
func (c *Cluster) RestartEtcd(ctx context.Context) error {
	if err := c.tellControl(ctx, "etcd", machine.Kill); err != nil {
		return err
	}
	if err := c.awaitService(ctx, controlPlane, "etcd"); err != nil {
		return err
	}
	return c.awaitAPI(ctx)
}

func (c *Cluster) tellControl(ctx context.Context, service string, verb machine.Verb) error {
	if _, err := c.running(); err != nil {
		return err
	}
	return machine.Tell(ctx, c.machineDir(controlPlane), service, verb)
}

// LoseVolume takes the disk of a claim away for good: accesses fail, and it cannot be mounted again.
func (c *Cluster) LoseVolume(ctx context.Context, namespace, claim string) error {
	return c.withVolume(ctx, namespace, claim, c.store().Lose)
}

// FillVolume takes all free space of the volume of a claim.
func (c *Cluster) FillVolume(ctx context.Context, namespace, claim string) error {
	return c.withVolume(ctx, namespace, claim, c.store().Fill)
}

// UnfillVolume takes back what FillVolume wrote.
func (c *Cluster) UnfillVolume(ctx context.Context, namespace, claim string) error {
	return c.withVolume(ctx, namespace, claim, c.store().Unfill)
}

// HangVolume lets writes to the volume of a claim wait until ctx ends. Other commands go on meanwhile, but the node
// must not be powered off.
func (c *Cluster) HangVolume(ctx context.Context, namespace, claim string) error {
	node, name, err := c.volumeOf(ctx, namespace, claim)
	if err != nil {
		return err
	}
	return c.store().Hang(ctx, node, name, c.pid(node))
}

// withVolume runs do with the volume of a claim, its node, and the process id of the node's init.
func (c *Cluster) withVolume(
	ctx context.Context, namespace, claim string, do func(node, volume string, pid int) error,
) error {
	node, name, err := c.volumeOf(ctx, namespace, claim)
	if err != nil {
		return err
	}
	return c.exclusively(ctx, func() error { return do(node, name, c.pid(node)) })
}

func (c *Cluster) volumeOf(ctx context.Context, namespace, claim string) (node, name string, err error) {
	if _, err := c.running(); err != nil {
		return "", "", err
	}
	client, err := c.Client()
	if err != nil {
		return "", "", err
	}
	found, err := client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("find claim: %w", err)
	}
	if found.Spec.VolumeName == "" {
		return "", "", fmt.Errorf("claim %s/%s has no volume yet", namespace, claim)
	}
	bound, err := client.CoreV1().PersistentVolumes().Get(ctx, found.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", "", fmt.Errorf("find volume: %w", err)
	}
	node, ours := volume.NodeOf(bound)
	if !ours {
		return "", "", fmt.Errorf("claim %s/%s is not on a volume of the sandbox", namespace, claim)
	}
	return node, bound.Name, nil
}
