package conform

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// S3 is a real server of this machine's, which is ended and begun again on the same data.
type S3 struct {
	t testing.TB
	// Address is where it listens. The others are who may come in, and what it shows, if that is TLS.
	Address                      string
	ID, Secret, Certificate, Key string

	folder, program string
	process         *exec.Cmd
}

// NewS3 builds a server from the root of the project, with the buckets "backups" and "other", and does not start it.
func NewS3(t testing.TB, root string) *S3 {
	t.Helper()
	program := filepath.Join(t.TempDir(), "s3")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false",
		"-ldflags=-s -w", "-o", program, "./s3")
	build.Dir = filepath.Join(root, "test/stores")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the server: %v\n%s", err, said)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return &S3{t: t, program: program, Address: address, folder: t.TempDir(), ID: "first", Secret: "first-secret"}
}

// Start begins it, and waits until it answers.
func (s *S3) Start() {
	s.t.Helper()
	arguments := []string{"-listen", s.Address, "-folder", s.folder, "-buckets", "backups,other"}
	if s.Certificate != "" {
		arguments = append(arguments, "-certificate", s.Certificate, "-key", s.Key)
	}
	s.process = exec.Command(s.program, arguments...)
	s.process.Env = append(s.process.Environ(), "ACCESS_KEY_ID="+s.ID, "SECRET_ACCESS_KEY="+s.Secret)
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said := &bytes.Buffer{}
	s.process.Stdout, s.process.Stderr = said, said
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.Stop)
	trusting := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // It is ours, and is only asked whether it is there.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting}}
	for range 300 {
		answer, err := client.Get(s.URL() + "/healthz")
		if err == nil {
			_ = answer.Body.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatalf("the server does not answer: %s", said)
}

// Stop ends it as a loss of power does.
func (s *S3) Stop() {
	if s.process != nil {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
		s.process = nil
	}
}

// URL is its address with a scheme.
func (s *S3) URL() string {
	if s.Certificate != "" {
		return "https://" + s.Address
	}
	return "http://" + s.Address
}

// Admit asks it, over plain HTTP, for something that drivers never ask for, such as a bucket or the lock of an object.
func (s *S3) Admit(method, path, query, body string, headers ...string) {
	s.t.Helper()
	place := &url.URL{Scheme: "http", Host: s.Address, Path: path, RawQuery: query}
	request, err := http.NewRequestWithContext(s.t.Context(), method, place.String(), strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	now, sum := time.Now().UTC(), sha256.Sum256([]byte(body))
	at, hash := now.Format("20060102T150405Z"), hex.EncodeToString(sum[:])
	signed := map[string]string{
		"host": s.Address, "x-amz-content-sha256": hash, "x-amz-date": at,
		"x-amz-checksum-sha256": base64.StdEncoding.EncodeToString(sum[:]),
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		signed[strings.ToLower(name)] = value
	}
	sorted, lines := slices.Sorted(maps.Keys(signed)), ""
	for _, name := range sorted {
		request.Header.Set(name, signed[name])
		lines += name + ":" + signed[name] + "\n"
	}
	names := strings.Join(sorted, ";")
	scope := now.Format("20060102") + "/us-east-1/s3/aws4_request"
	asked := strings.Join([]string{method, place.EscapedPath(), query, lines, names, hash}, "\n")
	canonical := sha256.Sum256([]byte(asked))
	key := []byte("AWS4" + s.Secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	text := strings.Join([]string{"AWS4-HMAC-SHA256", at, scope, hex.EncodeToString(canonical[:])}, "\n")
	request.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%x",
		s.ID, scope, names, mac(key, text)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	said, _ := io.ReadAll(answer.Body)
	if _ = answer.Body.Close(); answer.StatusCode/100 != 2 {
		s.t.Fatalf("%s %s?%s: %s: %s", method, path, query, answer.Status, said)
	}
}

func mac(key []byte, text string) []byte {
	hash := hmac.New(sha256.New, key)
	hash.Write([]byte(text))
	return hash.Sum(nil)
}
