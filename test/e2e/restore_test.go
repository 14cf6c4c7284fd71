//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// TestRestore drops a table, and has it back in a second database as it was before, in a third one that is restored by
// a manifest from the same repository to a place in the log, and a clone of the living database without it.
func TestRestore(t *testing.T) {
	beside(t)
	b := &backed{}
	programs(connect(t))
	b.failover = newFailover(t, func(database *v1alpha1.GeoDatabase) {
		b.store = newStore(connect(t), database.Namespace)
		database.Spec.Backup = b.store.backup()
	})
	database, err := b.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.uid = database.UID
	b.awaitRecoverable("the first point can be restored to")
	b.do(places)
	place := b.place()
	moment := b.pause()
	b.do(`drop table places; create table after (word text)`)
	b.store.checkWhole(failoverName, b.uid, b.place())
	b.awaitWell()
	b.refuseWhatCannotBe(moment)

	begun := time.Now()
	t.Log(b.c.meridian("restore", failoverName, "-n", b.c.space, "--to", moment.Format(time.RFC3339),
		"--as", "before", "--instances", "1", "--timeout", "5m"))
	t.Logf("restored to %s and Ready after %s", moment.Format(time.RFC3339),
		time.Since(begun).Round(100*time.Millisecond))
	b.checkPlaces("before", "5000")
	b.begins("place", v1alpha1.Bootstrap{Restore: &v1alpha1.Restore{
		Repository: b.store.backup().Repository, Source: v1alpha1.RestoreSource{Name: failoverName},
		Target: &v1alpha1.RestoreTarget{LSN: place},
	}})
	b.checkPlaces("place", "5000")
	b.begins("copy", v1alpha1.Bootstrap{Clone: &v1alpha1.Clone{Name: failoverName}})
	b.checkPlaces("copy", "")
	b.awaitWell()
}

func (b *backed) do(sql string) {
	b.t.Helper()
	if err := b.exec(b.t.Context(), sql); err != nil {
		b.t.Fatal(err)
	}
}

// pause finds a whole second with nothing of ours in it, by the clock of the primary.
func (b *backed) pause() time.Time {
	b.t.Helper()
	text, err := b.ask(b.t.Context(), b.pod(b.before), `select to_char(
		date_trunc('second', clock_timestamp() at time zone 'UTC') + interval '1 second', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`)
	if err != nil {
		b.t.Fatal(err)
	}
	moment, err := time.Parse(time.RFC3339, text)
	if err != nil {
		b.t.Fatal(err)
	}
	b.c.until("the second has passed", 30*time.Second, func(ctx context.Context) (bool, string) {
		passed, err := b.ask(ctx, b.pod(b.before),
			`select (clock_timestamp() > '`+text+`'::timestamptz + interval '1 second')::text`)
		return passed == "true", fmt.Sprint(err)
	})
	return moment
}

// refuseWhatCannotBe asks for a moment that nobody has seen, and for a place that the repository does not lead to.
func (b *backed) refuseWhatCannotBe(moment time.Time) {
	b.t.Helper()
	restore := &v1alpha1.Restore{
		Repository: b.store.backup().Repository, Source: v1alpha1.RestoreSource{Name: failoverName},
		Target: &v1alpha1.RestoreTarget{Time: &metav1.Time{Time: moment.Add(time.Hour)}},
	}
	err := b.create("future", v1alpha1.Bootstrap{Restore: restore})
	if err == nil || !strings.Contains(err.Error(), "lies in the future") {
		b.t.Errorf("a restore to the future ended in: %v", err)
	}
	restore.Target = &v1alpha1.RestoreTarget{LSN: "7F/0"}
	if err := b.create("outside", v1alpha1.Bootstrap{Restore: restore}); err != nil {
		b.t.Fatal(err)
	}
	b.c.until("the status says that the target lies outside", 3*time.Minute, func(ctx context.Context) (bool, string) {
		status := b.status(ctx, "outside")
		for _, found := range status.Conditions {
			if found.Reason == "TargetOutside" && strings.Contains(found.Message, "choose a target from") {
				return true, ""
			}
		}
		return false, fmt.Sprintf("%+v", status)
	})
	if status := b.status(b.t.Context(), "outside"); condition.IsTrue(status.Conditions, v1alpha1.ConditionServing) {
		b.t.Error("a database serves whose target cannot be reached")
	}
	b.remove("outside")
}

func (b *backed) status(ctx context.Context, name string) v1alpha1.GeoDatabaseStatus {
	var database v1alpha1.GeoDatabase
	if err := b.c.Get(ctx, client.ObjectKey{Namespace: b.c.space, Name: name}, &database); err != nil {
		return v1alpha1.GeoDatabaseStatus{}
	}
	return database.Status
}

// create makes a small database that begins in this way.
func (b *backed) create(name string, bootstrap v1alpha1.Bootstrap) error {
	database, err := b.get(b.t.Context())
	if err != nil {
		return err
	}
	made := &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.c.space, Name: name, Annotations: database.Annotations},
		Spec:       database.Spec,
	}
	made.Spec.Backup, made.Spec.Instances = nil, 1
	bootstrap.Database, bootstrap.Owner = database.Spec.Bootstrap.Database, database.Spec.Bootstrap.Owner
	made.Spec.Bootstrap = bootstrap
	return b.c.Create(b.t.Context(), made)
}

func (b *backed) begins(name string, bootstrap v1alpha1.Bootstrap) {
	b.t.Helper()
	begun := time.Now()
	if err := b.create(name, bootstrap); err != nil {
		b.t.Fatal(err)
	}
	b.c.until(name+" is well", 4*time.Minute, func(ctx context.Context) (bool, string) {
		status := b.status(ctx, name)
		return condition.IsTrue(status.Conditions, v1alpha1.ConditionReady), fmt.Sprintf("%+v", status)
	})
	b.t.Logf("%s is Ready after %s", name, time.Since(begun).Round(100*time.Millisecond))
}

// checkPlaces counts by the spatial index, "" for no such table, and logs in as an application of this database.
func (b *backed) checkPlaces(name, want string) {
	b.t.Helper()
	there := strings.TrimSpace(b.c.meridian("psql", name, "-n", b.c.space, "--", "-XAtc",
		"select coalesce(to_regclass('places')::text, '')"))
	if want == "" {
		if there != "" {
			b.t.Errorf("%s has the table %q that was dropped", name, there)
		}
	} else if got := strings.TrimSpace(b.c.meridian("psql", name, "-n", b.c.space, "--", "-XAtc",
		"select count(*) from places where spot && st_makeenvelope(-180, -90, 180, 90, 4326)")); got != want {
		b.t.Errorf("%s has %q places, want %s", name, got, want)
	}
	own := &failover{t: b.t, c: b.c}
	var primary string
	b.c.until("an application logs in to "+name, time.Minute, func(ctx context.Context) (bool, string) {
		err := own.readSecretOf(ctx, name)
		if err == nil {
			err = own.exec(ctx, "select 1")
		}
		primary = b.status(ctx, name).Primary
		return err == nil, fmt.Sprint(err)
	})
	b.t.Logf("an application has logged in to %s of %s", primary, name)
	b.remove(name)
}

func (b *backed) remove(name string) {
	b.t.Helper()
	b.c.kubectl("-n", b.c.space, "delete", "gdb", name, "--timeout=120s")
}
