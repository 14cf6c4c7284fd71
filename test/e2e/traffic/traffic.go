// Package traffic writes to a database from outside of its pods, all the time, and keeps what it was told: each
// operation with its begin and end on one clock, and whether it was acknowledged, certainly failed, or nobody knows.
//
// It judges nothing; package checks does. Start reading at Start.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Fate is what became of an operation.
type Fate string

// The fates.
const (
	Acknowledged Fate = "acknowledged"
	// Failed certainly did nothing: it was refused before anything was sent.
	Failed Fate = "failed"
	// Unknown may have been done.
	Unknown Fate = "unknown"
)

// Operation is one write of a number that nobody else writes, or one operation on a register.
type Operation struct {
	Client string
	// ID is what was written: unique over all of a run.
	ID int64
	// Register is the key of a register operation, 0 for an insert. Read says that it was read, as Value.
	Register int
	Read     bool
	Value    int64
	// Begin and End count from the start of the traffic.
	Begin, End time.Duration
	Fate       Fate
	// Timeline and Server tell who has acknowledged an insert.
	Timeline, Server string
	Problem          string
}

// Config is how to reach the database.
type Config struct {
	// Connect makes a connection config for a fresh connection.
	Connect *pgx.ConnConfig
	// Prepare changes the config of each connection before it is made, as an application does that reads its Secret anew;
	// nil for one that does not.
	Prepare func(*pgx.ConnConfig)
	// Fresh and Long are how many clients connect for each write, and how many keep their connection.
	Fresh, Long int
	// Registers is how many clients use registers.
	Registers int
	// Apart keeps what is written apart from another traffic at the same time.
	Apart int64
	// Patience bounds a connection and an operation.
	Patience time.Duration
}

// Traffic is running traffic.
type Traffic struct {
	config Config
	start  time.Time
	next   atomic.Int64
	cancel context.CancelFunc
	done   sync.WaitGroup

	mutex      sync.Mutex
	operations []Operation
}

// Tables makes the tables.
const Tables = `
create table if not exists traffic (id bigint primary key, client text not null);
create table if not exists register (key int primary key, value bigint not null);
insert into register select g, 0 from generate_series(1, 4) g on conflict do nothing;`

// Start begins. The tables must be there.
func Start(ctx context.Context, config Config) *Traffic {
	ctx, cancel := context.WithCancel(ctx)
	t := &Traffic{config: config, start: time.Now(), cancel: cancel}
	t.next.Store(time.Now().UnixMicro() + config.Apart) // Unique over the runs on one database.
	for index := range config.Fresh {
		t.run(ctx, fmt.Sprintf("fresh-%d", index), t.fresh)
	}
	for index := range config.Long {
		t.run(ctx, fmt.Sprintf("long-%d", index), t.long)
	}
	for index := range config.Registers {
		t.run(ctx, fmt.Sprintf("register-%d", index), t.register)
	}
	t.run(ctx, "idle", t.idle)
	return t
}

// Now is the present on the clock of the operations.
func (t *Traffic) Now() time.Duration { return time.Since(t.start) }

// Acknowledged counts the writes that were acknowledged so far.
func (t *Traffic) Acknowledged() int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	count := 0
	for _, operation := range t.operations {
		if operation.Fate == Acknowledged && !operation.Read {
			count++
		}
	}
	return count
}

// Shown counts what a verdict is made of and began after that moment: inserts that were acknowledged, and reads of
// registers that were answered.
func (t *Traffic) Shown(since time.Duration) (writes, reads int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, operation := range t.operations {
		switch {
		case operation.Fate != Acknowledged || operation.Begin < since:
		case operation.Register == 0:
			writes++
		case operation.Read:
			reads++
		}
	}
	return writes, reads
}

// Server is who has acknowledged last, empty if nobody has.
func (t *Traffic) Server() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for index := len(t.operations) - 1; index >= 0; index-- {
		if one := t.operations[index]; one.Fate == Acknowledged && one.Server != "" {
			return one.Server
		}
	}
	return ""
}

// Steady says whether, in that long up to now, writes were acknowledged and none was refused or lost sight of.
func (t *Traffic) Steady(lately time.Duration) bool {
	since := t.Now() - lately
	t.mutex.Lock()
	defer t.mutex.Unlock()
	acknowledged := false
	for index := len(t.operations) - 1; index >= 0 && t.operations[index].End > since; index-- {
		if t.operations[index].Fate != Acknowledged {
			return false
		}
		acknowledged = acknowledged || !t.operations[index].Read
	}
	return acknowledged
}

// Noticed says what clients have seen since that moment that was no success, empty if nothing.
func (t *Traffic) Noticed(since time.Duration) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	count, last := 0, ""
	for index := len(t.operations) - 1; index >= 0 && t.operations[index].End > since; index-- {
		if one := t.operations[index]; one.Fate != Acknowledged {
			count++
			last = fmt.Sprintf("%d operations, the first by %s after %s, which took %s: %s", count, one.Client,
				(one.Begin - since).Round(time.Millisecond), (one.End - one.Begin).Round(time.Millisecond), one.Problem)
		}
	}
	return last
}

