//go:build cluster

package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/test/e2e/checks"
	"meridian.dev/meridian/test/e2e/traffic"
)

var (
	chaosTime = flag.Duration("chaos", 0, "for how long faults are done at random; 0 leaves the test out")
	chaosSeed = flag.Uint64("seed", 0, "which faults, at which times; 0 takes one from the clock")
	chaosFrom = flag.Uint64("episode", 0, "with which episode of the seed to begin")
)

const (
	// Faults begin within an episode, and all of them are undone at its end: the database has to be well again then.
	shortestEpisode, longestEpisode = 60 * time.Second, 150 * time.Second
	// chaosLag is how long after the end of a fault a gap may still be its doing: a node starts, a copy is made.
	chaosLag = 60 * time.Second
	// chaosGap is from which length on a gap has to be explained.
	chaosGap = 3 * time.Second
	// tellingGap is from which length on the logs of the instances are kept, to find out what took so long.
	tellingGap = 30 * time.Second
)

// chaos is the database under faults that overlap.
type chaos struct {
	*failover
	random *rand.Rand

	mutex sync.Mutex
	// nodes are their addresses, by name.
	nodes map[string]string
	// hit are the nodes that cannot carry traffic, by the faults that hit them.
	hit map[string]int
	// homes are the nodes of the instances, as last seen.
	homes map[string]string
	done  []incident
	// away is held for reading by what needs the API server, and for writing while it is taken away.
	away sync.RWMutex
}

// incident is a fault that was done, and when.
type incident struct {
	name       string
	begin, end time.Duration
	problem    string
}

// TestChaos does faults at random, several at a time, to a database of three instances under traffic: nothing that was
// acknowledged may be lost, whatever comes together, and when all faults are undone the database is well by itself.
func TestChaos(t *testing.T) {
	if *chaosTime == 0 {
		t.Skip("-chaos says for how long")
	}
	seed := *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1e9
	}
	t.Logf("chaos with -seed=%d for %s", seed, *chaosTime)
	f := newFailover(t)
	nodes := f.addresses()
	f.steer() // It takes the route away at the end.
	acknowledged := map[int64]bool{}
	var rows []checks.Verdict
	for begin, episode := time.Now(), *chaosFrom; time.Since(begin) < *chaosTime; episode++ {
		c := &chaos{
			failover: f, random: rand.New(rand.NewPCG(seed, episode)), nodes: nodes, hit: map[string]int{},
			homes: map[string]string{},
		}
		verdict, operations := c.episode(episode)
		rows = append(rows, verdict)
		for _, operation := range operations {
			if operation.Register == 0 && operation.Fate == traffic.Acknowledged {
				acknowledged[operation.ID] = true
			}
		}
	}
	f.checkCopies()
	for _, id := range f.present() {
		delete(acknowledged, id)
	}
	if len(acknowledged) > 0 {
		t.Errorf("%d writes that were acknowledged in some episode are lost at the end", len(acknowledged))
	}
	printEpisodes(rows)
}

func printEpisodes(rows []checks.Verdict) {
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "EPISODE\tACKNOWLEDGED\tUNKNOWN\tFAILED\tLOST\tOVERLAP\tREGISTERS\tLONGEST GAP\t")
	var sum checks.Verdict
	for index, row := range rows {
		_, _ = fmt.Fprintf(table, "%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t\n", index, row.Acknowledged, row.Unknown, row.Failed,
			len(row.Lost), ms(row.Overlap), row.Registers, ms(row.Gap))
		sum.Acknowledged += row.Acknowledged
		sum.Lost = append(sum.Lost, row.Lost...)
		sum.Overlap = max(sum.Overlap, row.Overlap)
	}
	_ = table.Flush()
	fmt.Printf("in %d episodes: %d acknowledged writes, %d lost, overlap %s\n", len(rows), sum.Acknowledged, len(sum.Lost),
		ms(sum.Overlap))
}

