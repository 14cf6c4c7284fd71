//go:build cluster

package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/kit/condition"
	processes "meridian.dev/meridian/test/e2e/faults"
	"meridian.dev/meridian/test/e2e/traffic"
)

var (
	figuresSize      = flag.String("figures", "", "how much is backed up and restored, such as 1Gi; empty: no test of it")
	figuresInstances = flag.Int("figures-instances", 3, "how many instances have it: each needs room")
)

const (
	// mostLoss is how much may be missing when all instances are lost at the same time.
	mostLoss = 5 * time.Second
	// figuresWait is for what takes longer the more there is, on a machine that has other work.
	figuresWait = 20 * time.Minute
	// round is how long a throughput is measured.
	round = 20 * time.Second
)

// roads are ten thousand lines of sixty places, near to each other as those of a map are.
const roads = `insert into roads (name, way)
select 'road ' || n, st_setsrid(st_makeline(array(
	select st_makepoint(floor((x + step * 0.0004 + random() * 0.0002) * 1e7) / 1e7,
		floor((y + step * 0.0003 + random() * 0.0002) * 1e7) / 1e7)
	from generate_series(1, 60) step order by step)), 4326)
from (select n, random() * 300 - 150 as x, random() * 150 - 75 as y from generate_series(1, 10000) n) as start`

// figures measures a database with backups, and tells.
type figures struct {
	*backed
	size  int64
	lines [][2]string
}

// TestBackupFigures measures what backups cost and what they give: `make e2e-backup SIZE=1Gi`.
func TestBackupFigures(t *testing.T) {
	if *figuresSize == "" {
		t.Skip("-figures says how much to measure with, such as 1Gi")
	}
	size, err := resource.ParseQuantity(*figuresSize)
	if err != nil {
		t.Fatal(err)
	}
	f := &figures{backed: &backed{}, size: size.Value()}
	defer f.print()
	f.failover = newFailover(t, func(database *v1alpha1.GeoDatabase) {
		f.store = newStore(connect(t), database.Namespace)
		f.store.grow(resource.NewQuantity(2*f.size+2<<30, resource.BinarySI).String())
		database.Spec.Storage.Size.Set(3*f.size + 2<<30)
		database.Spec.Instances = int32(*figuresInstances)
	})
	database, err := f.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.uid = database.UID
	f.fill()
	f.throughput() // The first round finds cold caches, and writes pages as a whole.
	f.tell("transactions a second, without backups", "%.0f", f.throughput())
	f.turnOn()
	f.throughput()
	f.tell("transactions a second, while the log is shipped", "%.0f", f.throughput())
	made := f.measureBase()
	f.measureCopy()
	f.measureRestore(made)
	f.loseAll()
}

func (f *figures) tell(what, format string, values ...any) {
	f.lines = append(f.lines, [2]string{what, fmt.Sprintf(format, values...)})
	f.t.Logf("%s: "+format, append([]any{what}, values...)...)
}

func (f *figures) print() {
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	for _, line := range f.lines {
		_, _ = fmt.Fprintf(table, "%s\t%s\n", line[0], line[1])
	}
	_ = table.Flush()
}

// grow asks for a larger volume of the server.
func (s *objectStore) grow(size string) {
	s.c.t.Helper()
	s.c.kubectl("-n", s.namespace, "patch", "pvc", storeName, "--type=merge", "-p",
		`{"spec":{"resources":{"requests":{"storage":"`+size+`"}}}}`)
}

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// perMinute is a speed in GiB a minute.
func perMinute(bytes int64, took time.Duration) string {
	return fmt.Sprintf("%.2f GiB/min", float64(bytes)/(1<<30)/took.Minutes())
}

