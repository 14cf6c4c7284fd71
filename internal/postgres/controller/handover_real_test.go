//go:build cluster

package controller_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/tenure"
)

// freezeCheckpointer stops the checkpointer: until it goes on, a checkpoint takes longer than every patience.
func (i *instance) freezeCheckpointer() (goOn func()) {
	i.t.Helper()
	pid, err := strconv.Atoi(i.super("select pid from pg_stat_activity where backend_type = 'checkpointer'"))
	must(i.t, err)
	must(i.t, syscall.Kill(pid, syscall.SIGSTOP))
	goOn = sync.OnceFunc(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	i.t.Cleanup(goOn)
	return goOn
}

// yield tells a primary to give its place away, and returns the facts of its end.
func (i *instance) yield() tenure.Engine {
	i.t.Helper()
	standing := i.standing
	standing.Role, standing.OpenStart = tenure.RoleYield, ""
	i.obey(standing)
	return i.await("a final position", func(e tenure.Engine) bool { return e.Final != nil })
}

// TestYieldWithAStoppedCheckpointer hands over while a checkpoint does not end: the log is all that the target needs.
func TestYieldWithAStoppedCheckpointer(t *testing.T) {
	r, one, two := pair(t)
	one.freezeCheckpointer()
	standing := one.standing
	standing.Prepare = 90
	one.obey(standing)
	one.await("a checkpoint that goes on", func(tenure.Engine) bool { return one.logged("Checkpoint") })
	acknowledged := write(one)

	begin := time.Now()
	facts := one.yield()
	t.Logf("from the order to the end of the log: %s", time.Since(begin))
	if facts.Processes || facts.Leading != nil {
		t.Errorf("facts %+v", facts)
	}
	two.await("all of the log", func(e tenure.Engine) bool {
		return e.Flushed != nil && e.Flushed.Compare(*facts.Final) >= 0
	})
	r.lead(two, 2, 2, tenure.Setting{}, one.member(), two.member())
	t.Logf("until applications are let in: %s", time.Since(begin))
	highest := <-acknowledged
	if highest == 0 {
		t.Fatal("nothing was written before the handover")
	}
	if found := two.rowsOf("w"); found < highest {
		t.Errorf("%d rows on the new primary, %d acknowledged", found, highest)
	}
	r.follow(one, two, 2, 2, one.member(), two.member())
	one.streams()
}

// write inserts rows one by one until the server refuses, and then tells how many were acknowledged.
func write(i *instance) <-chan int {
	i.t.Helper()
	session, err := i.dial()
	must(i.t, err)
	_, err = session.Exec(context.Background(), "create table w (n int)")
	must(i.t, err)
	counted := make(chan int, 1)
	first := make(chan struct{})
	go func() {
		defer func() { _ = session.Close(context.Background()) }()
		number := 0
		for {
			if _, err := session.Exec(context.Background(), fmt.Sprintf("insert into w values (%d)", number)); err != nil {
				counted <- number
				return
			}
			if number++; number == 20 {
				close(first)
			}
		}
	}()
	<-first
	return counted
}

// rowsOf counts the rows of a table of the application.
func (i *instance) rowsOf(table string) int {
	i.t.Helper()
	connection, err := pgx.Connect(context.Background(), fmt.Sprintf(
		"host=%s port=%d user=postgres dbname=geo sslmode=disable", i.path("run"), testPort))
	must(i.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	var rows int
	must(i.t, connection.QueryRow(context.Background(), "select count(*) from "+table).Scan(&rows))
	return rows
}
