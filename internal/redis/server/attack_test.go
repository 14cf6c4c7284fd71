package server_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/render"
	"meridian.dev/meridian/internal/redis/server"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/supervise"
)

// running is a server of its own, at an address of this machine.
type running struct {
	t       *testing.T
	address string
	runner  *server.Runner
	link    *server.Link
}

// start runs a real server. Those of one test have the same port and different addresses, as pods have.
func start(t *testing.T, certificates, address string, port int) *running {
	t.Helper()
	if _, err := exec.LookPath(wire.Engines[0] + "-server"); err != nil {
		t.Skip("there is no redis-server")
	}
	runtime, err := os.MkdirTemp("", "meridian-redis-") // A socket's path is short.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(runtime) })
	mounts := &server.Mounts{TLSFolder: certificates, Installed: filepath.Join(runtime, render.TLSFolder)}
	if err := mounts.InstallCertificate(mounts.Certificate().Mounted); err != nil {
		t.Fatal(err)
	}
	secret := &server.Secret{}
	runner := &server.Runner{
		Supervisor: supervisor(t), Runtime: runtime, Port: port, Listen: address, Secret: secret, Env: os.Environ(),
		Lines: func([]byte) {}, Ended: func() {}, Fresh: func() string { return "i1" }, Patience: 5 * time.Second,
	}
	if err := runner.Start(redis.StartServer{
		Engine: wire.Engines[0], Memory: 32 << 20, Policy: "allkeys-lru",
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runner.Stop(context.Background()) })
	r := &running{t, address, runner, &server.Link{Runtime: runtime, Port: port, Secret: secret, Runner: runner}}
	t.Cleanup(r.link.Close)
	r.await("an answer", func() bool { return r.link.Server(t.Context(), nil, redis.Logins{}).Reachable })
	return r
}

func (r *running) await(what string, seen func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !seen(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s did not come", what)
		}
	}
}

// says is what the server answers to who logs in over the network and says these words.
func (r *running) says(user, password string, words ...any) string {
	r.t.Helper()
	connection := client.NewClient(&client.Options{
		Addr: net.JoinHostPort(r.address, strconv.Itoa(r.link.Port)), Username: user, Password: password, Protocol: 2,
		TLSConfig:       &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		DisableIdentity: true, MaxRetries: -1, DialTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
	})
	defer func() { _ = connection.Close() }()
	if err := connection.Do(r.t.Context(), words...).Err(); err != nil {
		return err.Error()
	}
	return "done"
}

func (r *running) refuses(why, user, password string, lines ...string) {
	r.t.Helper()
	for _, line := range lines {
		var words []any
		for _, word := range strings.Fields(line) {
			words = append(words, word)
		}
		if answer := r.says(user, password, words...); !strings.HasPrefix(answer, why) {
			r.t.Errorf("%s says %q, and the server: %s", user, line, answer)
		}
	}
}

func (r *running) admit(logins redis.Logins) {
	r.t.Helper()
	if err := r.link.Admit(r.t.Context(), "i1", logins); err != nil {
		r.t.Fatal(err)
	}
	if err := r.link.OpenDoor(r.t.Context(), logins); err != nil {
		r.t.Fatal(err)
	}
	if facts := r.link.Server(r.t.Context(), nil, logins); !facts.Admits || !facts.Open || !facts.Matches {
		r.t.Errorf("who can log in is not as said: %+v", facts)
	}
}

// theSupervisor is one for all tests: it reaps every child of this process.
var theSupervisor = sync.OnceValues(supervise.New)

func supervisor(t *testing.T) *supervise.Supervisor {
	t.Helper()
	one, err := theSupervisor()
	if err != nil {
		t.Fatal(err)
	}
	return one
}

