//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/wire"
	processes "meridian.dev/meridian/test/e2e/faults"
)

// cacheFault is something that goes wrong with the primary of a cache.
type cacheFault struct {
	name string
	// short says that it is in the list of every run.
	short bool
	// gap is the promise: how long writes may be unavailable.
	gap time.Duration
	// do does it, and returns how to undo it, nil if there is nothing to undo.
	do func(c *cluster, primary string) (undo func())
}

var cacheFaults = []cacheFault{
	{"pod delete", true, time.Second, func(c *cluster, primary string) func() {
		c.kubectl("delete", "pod", primary+"-0", "-n", c.caches, "--wait=false")
		return nil
	}},
	{"kill -9 server", true, 2 * time.Second, func(c *cluster, primary string) func() {
		killCache(c, primary, func(found processes.Instance) int { return found.Postmaster })
		return nil
	}},
	// The container ends with its agent, and the next one gives the lease back. If the kubelet makes it wait, because it
	// is not the first time, the lease ends before.
	{"kill -9 agent", true, 10 * time.Second, func(c *cluster, primary string) func() {
		killCache(c, primary, func(found processes.Instance) int { return found.Agent })
		return nil
	}},
	{"node power-off", false, 10 * time.Second, func(c *cluster, primary string) func() {
		var pod corev1.Pod
		if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.caches, Name: primary + "-0"}, &pod); err != nil {
			c.t.Fatal(err)
		}
		steerCache(c, pod.Spec.NodeName)
		node := strings.TrimPrefix(pod.Spec.NodeName, "node")
		c.sandbox("node", "stop", node)
		return func() { c.sandbox("node", "start", node) }
	}},
}

// steerCache sends the traffic through another node than the one that the fault hits: what is to be measured is the
// cache, and not the way to it.
func steerCache(c *cluster, hit string) {
	c.t.Helper()
	var nodes corev1.NodeList
	if err := c.List(c.t.Context(), &nodes); err != nil {
		c.t.Fatal(err)
	}
	at := slices.IndexFunc(nodes.Items, func(node corev1.Node) bool { return node.Name != hit })
	if at < 0 {
		c.t.Fatalf("there is no node but %s", hit)
	}
	for _, address := range nodes.Items[at].Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}
		for _, service := range []access{accessTo(c), readAccess(c)} {
			host, _, _ := strings.Cut(service.address, ":")
			command(c.t, "ip", "route", "replace", host+"/32", "via", address.Address)
			c.t.Cleanup(func() { _ = exec.Command("ip", "route", "del", host+"/32").Run() })
		}
	}
	// Connections that went the other way are lost, and are not what is measured.
	time.Sleep(3 * time.Second)
}

func killCache(c *cluster, instance string, which func(processes.Instance) int) {
	c.t.Helper()
	found, err := processes.Find(c.caches, instance)
	if err != nil {
		c.t.Fatal(err)
	}
	pid := which(found)
	if pid == 0 {
		c.t.Fatalf("%s has no such process: %+v", instance, found)
	}
	if err := processes.Signal(syscall.SIGKILL, pid); err != nil {
		c.t.Fatal(err)
	}
}

// agreement is what the agents of the cache have agreed on: which copy leads, and which could.
func agreement(ctx context.Context, c *cluster) (holder wire.Member, record wire.LeaseRecord, err error) {
	var lease coordinationv1.Lease
	key := client.ObjectKey{Namespace: c.caches, Name: cacheName + "-primary"}
	if err := c.Get(ctx, key, &lease); err != nil {
		return holder, record, err
	}
	if lease.Spec.HolderIdentity != nil {
		holder = wire.ParseMember(*lease.Spec.HolderIdentity)
	}
	record, err = wire.DecodeLeaseRecord(lease.Annotations[wire.AnnotationRecord])
	return holder, record, err
}

// awaitMembers waits until the agents count on so many copies, without the one that is lost, and all instances are
// ready. Nobody else has to be there.
func awaitMembers(c *cluster, count int, lost wire.Member) time.Duration {
	c.t.Helper()
	what := fmt.Sprintf("%d members without %s", count, lost)
	return c.until(what, 3*time.Minute, func(ctx context.Context) (bool, string) {
		holder, record, err := agreement(ctx, c)
		if err != nil || holder.Name == "" || record.Has(lost) || len(record.Members) != count {
			return false, fmt.Sprintf("%s leads: %+v, %v", holder, record, err)
		}
		var pods corev1.PodList
		err = c.List(ctx, &pods, client.InNamespace(c.caches), client.MatchingLabels{"meridian.dev/cache": cacheName})
		ready := 0
		for _, pod := range pods.Items {
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
					ready++
				}
			}
		}
		return err == nil && ready == count, fmt.Sprintf("%d pods are ready: %v", ready, err)
	})
}

