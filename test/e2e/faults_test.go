//go:build cluster

package e2e_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	processes "meridian.dev/meridian/test/e2e/faults"
	"meridian.dev/meridian/test/e2e/traffic"
)

func (f *failover) askSwitchover() func() {
	f.c.kubectl("-n", f.c.space, "annotate", "gdb", failoverName, "meridian.dev/switchover=any", "--overwrite")
	return nil
}

func (f *failover) deletePod() func() {
	if err := f.c.Delete(f.t.Context(), f.pod(f.before)); err != nil {
		f.t.Fatal(err)
	}
	return nil
}

// drainNode evicts everything from the node, as before a repair of it: the budget lets one instance go at a time.
func (f *failover) drainNode() func() {
	node := f.node
	f.c.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=90s")
	return func() { f.c.kubectl("uncordon", node) }
}

func (f *failover) find() processes.Instance {
	f.t.Helper()
	found, err := processes.Find(f.c.space, f.before)
	if err != nil {
		f.t.Fatal(err)
	}
	if found.Postmaster == 0 {
		f.t.Fatalf("the server of %s has no process: %+v", f.before, found)
	}
	return found
}

func (f *failover) signal(signal syscall.Signal, pids ...int) {
	f.t.Helper()
	if err := processes.Signal(signal, pids...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *failover) killPostmaster() func() {
	f.signal(syscall.SIGKILL, f.find().Postmaster)
	return nil
}

func (f *failover) killAgent() func() {
	f.signal(syscall.SIGKILL, f.find().Agent)
	return nil
}

func (f *failover) freezeServer() func() {
	found := f.find()
	f.signal(syscall.SIGSTOP, found.Server...)
	return func() { f.signal(syscall.SIGCONT, found.Server...) }
}

func (f *failover) freezePod() func() {
	found := f.find()
	f.signal(syscall.SIGSTOP, found.All()...)
	return func() { f.signal(syscall.SIGCONT, found.All()...) }
}

// number is the number by which the sandbox knows a node.
func (f *failover) number(node string) string { return strings.TrimPrefix(node, "node") }

func (f *failover) stopNode() func() {
	node := f.number(f.node)
	f.c.sandbox("node", "stop", node)
	return func() { f.c.sandbox("node", "start", node) }
}

func (f *failover) cutNode() func() {
	f.startInner()
	node := f.number(f.node)
	f.c.sandbox("node", "cut", node)
	return func() { f.c.sandbox("node", "heal", node) }
}

// cutNodeFromPeers leaves the primary with the API server and without its replicas: it can renew and not acknowledge.
func (f *failover) cutNodeFromPeers() func() {
	node := f.number(f.node)
	f.c.sandbox("node", "cut", node, "--from", "peers")
	return func() { f.c.sandbox("node", "heal", node) }
}

func (f *failover) cutNodeFromAPI() func() {
	node := f.number(f.node)
	f.c.sandbox("node", "cut", node, "--from", "api")
	return func() { f.c.sandbox("node", "heal", node) }
}

func (f *failover) stopAPI() func() {
	f.c.sandbox("apiserver", "stop")
	return func() { f.c.sandbox("apiserver", "start") }
}

// stopAPIWithADeadReplica powers off the node of a replica first. The traffic does not go through that node.
func (f *failover) stopAPIWithADeadReplica() func() {
	for _, instance := range f.instances() {
		if node := f.pod(instance).Spec.NodeName; instance != f.before && node != f.way {
			f.c.sandbox("node", "stop", f.number(node))
			f.c.sandbox("apiserver", "stop")
			return func() {
				f.c.sandbox("apiserver", "start")
				f.c.sandbox("node", "start", f.number(node))
			}
		}
	}
	f.t.Fatal("there is no replica beside the way of the traffic")
	return nil
}

func (f *failover) stopNodeAlone() func() {
	startOperator := f.stopOperator()
	start := f.stopNode()
	return func() {
		start()
		startOperator()
	}
}

// stopOperator takes the operator away, and returns how to bring it back.
func (f *failover) stopOperator() (start func()) {
	f.c.kubectl("-n", operatorNamespace, "scale", "deployment/meridian-operator", "--replicas=0")
	f.c.until("the operator is away", time.Minute, func(ctx context.Context) (bool, string) {
		var pods corev1.PodList
		err := f.c.List(ctx, &pods, client.InNamespace(operatorNamespace),
			client.MatchingLabels{"app.kubernetes.io/component": "operator"})
		return err == nil && len(pods.Items) == 0, fmt.Sprint(len(pods.Items))
	})
	return func() { f.c.kubectl("-n", operatorNamespace, "scale", "deployment/meridian-operator", "--replicas=2") }
}

// TestMain makes this binary be the writer inside the network of a pod, if it is told so.
func TestMain(m *testing.M) {
	if text := os.Getenv(innerVariable); text != "" {
		if err := writeInside(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if err := errors.Join(awaitLeaving(""), endBeside()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// writeInside writes through one open session until it is told to end, and prints what became of each write.
func writeInside(text string) error {
	var config innerConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return err
	}
	connect, err := pgx.ParseConfig(config.URI)
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(config.Authority))
	connect.Host, connect.Fallbacks = config.Host, nil
	connect.TLSConfig = &tls.Config{RootCAs: pool, ServerName: config.ServerName, MinVersion: tls.VersionTLS12}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	epoch := time.Duration(time.Now().UnixNano())
	flow := traffic.Start(ctx, traffic.Config{Connect: connect, Long: 2, Patience: 5 * time.Second})
	for flow.Acknowledged() == 0 && flow.Now() < 10*time.Second {
		time.Sleep(10 * time.Millisecond)
	}
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(out, "begun")
	_ = out.Flush()
	<-ctx.Done()
	for _, operation := range flow.Stop() {
		operation.Begin, operation.End = operation.Begin+epoch, operation.End+epoch
		operation.Client = "inner-" + operation.Client
		document, err := json.Marshal(operation)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, string(document))
	}
	return out.Flush()
}
