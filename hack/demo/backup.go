package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/hack/demo/store"
	"meridian.dev/meridian/kit/condition"
)

// thisSecond is what is restored to: it is over, by the clock of the primary, before the mistake is made.
const (
	thisSecond = `select date_trunc('second', clock_timestamp()) + interval '1 second'`
	itIsOver   = `select pg_sleep_until($1::timestamptz + interval '0.1 seconds')`
)

// startStore starts the S3 server that the database will be kept in.
func (d *demo) startStore(ctx context.Context) error {
	if err := d.makeNamespace(ctx); err != nil {
		return err
	}
	if err := d.makeSecrets(ctx); err != nil {
		return err
	}
	if err := kubectl(ctx, "-n", namespace, "apply", "-f", store.Manifest); err != nil {
		return err
	}
	d.say("kubectl apply -f %s: one pod, with TLS, and a volume", store.Manifest)
	return kubectl(ctx, "-n", namespace, "rollout", "status", "deployment/"+store.Name, "--timeout=120s")
}

// makeSecrets leaves those that are there: without the key no backup could be read.
func (d *demo) makeSecrets(ctx context.Context) error {
	secrets, err := store.Secrets(namespace, keyName)
	if err != nil {
		return err
	}
	absent := map[string]bool{}
	for _, secret := range secrets {
		err := d.cluster.Get(ctx, client.ObjectKeyFromObject(secret), &corev1.Secret{})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read the Secret %s: %w", secret.Name, err)
		}
		absent[secret.Name] = apierrors.IsNotFound(err)
	}
	// The certificate and the authority that has signed it were made together, or do not fit.
	if absent[store.Credentials] != absent[store.Certificate] {
		err := kubectl(ctx, "-n", namespace, "delete", "secret", store.Credentials, store.Certificate, "--ignore-not-found")
		if err != nil {
			return err
		}
		absent[store.Credentials], absent[store.Certificate] = true, true
	}
	for _, secret := range secrets {
		if !absent[secret.Name] {
			d.say("Secret %s: there already", secret.Name)
			continue
		}
		if err := d.cluster.Create(ctx, secret); err != nil {
			return fmt.Errorf("make the Secret %s: %w", secret.Name, err)
		}
		d.say("Secret %s: made, at random", secret.Name)
	}
	return nil
}

// restore makes a mistake and finds what was lost in a second database. The mistake is made once: where the second
// database is already, it is only shown.
func (d *demo) restore(ctx context.Context) error {
	key := client.ObjectKey{Namespace: namespace, Name: restoredName}
	err := d.cluster.Get(ctx, key, &v1alpha1.GeoDatabase{})
	switch {
	case apierrors.IsNotFound(err):
		if err := d.awaitRecoverable(ctx); err != nil {
			return err
		}
		moment, err := d.dropTable(ctx)
		if err != nil {
			return err
		}
		args := []string{
			"-n", namespace, "restore", databaseName, "--to", moment.UTC().Format(time.RFC3339), "--as", restoredName,
			"--instances", "1",
		}
		d.say("$ kubectl meridian %s", strings.Join(args, " "))
		args = append(args, "--kubeconfig", kubeconfig, "--timeout", patience.String())
		if err := d.stream(ctx, "bin/kubectl-meridian", args...); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("look for %s: %w", restoredName, err)
	default:
		d.say("%s is there already, of an earlier run, so nothing is dropped; to see it done again, delete it first:",
			restoredName)
		d.say("kubectl -n %s delete gdb %s", namespace, restoredName)
		err := kubectl(ctx, "-n", namespace, "wait", "gdb/"+restoredName, "--for=condition=Ready",
			"--timeout="+patience.String())
		if err != nil {
			return err
		}
	}
	return d.compare(ctx)
}

// awaitRecoverable waits for the first base backup, which was begun when the database had its first data.
func (d *demo) awaitRecoverable(ctx context.Context) error {
	key, said := client.ObjectKey{Namespace: namespace, Name: databaseName}, ""
	for start := time.Now(); ; {
		var database v1alpha1.GeoDatabase
		if err := retry(ctx, func() error { return d.cluster.Get(ctx, key, &database) }); err != nil {
			return fmt.Errorf("read the database %s: %w", databaseName, err)
		}
		found := condition.Find(database.Status.Conditions, v1alpha1.ConditionRecoverable)
		if found != nil && found.Status == "True" {
			if kept := database.Status.Backup; kept != nil {
				d.say("Recoverable: %d base backup in %s, and the log until now", kept.Backups, kept.Repository)
			}
			return nil
		}
		text := "nothing is known of backups yet"
		if found != nil {
			text = found.Reason + ": " + found.Message
		}
		if text != said {
			d.say("[%5.1fs] %s", time.Since(start).Seconds(), text)
			said = text
		}
		if time.Since(start) > patience {
			return fmt.Errorf("no base backup after %s: %s", patience, text)
		}
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
}

// dropTable notes the time, lets it pass, and makes the mistake.
func (d *demo) dropTable(ctx context.Context) (moment time.Time, err error) {
	connection, err := d.connect(ctx, databaseName, "rw")
	if err != nil {
		return moment, err
	}
	defer closing(connection)
	if err := connection.QueryRow(ctx, thisSecond).Scan(&moment); err != nil {
		return moment, fmt.Errorf("ask for the time: %w", err)
	}
	if _, err := connection.Exec(ctx, itIsOver, moment); err != nil {
		return moment, fmt.Errorf("let the second pass: %w", err)
	}
	d.say("it is %s, and all is well", moment.UTC().Format(time.TimeOnly))
	if _, err := connection.Exec(ctx, `drop table city`); err != nil {
		return moment, fmt.Errorf("drop the table: %w", err)
	}
	d.say("drop table city: a mistake, and the replicas have made it too")
	return moment, nil
}

// compare asks both databases, and fails if the second one does not have what was lost.
func (d *demo) compare(ctx context.Context) error {
	for _, database := range []string{databaseName, restoredName} {
		if err := d.look(ctx, database); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) look(ctx context.Context, database string) error {
	connection, err := d.connect(ctx, database, "rw")
	if err != nil {
		return err
	}
	defer closing(connection)
	var table *string
	if err := connection.QueryRow(ctx, `select to_regclass('city')::text`).Scan(&table); err != nil {
		return fmt.Errorf("look for the table in %s: %w", database, err)
	}
	if table == nil {
		d.say("%s: there is no table city", database)
		if database == restoredName {
			return fmt.Errorf("%s lacks what was to be restored", database)
		}
		return nil
	}
	return d.judge(ctx, database, connection)
}

func (d *demo) judge(ctx context.Context, database string, connection *pgx.Conn) error {
	var here, stations int
	err := connection.QueryRow(ctx, `select (select count(*) from city), (select count(*) from station)`).
		Scan(&here, &stations)
	if err != nil {
		return fmt.Errorf("count the rows of %s: %w", database, err)
	}
	d.say("%s: %d cities and %d stations", database, here, stations)
	if database == databaseName {
		return nil
	}
	found, err := theNearest(ctx, connection)
	if err != nil {
		return err
	}
	if here != len(cities) || !slices.Equal(found, d.answer.rows) {
		return fmt.Errorf("%s has %d cities, and the nearest are %v; before it was %d and %v", database, here, found,
			len(cities), d.answer.rows)
	}
	d.list(found)
	d.say("the same as before the mistake; the first database was not touched by this")
	return nil
}
