//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// geography makes what a map application has: points with an index, a raster, and a small network of roads.
const geography = `
create table if not exists town (id int primary key, at geometry(Point, 4326) not null);
insert into town select g, st_setsrid(st_makepoint(g % 360 - 180, (g / 360) % 180 - 90), 4326)
  from generate_series(1, 20000) g on conflict do nothing;
create index if not exists town_at on town using gist (at);
analyze town;
create table if not exists height (id int primary key, tile raster);
insert into height values (1, st_addband(st_makeemptyraster(10, 10, 0, 0, 1), '8BUI'::text, 42, 0))
  on conflict do nothing;
create table if not exists road (id int primary key, source int, target int, cost float8);
insert into road values (1, 1, 2, 1), (2, 2, 3, 2), (3, 1, 3, 10) on conflict do nothing;`

// questions are asked of every instance. The answer must be what is expected, if that is said, and the same everywhere.
var questions = []struct{ name, sql, want string }{
	{"version", `select postgis_full_version()`, ""},
	{"nearest neighbours", `select string_agg(id::text, ',' order by id) from
  (select id from town order by at <-> st_setsrid(st_makepoint(13.4, 52.5), 4326) limit 5) nearest`, ""},
	{"raster", `select st_value(tile, 5, 5)::text from height where id = 1`, "42"},
	{"route", `select string_agg(node::text, '>' order by seq) from
  pgr_dijkstra('select id, source, target, cost from road', 1, 3, false)`, "1>2>3"},
	{"area", `select round(st_area(st_buffer(st_makepoint(0, 0)::geography, 1000))::numeric, 3)::text`, ""},
}

// checkPostGIS asks the primary and each replica the same.
func (f *failover) checkPostGIS() {
	f.t.Helper()
	if err := f.exec(f.t.Context(), geography); err != nil {
		f.t.Fatalf("make the tables: %v", err)
	}
	answers := map[string]string{}
	for _, instance := range f.instances() {
		connection := f.connectTo(instance)
		for _, question := range questions {
			answer := f.answer(connection, instance, question.sql)
			before, asked := answers[question.name]
			if answer == "" || question.want != "" && answer != question.want || asked && before != answer {
				f.t.Errorf("%s: %s answers %q, want %q, another instance %q",
					question.name, instance, answer, question.want, before)
			}
			answers[question.name] = answer
		}
		f.checkIndex(connection, instance)
		_ = connection.Close(context.Background())
	}
	f.t.Logf("PostGIS answers alike on %d instances: %v", len(f.instances()), answers)
}

// connectTo connects with one instance, once it has replayed what was made.
func (f *failover) connectTo(instance string) *pgx.Conn {
	f.t.Helper()
	config := f.connect.Copy()
	config.Host = f.pod(instance).Status.PodIP
	var connection *pgx.Conn
	f.c.until("the tables are on "+instance, 30*time.Second, func(ctx context.Context) (bool, string) {
		var err error
		if connection, err = pgx.ConnectConfig(ctx, config.Copy()); err != nil {
			return false, err.Error()
		}
		var roads int
		err = connection.QueryRow(ctx, `select count(*) from road`).Scan(&roads)
		if err != nil || roads != 3 {
			_ = connection.Close(ctx)
		}
		return err == nil && roads == 3, fmt.Sprintf("%d roads, %v", roads, err)
	})
	return connection
}

func (f *failover) answer(connection *pgx.Conn, instance, sql string) string {
	f.t.Helper()
	var answer string
	if err := connection.QueryRow(f.t.Context(), sql).Scan(&answer); err != nil {
		f.t.Fatalf("ask %s: %s: %v", instance, sql, err)
	}
	return answer
}

// checkIndex wants the spatial index to be used.
func (f *failover) checkIndex(connection *pgx.Conn, instance string) {
	f.t.Helper()
	rows, err := connection.Query(f.t.Context(),
		`explain select id from town where at && st_makeenvelope(13, 52, 14, 53, 4326)`)
	if err != nil {
		f.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !strings.Contains(strings.Join(lines, "\n"), "town_at") {
		f.t.Errorf("the index is not used on %s: %v\n%s", instance, err, strings.Join(lines, "\n"))
	}
}

// requests counts the requests to the API server about kinds that the agents use, by verb and kind. The leases of the
// nodes are among them: each node renews its own every ten seconds.
func (f *failover) requests() map[string]int {
	f.t.Helper()
	counts := map[string]int{}
	for _, line := range strings.Split(f.c.kubectl("get", "--raw", "/metrics"), "\n") {
		name, value, found := strings.Cut(line, "} ")
		if !found || !strings.HasPrefix(name, "apiserver_request_total{") {
			continue
		}
		for _, kind := range []string{"leases", "endpointslices", "geodatabases", "pods"} {
			if strings.Contains(name, fmt.Sprintf("resource=%q", kind)) {
				var number float64
				if _, err := fmt.Sscan(value, &number); err != nil {
					f.t.Fatal(err)
				}
				counts[label(name, "verb")+" "+kind] += int(number)
			}
		}
	}
	return counts
}

func label(line, name string) string {
	_, after, _ := strings.Cut(line, name+`="`)
	value, _, _ := strings.Cut(after, `"`)
	return value
}

// idleMinute counts what is asked of the API server in a minute in which nobody wants anything, by verb and kind.
func (f *failover) idleMinute() map[string]int {
	f.t.Helper()
	before := f.requests()
	time.Sleep(time.Minute)
	after := f.requests()
	for what := range after {
		after[what] -= before[what]
	}
	return after
}

// measureIdle counts what an idle database asks of the API server in a minute, beyond what was asked without it.
func (f *failover) measureIdle() {
	f.t.Helper()
	for what, count := range f.idleMinute() {
		more := count - f.withoutIt[what]
		if more > 0 {
			f.idle = append(f.idle, fmt.Sprintf("%s %d", what, more))
		}
		// The smallest poll that is worth the name is one agent that asks every ten seconds.
		if more > 5 && strings.HasPrefix(what, "GET ") {
			f.t.Errorf("somebody polls: %s %d times in a minute", what, more)
		}
	}
	if len(f.idle) == 0 {
		f.t.Error("no request was counted, not even renewals of the lease: this measurement sees nothing")
	}
}
