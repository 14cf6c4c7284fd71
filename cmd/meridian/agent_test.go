package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInstallCopiesThisBinary(t *testing.T) {
	target := filepath.Join(t.TempDir(), "meridian")
	var stdout, stderr bytes.Buffer
	if code := run([]string{"install", target}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d; stderr: %s", code, &stderr)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.Stat(own)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.Stat(target); err != nil || got.Size() != want.Size() || got.Mode() != 0o755 {
		t.Errorf("installed %v, %v", got, err)
	}
}

func TestAgentSaysWhatThePodMustTell(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run([]string{"agent"}, &stdout, &stderr)
	if code != 1 || !strings.Contains(stderr.String(), "MERIDIAN_INSTANCE") {
		t.Errorf("exit code %d; stderr: %s", code, &stderr)
	}
}
