//go:build cluster

package e2e_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/test/e2e/checks"
	processes "meridian.dev/meridian/test/e2e/faults"
	"meridian.dev/meridian/test/e2e/traffic"
)

const (
	failoverName = "rivers"
	// mostMemory is what an agent and its watchdog may use, in MiB, and moreMemory what a base backup may take beside it.
	mostMemory = 40
	moreMemory = 64
)

// failover is a database of three instances, and everything to hurt it with.
type failover struct {
	t *testing.T
	c *cluster

	connect                  *pgx.ConnConfig
	address                  string
	firstWrite, allStreaming time.Duration
	memory, idle             []string
	// withoutIt is what was asked of the API server in a minute before the database was there.
	withoutIt map[string]int
	// wanted are its instances.
	wanted int
	// before and term are the primary and its term before the fault.
	before  string
	node    string
	way     string // The node that the traffic goes through.
	term    int64
	routed  string
	traffic *traffic.Traffic
	witness *witness
	inner   *inner
}

func newFailover(t *testing.T, adjust ...func(*v1alpha1.GeoDatabase)) *failover {
	t.Helper()
	c := connect(t)
	f := &failover{t: t, c: c}
	install(c)
	c.namespace(c.space)
	t.Cleanup(f.keepLogs)
	if *failoverFaults == "all" {
		f.withoutIt = f.idleMinute()
	}
	database := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: c.space, Name: failoverName}}
	if installation := os.Getenv("MERIDIAN_TEST_INSTALLATION"); installation != "" {
		database.Annotations = map[string]string{"meridian.dev/installation": installation}
	}
	database.Spec.Instances = 3
	database.Spec.Storage.Size.Set(1 << 30)
	database.Spec.Storage.Reclaim = v1alpha1.ReclaimDelete
	database.Spec.Extensions = []string{"postgis", "postgis_raster", "pgrouting"}
	for _, one := range adjust {
		one(database)
	}
	f.wanted = int(database.Spec.Instances)
	start := time.Now()
	if err := c.Create(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	c.until("the Secret of the application is there", time.Minute, func(ctx context.Context) (bool, string) {
		return f.readSecret(ctx) == nil, "it is not"
	})
	c.until("a write is accepted", 2*time.Minute, func(ctx context.Context) (bool, string) {
		err := f.exec(ctx, traffic.Tables)
		return err == nil, fmt.Sprint(err)
	})
	f.firstWrite = time.Since(start)
	f.awaitWell()
	f.allStreaming = time.Since(start)
	c.awaitLeaving("") // Whoever hurts nodes or counts what clients notice does so when nothing else is going on.
	most := mostMemory
	if database.Spec.Backup != nil {
		most += moreMemory
	}
	f.measureAgents(most)
	return f
}

// keepLogs keeps what the instances have said when a test fails: the namespace goes.
func (f *failover) keepLogs() {
	if f.t.Failed() {
		f.saveLogs()
	}
}

// saveLogs saves what the present containers of the instances have said.
func (f *failover) saveLogs() {
	f.t.Helper()
	kubectl := exec.Command(filepath.Join(f.c.root, "bin", "sandbox"), "kubectl", "-n", f.c.space, "logs",
		"--selector=meridian.dev/database="+failoverName, "--prefix", "--tail=-1", "--max-log-requests=10")
	kubectl.Dir = f.c.root
	output, _ := kubectl.CombinedOutput()
	file, err := os.CreateTemp("", "meridian-e2e-*.log")
	if err == nil {
		_, err = file.Write(output)
	}
	f.t.Logf("the logs of the instances are in %s (%v)", file.Name(), err)
}

// named is an object of the database.
func (f *failover) named(suffix string) client.ObjectKey {
	return client.ObjectKey{Namespace: f.c.space, Name: failoverName + suffix}
}

// readSecret makes the connection of an application: by the address of the write Service, checked by its name.
func (f *failover) readSecret(ctx context.Context) error { return f.readSecretOf(ctx, failoverName) }

