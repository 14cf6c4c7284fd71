//go:build cluster

package controller_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/jackc/pgx/v5"

	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
	"meridian.dev/meridian/kit/supervise"
)

// These tests run several real servers of this machine, each at a loopback address of its own. PostgreSQL does not run
// as root, so the test binary runs itself as the user postgres then.
func TestMain(m *testing.M) {
	if os.Getuid() != 0 {
		os.Exit(m.Run())
	}
	os.Exit(asPostgres())
}

func asPostgres() int {
	account, err := user.Lookup("postgres")
	if err != nil {
		fmt.Println("PostgreSQL does not run as root, and there is no user postgres:", err)
		return 1
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	folder, err := os.MkdirTemp("", "meridian-pg-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	own, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	content, err := os.ReadFile(own)
	err = errors.Join(err, os.Chown(folder, uid, gid), os.WriteFile(filepath.Join(folder, "test"), content, 0o755))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	command := exec.Command(filepath.Join(folder, "test"), os.Args[1:]...)
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = append(os.Environ(), "TMPDIR="+folder, "HOME="+folder)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if err := command.Run(); err != nil {
		return 1
	}
	return 0
}

// testPort is that of every server. Another one lets the tests run twice at once on one machine.
var testPort = portOf(os.Getenv("MERIDIAN_TEST_PORT"))

func portOf(text string) uint16 {
	if number, err := strconv.ParseUint(text, 10, 16); err == nil {
		return uint16(number)
	}
	return 15434
}

// rig is several instances of a database, and who tells them what to be.
type rig struct {
	t          *testing.T
	folder     string
	supervisor *supervise.Supervisor
	env        []string
	settings   wire.Settings
	state      pki.State
	all        map[string]*instance
	// system is the system identifier, once known.
	system string
}

// instance is one with its loop. It is the scripted authority as well.
type instance struct {
	*rig
	name, address, folder string
	world                 *server.World
	loop                  *controller.Loop
	told                  chan struct{}
	done                  chan error

	mutex    sync.Mutex
	standing tenure.Standing
	may      error // What MayLead returns.
	confirm  error
	asked    []string
	log      bytes.Buffer

	exclusive sync.Mutex
}

func programs() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_controldata")
	if wanted := os.Getenv("MERIDIAN_TEST_POSTGRES"); wanted != "" {
		return wanted
	}
	if len(found) == 0 {
		return "/usr/bin"
	}
	return filepath.Dir(found[len(found)-1])
}

func newRig(t *testing.T) *rig {
	t.Helper()
	// Once there is a supervisor, it reaps every child.
	output, err := exec.Command(filepath.Join(programs(), "postgres"), "--version").Output()
	must(t, err)
	supervisor, err := supervise.New()
	must(t, err)
	folder, err := os.MkdirTemp("", "rig-")
	must(t, err)
	r := &rig{
		t: t, folder: folder, supervisor: supervisor, all: map[string]*instance{},
		env: []string{"PATH=" + programs() + ":/usr/bin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/tmp"},
	}
	t.Cleanup(func() {
		supervisor.Close()
		_ = os.RemoveAll(folder)
	})
	var major int
	_, err = fmt.Sscanf(string(output), "postgres (PostgreSQL) %d", &major)
	must(t, err)
	r.settings = wire.Settings{
		Version: 1, DatabaseUID: "uid-1", Database: "cities", Major: major, LeaseUID: "l1",
		Application: wire.Application{Database: "geo", Owner: "geo"}, Durability: "Strict",
		Parameters:             []wire.Parameter{{Name: "shared_buffers", Value: "16MB"}},
		MaxReadLagMilliseconds: 10000,
	}.Canonical()
	r.certify()
	return r
}

func (r *rig) certify() {
	policy := pki.Policy{
		Name: "cities", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour, Settle: time.Minute,
		Leaves: []pki.Profile{{
			Name: "instance", CommonName: render.CommonName, DNSNames: []string{"cities-rw", "*.cities-pods", "localhost"},
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Usage: pki.Server | pki.Client,
		}},
	}
	state, err := pki.Decide(r.state, time.Now(), policy).Apply(r.state, rand.Reader)
	must(r.t, err)
	r.state = state
}

// add makes an instance with an empty volume.
func (r *rig) add(number int) *instance {
	r.t.Helper()
	i := &instance{
		rig: r, name: fmt.Sprintf("cities-%d", number), address: fmt.Sprintf("127.0.1.%d", number),
	}
	i.folder = filepath.Join(r.folder, i.name)
	for _, name := range []string{"volume", "run", "settings", "app", "tls"} {
		must(r.t, os.MkdirAll(filepath.Join(i.folder, name), 0o755))
	}
	i.mountCertificate()
	i.write("app", wire.KeyPassword, []byte("secret"))
	i.configure()
	r.all[i.name] = i
	i.start()
	r.t.Cleanup(i.stop)
	return i
}

func (i *instance) mountCertificate() {
	leaf, _ := i.state.Leaf("instance")
	certificate, key, err := leaf.Encode()
	must(i.t, err)
	i.write("tls", wire.KeyCertificate, certificate)
	i.write("tls", wire.KeyPrivateKey, key)
	i.write("tls", wire.KeyAuthority, i.state.Bundle())
}

func (i *instance) configure() {
	document, err := i.settings.Encode()
	must(i.t, err)
	i.write("settings", wire.KeySettings, document)
}

func (i *instance) write(folder, name string, content []byte) {
	i.t.Helper()
	must(i.t, os.WriteFile(filepath.Join(i.folder, folder, name), content, 0o600))
}

func (i *instance) path(parts ...string) string {
	return filepath.Join(append([]string{i.folder}, parts...)...)
}

// start starts an agent.
func (i *instance) start() {
	i.world = server.New(server.Place{
		Volume: i.path("volume"), Runtime: i.path("run"), Settings: i.path("settings"), App: i.path("app"),
		TLS: i.path("tls"), Port: testPort, Supervisor: i.supervisor, Env: i.env,
		Fast: 10 * time.Second, Immediate: 5 * time.Second,
		Lines: func(line []byte) { i.note("postgres: " + strings.ReplaceAll(string(line), "\x1f", "|")) },
	})
	log := funcr.New(func(_, text string) { i.note("agent: " + text) }, funcr.Options{})
	i.loop = controller.New(i.world.Ports(), controller.Identity{
		Instance: i.name, Database: "cities", Runtime: i.path("run"), Listen: i.address, Port: testPort,
		Fresh: func() string { return "id-" + rand.Text()[:12] },
	}, log)
	i.loop.Authority = i
	i.told, i.done = make(chan struct{}), make(chan error, 1)
	loop, told, done := i.loop, i.told, i.done
	go func() { done <- loop.Run(context.Background(), told) }()
}

// stop is the end of the pod.
func (i *instance) stop() {
	if i.loop == nil {
		return
	}
	close(i.told)
	select {
	case <-i.done:
	case <-time.After(time.Minute):
		i.t.Errorf("the loop of %s does not end", i.name)
	}
	i.world.Close()
	i.world.Disk.Unlock()
	i.loop = nil
	if i.t.Failed() {
		i.t.Logf("%s:\n%s", i.name, i.tail())
	}
}

func (i *instance) note(text string) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	fmt.Fprintf(&i.log, "%s %s\n", time.Now().Format("05.000"), text)
}

