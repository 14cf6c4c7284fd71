//go:build cluster

package agent_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// kubectlVariable holds the command that reaches the sandbox, such as "bin/sandbox kubectl" with a whole path.
const kubectlVariable = "MERIDIAN_TEST_KUBECTL"

// remote is a hand-written instance on the sandbox, in a namespace that enforces the level restricted.
type remote struct {
	t         *testing.T
	kubectl   []string
	namespace string
	settings  wire.Settings
	state     pki.State
}

func (r *remote) run(input string, args ...string) (string, error) {
	words := append(append([]string{}, r.kubectl[1:]...), "--namespace="+r.namespace)
	command := exec.Command(r.kubectl[0], append(words, args...)...)
	command.Stdin = strings.NewReader(input)
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, complaint.String())
	}
	return strings.TrimSpace(string(output)), err
}

func (r *remote) do(input string, args ...string) string {
	r.t.Helper()
	output, err := r.run(input, args...)
	must(r.t, err)
	return output
}

func (r *remote) await(what string, limit time.Duration, seen func() error) time.Duration {
	r.t.Helper()
	begin := time.Now()
	var err error
	for time.Since(begin) < limit {
		if err = seen(); err == nil {
			return time.Since(begin).Round(10 * time.Millisecond)
		}
		time.Sleep(50 * time.Millisecond)
	}
	described, _ := r.run("", "describe", "pod")
	logs, _ := r.run("", "logs", "cities-1-0", "--tail=30")
	r.t.Fatalf("waited in vain for %s: %v\n%s\n%s", what, err, described, logs)
	return 0
}

func (r *remote) object(kind, name string, data map[string]string) string {
	document, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": kind, "metadata": map[string]string{"name": name},
		map[string]string{"Secret": "stringData", "ConfigMap": "data"}[kind]: data,
	})
	must(r.t, err)
	return string(document)
}

func (r *remote) applySettings() {
	r.t.Helper()
	document, err := r.settings.Encode()
	must(r.t, err)
	content := map[string]string{wire.KeySettings: string(document)}
	r.do(r.object("ConfigMap", "cities-settings", content), "apply", "-f", "-")
}

func (r *remote) address() (string, error) {
	address, err := r.run("", "get", "pod", "cities-1-0", "-o", "jsonpath={.status.podIP}")
	if err == nil && address == "" {
		err = fmt.Errorf("the pod has no address")
	}
	return address, err
}

func (r *remote) report() (wire.Report, error) {
	address, err := r.address()
	if err != nil {
		return wire.Report{}, err
	}
	source := func() (pki.Material, error) { return r.state.Material("instance") }
	client := &http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
		TLSClientConfig: pki.ClientConfig(&tls.Config{ServerName: "cities-rw"}, source), DisableKeepAlives: true,
	}}
	response, err := client.Get(fmt.Sprintf("https://%s:%d%s", address, wire.PortAgent, wire.PathReport))
	if err != nil {
		return wire.Report{}, err
	}
	defer func() { _ = response.Body.Close() }()
	document, err := io.ReadAll(response.Body)
	if err != nil {
		return wire.Report{}, err
	}
	return wire.DecodeReport(document)
}

// query is an application: password and verified name.
func (r *remote) query(statement string) (string, error) {
	address, err := r.address()
	if err != nil {
		return "", err
	}
	config, err := pgx.ParseConfig("host=" + address + " user=geo password=remote-secret dbname=geo connect_timeout=2")
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(r.state.Bundle())
	config.TLSConfig, config.Fallbacks = &tls.Config{RootCAs: pool, ServerName: "cities-rw"}, nil
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close(ctx) }()
	var text string
	err = connection.QueryRow(ctx, statement).Scan(&text)
	return text, err
}

func (r *remote) awaitAnswer(what, statement, want string) time.Duration {
	r.t.Helper()
	return r.await(what, time.Minute, func() error {
		got, err := r.query(statement)
		if err == nil && got != want {
			err = fmt.Errorf("%q, want %q", got, want)
		}
		return err
	})
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	command := os.Getenv(kubectlVariable)
	if command == "" {
		t.Skipf("set %s to the command that reaches the sandbox", kubectlVariable)
	}
	r := &remote{t: t, kubectl: strings.Fields(command), namespace: "agent-" + strconv.FormatInt(time.Now().Unix(), 36)}
	r.do("", "create", "namespace", r.namespace)
	t.Cleanup(func() { _, _ = r.run("", "delete", "namespace", r.namespace, "--wait=false") })
	r.do("", "label", "namespace", r.namespace, "pod-security.kubernetes.io/enforce=restricted")
	policy := pki.Policy{
		Name: "cities", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour, Settle: time.Minute,
		Leaves: []pki.Profile{{
			Name: "instance", DNSNames: []string{"cities-rw"}, Usage: pki.Server | pki.Client,
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
		}},
	}
	var err error
	r.state, err = pki.Decide(r.state, time.Now(), policy).Apply(r.state, rand.Reader)
	must(t, err)
	leaf, _ := r.state.Leaf("instance")
	certificate, key, err := leaf.Encode()
	must(t, err)
	r.settings = wire.Settings{
		DatabaseUID: "uid-1", Database: "cities", Major: 17, Application: wire.Application{Database: "geo", Owner: "geo"},
		Extensions: []string{"postgis", "postgis_raster", "pgrouting", "fuzzystrmatch", "postgis_topology"},
		Parameters: []wire.Parameter{{Name: "work_mem", Value: "5MB"}},
	}
	r.applySettings()
	r.do(r.object("Secret", "cities-app", map[string]string{wire.KeyPassword: "remote-secret"}), "apply", "-f", "-")
	r.do(r.object("Secret", "cities-tls", map[string]string{
		wire.KeyCertificate: string(certificate), wire.KeyPrivateKey: string(key),
		wire.KeyAuthority: string(r.state.Bundle()),
	}), "apply", "-f", "-")
	manifest, err := os.ReadFile("testdata/instance.yaml")
	must(t, err)
	r.do(string(manifest), "apply", "-f", "-")
	return r
}

