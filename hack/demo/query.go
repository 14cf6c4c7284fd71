package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// settle is how long a new address may take until every node knows it.
const settle = 20 * time.Second

// tables are made anew by each run, so that a second one finds the same. Stations are made up, spread around the cities
// in the same way each time: enough rows for an index to be worth something.
const tables = `
create table if not exists city (name text primary key, country text not null, place geography(point, 4326) not null);
create table if not exists station (city text not null, number int not null, place geography(point, 4326) not null);
create index if not exists city_place on city using gist (place);
create index if not exists station_place on station using gist (place);
truncate city, station`

const insertStations = `
insert into station
select name, number, st_project(place, 30000 * sqrt(number / 300.0), radians(137.508 * number))
from city, generate_series(1, 300) number`

// nearest is asked of a replica. The point is where the prime meridian crosses the equator.
const nearest = `
select name, country, round(st_distance(place, here) / 1000)::int as km
from city, (select st_point(0, 0, 4326)::geography as here) as point
order by place <-> here
limit 5`

// row and answer are what is found, as it is kept in the cache.
type row struct {
	Name    string `json:"name"`
	Country string `json:"country"`
	KM      int    `json:"km"`
}

type answer struct {
	rows []row
	took time.Duration
}

// binding is a Secret for applications, together with the address that its host has outside of the cluster.
type binding struct {
	data    map[string][]byte
	address string
	trust   *x509.CertPool
}

// bind reads a Secret and a Service. An application in the cluster would take the host from the Secret; out here there
// is no cluster DNS, so the address is looked up, and the certificate is still checked by the name.
func (d *demo) bind(ctx context.Context, secret, service string) (binding, error) {
	var stored corev1.Secret
	if err := d.cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secret}, &stored); err != nil {
		return binding{}, fmt.Errorf("read the Secret %s: %w", secret, err)
	}
	var address corev1.Service
	if err := d.cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &address); err != nil {
		return binding{}, fmt.Errorf("read the Service %s: %w", service, err)
	}
	trust := x509.NewCertPool()
	if !trust.AppendCertsFromPEM(stored.Data["ca.crt"]) {
		return binding{}, fmt.Errorf("the Secret %s has no certificate authority", secret)
	}
	return binding{data: stored.Data, address: address.Spec.ClusterIP, trust: trust}, nil
}

// connect logs in to a database as an application does, through one of its addresses: rw or ro.
func (d *demo) connect(ctx context.Context, database, way string) (connection *pgx.Conn, err error) {
	service := database + "-" + way
	found, err := d.bind(ctx, database+"-app", service)
	if err != nil {
		return nil, err
	}
	config, err := pgx.ParseConfig(string(found.data["uri"]))
	if err != nil {
		return nil, errors.New("the uri in the Secret cannot be read") // The error would print the password.
	}
	config.TLSConfig = &tls.Config{RootCAs: found.trust, ServerName: service, MinVersion: tls.VersionTLS12}
	config.Host, config.Fallbacks, config.ConnectTimeout = found.address, nil, 3*time.Second
	err = retry(ctx, func() (err error) {
		connection, err = pgx.ConnectConfig(ctx, config.Copy())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", service, err)
	}
	return connection, nil
}

// load writes the places through the write address.
func (d *demo) load(ctx context.Context) error {
	connection, err := d.connect(ctx, databaseName, "rw")
	if err != nil {
		return err
	}
	defer closing(connection)
	var count int
	err = pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, tables); err != nil {
			return fmt.Errorf("make the tables: %w", err)
		}
		for _, city := range cities {
			_, err := tx.Exec(ctx, `insert into city values ($1, $2, st_point($3, $4, 4326)::geography)`,
				city.name, city.country, city.longitude, city.latitude)
			if err != nil {
				return fmt.Errorf("insert %s: %w", city.name, err)
			}
		}
		if _, err := tx.Exec(ctx, insertStations); err != nil {
			return fmt.Errorf("make stations: %w", err)
		}
		return tx.QueryRow(ctx, `select count(*) from station`).Scan(&count)
	})
	if err != nil {
		return err
	}
	var instance string
	if err := connection.QueryRow(ctx, `select current_setting('cluster_name')`).Scan(&instance); err != nil {
		return fmt.Errorf("ask who it is: %w", err)
	}
	d.primary = instance
	d.say("%s took %d cities and %d made-up stations around them; before it said yes, a replica had them too",
		instance, len(cities), count)
	return nil
}