func (i *instance) tail() string {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	lines := strings.Split(i.log.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-80):], "\n")
}

func (i *instance) logged(text string) bool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return strings.Contains(i.log.String(), text)
}

// MayLead implements tenure.Authority.
func (i *instance) MayLead(serial uint64) error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.asked = append(i.asked, "lead")
	if serial != i.standing.Serial {
		return errors.New("outdated")
	}
	return i.may
}

// Confirm implements tenure.Authority.
func (i *instance) Confirm(_ context.Context, serial uint64) error {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.asked = append(i.asked, "confirm")
	if serial != i.standing.Serial {
		return errors.New("outdated")
	}
	return i.confirm
}

// Exclude implements tenure.Authority.
func (i *instance) Exclude(serial uint64, act func() error) error {
	i.exclusive.Lock()
	defer i.exclusive.Unlock()
	i.mutex.Lock()
	present := i.standing.Serial
	i.mutex.Unlock()
	if present != serial {
		return errors.New("outdated")
	}
	return act()
}

// Places implements tenure.Authority.
func (*instance) Places() []tenure.Place { return nil }

// obey tells an instance what to be.
func (i *instance) obey(standing tenure.Standing) {
	i.exclusive.Lock()
	defer i.exclusive.Unlock()
	i.mutex.Lock()
	standing.Serial = i.standing.Serial + 1
	i.standing = standing
	i.mutex.Unlock()
	i.loop.Obey(standing)
}

// fence is what a ballot does.
func (i *instance) fence() (tenure.Position, error) {
	i.exclusive.Lock()
	defer i.exclusive.Unlock()
	return i.loop.Fence(context.Background())
}

func (i *instance) member() wire.Member {
	return wire.Member{Name: i.name, Incarnation: i.loop.Facts().Incarnation}
}

func (i *instance) await(what string, seen func(tenure.Engine) bool) tenure.Engine {
	i.t.Helper()
	begin := time.Now()
	for time.Since(begin) < 2*time.Minute {
		if facts := i.loop.Facts(); facts.Obeyed == i.standing.Serial && seen(facts) {
			return facts
		}
		time.Sleep(5 * time.Millisecond)
	}
	state, _ := i.loop.State()
	for _, other := range i.all {
		i.t.Logf("%s:\n%s", other.name, other.tail())
	}
	i.t.Fatalf("%s: waited in vain for %s\nfacts %+v\nleading %+v\nreport %+v", i.name, what, i.loop.Facts(),
		i.loop.Facts().Leading, state.Report)
	return tenure.Engine{}
}