func TestOnTheSandbox(t *testing.T) {
	r := newRemote(t)
	t.Logf("apply to first answer: %s", r.awaitAnswer("an answer", "select 'yes'", "yes"))
	r.await("the identity of the data", time.Minute, func() error {
		report, err := r.report()
		r.settings.SystemIdentifier = report.SystemIdentifier
		if err == nil && report.SystemIdentifier == "" {
			err = fmt.Errorf("report %+v", report)
		}
		return err
	})
	r.settings.Initialised = true
	r.applySettings()
	took := r.await("all extensions", 3*time.Minute, func() error {
		report, err := r.report()
		if err == nil && (report.Reason != "" || len(report.Extensions) != 6) {
			err = fmt.Errorf("report %+v", report)
		}
		return err
	})
	t.Logf("then to all extensions: %s", took)
	version, err := r.query("select postgis_full_version()")
	must(t, err)
	t.Log(version)
	_, err = r.query("create table kept as select 'data' as text")
	if err == nil || !strings.Contains(err.Error(), "no rows") {
		t.Fatalf("create a table: %v", err)
	}

	r.do("", "exec", "cities-1-0", "--", "sh", "-c", "kill -9 $(head -1 /var/lib/meridian/pgdata/postmaster.pid)")
	took = r.awaitAnswer("an answer after the crash", "select text from kept", "data")
	t.Logf("kill -9 of postgres to an answer: %s", took)

	r.settings.Parameters[0].Value = "7MB"
	r.applySettings()
	took = r.await("the new settings", 3*time.Minute, func() error {
		report, err := r.report()
		if err == nil && report.SettingsHash != r.settings.Canonical().Hash() {
			err = fmt.Errorf("report %+v", report)
		}
		return err
	})
	t.Logf("ConfigMap changed to in force (the kubelet's time included): %s", took)
	r.awaitAnswer("the new value", "show work_mem", "7MB")

	const ticks = "cut -d' ' -f14,15 /proc/1/stat"
	begin := time.Now()
	first := r.do("", "exec", "cities-1-0", "--", "sh", "-c", ticks)
	time.Sleep(10 * time.Second)
	last := r.do("", "exec", "cities-1-0", "--", "sh", "-c", ticks)
	t.Logf("processor time of the idle agent, in hundredths of a second (user, system): %s, then %s after %s",
		first, last, time.Since(begin).Round(time.Millisecond))
	used := r.do("", "exec", "cities-1-0", "--", "sh", "-c", "grep -E '^(VmRSS|RssAnon|VmHWM)' /proc/1/status")
	t.Logf("memory of the agent: %s", strings.Join(strings.Fields(used), " "))

	before, err := r.report()
	must(t, err)
	uid := r.do("", "get", "pod", "cities-1-0", "-o", "jsonpath={.metadata.uid}")
	begin = time.Now()
	r.do("", "delete", "pod", "cities-1-0", "--wait=false")
	r.await("a new pod", time.Minute, func() error {
		got, err := r.run("", "get", "pod", "cities-1-0", "-o", "jsonpath={.metadata.uid}")
		if err == nil && got == uid {
			err = fmt.Errorf("it is still the old one")
		}
		return err
	})
	t.Logf("delete of the pod until it is gone: %s", time.Since(begin).Round(10*time.Millisecond))
	r.awaitAnswer("an answer after the delete", "select text from kept", "data")
	t.Logf("delete of the pod to an answer: %s", time.Since(begin).Round(10*time.Millisecond))
	after, err := r.report()
	must(t, err)
	if before.Incarnation != after.Incarnation || before.SystemIdentifier != after.SystemIdentifier {
		t.Errorf("identity changed from %+v to %+v", before, after)
	}
	if logs := r.do("", "logs", "cities-1-0"); !strings.Contains(logs, "stopped cleanly") {
		t.Errorf("the server was not stopped cleanly:\n%s", logs)
	}
}
