package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/plugin/bundle"
)

// hidden must not be found in any output.
const hidden = "hunter2-very-secret"

func TestText(t *testing.T) {
	for name, text := range map[string]string{
		"an address":            "postgresql://app:" + hidden + "@cities-rw:5432/app",
		"a setting":             "primary_conninfo = 'host=a password=" + hidden + " port=5432'",
		"a line of JSON":        `{"msg":"x","password":"` + hidden + `"}`,
		"a statement":           "alter role app password '" + hidden + "'",
		"a header":              "Authorization: Bearer " + hidden,
		"a verifier":            "SCRAM-SHA-256$4096:" + hidden + "==$x:y",
		"a key":                 "-----BEGIN EC PRIVATE KEY-----\n" + hidden + "\n-----END EC PRIVATE KEY-----",
		"a variable of a shell": "PGPASSWORD=" + hidden + " psql",
		"a setting of a cache":  "requirepass: " + hidden,
	} {
		if got := bundle.Text(text); strings.Contains(got, hidden) || !strings.Contains(got, "REDACTED") {
			t.Errorf("%s: %q", name, got)
		}
	}
	const harmless = "cities-1 took the lease at term 3; secretName: cities-tls; no password is needed"
	if got := bundle.Text(harmless); got != harmless {
		t.Errorf("changed a harmless text: %q", got)
	}
}

func TestYAML(t *testing.T) {
	pod := corev1.Pod{}
	pod.Name = "cities-1-0"
	pod.Annotations = map[string]string{
		"kubectl.kubernetes.io/last-applied-configuration": `{"env":"` + hidden + `"}`, "kept": "yes",
	}
	pod.Spec.Containers = []corev1.Container{{
		Name: "side", Env: []corev1.EnvVar{{Name: "API_TOKEN", Value: hidden}, {Name: "LEVEL", Value: "debug"}},
	}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: "cities-tls"},
	}}}
	text, err := bundle.YAML(&pod)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, hidden) {
		t.Errorf("a secret is in\n%s", text)
	}
	for _, want := range []string{"kept: \"yes\"", "value: debug", "secretName: cities-tls", "value: REDACTED"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestWriter(t *testing.T) {
	var file bytes.Buffer
	writer := bundle.New(&file, "cities", time.Unix(0, 0))
	if err := writer.Text("logs/a.log", "password="+hidden); err != nil {
		t.Fatal(err)
	}
	if err := writer.Object("objects/a.yaml", map[string]any{"b": 1}); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	got := unpack(t, &file)
	want := map[string]string{"cities/logs/a.log": "password=REDACTED", "cities/objects/a.yaml": "b: 1\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func unpack(t *testing.T, file io.Reader) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for reader := tar.NewReader(zip); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(content)
	}
}