// fill loads roads until the database has its size.
func (f *figures) fill() {
	f.t.Helper()
	connection, err := f.open(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = connection.Close(context.Background()) }()
	do := func(sql string) {
		if _, err := connection.Exec(f.t.Context(), sql); err != nil {
			f.t.Fatal(err)
		}
	}
	do(`create table roads (id bigint generated always as identity primary key, name text not null,
		way geometry(linestring, 4326) not null); create table visits (road bigint not null, spot geometry(point, 4326))`)
	const reached = `select pg_database_size(current_database())`
	begun, wanted := time.Now(), f.size
	for f.size = 0; f.size < wanted; {
		do(roads)
		f.one(f.failover, reached, &f.size)
	}
	do(`create index on roads using gist (way)`)
	f.one(f.failover, reached, &f.size)
	f.awaitWell()
	f.tell("size of the database", "%s, loaded in %s", mib(f.size), time.Since(begun).Round(time.Second))
}

// throughput has four clients change a road, look for its neighbours and note a visit, each time in one transaction.
func (f *figures) throughput() float64 {
	f.t.Helper()
	var highest int64
	connection, err := f.open(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if err := connection.QueryRow(f.t.Context(), `select max(id) from roads`).Scan(&highest); err != nil {
		f.t.Fatal(err)
	}
	_ = connection.Close(f.t.Context())
	ctx, cancel := context.WithTimeout(f.t.Context(), round)
	defer cancel()
	var done atomic.Int64
	var clients sync.WaitGroup
	begun := time.Now()
	for range 4 {
		clients.Go(func() {
			connection, err := f.open(ctx)
			if err != nil {
				f.t.Error(err)
				return
			}
			defer func() { _ = connection.Close(context.Background()) }()
			for ctx.Err() == nil {
				if err := visit(ctx, connection, 1+rand.Int64N(highest)); err == nil {
					done.Add(1)
				} else if ctx.Err() == nil {
					f.t.Errorf("a transaction failed: %v", err)
					return
				}
			}
		})
	}
	clients.Wait()
	if done.Load() == 0 {
		f.t.Error("no transaction was committed")
	}
	return float64(done.Load()) / time.Since(begun).Seconds()
}

func visit(ctx context.Context, connection *pgx.Conn, road int64) error {
	return pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `update roads set name = name || '' where id = $1`, road); err != nil {
			return err
		}
		var near int
		err := tx.QueryRow(ctx, `select count(*) from roads r, roads here where here.id = $1 and r.way && here.way`, road).
			Scan(&near)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `insert into visits select id, st_startpoint(way) from roads where id = $1`, road)
		return err
	})
}

// turnOn gives the database its repository, and waits for the first moment that can be restored to.
func (f *figures) turnOn() {
	f.t.Helper()
	document, err := json.Marshal(map[string]any{"spec": map[string]any{"backup": f.store.backup()}})
	if err != nil {
		f.t.Fatal(err)
	}
	begun := time.Now()
	f.patch(string(document))
	f.c.until("the first point can be restored to", figuresWait, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		found := condition.Find(database.Status.Conditions, v1alpha1.ConditionRecoverable)
		return found != nil && found.Status == metav1.ConditionTrue, fmt.Sprintf("%+v", found)
	})
	f.tell("from spec.backup to the first recoverable point", "%.1f s", time.Since(begun).Seconds())
}

// load is what an agent and its other processes have used: memory at most, and processor time with that of those that
// have ended.
type load struct {
	agent      int
	rest, peak int // KiB.
	before     time.Duration
}

func (f *figures) loads() map[string]*load {
	found := map[string]*load{}
	for _, instance := range f.instances() {
		of, err := processes.Find(f.c.space, instance)
		if err != nil {
			f.t.Fatal(err)
		}
		found[instance] = &load{agent: of.Agent, rest: f.own(instance), before: cpu(f.t, of.Agent)}
	}
	return found
}

// own is the resident memory of the agent of an instance and all that it runs beside the server.
func (f *figures) own(instance string) int {
	of, err := processes.Find(f.c.space, instance)
	if err != nil {
		return 0
	}
	total := resident(of.Agent)
	for _, pid := range of.Others {
		total += resident(pid)
	}
	return total
}

// cpu is the processor time of a process and of those of its children that it has waited for. A tick is 10 ms.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, field := range fields[11:15] {
		count, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += count
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// idleLoad is the share of a processor that each agent uses while it makes no base backup.
func (f *figures) idleLoad() map[string]float64 {
	f.t.Helper()
	loads, begun := f.loads(), time.Now()
	time.Sleep(round)
	shares := map[string]float64{}
	for instance, one := range loads {
		shares[instance] = float64(cpu(f.t, one.agent)-one.before) / float64(time.Since(begun))
	}
	return shares
}

