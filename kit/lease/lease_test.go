package lease_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/call"
	"meridian.dev/meridian/kit/lease"
)

const path = "/apis/coordination.k8s.io/v1/namespaces/here/leases"

// api is an API server with one lease.
type api struct {
	mutex   sync.Mutex
	object  map[string]any
	version int
	code    int                 // What every call is answered with, if not 0.
	lose    bool                // The answer to a write is lost.
	streams []chan watchedEvent // Open watches.
	cut     chan struct{}       // Closed to cut every watch.
}

type watchedEvent struct {
	Type   string         `json:"type"`
	Object map[string]any `json:"object"`
}

func begin(t *testing.T) (*api, *lease.Client) {
	t.Helper()
	a := &api{version: 7, cut: make(chan struct{}), object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{
			"name": "it", "uid": "u1", "resourceVersion": "7", "finalizers": []any{"example.dev/keep"},
			"annotations": map[string]any{"other": "kept"}, "managedFields": []any{"x"},
		},
		"spec": map[string]any{"strategy": "kept"},
	}}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Cleanup(a.cutAll)
	moment := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
	return a, &lease.Client{
		Server: &call.Server{URL: server.URL, Timeout: 500 * time.Millisecond}, Namespace: "here", Name: "it",
		Annotation: "example.dev/document", Duration: 10 * time.Second, Now: func() time.Time { return moment },
	}
}

// set changes what the server does from now on.
func (a *api) set(change func()) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	change()
}

func (a *api) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	a.mutex.Lock()
	if a.code != 0 {
		defer a.mutex.Unlock()
		out.WriteHeader(a.code)
		return
	}
	if in.URL.Path == path && in.URL.Query().Get("watch") == "true" {
		a.stream(out, in)
		return
	}
	defer a.mutex.Unlock()
	if in.URL.Path != path+"/it" || in.URL.RawQuery != "" {
		out.WriteHeader(http.StatusNotFound)
		return
	}
	if in.Method == http.MethodPut && !a.write(out, in) {
		return
	}
	if a.lose {
		panic(http.ErrAbortHandler)
	}
	_ = json.NewEncoder(out).Encode(a.object)
}

func (a *api) write(out http.ResponseWriter, in *http.Request) bool {
	body, _ := io.ReadAll(in.Body)
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		out.WriteHeader(http.StatusBadRequest)
		return false
	}
	metadata := object["metadata"].(map[string]any)
	if metadata["resourceVersion"] != strconv.Itoa(a.version) {
		out.WriteHeader(http.StatusConflict)
		return false
	}
	a.version++
	metadata["resourceVersion"] = strconv.Itoa(a.version)
	a.object = object
	for _, open := range a.streams {
		open <- watchedEvent{"MODIFIED", a.object}
	}
	return true
}

// stream is called with the lock held.
func (a *api) stream(out http.ResponseWriter, in *http.Request) {
	if in.URL.Query().Get("fieldSelector") != "metadata.name=it" {
		a.mutex.Unlock()
		out.WriteHeader(http.StatusForbidden)
		return
	}
	events, cut := make(chan watchedEvent, 100), a.cut
	events <- watchedEvent{"ADDED", a.object}
	a.streams = append(a.streams, events)
	a.mutex.Unlock()
	for {
		select {
		case event := <-events:
			_ = json.NewEncoder(out).Encode(event)
			_ = http.NewResponseController(out).Flush()
		case <-in.Context().Done():
			return
		case <-cut:
			panic(http.ErrAbortHandler)
		}
	}
}

func (a *api) cutAll() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	close(a.cut)
	a.cut, a.streams = make(chan struct{}), nil
}

func (a *api) send(kind string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	object := maps.Clone(a.object)
	for _, open := range a.streams {
		open <- watchedEvent{kind, object}
	}
}

