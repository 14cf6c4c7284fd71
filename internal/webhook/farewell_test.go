package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

// A server that ends answers on, and each answer is the last one on its connection.
func TestFarewell(t *testing.T) {
	var ends atomic.Bool
	server := httptest.NewServer(farewell(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(out, "yes")
	}), &ends))
	defer server.Close()
	for _, ending := range []bool{false, true, true} {
		ends.Store(ending)
		answer, err := server.Client().Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(answer.Body)
		if err != nil || string(content) != "yes" || answer.Close != ending {
			t.Errorf("ending %t: %q, the connection is closed: %t, %v", ending, content, answer.Close, err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
	}
}
