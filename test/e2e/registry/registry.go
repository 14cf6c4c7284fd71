// Package registry serves images to the nodes of a cluster in a test, behind a password, as private registries do. It
// takes them from the files that the sandbox builds, and knows of the protocol of registries what fetching takes.
// Start reading at Registry.ServeHTTP.
package registry

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
)

// Registry is a handler of requests. It may be asked by many at once.
type Registry struct {
	user, password string
	images         map[string]*archive

	mu      sync.Mutex
	given   map[string]int
	refused int
}

// New makes a registry whose images only this user gets.
func New(user, password string) *Registry {
	return &Registry{user: user, password: password, images: map[string]*archive{}, given: map[string]int{}}
}

// Add takes an image in from its file, under a name with a tag and without a registry: meridian/postgis:17. The file
// stays open for as long as the process lives.
func (r *Registry) Add(name, file string) error {
	opened, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("open an image: %w", err)
	}
	image, err := read(opened)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	r.images[name] = image
	return nil
}

// Given says how often the manifest of an image was given out, to whoever knew the password.
func (r *Registry) Given(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given[name]
}

// Refused says how many requests came without the password.
func (r *Registry) Refused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// ServeHTTP answers like a registry that speaks version 2 of the protocol.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if user, password, _ := request.BasicAuth(); user != r.user || password != r.password {
		r.mu.Lock()
		r.refused++
		r.mu.Unlock()
		w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
		http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
		return
	}
	path := strings.TrimPrefix(request.URL.Path, "/v2/")
	if path == "" {
		return
	}
	if name, reference, found := strings.Cut(path, "/manifests/"); found {
		r.serveManifest(w, request, name, reference)
		return
	}
	if name, digest, found := strings.Cut(path, "/blobs/"); found {
		for tagged, image := range r.images {
			if strings.HasPrefix(tagged, name+":") && image.serve(w, request, digest, "application/octet-stream") {
				return
			}
		}
	}
	http.NotFound(w, request)
}

// serveManifest answers for a tag or for a digest.
func (r *Registry) serveManifest(w http.ResponseWriter, request *http.Request, name, reference string) {
	for tagged, image := range r.images {
		if tagged != name+":"+reference && (!strings.HasPrefix(tagged, name+":") || reference != image.manifest.Digest) {
			continue
		}
		if image.serve(w, request, image.manifest.Digest, image.manifest.MediaType) {
			r.mu.Lock()
			r.given[tagged]++
			r.mu.Unlock()
			return
		}
	}
	http.NotFound(w, request)
}

// archive is an OCI layout in a tar file, of one image.
type archive struct {
	blobs    map[string]section
	manifest descriptor
}

// section is where a blob lies in its file, or in memory.
type section struct {
	in          io.ReaderAt
	begin, size int64
}

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
}

func read(file *os.File) (*archive, error) {
	image := &archive{blobs: map[string]section{}}
	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if digest, found := strings.CutPrefix(header.Name, "blobs/sha256/"); found {
			// The reader has read the header, and nothing of what follows.
			begin, err := file.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			image.blobs["sha256:"+digest] = section{in: file, begin: begin, size: header.Size}
		}
		if header.Name != "index.json" {
			continue
		}
		var index struct {
			Manifests []descriptor `json:"manifests"`
		}
		if err := json.NewDecoder(reader).Decode(&index); err != nil {
			return nil, fmt.Errorf("decode its index: %w", err)
		}
		if len(index.Manifests) > 0 {
			image.manifest = index.Manifests[0]
		}
	}
	return image, image.distinguish()
}

// distinguish makes it another image than the one in the file, by a word in its configuration. A kubelet that has
// fetched an image with a password gives it to nobody without, also under the name by which it was on the node before.
func (a *archive) distinguish() error {
	var manifest, config map[string]any
	if err := a.decode(a.manifest.Digest, &manifest); err != nil {
		return fmt.Errorf("it has no manifest: %w", err)
	}
	of, _ := manifest["config"].(map[string]any)
	digest, _ := of["digest"].(string)
	if err := a.decode(digest, &config); err != nil {
		return fmt.Errorf("it has no configuration: %w", err)
	}
	config["author"] = "a registry with a password"
	text, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode its configuration: %w", err)
	}
	of["digest"], of["size"] = a.keep(text), len(text)
	if text, err = json.Marshal(manifest); err != nil {
		return fmt.Errorf("encode its manifest: %w", err)
	}
	a.manifest.Digest = a.keep(text)
	return nil
}

func (a *archive) decode(digest string, into any) error {
	blob, found := a.blobs[digest]
	if !found {
		return fmt.Errorf("there is no %q", digest)
	}
	return json.NewDecoder(io.NewSectionReader(blob.in, blob.begin, blob.size)).Decode(into)
}

// keep takes another blob in, and returns its digest.
func (a *archive) keep(text []byte) (digest string) {
	digest = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	a.blobs[digest] = section{in: bytes.NewReader(text), size: int64(len(text))}
	return digest
}

// serve answers with a blob, if it is there.
func (a *archive) serve(w http.ResponseWriter, request *http.Request, digest, mediaType string) bool {
	blob, found := a.blobs[digest]
	if !found {
		return false
	}
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Content-Length", fmt.Sprint(blob.size))
	if request.Method != http.MethodHead {
		// A client that goes away in the middle asks again.
		_, _ = io.Copy(w, io.NewSectionReader(blob.in, blob.begin, blob.size))
	}
	return true
}
