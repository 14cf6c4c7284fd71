//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/test/e2e/checks"
)

const (
	dataFolder = "/var/lib/meridian/pgdata"
	logFolder  = "/var/lib/meridian-wal"
	// stride is 16 MiB of log that belong to no table.
	stride = `select count(pg_logical_emit_message(false, 'stride', repeat(md5(random()::text), 32768)))
		from generate_series(1, 16)`
)

// TestLogVolume has a database whose log has a volume of its own: the volumes grow under traffic; a primary that was
// cut off is rewound, through the link to its log; a replica that never comes does not fill the log; and volumes that
// are full all the same are mended by spec.storage.walSize alone.
func TestLogVolume(t *testing.T) {
	if *rollingChanges != "all" {
		t.Skip("it takes minutes; -changes=all does it")
	}
	f := newFailover(t, func(database *v1alpha1.GeoDatabase) {
		size := resource.MustParse("512Mi")
		database.Spec.Storage.WALSize = &size
	})
	f.checkLogs()
	f.growLogs()
	f.rewindThroughTheLink()
	f.checkLogs()
	f.neglectAReplica()
	f.fillLogs()
	f.checkLogs()
	f.checkCopies()
}

// within runs a command in the container of an instance.
func (f *failover) within(instance string, words ...string) string {
	f.t.Helper()
	return f.c.kubectl(append([]string{"-n", f.c.space, "exec", instance + "-0", "-c", "database", "--"}, words...)...)
}

// checkLogs looks where the log of each instance really is.
func (f *failover) checkLogs() {
	f.t.Helper()
	for _, instance := range f.instances() {
		if link := f.within(instance, "readlink", dataFolder+"/pg_wal"); strings.TrimSpace(link) != logFolder+"/pg_wal" {
			f.t.Errorf("pg_wal of %s leads to %q", instance, link)
		}
		devices := strings.Fields(f.within(instance, "stat", "-L", "-c", "%d", dataFolder, dataFolder+"/pg_wal"))
		if len(devices) != 2 || devices[0] == devices[1] {
			f.t.Errorf("data and log of %s are on the devices %v", instance, devices)
		}
	}
}

// growLogs raises the size under traffic: nobody notices.
func (f *failover) growLogs() {
	f.t.Helper()
	f.awaitWell()
	f.steer()
	f.startTraffic()
	f.awaitSteady("writes are accepted before the logs grow")
	times := checks.Times{Fault: f.traffic.Now()}
	f.patch(`{"spec":{"storage":{"walSize":"640Mi"}}}`)
	took := f.awaitLogs("640Mi")
	f.awaitDone()
	times.End = f.traffic.Now()
	operations := f.stopTraffic()
	verdict := checks.Judge(operations, f.present(), times)
	f.t.Logf("the volumes of the logs had grown after %s; longest pause of writes %s", took.Round(100*time.Millisecond),
		ms(verdict.Gap))
	if failed := failedFresh(operations, times.End); failed > 0 || verdict.Bad() != "" {
		f.t.Errorf("%d writes on fresh connections failed; %s", failed, verdict.Bad())
	}
}

func (f *failover) awaitLogs(size string) time.Duration {
	f.t.Helper()
	return f.c.until("the volumes of the logs have "+size, 3*time.Minute, func(ctx context.Context) (bool, string) {
		for _, instance := range f.instances() {
			var claim corev1.PersistentVolumeClaim
			if err := f.c.Get(ctx, client.ObjectKey{Namespace: f.c.space, Name: instance + "-wal"}, &claim); err != nil {
				return false, err.Error()
			}
			if has := claim.Status.Capacity.Storage(); has.Cmp(resource.MustParse(size)) != 0 {
				return false, claim.Name + " has " + has.String()
			}
		}
		return true, ""
	})
}

