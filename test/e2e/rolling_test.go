//go:build cluster

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/test/e2e/checks"
	"meridian.dev/meridian/test/e2e/traffic"
)

// altered is a line of the table.
type altered struct {
	alteration
	verdict       checks.Verdict
	fresh         int
	born, started int
	moved         int64
	took          time.Duration
	idle, stolen  int
}

// TestRolling does each change to a database under traffic, and prints what it has cost.
func TestRolling(t *testing.T) {
	f := newFailover(t)
	var rows []altered
	for _, one := range alterations {
		named := slices.Contains(strings.Split(*rollingChanges, ";"), one.name)
		if *rollingChanges != "all" && !(*rollingChanges == "short" && one.short) && !named {
			continue
		}
		row := f.alter(one)
		t.Logf("%s: gap %s, %d fresh writes failed, %d pods, %d starts, %d moves, %s", one.name, ms(row.verdict.Gap),
			row.fresh, row.born, row.started, row.moved, row.took.Round(100*time.Millisecond))
		f.judge(row)
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("-changes=%s names none", *rollingChanges)
	}
	f.checkCopies()
	table := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "CHANGE\tGAP\tFAILED, FRESH\tPODS ANEW\tSTARTS IN PODS\tPRIMARY MOVED\tLOST\tTOOK\tIDLE\t"+
		"STOLEN")
	for _, row := range rows {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", row.name, ms(row.verdict.Gap), row.fresh,
			row.born, row.started, row.moved, len(row.verdict.Lost), row.took.Round(100*time.Millisecond), percent(row.idle),
			percent(row.stolen))
	}
	_ = table.Flush()
}

// alter does one change, and takes it back if it does harm.
func (f *failover) alter(one alteration) altered {
	f.t.Helper()
	f.awaitWell()
	term, pods, servers := f.term, f.podUIDs(), f.serverStarts()
	if one.prepare != nil {
		one.prepare(f)
	}
	f.steer()
	f.startTraffic()
	time.Sleep(2 * time.Second)
	at, begun, before := f.traffic.Now(), time.Now(), readTicks(f.t)
	f.patch(one.patch)
	if one.then != "" {
		f.awaitChanged(pods)
		f.patch(one.then)
	}
	if one.undo != "" {
		f.awaitStalled(one)
		f.patch(one.undo)
	}
	f.awaitDone()
	row := altered{alteration: one, took: time.Since(begun)}
	row.idle, row.stolen = readTicks(f.t).share(before)
	time.Sleep(2 * time.Second)
	end := f.traffic.Now()
	operations := f.endTraffic(at)
	row.verdict = checks.Judge(operations, f.present(), checks.Times{Fault: at, End: end})
	row.fresh = failedFresh(operations, end)
	for name, uid := range f.podUIDs() {
		if pods[name] != uid {
			row.born++
		}
	}
	for name, start := range f.serverStarts() {
		if servers[name] != start && pods[name] == f.podUIDs()[name] {
			row.started++
		}
	}
	row.moved = f.leaseTerm(f.t.Context()) - term
	return row
}

// judge holds a row against what was promised.
func (f *failover) judge(row altered) {
	f.t.Helper()
	if problem := row.verdict.Bad() + row.verdict.Invalid(); problem != "" {
		f.t.Errorf("%s: %s", row.name, problem)
	}
	born, started := row.births*3+row.touched, row.starts*3+row.tried
	complain := f.t.Errorf
	if row.stolen >= starved {
		// A primary that is kept from running ends by itself, and its server starts again.
		complain = f.t.Logf
	}
	if row.born != born || row.started != started || row.moved != int64(row.moves) {
		complain("%s: %d pods anew, %d starts, %d moves; want %d, %d, %d", row.name, row.born, row.started, row.moved,
			born, started, row.moves)
	}
	limit := max(row.gap, time.Second)
	if row.verdict.Gap > limit {
		// How fast it is depends on the machine: the table says it, and no test fails for it.
		f.t.Logf("%s: no write for %s, promised %s", row.name, row.verdict.Gap, limit)
	}
	if row.moves == 0 && row.fresh > 0 {
		complain("%s: %d writes on fresh connections failed", row.name, row.fresh)
	}
}

// failedFresh counts writes on connections of their own that were refused or broken off, but for those that the end of
// the traffic has cut off.
func failedFresh(operations []traffic.Operation, end time.Duration) int {
	count := 0
	for _, operation := range operations {
		slow := strings.Contains(operation.Problem, "timeout") || strings.Contains(operation.Problem, "deadline")
		if strings.HasPrefix(operation.Client, "fresh") && operation.Fate != traffic.Acknowledged && !slow &&
			operation.End < end {
			count++
		}
	}
	return count
}

