//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// silentConnections is how many connections that say nothing are kept to each instance. Each is a process with the
// title of the first one until authentication_timeout.
const silentConnections = 40

// stopNodeUnderSilence loses the node of the primary while every instance has connections that say nothing.
func (f *failover) stopNodeUnderSilence() func() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(f.t.Context())
	var kept sync.WaitGroup
	for _, instance := range f.instances() {
		address := net.JoinHostPort(f.pod(instance).Status.PodIP, "5432")
		for range silentConnections {
			kept.Go(func() { keepSilent(ctx, address) })
		}
	}
	time.Sleep(2 * time.Second)
	start := f.stopNode()
	return func() {
		cancel()
		kept.Wait()
		start()
	}
}

// keepSilent keeps a connection that says nothing, and opens another one whenever it is closed.
func keepSilent(ctx context.Context, address string) {
	dialer := net.Dialer{Timeout: time.Second}
	for ctx.Err() == nil {
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		end := context.AfterFunc(ctx, func() { _ = connection.Close() })
		_, _ = connection.Read(make([]byte, 1))
		end()
		_ = connection.Close()
	}
}

// stopCheckpointer stops the checkpointer of the primary: whatever waits for a checkpoint waits for ever.
func (f *failover) stopCheckpointer() (goOn func()) {
	f.t.Helper()
	for _, pid := range f.find().Server {
		title, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if strings.Contains(string(title), "checkpointer") {
			f.signal(syscall.SIGSTOP, pid)
			return func() { f.signal(syscall.SIGCONT, pid) }
		}
	}
	f.t.Fatalf("the server of %s has no checkpointer", f.before)
	return nil
}

// deletePodWithoutCheckpoints deletes the pod of a primary that cannot make a checkpoint. It serves on while it waits
// for one, hands over without, and the process that is stopped ends with the pod.
func (f *failover) deletePodWithoutCheckpoints() func() {
	goOn := f.stopCheckpointer()
	f.deletePod()
	return goOn
}

func (f *failover) drainNodeWithoutCheckpoints() func() {
	goOn := f.stopCheckpointer()
	uncordon := f.drainNode()
	return func() { goOn(); uncordon() }
}
