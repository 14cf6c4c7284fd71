//go:build cluster

package cloud_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/backup/store/cloud"
	"meridian.dev/meridian/internal/backup/store/conform"
	"meridian.dev/meridian/internal/wire"
)

const repositoryRoot = "../../../.."

// server is a real server of this machine's, which is ended and begun again on the same data.
type server struct {
	t                *testing.T
	address, folder  string
	id, secret       string
	certificate, key string
	program          string
	process          *exec.Cmd
}

func newServer(t *testing.T) *server {
	t.Helper()
	program := filepath.Join(t.TempDir(), "s3")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false",
		"-ldflags=-s -w", "-o", program, "./s3")
	build.Dir = filepath.Join(repositoryRoot, "test/stores")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, said)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	return &server{t: t, program: program, address: address, folder: t.TempDir(), id: "first", secret: "first-secret"}
}

func (s *server) start() {
	s.t.Helper()
	arguments := []string{"-listen", s.address, "-folder", s.folder, "-buckets", "backups,other"}
	if s.certificate != "" {
		arguments = append(arguments, "-certificate", s.certificate, "-key", s.key)
	}
	s.process = exec.Command(s.program, arguments...)
	s.process.Env = append(os.Environ(), "ACCESS_KEY_ID="+s.id, "SECRET_ACCESS_KEY="+s.secret)
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said := &bytes.Buffer{}
	s.process.Stdout, s.process.Stderr = said, said
	must(s.t, s.process.Start())
	s.t.Cleanup(s.stop)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for range 300 {
		answer, err := client.Get(s.url() + "/healthz")
		if err == nil {
			must(s.t, answer.Body.Close())
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatalf("the server does not answer: %s", said)
}

func (s *server) stop() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

func (s *server) url() string {
	if s.certificate != "" {
		return "https://" + s.address
	}
	return "http://" + s.address
}

// credentials writes a folder as a Secret is mounted.
func (s *server) credentials() string {
	folder := s.t.TempDir()
	writeCredentials(s.t, folder, map[string]string{cloud.AccessKeyIDFile: s.id, cloud.SecretAccessKeyFile: s.secret})
	return folder
}

func (s *server) open(bucket, credentials string) store.Store {
	s.t.Helper()
	opened, err := cloud.Open(cloud.Location{
		Repository: wire.Repository{S3: &wire.S3Bucket{Bucket: bucket, Endpoint: s.url()}}, Credentials: credentials,
	})
	must(s.t, err)
	cloud.SetPage(opened, 2)
	return opened
}

// The same script has the same answers at a real server as at the model and in a folder.
func TestARealServerAnswersAsTheModelDoes(t *testing.T) {
	golden, err := os.ReadFile("../testdata/answers.txt")
	must(t, err)
	s := newServer(t)
	s.start()
	answers := strings.Join(conform.Answers(t.Context(), s.open("backups", s.credentials()), "prefix/"), "\n") + "\n"
	if diff := cmp.Diff(string(golden), answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// What is wrong at a real server has its class and words that name it, and never a secret.
func TestARealServerRefuses(t *testing.T) {
	s := newServer(t)
	s.start()
	wrong := t.TempDir()
	writeCredentials(t, wrong, map[string]string{
		cloud.AccessKeyIDFile: s.id, cloud.SecretAccessKeyFile: "no-secret-of-it",
	})
	for name, c := range map[string]struct {
		under store.Store
		class store.Class
		says  string
	}{
		"a wrong secret":       {s.open("backups", wrong), store.CredentialsRefused, "SignatureDoesNotMatch"},
		"no credentials":       {s.open("backups", t.TempDir()), store.CredentialsRefused, cloud.AccessKeyIDFile},
		"a bucket that is not": {s.open("nobody", s.credentials()), store.Away, "NoSuchBucket"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			_, list := c.under.List(ctx, "x/", "")
			for call, err := range map[string]error{
				"put": c.under.PutIfAbsent(ctx, "x/1", strings.NewReader("1")), "list": list,
				"contact": store.Contact(ctx, c.under, "contact/1"),
			} {
				if !store.Is(err, c.class) || !strings.Contains(fmt.Sprint(err), c.says) {
					t.Errorf("%s ended with %v", call, err)
				}
				if strings.Contains(fmt.Sprint(err), "no-secret-of-it") {
					t.Errorf("%s told the secret", call)
				}
			}
			if absent, err := store.IsAbsent(ctx, c.under, "x/1"); err == nil {
				t.Errorf("absent: %t, although nobody could say", absent)
			}
		})
	}
}

// Credentials and the authority are exchanged without another driver, as a mounted Secret is: by a link to a folder.
func TestCredentialsAreReadAtEachUse(t *testing.T) {
	ctx := t.Context()
	s := newServer(t)
	s.certificate, s.key = writeAuthority(t)
	s.start()
	folder := t.TempDir()
	secret := func(version, id, key, certificate string) {
		authority, err := os.ReadFile(certificate)
		must(t, err)
		must(t, os.Mkdir(filepath.Join(folder, version), 0o700))
		writeCredentials(t, filepath.Join(folder, version), map[string]string{
			cloud.AccessKeyIDFile: id, cloud.SecretAccessKeyFile: key, cloud.AuthorityFile: string(authority),
		})
		must(t, os.Symlink(version, filepath.Join(folder, "..next")))
		must(t, os.Rename(filepath.Join(folder, "..next"), filepath.Join(folder, "..data")))
	}
	under := s.open("backups", folder)
	if err := under.PutIfAbsent(ctx, "0", strings.NewReader("1")); !store.Is(err, store.CredentialsRefused) {
		t.Errorf("without credentials it ended with %v", err)
	}
	secret("v1", s.id, s.secret, s.certificate)
	must(t, under.PutIfAbsent(ctx, "1", strings.NewReader("1")))
	s.stop()
	old := s.certificate
	s.certificate, s.key = writeAuthority(t)
	s.id, s.secret = "second", "second-secret"
	s.start()
	if err := under.PutIfAbsent(ctx, "2", strings.NewReader("1")); !store.Is(err, store.Away) {
		t.Errorf("with the authority of another server it ended with %v", err)
	}
	secret("v2", s.id, s.secret, s.certificate)
	must(t, under.PutIfAbsent(ctx, "2", strings.NewReader("1")))
	secret("v3", s.id, s.secret, old)
	if err := under.PutIfAbsent(ctx, "3", strings.NewReader("1")); !store.Is(err, store.Away) {
		t.Errorf("with an old authority it ended with %v", err)
	}
}

// A server that dies while it answers leaves an error, and never a short object.
func TestAServerThatDies(t *testing.T) {
	s := newServer(t)
	s.start()
	under := s.open("backups", s.credentials())
	large := bytes.Repeat([]byte("x"), 64<<20)
	must(t, under.PutIfAbsent(t.Context(), "large", bytes.NewReader(large)))
	reader, err := under.Get(t.Context(), "large")
	must(t, err)
	first := make([]byte, 1<<20)
	_, err = reader.Read(first)
	must(t, err)
	s.stop()
	rest := 0
	for err == nil {
		var count int
		count, err = reader.Read(first)
		rest += count
	}
	if !store.Is(err, store.Away) || rest >= len(large)-1<<20 {
		t.Errorf("after %d bytes more it ended with %v", rest, err)
	}
	for name, err := range map[string]error{
		"put": under.PutIfAbsent(t.Context(), "x", strings.NewReader("1")), "delete": under.Delete(t.Context(), "x"),
	} {
		if !store.Is(err, store.Away) {
			t.Errorf("%s ended with %v", name, err)
		}
	}
	if absent, err := store.IsAbsent(t.Context(), under, "x"); err == nil {
		t.Errorf("absent: %t, although nobody could say", absent)
	}
}