func issued(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	mount(t, folder)
	return folder
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

var known = redis.Passwords{Present: "app-secret", Own: "own-secret"}

// TestAttacksOnACache has an application try everything that is not about its data, with its own password and with what
// it can compute from that, and a replica try everything that is about data.
func TestAttacksOnACache(t *testing.T) {
	r := start(t, issued(t), "127.0.0.1", freePort(t))
	r.admit(known.Logins(&wire.CacheSettings{ReplicationAlone: true}))

	if answer := r.says(wire.CacheUser, known.Present, "set", "a", "1"); answer != "done" {
		t.Fatalf("the application cannot work: %s", answer)
	}
	r.refuses("NOPERM", wire.CacheUser, known.Present,
		"psync ? -1", "sync", "replconf listening-port 1", "replicaof 127.0.0.1 1", "slaveof 127.0.0.1 1", "failover",
		"config get requirepass", "config set dir /tmp", "acl list", "acl getuser meridian", "acl setuser app +@all",
		"client list", "client kill user meridian", "module list", "shutdown", "save", "bgsave", "monitor",
		"migrate 127.0.0.1 1 a 0 1", "restore b 0 x", "swapdb 0 1", "slowlog get", "latency latest")
	r.refuses("WRONGPASS", "replica-i1", known.Present, "ping")
	r.refuses("WRONGPASS", "replica-i1", wire.DerivedReplicationPassword(known.Present), "ping", "psync ? -1")
	r.refuses("WRONGPASS", render.AgentUser, known.Present, "ping")
	r.refuses("WRONGPASS", "default", known.Present, "ping")

	if answer := r.says("replica-i1", known.Own, "ping"); answer != "done" {
		t.Errorf("a replica cannot work: %s", answer)
	}
	r.refuses("NOPERM", "replica-i1", known.Own,
		"get a", "set a 2", "del a", "keys *", "scan 0", "flushall", "info", "eval return 0", "fcall f 0",
		"publish a b", "subscribe a", "config get dir", "acl list", "replicaof no one", "client list", "shutdown")
	r.refuses("WRONGPASS", wire.CacheUser, known.Own, "get a")
}

// TestScripts has an application run scripts, while they are allowed and when they are refused. Both are put in force
// in a running server.
func TestScripts(t *testing.T) {
	r := start(t, issued(t), "127.0.0.1", freePort(t))
	scripts := [][]any{
		{"eval", "return 1", "0"}, {"eval_ro", "return 1", "0"}, {"script", "load", "return 1"},
		{"function", "load", "replace", "#!lua name=f\nredis.register_function('f', function() return 1 end)"},
		{"fcall", "f", "0"},
	}
	allowed, refused := known.Logins(nil), known.Logins(&wire.CacheSettings{NoScripts: true})
	for _, logins := range []redis.Logins{allowed, refused, allowed} {
		if r.link.Server(t.Context(), nil, logins).Matches {
			t.Error("a change of scripting is not seen")
		}
		r.admit(logins)
		for _, script := range scripts {
			want := "done"
			if logins.NoScripts {
				want = "NOPERM"
			}
			if answer := r.says(wire.CacheUser, known.Present, script...); !strings.HasPrefix(answer, want) {
				t.Errorf("%v with scripts refused %t: %s", script, logins.NoScripts, answer)
			}
		}
	}
}

// TestPasswordsInTurn rotates the application's password: the next one is accepted before it is told, the one before
// until the next rotation, and nobody who is connected is put out.
func TestPasswordsInTurn(t *testing.T) {
	r := start(t, issued(t), "127.0.0.1", freePort(t))
	for _, step := range []struct {
		passwords redis.Passwords
		accepted  string
		refused   string
	}{
		{redis.Passwords{Present: "p1"}, "p1", "p2 p3"},
		{redis.Passwords{Present: "p1", Next: "p2", Previous: "p1", Rotation: 1}, "p1 p2", "p3"},
		{redis.Passwords{Present: "p2", Next: "p2", Previous: "p1", Rotation: 1}, "p1 p2", "p3"},
		{redis.Passwords{Present: "p2", Next: "p3", Previous: "p2", Rotation: 2}, "p2 p3", "p1"},
	} {
		r.admit(step.passwords.Logins(nil))
		for _, password := range strings.Fields(step.accepted) {
			if answer := r.says(wire.CacheUser, password, "ping"); answer != "done" {
				t.Errorf("%+v: %s is refused: %s", step.passwords, password, answer)
			}
		}
		for _, password := range strings.Fields(step.refused) {
			r.refuses("WRONGPASS", wire.CacheUser, password, "ping")
		}
	}
}

// TestReplicationGetsItsOwnPassword takes a replica from the password that is made from the application's to that of
// replication. The link stays up all the while, and comes up again in every order in which the two learn of it.
func TestReplicationGetsItsOwnPassword(t *testing.T) {
	certificates, port := issued(t), freePort(t)
	primary, replica := start(t, certificates, "127.0.0.1", port), start(t, certificates, "127.0.0.2", port)
	upstream := wire.Member{Name: "tiles-1", Incarnation: "i1"}
	before := redis.Passwords{Present: known.Present}.Logins(nil)
	both, alone := known.Logins(nil), known.Logins(&wire.CacheSettings{ReplicationAlone: true})
	up := func() bool {
		facts, err := replica.link.Replication(t.Context())
		return err == nil && facts.Up
	}
	for name, step := range map[string]struct {
		primary, replica redis.Logins
		turn             int
	}{
		"a primary of before":             {before, both, 0},
		"a replica of before":             {both, before, 0},
		"both know, and both count":       {both, both, 0},
		"the primary learns of it first":  {alone, both, 1},
		"the replica learns of it first":  {both, alone, 0},
		"the one that is derived is gone": {alone, alone, 0},
	} {
		primary.admit(step.primary)
		// The planner tries the passwords in turn.
		for turn, password := range step.replica.Replication {
			if turn < step.turn {
				primary.refuses("WRONGPASS", "replica-i1", password, "ping")
			}
		}
		password := step.replica.Replication[step.turn]
		if err := replica.link.Follow(t.Context(), upstream, primary.address, password); err != nil {
			t.Fatal(err)
		}
		primary.await("a link, when "+name, up)
		primary.admit(alone)
		if !up() {
			t.Errorf("%s: the link was cut when the old password was dropped", name)
		}
	}
}