// found begins a database on an instance and lets it lead.
func (r *rig) found(i *instance) {
	r.t.Helper()
	i.await("an empty volume", func(e tenure.Engine) bool { return e.Data == tenure.DataNone })
	i.obey(tenure.Standing{Role: tenure.RoleBegin, Term: 1, Incarnation: "first"})
	facts := i.await("the first data", func(e tenure.Engine) bool { return e.SystemIdentifier != "" })
	if facts.Incarnation != "first" || facts.Data != tenure.DataNone || facts.Processes {
		r.t.Fatalf("after the begin: %+v", facts)
	}
	r.system = facts.SystemIdentifier
	r.lead(i, 1, 1, tenure.Setting{}, i.member())
}

// lead makes an instance lead, and opens its gate.
func (r *rig) lead(
	i *instance, term int64, timeline int, setting tenure.Setting, members ...wire.Member,
) tenure.Engine {
	r.t.Helper()
	standing := tenure.Standing{
		Role: tenure.RoleLead, Term: term, Timeline: timeline, Initialised: true, SystemIdentifier: r.system,
		Members: members, Setting: setting,
	}
	i.obey(standing)
	facts := i.await("a primary", func(e tenure.Engine) bool { return e.Leading != nil && e.Leading.Timeline == timeline })
	if facts.Leading.Open {
		r.t.Errorf("%s lets applications in before it was told to", i.name)
	}
	standing.OpenStart = facts.Leading.Start
	i.obey(standing)
	return i.await("an open gate", func(e tenure.Engine) bool { return e.Leading != nil && e.Leading.Open })
}

// follow makes an instance follow another.
func (r *rig) follow(i, upstream *instance, term int64, timeline int, members ...wire.Member) {
	r.t.Helper()
	i.obey(tenure.Standing{
		Role: tenure.RoleFollow, Term: term, Timeline: timeline, Initialised: true, SystemIdentifier: r.system,
		Upstream: upstream.member(), UpstreamAddress: upstream.address, Members: members,
	})
}

func (i *instance) streams() tenure.Engine {
	i.t.Helper()
	return i.await("a stream", func(e tenure.Engine) bool { return e.Streams && e.Data == tenure.DataWhole })
}

// settle tells a primary about its members and its quorum.
func (i *instance) settle(setting tenure.Setting, members ...wire.Member) tenure.Engine {
	i.t.Helper()
	standing := i.standing
	standing.Setting, standing.Members = setting, members
	i.obey(standing)
	return i.await("the quorum", func(e tenure.Engine) bool {
		return e.Leading != nil && e.Leading.Setting != nil && e.Leading.Setting.K == setting.K &&
			slices.Equal(e.Leading.Setting.Names, setting.Names)
	})
}

// dial is an application.
func (i *instance) dial() (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf(
		"host=%s port=%d user=geo dbname=geo sslmode=require connect_timeout=3", i.address, testPort))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(i.state.Bundle())
	config.Password, config.Fallbacks = "secret", nil
	config.TLSConfig = &tls.Config{RootCAs: pool, ServerName: "cities-rw"}
	return pgx.ConnectConfig(context.Background(), config)
}

// execute runs statements as the application, within a time.
func (i *instance) execute(limit time.Duration, statement string) error {
	connection, err := i.dial()
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(context.Background()) }()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_, err = connection.Exec(ctx, statement)
	return err
}

// super is somebody inside the container.
func (i *instance) super(statement string) string {
	i.t.Helper()
	connection, err := pgx.Connect(context.Background(), fmt.Sprintf(
		"host=%s port=%d user=postgres dbname=postgres sslmode=disable", i.path("run"), testPort))
	must(i.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	var text string
	rows, err := connection.Query(context.Background(), statement)
	must(i.t, err)
	for rows.Next() {
		values, err := rows.Values()
		must(i.t, err)
		text += fmt.Sprint(values...) + "\n"
	}
	must(i.t, rows.Err())
	return strings.TrimSpace(text)
}

// inside counts rows of the application's table on any server.
func (i *instance) rows() string {
	i.t.Helper()
	connection, err := pgx.Connect(context.Background(), fmt.Sprintf(
		"host=%s port=%d user=postgres dbname=geo sslmode=disable", i.path("run"), testPort))
	must(i.t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	var text string
	const query = "select coalesce(string_agg(n::text, ',' order by n), '') from t"
	must(i.t, connection.QueryRow(context.Background(), query).Scan(&text))
	return text
}

func (i *instance) postmaster() int {
	content, err := os.ReadFile(i.path("volume", "pgdata", "postmaster.pid"))
	must(i.t, err)
	first, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(first)
	must(i.t, err)
	return pid
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func children(t *testing.T, parent int) []int {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
	must(t, err)
	var found []int
	for _, field := range strings.Fields(string(content)) {
		pid, err := strconv.Atoi(field)
		must(t, err)
		found = append(found, pid)
	}
	return found
}
