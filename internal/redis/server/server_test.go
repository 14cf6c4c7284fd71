package server_test

import (
	"crypto/rand"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/render"
	"meridian.dev/meridian/internal/redis/server"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRoom(t *testing.T) {
	for name, test := range map[string]struct {
		file, content string
		want          int64
	}{
		"the newer generation":           {"memory.max", "218103808\n", 218103808},
		"the newer one without a limit":  {"memory.max", "max\n", 0},
		"the older generation":           {"memory/memory.limit_in_bytes", "218103808\n", 218103808},
		"the older one without a limit":  {"memory/memory.limit_in_bytes", "9223372036854771712\n", 0},
		"neither":                        {"other", "1\n", 0},
		"something that is not a number": {"memory.max", "many\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			write(t, filepath.Join(folder, test.file), test.content)
			if got := (&server.Room{Folder: folder}).Limit(); got != test.want {
				t.Errorf("limit %d, want %d", got, test.want)
			}
		})
	}
}

func TestParseLogLine(t *testing.T) {
	for line, want := range map[string]server.LogLine{
		"14:M 15 Nov 2026 20:47:17.283 * Server initialized": {
			Time: time.Date(2026, 11, 15, 20, 47, 17, 283e6, time.UTC), Level: slog.LevelInfo, Message: "Server initialized",
		},
		"14:C 05 Nov 2026 20:47:17.280 # WARNING Memory overcommit": {
			Time: time.Date(2026, 11, 5, 20, 47, 17, 280e6, time.UTC), Level: slog.LevelWarn,
			Message: "WARNING Memory overcommit",
		},
		"*** FATAL CONFIG FILE ERROR (Redis 8.0.2) ***": {Message: "*** FATAL CONFIG FILE ERROR (Redis 8.0.2) ***"},
	} {
		if got := server.ParseLogLine([]byte(line)); got != want {
			t.Errorf("%q is %+v, want %+v", line, got, want)
		}
	}
}

func TestPassword(t *testing.T) {
	mounts := &server.Mounts{AppFolder: t.TempDir()}
	for content, fine := range map[string]bool{"s3cret": true, "": false, "two\nlines": false} {
		write(t, filepath.Join(mounts.AppFolder, wire.KeyPassword), content)
		got, err := mounts.Passwords()
		if fine != (err == nil) || fine && got.Present != content {
			t.Errorf("%q: %v, %v", content, got, err)
		}
		if err != nil && content != "" && strings.Contains(err.Error(), content) {
			t.Errorf("the error tells what was read: %v", err)
		}
	}
}

// The password of before is remembered: the other instances may not have seen the new one yet.
func TestPasswordOfBefore(t *testing.T) {
	mounts := &server.Mounts{AppFolder: t.TempDir()}
	for _, step := range []struct{ content, former string }{
		{"p1", ""}, {"p1", ""}, {"p2", "p1"}, {"p2", "p1"}, {"p3", "p2"},
	} {
		write(t, filepath.Join(mounts.AppFolder, wire.KeyPassword), step.content)
		got, err := mounts.Passwords()
		if err != nil || got != (redis.Passwords{Present: step.content, Former: step.former}) {
			t.Errorf("%s: %+v, %v", step.content, got, err)
		}
	}
}

// A password of replication that is taken out counts until there is another one: without it, the one that is made from
// the application's would count again.
func TestPasswordOfReplicationIsTakenOut(t *testing.T) {
	mounts := &server.Mounts{AppFolder: t.TempDir(), TLSFolder: t.TempDir()}
	write(t, filepath.Join(mounts.AppFolder, wire.KeyPassword), "p")
	for _, step := range []struct{ content, own, former string }{
		{"", "", ""}, {"r1", "r1", ""}, {"", "r1", ""}, {"r2", "r2", "r1"},
	} {
		write(t, filepath.Join(mounts.TLSFolder, wire.KeyReplicationPassword), step.content)
		if got, err := mounts.Passwords(); err != nil || got.Own != step.own || got.OwnFormer != step.former {
			t.Errorf("%q: %+v, %v", step.content, got, err)
		}
	}
}

// A password that somebody writes by hand, because another has leaked, ends both of the rotation before.
func TestPasswordByHand(t *testing.T) {
	mounts := &server.Mounts{AppFolder: t.TempDir(), TLSFolder: t.TempDir()}
	for key, content := range map[string]string{
		wire.KeyNextPassword: "p2", wire.KeyPreviousPassword: "p1", wire.KeyNextRotation: "3",
	} {
		write(t, filepath.Join(mounts.TLSFolder, key), content)
	}
	for content, want := range map[string]redis.Passwords{
		"p1": {Next: "p2", Previous: "p1", Rotation: 3}, "p2": {Next: "p2", Previous: "p1", Rotation: 3}, "hand": {},
	} {
		write(t, filepath.Join(mounts.AppFolder, wire.KeyPassword), content)
		got, err := mounts.Passwords()
		if err != nil || got.Next != want.Next || got.Previous != want.Previous || got.Rotation != want.Rotation {
			t.Errorf("%s: %+v, %v", content, got, err)
		}
	}
}

