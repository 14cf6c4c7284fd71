package metrics

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// statisticsPatience bounds a scrape: a server that hangs gives no figures, and that is all.
	statisticsPatience = 2 * time.Second
	// statisticsAge is how old figures may be, so that several scrapers do not multiply the work.
	statisticsAge = 5 * time.Second
)

// activity is what PostgreSQL counts.
type activity struct {
	Connections, MaxConnections, Waiting                       float64
	Commits, Rollbacks, BlocksHit, BlocksRead                  float64
	Deadlocks, Conflicts, TempBytes, TuplesRead, TuplesWritten float64
	WALBytes, SlotBytes, Replicas                              float64
	OldestTransaction, XidAge                                  float64
}

// statisticsQuery reads views that every version from 15 on has. It asks for the size of nothing: that would take long.
const statisticsQuery = `
select a.connections::float8, current_setting('max_connections')::float8, a.waiting::float8,
  d.commits::float8, d.rollbacks::float8, d.hit::float8, d.read::float8, d.deadlocks::float8, d.conflicts::float8,
  d.temp::float8, d.fetched::float8, d.changed::float8, w.wal_bytes::float8,
  coalesce((select max(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_receive_lsn()
    else pg_current_wal_lsn() end, restart_lsn)) from pg_replication_slots), 0)::float8,
  (select count(*) from pg_stat_replication where state = 'streaming')::float8,
  a.oldest::float8, (select max(age(datfrozenxid)) from pg_database)::float8
from (select count(*) filter (where backend_type = 'client backend') as connections,
    count(*) filter (where backend_type = 'client backend' and wait_event_type = 'Lock') as waiting,
    coalesce(extract(epoch from max(clock_timestamp() - xact_start)
      filter (where backend_type = 'client backend')), 0) as oldest from pg_stat_activity) a,
  (select sum(xact_commit) as commits, sum(xact_rollback) as rollbacks, sum(blks_hit) as hit, sum(blks_read) as read,
    sum(deadlocks) as deadlocks, sum(conflicts) as conflicts, sum(temp_bytes) as temp,
    sum(tup_fetched) as fetched, sum(tup_inserted + tup_updated + tup_deleted) as changed from pg_stat_database) d,
  pg_stat_wal w`

// Statistics are the figures that PostgreSQL keeps itself. It is asked over the local socket in the given folder, when
// somebody scrapes, by the role of the agents that may read figures and nothing else.
func Statistics(folder string, port uint16) prometheus.Collector {
	reader := &statistics{folder: folder, port: port}
	return &collector[activity]{source: reader.read, figures: activityFigures}
}

type statistics struct {
	folder string
	port   uint16

	lock sync.Mutex
	last activity
	at   time.Time
	ok   bool
}

// read keeps one answer for a while. Whoever comes meanwhile waits for the one that asks.
func (s *statistics) read() (activity, bool) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if time.Since(s.at) < statisticsAge {
		return s.last, s.ok
	}
	ctx, cancel := context.WithTimeout(context.Background(), statisticsPatience)
	defer cancel()
	found, err := s.ask(ctx)
	s.last, s.ok, s.at = found, err == nil, time.Now()
	return s.last, s.ok
}

func (s *statistics) ask(ctx context.Context) (activity, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf(
		"host=%s port=%d user=meridian_monitor dbname=postgres sslmode=disable passfile=/dev/null", s.folder, s.port))
	if err != nil {
		return activity{}, fmt.Errorf("connect for figures: %w", err)
	}
	config.Password, config.Fallbacks = "", nil
	config.RuntimeParams = map[string]string{
		"application_name": "meridian-metrics", "search_path": "pg_catalog, pg_temp", "statement_timeout": "2s",
		"default_transaction_read_only": "on",
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return activity{}, fmt.Errorf("connect for figures: %w", err)
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	rows, err := connection.Query(ctx, statisticsQuery)
	if err != nil {
		return activity{}, fmt.Errorf("read figures: %w", err)
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[activity])
}

var activityFigures = []figure[activity]{
	gauge("meridian_postgres_connections", "Connections of clients.", func(a activity) float64 { return a.Connections }),
	gauge("meridian_postgres_connections_max", "How many there can be.",
		func(a activity) float64 { return a.MaxConnections }),
	gauge("meridian_postgres_connections_waiting", "Those that wait for a lock.",
		func(a activity) float64 { return a.Waiting }),
	counter("meridian_postgres_commits_total", "Transactions that were committed.",
		func(a activity) float64 { return a.Commits }),
	counter("meridian_postgres_rollbacks_total", "Transactions that were rolled back.",
		func(a activity) float64 { return a.Rollbacks }),
	counter("meridian_postgres_blocks_hit_total", "Blocks that were found in the buffers.",
		func(a activity) float64 { return a.BlocksHit }),
	counter("meridian_postgres_blocks_read_total", "Blocks that had to be read.",
		func(a activity) float64 { return a.BlocksRead }),
	counter("meridian_postgres_deadlocks_total", "Deadlocks.", func(a activity) float64 { return a.Deadlocks }),
	counter("meridian_postgres_conflicts_total",
		"Queries of a replica that were cancelled, because they held up the replay of WAL.",
		func(a activity) float64 { return a.Conflicts }),
	counter("meridian_postgres_temp_bytes_total", "Bytes that queries wrote to temporary files.",
		func(a activity) float64 { return a.TempBytes }),
	counter("meridian_postgres_rows_fetched_total", "Rows that queries fetched.",
		func(a activity) float64 { return a.TuplesRead }),
	counter("meridian_postgres_rows_changed_total", "Rows that were inserted, updated or deleted.",
		func(a activity) float64 { return a.TuplesWritten }),
	counter("meridian_postgres_wal_bytes_total", "Bytes of WAL that were written.",
		func(a activity) float64 { return a.WALBytes }),
	gauge("meridian_postgres_slot_retained_bytes", "Log that is kept for the replica that is furthest behind.",
		func(a activity) float64 { return a.SlotBytes }),
	gauge("meridian_postgres_replicas_streaming", "Replicas that stream from this instance.",
		func(a activity) float64 { return a.Replicas }),
	gauge("meridian_postgres_oldest_transaction_seconds", "Age of the oldest transaction of a client.",
		func(a activity) float64 { return a.OldestTransaction }),
	gauge("meridian_postgres_xid_age", "Age of the oldest frozen transaction; writes stop at two billion.",
		func(a activity) float64 { return a.XidAge }),
}
