//go:build cluster

package cloud_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/backup/store/cloud"
	"meridian.dev/meridian/internal/backup/store/conform"
	"meridian.dev/meridian/internal/wire"
)

const repositoryRoot = "../../../.."

// server is a real server of this machine's, and this test.
type server struct {
	*conform.S3
	t *testing.T
}

func newServer(t *testing.T) *server {
	t.Helper()
	return &server{conform.NewS3(t, repositoryRoot), t}
}

// credentials writes a folder as a Secret is mounted.
func (s *server) credentials() string {
	folder := s.t.TempDir()
	writeCredentials(s.t, folder, map[string]string{cloud.AccessKeyIDFile: s.ID, cloud.SecretAccessKeyFile: s.Secret})
	return folder
}

func (s *server) open(bucket, credentials string) store.Store {
	s.t.Helper()
	opened, err := cloud.Open(cloud.Location{
		Repository: wire.Repository{S3: &wire.S3Bucket{Bucket: bucket, Endpoint: s.URL()}}, Credentials: credentials,
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
	s.Start()
	answers := strings.Join(conform.Answers(t.Context(), s.open("backups", s.credentials()), "prefix/"), "\n") + "\n"
	if diff := cmp.Diff(string(golden), answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// What is wrong at a real server has its class and words that name it, and never a secret.
func TestARealServerRefuses(t *testing.T) {
	s := newServer(t)
	s.Start()
	wrong := t.TempDir()
	writeCredentials(t, wrong, map[string]string{
		cloud.AccessKeyIDFile: s.ID, cloud.SecretAccessKeyFile: "no-secret-of-it",
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
	s.Certificate, s.Key = writeAuthority(t)
	s.Start()
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
	secret("v1", s.ID, s.Secret, s.Certificate)
	must(t, under.PutIfAbsent(ctx, "1", strings.NewReader("1")))
	s.Stop()
	old := s.Certificate
	s.Certificate, s.Key = writeAuthority(t)
	s.ID, s.Secret = "second", "second-secret"
	s.Start()
	if err := under.PutIfAbsent(ctx, "2", strings.NewReader("1")); !store.Is(err, store.Away) {
		t.Errorf("with the authority of another server it ended with %v", err)
	}
	secret("v2", s.ID, s.Secret, s.Certificate)
	must(t, under.PutIfAbsent(ctx, "2", strings.NewReader("1")))
	secret("v3", s.ID, s.Secret, old)
	if err := under.PutIfAbsent(ctx, "3", strings.NewReader("1")); !store.Is(err, store.Away) {
		t.Errorf("with an old authority it ended with %v", err)
	}
}

// A server that dies while it answers leaves an error, and never a short object.
func TestAServerThatDies(t *testing.T) {
	s := newServer(t)
	s.Start()
	under := s.open("backups", s.credentials())
	large := bytes.Repeat([]byte("x"), 64<<20)
	must(t, under.PutIfAbsent(t.Context(), "large", bytes.NewReader(large)))
	reader, err := under.Get(t.Context(), "large")
	must(t, err)
	first := make([]byte, 1<<20)
	_, err = reader.Read(first)
	must(t, err)
	s.Stop()
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