func (f *failover) patch(document string) {
	f.t.Helper()
	database, err := f.get(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if !json.Valid([]byte(document)) {
		f.t.Fatalf("no JSON: %s", document)
	}
	if err := f.c.Patch(f.t.Context(), database, client.RawPatch(types.MergePatchType, []byte(document))); err != nil {
		f.t.Fatal(err)
	}
}

// awaitChanged waits until the first pod is another.
func (f *failover) awaitChanged(before map[string]types.UID) {
	f.t.Helper()
	f.c.until("the change has reached a pod", 2*time.Minute, func(ctx context.Context) (bool, string) {
		var pods corev1.PodList
		if err := f.c.List(ctx, &pods, client.InNamespace(f.c.space)); err != nil {
			return false, err.Error()
		}
		for _, pod := range pods.Items {
			instance := strings.TrimSuffix(pod.Name, "-0")
			if uid, known := before[instance]; known && uid != pod.UID {
				return true, ""
			}
		}
		return false, "all pods are those of before"
	})
}

// awaitStalled waits until a change has stopped for its reason, and a little more, in case it goes on.
func (f *failover) awaitStalled(one alteration) {
	f.t.Helper()
	f.c.until(one.name+" stops", 2*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		found := condition.Find(database.Status.Conditions, v1alpha1.ConditionStalled)
		return found != nil && found.Status == "True" && found.Reason == one.reason, fmt.Sprintf("%+v", found)
	})
	time.Sleep(10 * time.Second)
}

// awaitDone waits until the database is as the spec wishes, with nothing pending.
func (f *failover) awaitDone() {
	f.t.Helper()
	f.c.until("the change is done", 4*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		status := database.Status
		return condition.IsTrue(status.Conditions, v1alpha1.ConditionReady) && status.Replicas == "2/2" &&
			status.ObservedGeneration == database.Generation && len(status.PendingChanges) == 0, fmt.Sprintf("%+v", status)
	})
}

func (f *failover) podUIDs() map[string]types.UID {
	f.t.Helper()
	uids := map[string]types.UID{}
	for _, name := range f.instances() {
		uids[name] = f.pod(name).UID
	}
	return uids
}

// serverStarts is when the server of each instance was started, by its own word.
func (f *failover) serverStarts() map[string]string {
	f.t.Helper()
	starts := map[string]string{}
	for _, name := range f.instances() {
		pod := f.pod(name)
		f.c.until("the server of "+name+" tells when it started", time.Minute, func(ctx context.Context) (bool, string) {
			start, err := f.ask(ctx, pod, `select pg_postmaster_start_time()::text`)
			starts[name] = start
			return err == nil, fmt.Sprint(err)
		})
	}
	return starts
}

// ask runs one query on one instance.
func (f *failover) ask(ctx context.Context, pod *corev1.Pod, sql string) (answer string, err error) {
	direct := *f
	direct.connect = f.connect.Copy()
	direct.connect.Host = pod.Status.PodIP
	connection, err := direct.open(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close(context.Background()) }()
	err = connection.QueryRow(ctx, sql).Scan(&answer)
	return answer, err
}

// TestSleep puts a database to sleep and wakes it: everything that was acknowledged is there.
func TestSleep(t *testing.T) {
	if *rollingChanges != "all" {
		t.Skip("it takes minutes; -changes=all does it")
	}
	f := newFailover(t)
	f.startTraffic()
	time.Sleep(3 * time.Second)
	begun := time.Now()
	f.patch(`{"spec":{"hibernated":true}}`)
	f.c.until("it sleeps", 3*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		ready := condition.Find(database.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == "Hibernated" && len(f.instances()) == 0, fmt.Sprintf("%+v", database.Status)
	})
	asleep := time.Since(begun)
	operations := f.stopTraffic()
	begun = time.Now()
	f.patch(`{"spec":{"hibernated":false}}`)
	f.awaitDone()
	present := f.present()
	slices.Sort(present)
	acknowledged := 0
	for _, operation := range operations {
		if operation.Fate != traffic.Acknowledged || operation.Register != 0 {
			continue
		}
		acknowledged++
		if _, found := slices.BinarySearch(present, operation.ID); !found {
			t.Errorf("the acknowledged write %d is lost", operation.ID)
		}
	}
	if acknowledged < 50 {
		t.Errorf("only %d writes were acknowledged: this shows nothing", acknowledged)
	}
	t.Logf("asleep after %s, awake after %s, %d writes kept", asleep.Round(100*time.Millisecond),
		time.Since(begun).Round(100*time.Millisecond), acknowledged)
}