// It is not remembered for ever, and not for less than it takes until all pods have the new one.
func TestPasswordOfBeforeIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mounts := &server.Mounts{AppFolder: t.TempDir()}
		for _, step := range []struct {
			after           time.Duration
			content, former string
		}{
			{0, "p1", ""}, {time.Hour, "p2", "p1"}, {9 * time.Minute, "p2", "p1"}, {2 * time.Minute, "p2", ""},
			{time.Hour, "p3", "p2"},
		} {
			time.Sleep(step.after)
			write(t, filepath.Join(mounts.AppFolder, wire.KeyPassword), step.content)
			if got, err := mounts.Passwords(); err != nil || got.Present != step.content || got.Former != step.former {
				t.Errorf("%s: %+v, %v", step.content, got, err)
			}
		}
	})
}

// TestCertificate takes a mounted certificate through a renewal, and through a moment in which it cannot be used.
func TestCertificate(t *testing.T) {
	mounts := &server.Mounts{TLSFolder: t.TempDir(), Installed: filepath.Join(t.TempDir(), "tls")}
	if facts := mounts.Certificate(); facts.Mounted != "" || facts.Problem == "" || facts.Installed != "" {
		t.Errorf("without anything: %+v", facts)
	}
	mount(t, mounts.TLSFolder)
	first := mounts.Certificate()
	if first.Mounted == "" || first.Installed != "" {
		t.Fatalf("mounted: %+v", first)
	}
	if err := mounts.InstallCertificate("another"); err == nil {
		t.Error("another certificate than the decided one was installed")
	}
	if err := mounts.InstallCertificate(first.Mounted); err != nil {
		t.Fatal(err)
	}
	installed := mounts.Certificate()
	if installed.Installed != first.Mounted || installed.Leaf == "" {
		t.Errorf("installed: %+v", installed)
	}
	mount(t, mounts.TLSFolder)
	if facts := mounts.Certificate(); facts.Mounted == first.Mounted || facts.Installed != first.Mounted {
		t.Errorf("renewed: %+v", facts)
	}
	write(t, filepath.Join(mounts.TLSFolder, wire.KeyCertificate), "garbage")
	facts := mounts.Certificate()
	if facts.Mounted != "" || facts.Installed != first.Mounted || facts.Leaf != installed.Leaf {
		t.Errorf("spoilt: %+v", facts)
	}
}

// mount makes what the operator would.
func mount(t *testing.T, folder string) {
	t.Helper()
	policy := pki.Policy{
		Name: "test", AuthorityLifetime: 24 * time.Hour, LeafLifetime: time.Hour, Settle: time.Minute, Backdate: time.Minute,
		Leaves: []pki.Profile{{Name: "instance", CommonName: "tiles", DNSNames: []string{"tiles"}, Usage: pki.Server}},
	}
	state, err := pki.Decide(pki.State{}, time.Now(), policy).Apply(pki.State{}, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf, _ := state.Leaf("instance")
	certificate, key, err := leaf.Encode()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, wire.KeyCertificate), string(certificate))
	write(t, filepath.Join(folder, wire.KeyPrivateKey), string(key))
	write(t, filepath.Join(folder, wire.KeyAuthority), string(state.Bundle()))
}

// TestLinkTriesAtOnce has a server that is not there for some calls and then is: the very next call reaches it. A
// client that stands back after failures would keep the cache closed for that long after every start.
func TestLinkTriesAtOnce(t *testing.T) {
	folder := t.TempDir()
	link := &server.Link{Runtime: folder, Secret: &server.Secret{}, Runner: &server.Runner{}}
	defer link.Close()
	for range 10 {
		if facts := link.Server(t.Context(), nil, redis.Logins{}); facts.Reachable || facts.Problem == "" {
			t.Fatalf("without a server: %+v", facts)
		}
	}
	listener, err := net.Listen("unix", filepath.Join(folder, render.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	reached := make(chan struct{})
	go func() {
		if connection, err := listener.Accept(); err == nil {
			_ = connection.Close()
			close(reached)
		}
	}()
	link.Server(t.Context(), nil, redis.Logins{})
	select {
	case <-reached:
	case <-time.After(100 * time.Millisecond):
		t.Error("the server was not tried")
	}
}

// A server that starts finds nothing of the one before, whatever that has left.
func TestStartsWithNothing(t *testing.T) {
	programs, runtime := t.TempDir(), t.TempDir()
	const script = "#!/bin/sh\nls data > seen.tmp\nmv seen.tmp seen\necho old > data/dump.rdb\n"
	if err := os.WriteFile(filepath.Join(programs, "redis-server"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	ended := make(chan struct{}, 1)
	runner := &server.Runner{
		Supervisor: supervisor(t), Runtime: runtime, Secret: &server.Secret{}, Env: os.Environ(), Lines: func([]byte) {},
		Ended: func() { ended <- struct{}{} }, Fresh: func() string { return "i1" },
	}
	for range 2 {
		if err := runner.Start(redis.StartServer{Engine: wire.Engines[0]}); err != nil {
			t.Fatal(err)
		}
		<-ended
		if seen, err := os.ReadFile(filepath.Join(runtime, "seen")); err != nil || len(seen) > 0 {
			t.Errorf("it found %q, %v", seen, err)
		}
	}
	if _, err := os.Stat(filepath.Join(runtime, "data", "dump.rdb")); err != nil {
		t.Errorf("the first one has left nothing, so this shows nothing: %v", err)
	}
}
