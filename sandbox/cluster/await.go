package cluster

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"meridian.dev/meridian/sandbox/image"
	"meridian.dev/meridian/sandbox/machine"
	"meridian.dev/meridian/sandbox/network"
	"meridian.dev/meridian/sandbox/parts"
)

//go:embed manifests
var manifests embed.FS

// await asks until the answer is yes. What it last heard goes into the error of a wait that was too long.
func await(ctx context.Context, what string, limit time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, limit, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Client returns a client with an administrator's rights.
func (c *Cluster) Client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS, config.Burst = 100, 200
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return client, nil
}

func (c *Cluster) awaitService(ctx context.Context, name, service string) error {
	what := fmt.Sprintf("%s on %s", service, name)
	return await(ctx, what, 60*time.Second, func(ctx context.Context) error {
		states, err := machine.Services(ctx, c.machineDir(name))
		if err != nil {
			return err
		}
		for _, state := range states {
			if state.Name == service && state.Ready {
				return nil
			}
		}
		return fmt.Errorf("not ready, see %s/log/%s.log", c.machineDir(name), service)
	})
}

func (c *Cluster) awaitAPI(ctx context.Context) error {
	start := time.Now()
	if err := c.awaitService(ctx, controlPlane, "kube-apiserver"); err != nil {
		return err
	}
	c.sayf("API server: ready after %s", time.Since(start).Round(100*time.Millisecond))
	return nil
}

// awaitNodes waits until each node is Ready and says so of its present boot: after a power cycle the object still
// shows for a while what was true before.
func (c *Cluster) awaitNodes(ctx context.Context, nodes []int) error {
	start := time.Now()
	client, err := c.Client()
	if err != nil {
		return err
	}
	for _, n := range nodes {
		name := nodeName(n)
		boot, err := os.ReadFile(filepath.Join(c.machineDir(name), machine.ValueFile(bootID)))
		if err != nil {
			return fmt.Errorf("read boot id of %s: %w", name, err)
		}
		ready := func(ctx context.Context) error {
			return readyInBoot(ctx, client, name, strings.TrimSpace(string(boot)))
		}
		if err := await(ctx, name, 90*time.Second, ready); err != nil {
			return err
		}
	}
	c.sayf("nodes: %d ready after %s", len(nodes), time.Since(start).Round(100*time.Millisecond))
	return nil
}

// readyInBoot looks at one node. Boot id and conditions reach the API server in one write.
func readyInBoot(ctx context.Context, client kubernetes.Interface, name, boot string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if node.Status.NodeInfo.BootID != boot {
		return errors.New("the kubelet has not reported since the node booted")
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			if condition.Status == corev1.ConditionTrue {
				return nil
			}
			return errors.New(condition.Message)
		}
	}
	return errors.New("the node has no condition yet")
}

func (c *Cluster) awaitDNS(ctx context.Context) error {
	client, err := c.Client()
	if err != nil {
		return err
	}
	return await(ctx, "name server", 90*time.Second, func(ctx context.Context) error {
		dns, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if dns.Status.ObservedGeneration < dns.Generation || dns.Status.AvailableReplicas < *dns.Spec.Replicas {
			return fmt.Errorf("%d of %d pods are available", dns.Status.AvailableReplicas, *dns.Spec.Replicas)
		}
		return nil
	})
}

// applyManifests applies the cluster's own objects; done again it changes nothing.
func (c *Cluster) applyManifests(ctx context.Context) error {
	for _, name := range []string{"storage", "dns", "policies"} {
		content, err := manifests.ReadFile("manifests/" + name + ".yaml")
		if err != nil {
			return fmt.Errorf("read manifest: %w", err)
		}
		dns := image.Repository + "coredns:" + parts.CoreDNS().Version
		cmd := exec.CommandContext(ctx, c.Kubectl(), "--kubeconfig", c.Kubeconfig(), "apply", "--server-side", "-f", "-")
		endsWithUs(cmd)
		fill := strings.NewReplacer("COREDNS_IMAGE", dns, "DNS_ADDRESS", network.DNSService)
		cmd.Stdin = strings.NewReader(fill.Replace(string(content)))
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apply %s: %w: %s", name, err, output)
		}
	}
	return nil
}
