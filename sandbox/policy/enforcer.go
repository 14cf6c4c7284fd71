package policy

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Times of an enforcer: a burst of changes is one write of the table, and one that failed is tried again.
const (
	settle     = 50 * time.Millisecond
	retryAfter = 2 * time.Second
)

// Enforce keeps the packet filter of the network that this process is in as the policies say, until ctx ends. While
// the API server cannot be reached what was in force stays, and so it does when the process ends.
func Enforce(ctx context.Context, client kubernetes.Interface, node string) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	wake := make(chan struct{}, 1)
	poke := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	watch := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { poke() }, UpdateFunc: func(_, _ any) { poke() }, DeleteFunc: func(any) { poke() },
	}
	for _, informer := range []cache.SharedIndexInformer{
		pods.Informer(), namespaces.Informer(), policies.Informer(),
	} {
		if _, err := informer.AddEventHandler(watch); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	observe := func() (world World, err error) {
		world.Node = node
		if world.Pods, err = pods.Lister().List(labels.Everything()); err != nil {
			return world, fmt.Errorf("list pods: %w", err)
		}
		if world.Namespaces, err = namespaces.Lister().List(labels.Everything()); err != nil {
			return world, fmt.Errorf("list namespaces: %w", err)
		}
		if world.Policies, err = policies.Lister().List(labels.Everything()); err != nil {
			return world, fmt.Errorf("list policies: %w", err)
		}
		return world, nil
	}
	inForce := ""
	for ctx.Err() == nil {
		next, err := pass(ctx, inForce, observe)
		if err != nil {
			fmt.Println(err)
			time.AfterFunc(retryAfter, poke)
		}
		inForce = next
		select {
		case <-ctx.Done():
		case <-wake:
			time.Sleep(settle)
		}
	}
	return nil
}

// pass writes the table if it is not the one in force, and returns which is.
func pass(ctx context.Context, inForce string, observe func() (World, error)) (string, error) {
	world, err := observe()
	if err != nil {
		return inForce, err
	}
	wanted, err := Table(world)
	if err != nil || wanted == inForce {
		return inForce, err
	}
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(wanted)
	if output, err := cmd.CombinedOutput(); err != nil {
		return inForce, fmt.Errorf("set the packet filter: %w: %s", err, output)
	}
	return wanted, nil
}