func (f *failover) readSecretOf(ctx context.Context, name string) error {
	named := func(suffix string) client.ObjectKey {
		return client.ObjectKey{Namespace: f.c.space, Name: name + suffix}
	}
	var secret corev1.Secret
	if err := f.c.Get(ctx, named("-app"), &secret); err != nil {
		return err
	}
	var service corev1.Service
	if err := f.c.Get(ctx, named("-rw"), &service); err != nil {
		return err
	}
	config, err := pgx.ParseConfig(string(secret.Data["uri"]))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		return fmt.Errorf("the Secret has no authority")
	}
	config.TLSConfig = &tls.Config{RootCAs: pool, ServerName: name + "-rw", MinVersion: tls.VersionTLS12}
	config.Host, config.Fallbacks, config.ConnectTimeout = service.Spec.ClusterIP, nil, time.Second
	f.connect, f.address = config, service.Spec.ClusterIP
	return nil
}

func (f *failover) open(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return pgx.ConnectConfig(ctx, f.connect.Copy())
}

func (f *failover) exec(ctx context.Context, sql string) error {
	connection, err := f.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(context.Background()) }()
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = connection.Exec(bounded, sql)
	return err
}

func (f *failover) get(ctx context.Context) (*v1alpha1.GeoDatabase, error) {
	var database v1alpha1.GeoDatabase
	err := f.c.Get(ctx, client.ObjectKey{Namespace: f.c.space, Name: failoverName}, &database)
	return &database, err
}

// awaitWell waits until the database says that it is well, and notes who leads.
func (f *failover) awaitWell() {
	f.t.Helper()
	f.c.until("the database is well", 4*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		status := database.Status
		f.before, f.term = status.Primary, status.Term
		// While the operator was away the status has stood still: lease and pods tell whether it is of today.
		return condition.IsTrue(status.Conditions, v1alpha1.ConditionReady) && status.Primary != "" &&
			status.Replicas == fmt.Sprintf("%d/%d", f.wanted-1, f.wanted-1) && status.Term == f.leaseTerm(ctx) &&
			f.readyPods(ctx) == f.wanted, fmt.Sprintf("%+v", status)
	})
	pod := f.pod(f.before)
	f.node = pod.Spec.NodeName
}

// readyPods counts the pods of the database that are ready and not being deleted.
func (f *failover) readyPods(ctx context.Context) int {
	var pods corev1.PodList
	labels := client.MatchingLabels{"meridian.dev/database": failoverName}
	if err := f.c.List(ctx, &pods, client.InNamespace(f.c.space), labels); err != nil {
		return 0
	}
	ready := 0
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(one corev1.PodCondition) bool {
			return one.Type == corev1.PodReady && one.Status == corev1.ConditionTrue
		}) {
			ready++
		}
	}
	return ready
}

// renewPods waits until all is well, and replaces each pod whose container was started again: the kubelet makes those
// wait longer each time, and one run must not lengthen the next.
func (f *failover) renewPods() {
	f.t.Helper()
	f.awaitWell()
	for _, instance := range f.instances() {
		pod := f.pod(instance)
		restarted := slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
			return status.RestartCount > 0
		})
		if !restarted {
			continue
		}
		if err := f.c.Delete(f.t.Context(), pod); err != nil {
			f.t.Fatal(err)
		}
		f.c.until("the pod of "+instance+" is a new one", 3*time.Minute, func(ctx context.Context) (bool, string) {
			var now corev1.Pod
			err := f.c.Get(ctx, client.ObjectKeyFromObject(pod), &now)
			return err == nil && now.UID != pod.UID, fmt.Sprint(err)
		})
		time.Sleep(2 * time.Second)
		f.awaitWell()
	}
}

// awaitTerm waits until the lease has a later term.
func (f *failover) awaitTerm(before int64) {
	f.t.Helper()
	f.c.until("another instance takes the lease", 90*time.Second, func(ctx context.Context) (bool, string) {
		term := f.leaseTerm(ctx)
		return term > before, fmt.Sprint(term)
	})
}

