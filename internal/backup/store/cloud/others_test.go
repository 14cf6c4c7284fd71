//go:build cluster

package cloud_test

import (
	"bytes"
	"net"
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

// run runs a server until the test ends, and waits until it listens.
func run(t *testing.T, address string, command *exec.Cmd) {
	t.Helper()
	said := &bytes.Buffer{}
	command.Stdout, command.Stderr = said, said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, command.Start())
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for range 600 {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			must(t, connection.Close())
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("nobody listens at %s: %s", address, said)
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func compare(t *testing.T, under store.Store) {
	t.Helper()
	golden, err := os.ReadFile("../testdata/answers.txt")
	must(t, err)
	cloud.SetPage(under, 2)
	answers := strings.Join(conform.Answers(t.Context(), under, "prefix/"), "\n") + "\n"
	if diff := cmp.Diff(string(golden), answers); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// Azure's own emulator, which checks signatures, conditions and blocks: npm install azurite, and name its azurite-blob.
func TestAzureAnswersAsTheModelDoes(t *testing.T) {
	program := os.Getenv("MERIDIAN_TEST_AZURITE")
	if program == "" {
		t.Skip("MERIDIAN_TEST_AZURITE names no azurite-blob")
	}
	address := freeAddress(t)
	host, port, err := net.SplitHostPort(address)
	must(t, err)
	const account = "tester"
	const key = "YSBrZXkgb2YgYSB0ZXN0LCBhbmQgb2Ygbm90aGluZyBlbHNl"
	command := exec.Command(program, "--blobHost", host, "--blobPort", port, "--inMemoryPersistence", "--silent")
	command.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+account+":"+key)
	run(t, address, command)
	connect := func(container, key string) store.Store {
		folder := t.TempDir()
		writeCredentials(t, folder, map[string]string{cloud.AccountKeyFile: key})
		opened, err := cloud.Open(cloud.Location{Credentials: folder, Repository: wire.Repository{Azure: &wire.AzureBucket{
			Account: account, Container: container, Endpoint: "http://" + address + "/" + account,
		}}})
		must(t, err)
		return opened
	}
	must(t, cloud.MakeContainer(t.Context(), connect("backups", key)))
	compare(t, connect("backups", key))
	_, err = connect("backups", "bm90IHRoZSBrZXk=").List(t.Context(), "x", "")
	if !store.Is(err, store.CredentialsRefused) {
		t.Errorf("with another key it ended with %v", err)
	}
	if absent, err := store.IsAbsent(t.Context(), connect("nobody", key), "x"); !store.Is(err, store.Away) {
		t.Errorf("without a container it ended with %t, %v", absent, err)
	}
}

// A server that speaks Google's API; the tokens come from a server of this test, which knows the key of the account.
func TestGCSAnswersAsTheModelDoes(t *testing.T) {
	if os.Getenv("MERIDIAN_TEST_GCS") == "" {
		t.Skip("MERIDIAN_TEST_GCS is not set: the server takes minutes to build")
	}
	program := filepath.Join(t.TempDir(), "gcs")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false",
		"-ldflags=-s -w", "-o", program, "./gcs")
	build.Dir = filepath.Join(repositoryRoot, "test/stores")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, said)
	}
	address := freeAddress(t)
	run(t, address, exec.Command(program, "-listen", address))
	folder := t.TempDir()
	writeCredentials(t, folder, map[string]string{cloud.ServiceAccountFile: serviceAccount(t, tokenServer(t))})
	connect := func(bucket string) store.Store {
		repository := wire.Repository{GCS: &wire.GCSBucket{Bucket: bucket, Endpoint: "http://" + address}}
		opened, err := cloud.Open(at(repository, folder))
		must(t, err)
		return opened
	}
	compare(t, connect("backups"))
	if absent, err := store.IsAbsent(t.Context(), connect("nobody"), "x"); !store.Is(err, store.Away) {
		t.Errorf("without a bucket it ended with %t, %v", absent, err)
	}
}