// episode is one stretch of faults under traffic, until all is well again.
func (c *chaos) episode(number uint64) (checks.Verdict, []traffic.Operation) {
	c.t.Helper()
	c.renewPods()
	c.look()
	c.steerAround()
	c.startTraffic()
	c.awaitSteady(fmt.Sprintf("writes are accepted before episode %d", number))
	length := shortestEpisode + time.Duration(c.random.Int64N(int64(longestEpisode-shortestEpisode)))
	start := c.traffic.Now()
	var running sync.WaitGroup
	for c.traffic.Now()-start < length {
		running.Go(c.pick(length - (c.traffic.Now() - start)))
		time.Sleep(time.Duration(c.random.ExpFloat64() * float64(9*time.Second)))
	}
	running.Wait()
	c.awaitWell()
	c.awaitSteady(fmt.Sprintf("writes are accepted after episode %d", number))
	times := checks.Times{Fault: start, End: c.traffic.Now()}
	operations := c.endTraffic(start)
	verdict := checks.Judge(operations, c.present(), times)
	c.tell(number, verdict, operations, times)
	return verdict, operations
}

// tell prints what was done and seen, and complains about what must not be.
func (c *chaos) tell(number uint64, verdict checks.Verdict, operations []traffic.Operation, times checks.Times) {
	c.t.Helper()
	for _, one := range c.done {
		c.t.Logf("episode %d: %6.1f s to %6.1f s: %s %s", number, one.begin.Seconds(), one.end.Seconds(), one.name,
			one.problem)
	}
	for _, gap := range checks.Gaps(operations, times, chaosGap) {
		reasons := c.reasons(gap)
		c.t.Logf("episode %d: no write acknowledged for %s from %.1f s on: %s", number, ms(gap.Length()),
			gap.Begin.Seconds(), strings.Join(reasons, ", "))
		if len(reasons) == 0 {
			c.t.Errorf("episode %d: a gap of %s from %.1f s on without a fault", number, ms(gap.Length()), gap.Begin.Seconds())
		}
	}
	if verdict.Gap > tellingGap {
		c.saveLogs()
	}
	if problem := verdict.Bad(); problem != "" {
		c.t.Errorf("episode %d: %s", number, problem)
	}
	if problem := verdict.Invalid(); problem != "" {
		c.t.Errorf("episode %d shows nothing: %s", number, problem)
	}
	happened := slices.ContainsFunc(c.done, func(one incident) bool { return one.problem == "" })
	if !happened {
		c.t.Errorf("episode %d shows nothing: no fault was done", number)
	}
}

// reasons are the faults that were under way in a gap, or had just ended.
func (c *chaos) reasons(gap checks.Stretch) []string {
	var names []string
	for _, one := range c.done {
		if one.problem == "" && one.begin <= gap.End && one.end+chaosLag >= gap.Begin {
			names = append(names, one.name)
		}
	}
	return names
}

// look notes where the instances are, as far as that can be asked.
func (c *chaos) look() {
	var pods corev1.PodList
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Second)
	defer cancel()
	if c.c.List(ctx, &pods, client.InNamespace(c.c.space), ofFailover) != nil {
		return
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != "" {
			c.homes[pod.Labels["meridian.dev/instance"]] = pod.Spec.NodeName
		}
	}
}

// victim is the instance that acknowledged last, twice in three times; any other one else.
func (c *chaos) victim(roll int) (instance, node string) {
	c.look()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var names []string
	for name := range c.homes {
		names = append(names, name)
	}
	slices.Sort(names)
	instance = names[roll%len(names)]
	if server := c.traffic.Server(); roll%3 != 0 && c.homes[server] != "" {
		instance = server
	}
	return instance, c.homes[instance]
}

// strike takes a node out of the way of the traffic, and says whether no other fault has it.
func (c *chaos) strike(node string) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.hit[node] > 0 {
		return false
	}
	c.hit[node]++
	return true
}

func (c *chaos) spare(node string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.hit[node]--
}

// run runs a verb of the sandbox from the root of the repository.
func (c *chaos) run(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.c.root, "bin", "sandbox"), args...)
	cmd.Dir, cmd.Env = c.c.root, os.Environ()
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sandbox %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return nil
}

// insist undoes a fault: it is tried until it is done, because what it needs may be away.
func (c *chaos) insist(undo func() error) error {
	var err error
	for range 5 {
		if err = undo(); err == nil {
			return nil
		}
		time.Sleep(2 * time.Second)
	}
	return errors.Join(errors.New("it could not be undone"), err)
}