// leaseTerm is the term of the lease, 0 if it cannot be read.
func (f *failover) leaseTerm(ctx context.Context) int64 {
	var lease coordinationv1.Lease
	if err := f.c.Get(ctx, f.named("-primary"), &lease); err != nil || lease.Spec.LeaseTransitions == nil {
		return 0
	}
	return int64(*lease.Spec.LeaseTransitions)
}

func (f *failover) pod(instance string) *corev1.Pod {
	f.t.Helper()
	var pod corev1.Pod
	if err := f.c.Get(f.t.Context(), client.ObjectKey{Namespace: f.c.space, Name: instance + "-0"}, &pod); err != nil {
		f.t.Fatal(err)
	}
	return &pod
}

// steer sends the traffic through a node that the fault does not hit: what is to be measured is the database, and not
// the way to it.
func (f *failover) steer() {
	f.t.Helper()
	var nodes corev1.NodeList
	if err := f.c.List(f.t.Context(), &nodes); err != nil {
		f.t.Fatal(err)
	}
	for _, node := range nodes.Items {
		if node.Name != f.node {
			f.steerThrough(node.Name)
			break
		}
	}
	if f.routed == "" {
		f.routed = f.address
		f.t.Cleanup(func() { _ = exec.Command("ip", "route", "del", f.routed+"/32").Run() })
	}
}

func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
	}
	return string(output)
}

func (f *failover) startTraffic() {
	f.traffic = traffic.Start(f.t.Context(), traffic.Config{
		Connect: f.connect, Fresh: 2, Long: 2, Registers: 2, Patience: time.Second,
	})
}

// awaitShown waits until the clients have done so much since a moment as a run needs to show something: how long that
// takes is up to the machine. It gives up after minutes, and the verdict says then what there was too little of.
func (f *failover) awaitShown(since time.Duration, writes, reads int) {
	f.t.Helper()
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if written, read := f.traffic.Shown(since); written >= writes && read >= reads {
			return
		}
	}
}

// endTraffic stops the traffic when it shows something of the time since the fault, and of the whole.
func (f *failover) endTraffic(fault time.Duration) []traffic.Operation {
	f.t.Helper()
	f.awaitShown(fault, checks.FewestWrites/2, checks.FewestReads/2)
	f.awaitShown(0, checks.FewestWrites, checks.FewestReads)
	return f.stopTraffic()
}

func (f *failover) stopTraffic() []traffic.Operation {
	f.t.Helper()
	operations := f.traffic.Stop()
	if f.inner != nil {
		operations = append(operations, f.inner.stop(f.t)...)
		f.inner = nil
	}
	return operations
}