// rewindThroughTheLink cuts the node of the primary off, with a session that writes there: what it has written is in no
// other copy, so its log must be turned back.
func (f *failover) rewindThroughTheLink() {
	f.t.Helper()
	cut := slices.IndexFunc(faults, func(one fault) bool { return one.name == "node cut from all" })
	f.awaitWell()
	old := f.before
	f.tryOnce(faults[cut], 1)
	said := f.c.kubectl("-n", f.c.space, "logs", old+"-0", "-c", "database", "--since=5m")
	for _, action := range []string{`"action":"Rewind to `, `"action":"RecordRewound"`} {
		if !strings.Contains(said, action) {
			f.t.Errorf("%s did not say %s: its log was not turned back", old, action)
		}
	}
	if strings.Contains(said, `"action":"Clone`) {
		f.t.Errorf("%s was copied as a whole", old)
	}
}

// neglectAReplica keeps a place for a replica that never comes, and writes more log than its volume has room for.
func (f *failover) neglectAReplica() {
	f.t.Helper()
	f.awaitWell()
	ask := func(sql string) string {
		return strings.TrimSpace(f.within(f.before, "psql", "-h", "/run/meridian", "-d", "postgres", "-Atc", sql))
	}
	ask(`select pg_create_physical_replication_slot('stray', true)`)
	strides := 0
	f.c.until("more is written than the volume holds", 3*time.Minute, func(ctx context.Context) (bool, string) {
		err := f.exec(ctx, stride)
		switch {
		case err == nil:
			strides++
		case refused(err):
			f.t.Fatalf("stride %d: the log is full: %v", strides, err)
		} // Whatever else: a busy machine is slow to connect.
		return strides >= 60, fmt.Sprint(strides, err)
	})
	state := ask(`select coalesce((select wal_status from pg_replication_slots where slot_name = 'stray'), 'gone')`)
	f.t.Logf("after %d MiB of log on a volume of 640Mi the place of an absent replica is %s", strides*16, state)
	if state != "lost" && state != "gone" && state != "unreserved" {
		f.t.Errorf("the log is kept for a replica that never comes: %s", state)
	}
	ask(`select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = 'stray'`)
	f.awaitDone()
}

// fillLogs puts something else onto the volumes of all logs, as somebody might, and raises the size: nothing else.
func (f *failover) fillLogs() {
	f.t.Helper()
	f.awaitWell()
	pods, term := f.podUIDs(), f.term
	f.steer()
	f.startTraffic()
	f.awaitSteady("writes are accepted before the logs are full")
	times := checks.Times{Fault: f.traffic.Now()}
	instances := f.instances()
	slices.SortFunc(instances, func(a, b string) int { // The primary last, or nobody could fill the others any more.
		return strings.Compare(strconv.FormatBool(a == f.before), strconv.FormatBool(b == f.before))
	})
	for _, instance := range instances {
		f.within(instance, "bash", "-c", `free=$(df -m --output=avail `+logFolder+` | tail -1);
			dd if=/dev/zero of=`+logFolder+`/something bs=1M count=$((free - 24)) 2>&1`)
	}
	told := f.c.until("the condition says that the volume is full", time.Minute, f.conditionIs(
		v1alpha1.ConditionServing, "False", "VolumeFull"))
	time.Sleep(15 * time.Second) // It stays so.
	f.patch(`{"spec":{"storage":{"walSize":"1Gi"}}}`)
	begun := time.Now()
	f.awaitSteady("writes are accepted again")
	accepted := time.Since(begun)
	f.awaitLogs("1Gi")
	f.awaitDone()
	times.End = f.traffic.Now()
	verdict := checks.Judge(f.stopTraffic(), f.present(), times)
	f.t.Logf("VolumeFull shown %s after the last volume was full; writes accepted %s after the size was raised, all well "+
		"after %s; %d acknowledged, %d lost", told.Round(100*time.Millisecond), accepted.Round(100*time.Millisecond),
		time.Since(begun).Round(100*time.Millisecond), verdict.Acknowledged, len(verdict.Lost))
	if problem := verdict.Bad(); problem != "" {
		f.t.Error(problem)
	}
	if anew, now := changed(pods, f.podUIDs()), f.leaseTerm(f.t.Context()); anew > 0 || now != term {
		f.t.Errorf("%d pods were made anew; term %d, and %d before", anew, now, term)
	}
}