// measureBase asks for a base backup and looks at who makes it.
func (f *figures) measureBase() backup.Backup {
	f.t.Helper()
	const token = "figures"
	idle := f.idleLoad()
	loads := f.loads()
	begun := time.Now()
	f.askBase(token)
	looked := 0
	f.c.until("the base backup is there", figuresWait, func(ctx context.Context) (bool, string) {
		for instance, one := range loads {
			one.peak = max(one.peak, f.own(instance))
		}
		looked++
		database, err := f.get(ctx)
		if err != nil || database.Status.Backup == nil {
			return false, fmt.Sprint(err)
		}
		told := database.Status.Backup
		return told.Now == token && told.Running == "", fmt.Sprintf("%+v", told)
	})
	took := time.Since(begun)
	catalogue := f.store.catalogue(failoverName, f.uid)
	made := catalogue.Backups[len(catalogue.Backups)-1]
	var stored int64
	for _, object := range catalogue.Objects {
		if strings.HasPrefix(object.Name, "base/"+made.ID+"/") {
			stored += object.Size
		}
	}
	maker := loads[made.Instance]
	if maker == nil || stored == 0 || looked < 5 {
		f.t.Fatalf("nothing was measured of %+v: %d bytes, %d looks", made, stored, looked)
	}
	used := cpu(f.t, maker.agent) - maker.before
	more := max(0, maker.peak-maker.rest) >> 10
	f.tell("a base backup, from the wish to its end", "%.1f s, %s, %s of files are %s in the repository", took.Seconds(),
		perMinute(made.Size, took), mib(made.Size), mib(stored))
	perGiB := func(used time.Duration) float64 { return used.Seconds() / (float64(made.Size) / (1 << 30)) }
	f.tell("processor time of agent and pg_basebackup", "%.1f s a GiB, of which an agent uses %.1f for its other work",
		perGiB(used), perGiB(time.Duration(idle[made.Instance]*float64(took))))
	f.tell("memory of the agent, more during it", "%d MiB (%d before, %d at most)", more, maker.rest>>10, maker.peak>>10)
	if more > moreMemory {
		f.t.Errorf("a base backup takes %d MiB more, and %d are promised", more, moreMemory)
	}
	return made
}

// measureCopy copies the files of a replica on its own volume, as the plainest way there is, or of the only instance.
func (f *figures) measureCopy() {
	f.t.Helper()
	instances := f.instances()
	replica := instances[max(0, slices.IndexFunc(instances, func(one string) bool { return one != f.before }))]
	target := dataFolder + "-copied"
	const script = `cp -a --reflink=never "$0/base" "$1" && sync -f "$1" && du -sb "$1"`
	begun := time.Now()
	told := strings.Fields(f.within(replica, "sh", "-c", script, dataFolder, target))
	took := time.Since(begun)
	f.within(replica, "rm", "-rf", target)
	if len(told) == 0 {
		f.t.Fatal("nothing was copied")
	}
	size, err := strconv.ParseInt(told[0], 10, 64)
	if err != nil {
		f.t.Fatal(err)
	}
	f.tell("a plain copy on a volume (cp)", "%.1f s, %s", took.Seconds(), perMinute(size, took))
}

// measureRestore restores the latest into a database of one instance.
func (f *figures) measureRestore(made backup.Backup) {
	f.t.Helper()
	took := f.restoreAs("copy")
	f.tell("a restore, from the manifest to Ready", "%.1f s, %s", took.Seconds(), perMinute(made.Size, took))
	var want, got int64
	f.one(f.failover, `select count(*) from roads`, &want)
	f.one(f.of("copy"), `select count(*) from roads where way && st_makeenvelope(-180, -90, 180, 90, 4326)`, &got)
	if want == 0 || got != want {
		f.t.Errorf("%d roads are restored, and there are %d", got, want)
	}
	f.remove("copy")
}