// present are the ids in the table.
func (f *failover) present() []int64 {
	f.t.Helper()
	var ids []int64
	f.c.until("the table is read", 30*time.Second, func(ctx context.Context) (bool, string) {
		connection, err := f.open(ctx)
		if err != nil {
			return false, err.Error()
		}
		defer func() { _ = connection.Close(context.Background()) }()
		rows, err := connection.Query(ctx, `select id from traffic`)
		if err != nil {
			return false, err.Error()
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err == nil, fmt.Sprint(err)
	})
	return ids
}

// checkCopies compares the content of all copies at the end. All are read in each try: a replica may have been behind
// when it was read before.
func (f *failover) checkCopies() {
	f.t.Helper()
	const sql = `select count(*) || ' ' || coalesce(md5(string_agg(id::text, ',' order by id)), '') from traffic`
	var pods []*corev1.Pod
	for _, instance := range f.instances() {
		pods = append(pods, f.pod(instance))
	}
	sums := map[string]string{}
	f.c.until("all copies are equal", 30*time.Second, func(ctx context.Context) (bool, string) {
		different := map[string]bool{}
		for _, pod := range pods {
			sum, err := f.ask(ctx, pod, sql)
			if err != nil {
				return false, err.Error()
			}
			sums[pod.Name], different[sum] = sum, true
		}
		return len(different) == 1, fmt.Sprint(sums)
	})
	f.t.Logf("all copies are equal: %v", sums)
}

// mostSegments is how many segments of the log an instance may have: many times what is to be kept, and less than would
// be left if each of the primaries in a long run left one.
const mostSegments = 32

// checkSegments finds logs of earlier primaries that are never removed.
func (f *failover) checkSegments() {
	f.t.Helper()
	for _, instance := range f.instances() {
		count := 0
		for _, name := range strings.Fields(f.within(instance, "ls", dataFolder+"/pg_wal")) {
			if len(name) == 24 {
				count++
			}
		}
		f.t.Logf("%s has %d segments of the log after term %d", instance, count, f.term)
		if count == 0 || count > mostSegments {
			f.t.Errorf("%s has %d segments of the log", instance, count)
		}
	}
}

func (f *failover) instances() []string {
	f.t.Helper()
	var pods corev1.PodList
	err := f.c.List(f.t.Context(), &pods, client.InNamespace(f.c.space),
		client.MatchingLabels{"meridian.dev/database": failoverName})
	if err != nil {
		f.t.Fatal(err)
	}
	var names []string
	for _, pod := range pods.Items {
		names = append(names, pod.Labels["meridian.dev/instance"])
	}
	slices.Sort(names)
	return names
}

// measureAgents reads the resident memory of each agent and its watchdog.
func (f *failover) measureAgents(most int) {
	f.t.Helper()
	for _, instance := range f.instances() {
		found, err := processes.Find(f.c.space, instance)
		if err != nil {
			f.t.Fatal(err)
		}
		total := 0
		for _, pid := range append([]int{found.Agent}, found.Others...) {
			total += resident(pid)
		}
		f.memory = append(f.memory, fmt.Sprintf("%s %d MiB", instance, total>>10))
		if total>>10 > most {
			f.t.Errorf("the agent of %s uses %d MiB, and %d are promised", instance, total>>10, most)
		}
	}
}

// resident is the memory of a process in KiB.
func resident(pid int) int {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "VmRSS:" {
			size, _ := strconv.Atoi(fields[1])
			return size
		}
	}
	return 0
}

// inner is a writer inside the network of a pod: it goes on when the node of the pod is cut from everything.
type inner struct {
	process *exec.Cmd
	lines   *bufio.Scanner
	start   time.Time
}

const innerVariable = "MERIDIAN_TEST_WRITER"

// innerConfig is how the writer in the pod's network connects.
type innerConfig struct{ URI, Host, Authority, ServerName string }

// startInner starts this test binary again, in the network of the primary's pod.
func (f *failover) startInner() {
	f.t.Helper()
	found, err := processes.Find(f.c.space, f.before)
	if err != nil {
		f.t.Fatal(err)
	}
	var secret corev1.Secret
	if err := f.c.Get(f.t.Context(), f.named("-app"), &secret); err != nil {
		f.t.Fatal(err)
	}
	config, err := json.Marshal(innerConfig{
		URI: string(secret.Data["uri"]), Host: f.pod(f.before).Status.PodIP, Authority: string(secret.Data["ca.crt"]),
		ServerName: failoverName + "-rw",
	})
	if err != nil {
		f.t.Fatal(err)
	}
	process := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", found.Agent), os.Args[0])
	process.Env = append(os.Environ(), innerVariable+"="+string(config))
	process.Stderr = os.Stderr
	output, err := process.StdoutPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.inner = &inner{process: process, lines: bufio.NewScanner(output), start: time.Now().Add(-f.traffic.Now())}
	if !f.inner.lines.Scan() {
		f.t.Fatal("the writer inside the node does not begin")
	}
}

// stop ends the writer and returns what it did, on the clock of the other traffic.
func (i *inner) stop(t *testing.T) []traffic.Operation {
	t.Helper()
	if err := i.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var operations []traffic.Operation
	for i.lines.Scan() {
		var operation traffic.Operation
		if err := json.Unmarshal(i.lines.Bytes(), &operation); err != nil {
			t.Fatal(err)
		}
		// The writer counts from the epoch.
		epoch := time.Duration(i.start.UnixNano())
		operation.Begin, operation.End = operation.Begin-epoch, operation.End-epoch
		operations = append(operations, operation)
	}
	_ = i.process.Wait()
	return operations
}