// TestCacheFaults takes the primary of a cache away, in several ways, under traffic through both addresses, while the
// operator is away. Every answer must be one that was written, and not older than the bound. Both engines are hurt, but
// in the list of every run.
func TestCacheFaults(t *testing.T) {
	c := connect(t)
	prepareCaches(c)
	database := &v1alpha1.GeoDatabase{Spec: v1alpha1.GeoDatabaseSpec{
		Instances: 1, Paused: true, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")},
	}}
	database.Namespace, database.Name = c.caches, "cities"
	if err := c.Create(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	engines := []v1alpha1.Engine{v1alpha1.EngineRedis, v1alpha1.EngineValkey}
	if *failoverFaults == "short" {
		engines = engines[:1]
	}
	for _, engine := range engines {
		t.Run(string(engine), func(t *testing.T) { hurtACache(t, engine) })
	}
}

func hurtACache(t *testing.T, engine v1alpha1.Engine) {
	c := connect(t)
	t.Logf("one instance is Ready %v after it was created", createCache(c, engine, 1))
	c.awaitLeaving("") // The operator, which goes away below, may have work there.
	traffic := startCounter(t, c)
	time.Sleep(2 * time.Second)
	traffic.reset()
	c.kubectl("scale", "gcache/"+cacheName, "-n", c.caches, "--replicas=3")
	took := awaitInstances(c, 3).Round(time.Millisecond)
	t.Logf("from one instance to three in %v; longest time without an acknowledged write %v", took, traffic.reset())

	loseThePrimary(t, c, traffic)

	traffic.reset()
	c.kubectl("scale", "gcache/"+cacheName, "-n", c.caches, "--replicas=1")
	took = awaitInstances(c, 1).Round(time.Millisecond)
	t.Logf("from three instances to one in %v; longest time without an acknowledged write %v", took, traffic.reset())
	t.Log(traffic.stop(t))
	checkBeginsWithNothing(t, c)
	c.kubectl("delete", "gcache", cacheName, "-n", c.caches, "--wait=true", "--timeout=60s")
	awaitNoCache(c)
}

// checkBeginsWithNothing kills the server of the only instance, which was a replica once and took all data then: the
// next one must not find any of it.
func checkBeginsWithNothing(t *testing.T, c *cluster) {
	t.Helper()
	access := accessTo(c)
	client := access.quick()
	defer func() { _ = client.Close() }()
	if before, err := client.DBSize(t.Context()).Result(); err != nil || before == 0 {
		t.Fatalf("%d keys, %v: this shows nothing", before, err)
	}
	t.Logf("a server that was killed began anew, empty, after %v", kill(c, access))
}

// chosenCacheFaults are those of this run, by the same flag as those of databases, and how often each is done. A node
// is taken away only with -faults=all, or by name.
func chosenCacheFaults() (chosen []cacheFault, runs int) {
	names := strings.Split(*failoverFaults, ",")
	for _, fault := range cacheFaults {
		if *failoverFaults == "all" || fault.short && *failoverFaults == "short" || slices.Contains(names, fault.name) {
			chosen = append(chosen, fault)
		}
	}
	return chosen, *failoverRuns
}

func loseThePrimary(t *testing.T, c *cluster, traffic *counter) {
	operator := func(replicas string) {
		c.kubectl("-n", operatorNamespace, "scale", "deployment/meridian-operator", "--replicas="+replicas)
	}
	operator("0")
	defer operator("2")
	c.until("the operator is away", time.Minute, func(ctx context.Context) (bool, string) {
		var pods corev1.PodList
		err := c.List(ctx, &pods, client.InNamespace(operatorNamespace),
			client.MatchingLabels{"app.kubernetes.io/component": "operator"})
		return err == nil && len(pods.Items) == 0, fmt.Sprint(len(pods.Items), err)
	})
	var table strings.Builder
	lines := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(lines, "fault\truns\tgap median\tgap worst\tpromise\tall back, worst")
	chosen, runs := chosenCacheFaults()
	for _, fault := range chosen {
		var gaps, backs []time.Duration
		for range runs {
			traffic.reset()
			backs = append(backs, fault.happen(c))
			traffic.awaitFlow(c)
			gaps = append(gaps, traffic.reset())
		}
		slices.Sort(gaps)
		worst := gaps[len(gaps)-1]
		_, _ = fmt.Fprintf(lines, "%s\t%d\t%v\t%v\t%v\t%v\n", fault.name, len(gaps), gaps[(len(gaps)-1)/2], worst, fault.gap,
			slices.Max(backs))
		// How long it takes depends on the machine: it is told, and what must not be is judged by the answers.
		if worst > fault.gap {
			t.Logf("%s: %v without an acknowledged write, and %v were promised", fault.name, worst, fault.gap)
		}
	}
	_ = lines.Flush()
	t.Logf("the operator was away:\n%s", &table)
}

// happen has it happen to the primary, and says how long it took until all instances were back.
func (f cacheFault) happen(c *cluster) time.Duration {
	c.t.Helper()
	holder, record, err := agreement(c.t.Context(), c)
	if err != nil {
		c.t.Fatal(err)
	}
	if undo := f.do(c, holder.Name); undo != nil {
		undo = sync.OnceFunc(undo)
		defer undo()
		awaitTermAfter(c, record.Term)
		time.Sleep(3 * time.Second)
		undo()
	}
	return awaitMembers(c, 3, holder).Round(100 * time.Millisecond)
}

// awaitTermAfter waits until another instance leads.
func awaitTermAfter(c *cluster, before int64) {
	c.t.Helper()
	c.until("another primary", time.Minute, func(ctx context.Context) (bool, string) {
		holder, record, err := agreement(ctx, c)
		return err == nil && holder.Name != "" && record.Term > before,
			fmt.Sprintf("%s, term %d, %v", holder, record.Term, err)
	})
}
