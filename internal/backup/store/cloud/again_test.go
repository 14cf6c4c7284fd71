package cloud_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"meridian.dev/meridian/internal/backup/store"
)

// busy is a server of all three kinds, as far as objects in parts go. It does each step three times before it is well:
// at first it refuses, then it does what it is asked and its answer is lost.
type busy struct {
	mutex  sync.Mutex
	tries  map[string]int
	parts  map[string][]byte
	begun  []byte // Of a session of GCS.
	object []byte
	exists bool // From before.
	always bool // It refuses for ever.
}

func (b *busy) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	content, _ := io.ReadAll(request.Body)
	step := request.Method + " " + request.URL.RequestURI() + " " + request.Header.Get("Content-Range")
	b.tries[step]++
	try := b.tries[step]
	if request.Method == http.MethodDelete {
		answer.WriteHeader(http.StatusNoContent)
		return
	}
	if try == 1 && !strings.HasPrefix(request.Header.Get("Content-Range"), "bytes */*") || b.always {
		answer.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	recorder := httptest.NewRecorder()
	b.do(recorder, request, content)
	if try == 2 {
		panic(http.ErrAbortHandler)
	}
	for name, values := range recorder.Header() {
		answer.Header()[name] = values
	}
	answer.WriteHeader(recorder.Code)
	_, _ = answer.Write(recorder.Body.Bytes())
}

func (b *busy) do(answer *httptest.ResponseRecorder, request *http.Request, content []byte) {
	switch query := request.URL.Query(); {
	case request.Method == http.MethodHead || request.Method == http.MethodGet:
		answer.WriteHeader(http.StatusNotFound)
	case query.Has("uploads"):
		_, _ = io.WriteString(answer, uploadBegun)
	case query.Has("partNumber"):
		b.parts[query.Get("partNumber")] = content
	case query.Get("comp") == "block":
		b.parts[query.Get("blockid")] = content
	case query.Get("uploadType") == "resumable":
		answer.Header().Set("Location", "http://"+request.Host+"/session")
	case request.URL.Path == "/session":
		b.session(answer, request.Header.Get("Content-Range"), content)
	case query.Has("uploadId"), query.Get("comp") == "blocklist":
		var list struct {
			Numbers []string `xml:"Part>PartNumber"`
			Blocks  []string `xml:"Uncommitted"`
		}
		if err := xml.Unmarshal(content, &list); err != nil || b.object != nil {
			answer.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		for _, name := range append(list.Numbers, list.Blocks...) {
			b.object = append(b.object, b.parts[name]...)
		}
		_, _ = io.WriteString(answer, "<CompleteMultipartUploadResult/>")
	}
}

// session takes only half of what comes first, as GCS may.
func (b *busy) session(answer *httptest.ResponseRecorder, span string, content []byte) {
	from, to, total := 0, 0, 0
	if _, err := fmt.Sscanf(span, "bytes %d-%d/", &from, &to); err == nil && from == len(b.begun) {
		if len(b.begun) == 0 {
			content = content[:len(content)/2]
		}
		b.begun = append(b.begun, content...)
	}
	_, end, _ := strings.Cut(span, "/")
	if _, err := fmt.Sscan(end, &total); err == nil && len(b.begun) == total {
		if b.exists {
			answer.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		b.object = b.begun
		return
	}
	if len(b.begun) > 0 {
		answer.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(b.begun)-1))
	}
	answer.WriteHeader(http.StatusPermanentRedirect)
}

// Hours of copying do not end with one answer of a server that is busy, and no byte is written twice.
func TestABusyServer(t *testing.T) {
	for kind := range kinds {
		for _, size := range []int{2*store.PartSize + 1000, 2 * store.PartSize} {
			t.Run(fmt.Sprintf("%s %d", kind, size), func(t *testing.T) {
				b := &busy{tries: map[string]int{}, parts: map[string][]byte{}}
				server := httptest.NewServer(b)
				defer server.Close()
				content := bytes.Repeat([]byte("0123456789abcdefg"), size/17+1)[:size]
				err := open(t, kind, server.URL).PutIfAbsent(t.Context(), "x", bytes.NewReader(content))
				// Of a condition it cannot tell who has met it: the caller knows whether the name is its own.
				if err != nil && !store.Is(err, store.Exists) {
					t.Errorf("it ended with %v", err)
				}
				if !bytes.Equal(b.object, content) {
					t.Errorf("the object has %d bytes, not %d, or others", len(b.object), len(content))
				}
				if len(b.tries) < 3 {
					t.Errorf("%v", b.tries)
				}
			})
		}
	}
}

// A server that is busy for ever is given up.
func TestAServerThatStaysBusy(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			b := &busy{tries: map[string]int{}, parts: map[string][]byte{}, always: true}
			server := httptest.NewServer(b)
			defer server.Close()
			content := strings.NewReader(strings.Repeat("x", store.PartSize+1))
			err := open(t, kind, server.URL).PutIfAbsent(t.Context(), "x", content)
			if !store.Is(err, store.Away) || !strings.Contains(err.Error(), "503") {
				t.Errorf("it ended with %v", err)
			}
			for step, tries := range b.tries {
				if tries > 8 {
					t.Errorf("%s: %d times", step, tries)
				}
			}
		})
	}
}