// Stop ends the traffic and returns what was done, in the order of the ends.
func (t *Traffic) Stop() []Operation {
	t.cancel()
	t.done.Wait()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.operations
}

func (t *Traffic) run(ctx context.Context, name string, client func(context.Context, string)) {
	t.done.Add(1)
	go func() {
		defer t.done.Done()
		client(ctx, name)
	}()
}

const (
	pause = 10 * time.Millisecond
	// between is before another fresh connection. A handshake and a process of the server for it take far more of the
	// processors, which all nodes share with the clients, than a write.
	between = 100 * time.Millisecond
	// refused is before another attempt to connect. Clients share the processors with all nodes: without it, what they
	// spend on handshakes is what a new primary lacks.
	refused = 100 * time.Millisecond
	// insert tells who writes, and on which timeline, in the same answer as the acknowledgement.
	insert = `insert into traffic (id, client) values ($1, $2)
returning substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), current_setting('cluster_name')`
)

// fresh connects anew for each write.
func (t *Traffic) fresh(ctx context.Context, name string) {
	for ctx.Err() == nil {
		operation := t.begin(name)
		connection, err := t.connect(ctx)
		if err != nil {
			t.end(ctx, operation, err, true)
			sleep(ctx, refused)
			continue
		}
		t.insert(ctx, connection, operation)
		t.close(connection)
		sleep(ctx, between)
	}
}

// long keeps its connection until it breaks.
func (t *Traffic) long(ctx context.Context, name string) {
	var connection *pgx.Conn
	for ctx.Err() == nil {
		operation := t.begin(name)
		if connection == nil || connection.IsClosed() {
			var err error
			if connection, err = t.connect(ctx); err != nil {
				connection = nil
				t.end(ctx, operation, err, true)
				sleep(ctx, refused)
				continue
			}
		}
		if !t.insert(ctx, connection, operation) {
			t.close(connection)
			connection = nil
		}
		sleep(ctx, pause)
	}
	if connection != nil {
		t.close(connection)
	}
}

// idle holds one connection open and does nothing with it, as a pool does.
func (t *Traffic) idle(ctx context.Context, _ string) {
	for ctx.Err() == nil {
		connection, err := t.connect(ctx)
		if err != nil {
			sleep(ctx, 10*pause)
			continue
		}
		// It reads and sends nothing, until the connection breaks.
		_, _ = connection.WaitForNotification(ctx)
		t.close(connection)
	}
}

// register reads and writes single rows, for a check of their order.
func (t *Traffic) register(ctx context.Context, name string) {
	for turn := 0; ctx.Err() == nil; turn++ {
		operation := t.begin(name)
		operation.Register, operation.Read = 1+turn%4, turn%2 == 1
		connection, err := t.connect(ctx)
		if err != nil {
			t.end(ctx, operation, err, true)
			sleep(ctx, 5*pause)
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, t.config.Patience)
		if operation.Read {
			err = connection.QueryRow(bounded, `select value from register where key = $1`, operation.Register).
				Scan(&operation.Value)
		} else {
			operation.Value = operation.ID
			_, err = connection.Exec(bounded, `update register set value = $2 where key = $1`, operation.Register, operation.ID)
		}
		cancel()
		t.end(ctx, operation, err, operation.Read)
		t.close(connection)
		sleep(ctx, 5*pause)
	}
}

func (t *Traffic) begin(client string) Operation {
	return Operation{Client: client, ID: t.next.Add(1), Begin: t.Now()}
}

func (t *Traffic) insert(ctx context.Context, connection *pgx.Conn, operation Operation) bool {
	bounded, cancel := context.WithTimeout(ctx, t.config.Patience)
	defer cancel()
	err := connection.QueryRow(bounded, insert, operation.ID, operation.Client).
		Scan(&operation.Timeline, &operation.Server)
	t.end(ctx, operation, err, false)
	return err == nil
}

// end notes an operation. What was never sent, or was refused with an error of the server before it could commit, has
// certainly failed; everything else is unknown.
func (t *Traffic) end(ctx context.Context, operation Operation, err error, harmless bool) {
	operation.End, operation.Fate = t.Now(), Acknowledged
	if err != nil {
		operation.Fate, operation.Problem = Unknown, err.Error()
		var refused *pgconn.PgError
		if harmless || errors.As(err, &refused) && definite(refused.Code) {
			operation.Fate = Failed
		}
	}
	if ctx.Err() != nil && operation.Fate == Failed {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.operations = append(t.operations, operation)
}

// definite are the classes of errors after which nothing was committed. A shutdown in the middle of a commit (class 57)
// is not among them.
func definite(code string) bool {
	switch code[:2] {
	case "25", "28", "3D", "42":
		return true
	}
	return false
}

func (t *Traffic) connect(ctx context.Context) (*pgx.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, t.config.Patience)
	defer cancel()
	config := t.config.Connect.Copy()
	if t.config.Prepare != nil {
		t.config.Prepare(config)
	}
	return pgx.ConnectConfig(bounded, config)
}

func (t *Traffic) close(connection *pgx.Conn) {
	bounded, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = connection.Close(bounded)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