func TestReadAndWrite(t *testing.T) {
	a, client := begin(t)
	ctx := context.Background()
	read, err := client.Get(ctx)
	if err != nil || read.UID != "u1" || read.Version != "7" || read.Holder != "" || read.Transitions != 0 {
		t.Fatalf("%+v, %v", read, err)
	}
	written, err := client.Update(ctx, read, lease.Change{Holder: "one", Transitions: 3, Document: `{"a":1}`})
	if err != nil {
		t.Fatal(err)
	}
	if written.Version != "8" || written.Holder != "one" || written.Transitions != 3 || written.Document != `{"a":1}` {
		t.Errorf("%+v", written)
	}
	want := map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{
			"name": "it", "uid": "u1", "resourceVersion": "8", "finalizers": []any{"example.dev/keep"},
			"annotations": map[string]any{"other": "kept", "example.dev/document": `{"a":1}`},
		},
		"spec": map[string]any{
			"strategy": "kept", "holderIdentity": "one", "leaseTransitions": 3.0, "leaseDurationSeconds": 10.0,
			"acquireTime": "2030-01-02T03:04:05.000006Z", "renewTime": "2030-01-02T03:04:05.000006Z",
		},
	}
	if diff := cmp.Diff(want, a.object); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	// The value that was read is still what it was.
	if _, err := client.Update(ctx, read, lease.Change{Holder: "two"}); call.OutcomeOf(err) != call.Refused ||
		call.CodeOf(err) != http.StatusConflict {
		t.Errorf("a write at an old version: %v", err)
	}
	released, err := client.Update(ctx, written, lease.Change{Transitions: 3})
	if err != nil || released.Holder != "" || released.Document != "" || released.Version != "9" {
		t.Errorf("%+v, %v", released, err)
	}
}

func TestOutcomes(t *testing.T) {
	a, client := begin(t)
	ctx := context.Background()
	read, err := client.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a.set(func() { a.lose = true })
	if _, err := client.Update(ctx, read, lease.Change{Holder: "one"}); call.OutcomeOf(err) != call.Unknown {
		t.Errorf("a lost answer: %v", err)
	}
	a.set(func() { a.lose = false })
	again, err := client.Get(ctx)
	if err != nil || again.Holder != "one" {
		t.Errorf("the write whose answer was lost was not done: %+v, %v", again, err)
	}
	a.set(func() { a.code = http.StatusInternalServerError })
	if _, err := client.Update(ctx, again, lease.Change{}); call.OutcomeOf(err) != call.Unknown {
		t.Errorf("code 500: %v", err)
	}
	a.set(func() { a.code = http.StatusNotFound })
	if _, err := client.Get(ctx); call.CodeOf(err) != http.StatusNotFound {
		t.Errorf("absent: %v", err)
	}
	if _, err := client.Update(ctx, lease.Lease{Version: "1"}, lease.Change{}); call.OutcomeOf(err) != call.Refused {
		t.Errorf("a lease that was never read: %v", err)
	}
}

// A watch tells of the lease as it is, of changes, and goes on after a cut.
func TestWatch(t *testing.T) {
	a, client := begin(t)
	ctx, cancel := context.WithCancel(context.Background())
	events := make(chan lease.Event, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		client.Watch(ctx, func(event lease.Event) { events <- event })
	}()
	next := func(what string) lease.Event {
		t.Helper()
		select {
		case event := <-events:
			return event
		case <-time.After(5 * time.Second):
			t.Fatalf("waited in vain for %s", what)
			return lease.Event{}
		}
	}
	first := next("the lease")
	if first.Lease.Version != "7" || first.Deleted || first.Problem != nil {
		t.Errorf("%+v", first)
	}
	if _, err := client.Update(ctx, first.Lease, lease.Change{Holder: "one"}); err != nil {
		t.Fatal(err)
	}
	if event := next("a change"); event.Lease.Holder != "one" || event.Lease.Version != "8" {
		t.Errorf("%+v", event)
	}
	a.cutAll()
	if event := next("the cut"); event.Problem == nil {
		t.Errorf("%+v", event)
	}
	if event := next("the lease again"); event.Lease.Version != "8" {
		t.Errorf("%+v", event)
	}
	a.send("DELETED")
	if event := next("the end"); !event.Deleted || event.Lease.UID != "u1" {
		t.Errorf("%+v", event)
	}
	cancel()
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Error("the watch does not end with its context")
	}
}

// A connection that is open and says nothing is begun anew, and shows what was missed.
func TestSilentWatch(t *testing.T) {
	a, client := begin(t)
	client.Duration = 100 * time.Millisecond
	events := make(chan lease.Event, 100)
	go client.Watch(t.Context(), func(event lease.Event) { events <- event })
	if first := <-events; first.Lease.Version != "7" {
		t.Errorf("%+v", first)
	}
	a.set(func() {
		a.streams = nil // The watch that is open will never hear of it.
		a.object["metadata"].(map[string]any)["resourceVersion"] = "8"
	})
	for {
		select {
		case event := <-events:
			if event.Lease.Version == "8" {
				return
			}
		case <-time.After(5 * time.Second):
			t.Fatal("what a dead connection did not tell is never seen")
		}
	}
}
