package registry_test

import (
	"archive/tar"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"meridian.dev/meridian/test/e2e/registry"
)

// imageFile is an OCI layout with a manifest and a layer.
func imageFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	writer := tar.NewWriter(file)
	for _, entry := range [][2]string{
		{"index.json", `{"manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:aa"}]}`},
		{"blobs/sha256/aa", `{"config": {"digest": "sha256:cc", "size": 4}, "layers": []}`},
		{"blobs/sha256/cc", `{"a": 1}`},
		{"blobs/sha256/bb", "a layer"},
	} {
		header := &tar.Header{Name: entry[0], Mode: 0o644, Size: int64(len(entry[1]))}
		if err := writer.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(writer, entry[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRegistry(t *testing.T) {
	images := registry.New("puller", "secret")
	if err := images.Add("meridian/postgis:17", imageFile(t)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(images)
	defer server.Close()
	const (
		blobs         = "meridian/postgis/blobs/"
		configuration = "sha256:5e48dafcf5031518bb990edc4d7c046521fe5cc42e30b17f9d2eb3394bf10bae"
		config        = `{"a":1,"author":"a registry with a password"}`
		manifest      = `{"config":{"digest":"` + configuration + `","size":45},"layers":[]}`
		tag, digest   = "meridian/postgis/manifests/17", "meridian/postgis/manifests/sha256:" +
			"1b5327f08c19d5acc0c8931903bff3306bc93317e08400bd2aa2ef662cbb18e5"
	)
	for name, test := range map[string]struct {
		path, password, method string
		status                 int
		body                   string
	}{
		"who knows nothing":     {path: "", status: http.StatusUnauthorized},
		"a wrong password":      {path: tag, password: "guess", status: http.StatusUnauthorized},
		"a layer, unknown":      {path: "meridian/postgis/blobs/sha256:bb", status: http.StatusUnauthorized},
		"the version":           {path: "", password: "secret", status: http.StatusOK},
		"a tag":                 {path: tag, password: "secret", status: 200, body: manifest},
		"a digest":              {path: digest, password: "secret", status: 200, body: manifest},
		"a question for a tag":  {path: tag, password: "secret", method: http.MethodHead, status: 200},
		"its configuration":     {path: blobs + configuration, password: "secret", status: 200, body: config},
		"as it was in the file": {path: "meridian/postgis/manifests/sha256:aa", password: "secret", status: 404},
		"a layer":               {path: "meridian/postgis/blobs/sha256:bb", password: "secret", status: 200, body: "a layer"},
		"another tag":           {path: "meridian/postgis/manifests/18", password: "secret", status: http.StatusNotFound},
		"another image":         {path: "postgis/manifests/17", password: "secret", status: http.StatusNotFound},
		"another's layer":       {path: "postgis/blobs/sha256:bb", password: "secret", status: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), test.method, server.URL+"/v2/"+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.password != "" {
				request.SetBasicAuth("puller", test.password)
			}
			response, err := server.Client().Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != test.status {
				t.Fatalf("%s, %v: %s", response.Status, err, body)
			}
			if test.body != "" && string(body) != test.body {
				t.Errorf("the body is %q, want %q", body, test.body)
			}
		})
	}
	if given, refused := images.Given("meridian/postgis:17"), images.Refused(); given != 3 || refused != 3 {
		t.Errorf("%d manifests were given out, want 3; %d requests were refused, want 3", given, refused)
	}
}

func TestNoImage(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.tar")
	if err := os.WriteFile(empty, make([]byte, 1024), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := registry.New("puller", "secret").Add("none", empty); err == nil {
		t.Error("a file without an image is taken in")
	}
}