// ask sends the query to a replica, once it has what was just written.
func (d *demo) ask(ctx context.Context) error {
	connection, err := d.connect(ctx, databaseName, "ro")
	if err != nil {
		return err
	}
	defer closing(connection)
	start := time.Now()
	err = retry(ctx, func() error {
		var count int
		if err := connection.QueryRow(ctx, `select count(*) from city`).Scan(&count); err != nil {
			return err
		}
		if count != len(cities) {
			return errNotYet
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("wait for the replica: %w", err)
	}
	if waited := time.Since(start); waited > 150*time.Millisecond {
		d.say("the replica had the latest write after %s", seconds(waited))
	}
	var instance, address string
	var replica bool
	const who = `select current_setting('cluster_name'), pg_is_in_recovery(), host(inet_server_addr())`
	err = connection.QueryRow(ctx, who).
		Scan(&instance, &replica, &address)
	if err != nil {
		return fmt.Errorf("ask who it is: %w", err)
	}
	start = time.Now()
	found, err := theNearest(ctx, connection)
	if err != nil {
		return err
	}
	d.answer = answer{rows: found, took: time.Since(start)}
	d.show(instance, address, replica)
	return nil
}

func theNearest(ctx context.Context, connection *pgx.Conn) ([]row, error) {
	rows, err := connection.Query(ctx, nearest)
	if err != nil {
		return nil, fmt.Errorf("ask for the nearest: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[row])
	if err != nil {
		return nil, fmt.Errorf("ask for the nearest: %w", err)
	}
	return found, nil
}

func (d *demo) show(instance, address string, replica bool) {
	for line := range strings.Lines(strings.TrimSpace(nearest)) {
		d.say("  %s", strings.TrimRight(line, "\n"))
	}
	d.say("")
	d.list(d.answer.rows)
	d.say("")
	kind := "the primary, because no replica is near enough"
	if replica {
		kind = "a replica"
	}
	d.say("answered by %s at %s, pg_is_in_recovery() = %t: %s, in %s", instance, address, replica, kind,
		seconds(d.answer.took))
}

func (d *demo) list(rows []row) {
	for _, row := range rows {
		d.say("  %-12s %-14s %5d km", row.Name, row.Country, row.KM)
	}
}

// remember puts the answer into the cache and reads it back.
func (d *demo) remember(ctx context.Context) error {
	found, err := d.bind(ctx, cacheName, cacheName)
	if err != nil {
		return err
	}
	link := redis.NewClient(&redis.Options{
		Addr: found.address + ":" + string(found.data["port"]), Username: string(found.data["username"]),
		Password: string(found.data["password"]), DisableIdentity: true,
		TLSConfig: &tls.Config{RootCAs: found.trust, ServerName: string(found.data["host"]), MinVersion: tls.VersionTLS12},
	})
	defer func() { _ = link.Close() }()
	const key = "nearest:0,0"
	value, err := json.Marshal(d.answer.rows)
	if err != nil {
		return err
	}
	if err := retry(ctx, func() error { return link.Set(ctx, key, value, time.Hour).Err() }); err != nil {
		return fmt.Errorf("write to the cache: %w", err)
	}
	start := time.Now()
	back, err := link.Get(ctx, key).Bytes()
	took := time.Since(start)
	if err != nil {
		return fmt.Errorf("read from the cache: %w", err)
	}
	if string(back) != string(value) {
		return fmt.Errorf("the cache gave %q for %q", back, value)
	}
	d.say("SET %s, then GET: %d bytes came back unchanged in %s, from %s", key, len(back), seconds(took),
		found.data["host"])
	return nil
}

func closing(connection *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = connection.Close(ctx)
}
