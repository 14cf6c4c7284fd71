//go:build cluster

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/test/e2e/traffic"
)

// leap is one transaction that fills: 16 MiB that PostgreSQL cannot compress.
const leap = `insert into filling (body) select repeat(md5(random()::text), 16384) from generate_series(1, 32)`

// TestGrowth fills the volumes until writes are refused and raises spec.storage.size, and does nothing else; then it
// lets volumes grow by themselves, and fills them again.
func TestGrowth(t *testing.T) {
	if *rollingChanges != "all" {
		t.Skip("it takes minutes; -changes=all does it")
	}
	f := newFailover(t)
	if err := f.exec(t.Context(), `create table filling (id bigserial primary key, body text);
alter table filling alter column body set storage external`); err != nil {
		t.Fatal(err)
	}
	pods, term := f.podUIDs(), f.term
	f.startTraffic()
	kept := f.fillUntilRefused()
	kept += f.recoverBySize()
	kept += f.growByThemselves()
	f.checkNothingLost(f.stopTraffic(), kept)
	f.checkCopies()
	for name, uid := range f.podUIDs() {
		if pods[name] != uid {
			t.Errorf("the pod of %s was made anew", name)
		}
	}
	if now := f.leaseTerm(t.Context()); now != term {
		t.Errorf("the primary has moved: term %d, and %d before", now, term)
	}
}

// fillUntilRefused writes until PostgreSQL takes no more. It returns how many leaps were acknowledged.
func (f *failover) fillUntilRefused() int {
	f.t.Helper()
	acknowledged := 0
	for start := time.Now(); time.Since(start) < 5*time.Minute; {
		switch err := f.exec(f.t.Context(), leap); {
		case err == nil:
			acknowledged++
		case refused(err):
			f.t.Logf("writes are refused after %d leaps of 16 MiB and %s", acknowledged, time.Since(start).Round(time.Second))
			return acknowledged
		default:
			f.t.Logf("a leap failed, and counts as not done: %v", err)
			time.Sleep(time.Second)
		}
	}
	f.t.Fatal("the volume is never full")
	return 0
}

// refused says that PostgreSQL takes no writes, as it does on a full volume.
func refused(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.Code == "25006" // read_only_sql_transaction
}

// recoverBySize sees that the database says why it takes no writes, raises the size, and waits for a write.
func (f *failover) recoverBySize() int {
	f.t.Helper()
	told := f.c.until("the condition says that the volume is full", time.Minute, f.conditionIs(
		v1alpha1.ConditionServing, "False", "VolumeFull"))
	f.patch(`{"spec":{"storage":{"size":"2Gi"}}}`)
	begun := time.Now()
	f.c.until("writes are accepted again", 3*time.Minute, func(ctx context.Context) (bool, string) {
		err := f.exec(ctx, leap)
		return err == nil, fmt.Sprint(err)
	})
	accepted := time.Since(begun)
	f.awaitVolumes("2Gi")
	f.awaitDone()
	f.t.Logf("VolumeFull shown %s after the last write; writes accepted %s after the size was raised, all well after %s",
		told.Round(100*time.Millisecond), accepted.Round(100*time.Millisecond), time.Since(begun).Round(100*time.Millisecond))
	return 1
}

// growByThemselves fills a volume of 2Gi beyond 80 percent: all of them come to 3Gi, without a refused write.
func (f *failover) growByThemselves() int {
	f.t.Helper()
	f.patch(`{"spec":{"storage":{"autoGrow":{"limit":"3Gi","atPercent":80}}}}`)
	acknowledged, begun := 0, time.Now()
	f.c.until("a volume has grown by itself", 4*time.Minute, func(ctx context.Context) (bool, string) {
		switch err := f.exec(ctx, leap); {
		case err == nil:
			acknowledged++
		case refused(err):
			f.t.Errorf("leap %d: the volume was full before it grew: %v", acknowledged+1, err)
		default:
			f.t.Logf("a leap failed, and counts as not done: %v", err) // A busy machine is slow to connect.
		}
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		size := database.Status.VolumeSize
		return size != nil && size.Cmp(resource.MustParse("3Gi")) >= 0, fmt.Sprintf("%+v", database.Status)
	})
	f.t.Logf("a step began after %d leaps and %s", acknowledged, time.Since(begun).Round(time.Second))
	begun = time.Now()
	f.awaitVolumes("3Gi")
	f.awaitDone()
	f.c.until("nothing fills any more", time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		found := condition.Find(database.Status.Conditions, v1alpha1.ConditionFilling)
		return found == nil, fmt.Sprintf("%+v", found)
	})
	f.t.Logf("all volumes had grown %s later", time.Since(begun).Round(100*time.Millisecond))
	database, err := f.get(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if size := database.Spec.Storage.Size; size.Cmp(resource.MustParse("2Gi")) != 0 {
		f.t.Errorf("the spec was rewritten: %s", size.String())
	}
	return acknowledged
}

// awaitVolumes waits until each volume has exactly that size: more would be a step too many.
func (f *failover) awaitVolumes(size string) {
	f.t.Helper()
	want := resource.MustParse(size)
	f.c.until("the volumes have "+size, 3*time.Minute, func(ctx context.Context) (bool, string) {
		var claims corev1.PersistentVolumeClaimList
		if err := f.c.List(ctx, &claims, client.InNamespace(f.c.space)); err != nil {
			return false, err.Error()
		}
		seen, right := "", 0
		for _, claim := range claims.Items {
			asked, has := claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage()
			seen += fmt.Sprintf("%s asks for %s and has %s; ", claim.Name, asked, has)
			if asked.Cmp(want) == 0 && has.Cmp(want) == 0 {
				right++
			}
		}
		return right == 3, seen
	})
}

func (f *failover) conditionIs(typ, status, reason string) func(context.Context) (bool, string) {
	return func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		found := condition.Find(database.Status.Conditions, typ)
		return found != nil && string(found.Status) == status && found.Reason == reason, fmt.Sprintf("%+v", found)
	}
}

// checkNothingLost finds each acknowledged write of the traffic, and each leap.
func (f *failover) checkNothingLost(operations []traffic.Operation, leaps int) {
	f.t.Helper()
	present := f.present()
	slices.Sort(present)
	acknowledged, lost := 0, 0
	for _, operation := range operations {
		if operation.Fate != traffic.Acknowledged || operation.Register != 0 {
			continue
		}
		acknowledged++
		if _, found := slices.BinarySearch(present, operation.ID); !found {
			lost++
		}
	}
	var rows string
	f.c.until("the leaps are counted", time.Minute, func(ctx context.Context) (bool, string) {
		var err error
		rows, err = f.ask(ctx, f.pod(f.before), `select (count(*) / 32)::text from filling`)
		return err == nil, fmt.Sprint(err)
	})
	f.t.Logf("%d acknowledged writes, %d lost; %d acknowledged leaps, %s there", acknowledged, lost, leaps, rows)
	if acknowledged < 100 || lost > 0 {
		f.t.Errorf("of %d acknowledged writes %d are lost", acknowledged, lost)
	}
	// A leap whose answer was lost on the way may be there all the same.
	if counted, err := strconv.Atoi(rows); err != nil || counted < leaps {
		f.t.Errorf("%s of %d acknowledged leaps are there (%v)", rows, leaps, err)
	}
}