func (f *figures) restoreAs(name string) time.Duration {
	f.t.Helper()
	begun := time.Now()
	err := f.create(name, v1alpha1.Bootstrap{Restore: &v1alpha1.Restore{
		Repository: f.store.backup().Repository,
		Source:     v1alpha1.RestoreSource{Name: failoverName, UID: string(f.uid)},
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.c.until(name+" is well", figuresWait, func(ctx context.Context) (bool, string) {
		status := f.status(ctx, name)
		return condition.IsTrue(status.Conditions, v1alpha1.ConditionReady), fmt.Sprintf("%+v", status)
	})
	return time.Since(begun)
}

// of is another database of the namespace, to ask it.
func (f *figures) of(name string) *failover {
	f.t.Helper()
	other := &failover{t: f.t, c: f.c}
	f.c.until("the Secret of "+name+" is there", time.Minute, func(ctx context.Context) (bool, string) {
		err := other.readSecretOf(ctx, name)
		return err == nil, fmt.Sprint(err)
	})
	return other
}

func (f *figures) one(of *failover, sql string, into *int64) {
	f.t.Helper()
	f.c.until("it answers: "+sql, time.Minute, func(ctx context.Context) (bool, string) {
		connection, err := of.open(ctx)
		if err != nil {
			return false, err.Error()
		}
		defer func() { _ = connection.Close(context.Background()) }()
		err = connection.QueryRow(ctx, sql).Scan(into)
		return err == nil, fmt.Sprint(err)
	})
}

// loseAll stops every process of every instance in the middle of traffic, takes their volumes, and restores the latest:
// what was acknowledged and is not there is the loss.
func (f *figures) loseAll() {
	f.t.Helper()
	if err := f.exec(f.t.Context(), traffic.Tables); err != nil {
		f.t.Fatal(err)
	}
	f.steer()
	f.startTraffic()
	f.awaitSteady("writes are accepted before all is lost")
	time.Sleep(10 * time.Second)
	var agents, others []int
	for _, instance := range f.instances() {
		found, err := processes.Find(f.c.space, instance)
		if err != nil {
			f.t.Fatal(err)
		}
		agents, others = append(agents, found.Agent), append(others, append(found.Server, found.Others...)...)
	}
	at := f.traffic.Now()
	f.signal(syscall.SIGSTOP, append(agents, others...)...)
	operations := f.stopTraffic()
	f.takeVolumes()
	f.signal(syscall.SIGKILL, append(agents, others...)...)
	took := f.restoreAs("after")
	f.judge(operations, at, f.of("after").present(), took)
}

// takeVolumes deletes the claims and pods of all instances. Nothing of them runs any more that could end in order.
func (f *figures) takeVolumes() {
	f.t.Helper()
	for _, instance := range f.instances() {
		claim := &corev1.PersistentVolumeClaim{}
		claim.Namespace, claim.Name = f.c.space, instance
		if err := f.c.Delete(f.t.Context(), claim); err != nil {
			f.t.Fatal(err)
		}
		if err := f.c.Delete(f.t.Context(), f.pod(instance), client.GracePeriodSeconds(1)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *figures) judge(operations []traffic.Operation, at time.Duration, there []int64, took time.Duration) {
	f.t.Helper()
	acknowledged, lost, loss := 0, 0, time.Duration(0)
	slices.Sort(there)
	for _, one := range operations {
		if one.Register != 0 || one.Read || one.Fate != traffic.Acknowledged {
			continue
		}
		acknowledged++
		if _, found := slices.BinarySearch(there, one.ID); !found {
			lost++
			loss = max(loss, at-one.End)
		}
	}
	if acknowledged < 100 {
		f.t.Errorf("%d writes were acknowledged: too few to judge", acknowledged)
	}
	f.tell("loss when all instances are lost at once", "the last %.1f s: %d of %d acknowledged writes; Ready after %.1f s",
		loss.Seconds(), lost, acknowledged, took.Seconds())
	if loss > mostLoss {
		f.t.Errorf("%s of acknowledged writes are lost, and %s are promised at most", loss, mostLoss)
	}
}
