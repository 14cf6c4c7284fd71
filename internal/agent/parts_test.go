package agent_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/agent"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// next waits for an event.
func next(t *testing.T, events <-chan tenure.Event) tenure.Event {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(10 * time.Second):
		t.Fatal("nothing happens")
		return nil
	}
}

func TestVolume(t *testing.T) {
	folder := t.TempDir()
	volume := agent.NewVolume(folder)
	if stored, err := volume.Load(); err != nil || stored.DatabaseUID != "" {
		t.Errorf("an empty volume: %+v, %v", stored, err)
	}
	want := tenure.Stored{
		Version: 1, DatabaseUID: "d", LeaseUID: "l", MaxTerm: 7, Fence: &tenure.Fence{LeaseUID: "l", Version: "5"},
	}
	for range 2 {
		if err := volume.Store(want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := agent.NewVolume(folder).Load(); err != nil || !cmp.Equal(want, got) {
		t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 1 {
		t.Errorf("drafts were left: %v", entries)
	}
	if err := volume.Store(tenure.Stored{}); err == nil {
		t.Error("what belongs to no database was stored")
	}
	// What cannot be understood is not taken for nothing.
	if err := os.WriteFile(filepath.Join(folder, "tenure.json"), []byte(`{"version": 9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if stored, err := volume.Load(); err == nil {
		t.Errorf("%+v", stored)
	}
	if err := agent.NewVolume(filepath.Join(folder, "absent")).Store(want); err == nil {
		t.Error("stored in a folder that is not there")
	}
}

func TestWishes(t *testing.T) {
	settings, problem := wire.Settings{}, os.ErrNotExist
	wishes := agent.NewWishes(func() (wire.Settings, error) { return settings, problem })
	if uid, policy := wishes.Look(); uid != "" || policy.Known || policy.Duration != 10*time.Second {
		t.Errorf("%q, %+v", uid, policy)
	}
	problem = nil
	settings = wire.Settings{
		DatabaseUID: "d", LeaseUID: "l", Durability: "Async", LeaseMilliseconds: 5000, Instances: []string{"a"},
		MaxFailoverLagBytes: -1,
	}
	want := tenure.Policy{
		Known: true, LeaseUID: "l", Durability: tenure.Async, Instances: []string{"a"}, Duration: 5 * time.Second,
		Renew: time.Second, Margin: time.Second,
	}
	uid, policy := wishes.Look()
	if diff := cmp.Diff(want, policy); diff != "" || uid != "d" {
		t.Errorf("%q (-want +got):\n%s", uid, diff)
	}
}

// material issues a certificate of one authority for each name.
func material(t *testing.T, profiles ...pki.Profile) pki.State {
	t.Helper()
	policy := pki.Policy{
		Name: "cities", AuthorityLifetime: 1000 * time.Hour, LeafLifetime: 100 * time.Hour, Settle: time.Minute,
		Leaves: profiles,
	}
	state, err := pki.Decide(pki.State{}, time.Now(), policy).Apply(pki.State{}, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func instanceProfile() pki.Profile {
	return pki.Profile{
		Name: "instance", CommonName: "meridian:instance", DNSNames: []string{"*.pods"}, Usage: pki.Server | pki.Client,
	}
}

// Two agents speak with each other: a request comes in as an event, and its reply goes back.
func TestPeers(t *testing.T) {
	state := material(t, instanceProfile())
	source := func() (pki.Material, error) { return state.Material("instance") }
	there, here := make(chan tenure.Event, 10), make(chan tenure.Event, 10)
	server := agent.NewPeers(source, "0", there)
	address, stop := server.Listen(t, "127.0.0.1:0")
	_, port, _ := net.SplitHostPort(address)
	client := agent.NewPeers(source, port, here)
	request := wire.PeerRequest{
		PeerHeader: wire.PeerHeader{Version: 1, DatabaseUID: "d", From: wire.Member{Name: "a"}}, Kind: wire.PeerTell,
		To: wire.Member{Name: "b"},
	}
	exchange := func(address string) {
		t.Helper()
		client.Send(request, address, 7)
		asked := next(t, there).(tenure.PeerAsked)
		if diff := cmp.Diff(request, asked.Request.PeerRequest); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
		server.Reply(asked.Request.ID, wire.PeerReply{Yes: true, LSN: 5})
		replied, ok := next(t, here).(tenure.PeerReplied)
		if !ok || !replied.Reply.Yes || replied.Reply.LSN != 5 || replied.Sent != 7 || replied.Request.To.Name != "b" {
			t.Errorf("replied %+v", replied)
		}
	}
	exchange("127.0.0.1")
	exchange("127.0.0.1")
	// Nobody answers in time; a late answer goes nowhere.
	client.Send(request, "127.0.0.1", 7)
	asked := next(t, there).(tenure.PeerAsked)
	if lost, ok := next(t, here).(tenure.PeerLost); !ok || lost.Request.To.Name != "b" {
		t.Errorf("lost %+v", lost)
	}
	server.Reply(asked.Request.ID, wire.PeerReply{})
	// After a failure the name is tried, which nobody knows here, and then the address again.
	client.Send(request, "127.0.0.1", 7)
	if _, ok := next(t, here).(tenure.PeerLost); !ok {
		t.Error("a name that nobody knows was resolved")
	}
	exchange("127.0.0.1")
	stop()
	client.Send(request, "127.0.0.1", 7)
	if _, ok := next(t, here).(tenure.PeerLost); !ok {
		t.Error("a reply without a server")
	}
}

// Each path is open to those whom it is for.
func TestDoors(t *testing.T) {
	state := material(t, instanceProfile(),
		pki.Profile{Name: "operator", CommonName: "meridian:operator", Usage: pki.Client},
		pki.Profile{Name: "other", CommonName: "meridian:other", Usage: pki.Client},
		pki.Profile{Name: "b", CommonName: "meridian:instance", DNSNames: []string{"b.pods"}, Usage: pki.Server | pki.Client})
	events := make(chan tenure.Event, 10)
	source := func() (pki.Material, error) { return state.Material("instance") }
	door := agent.NewPeers(source, "0", events)
	address, stop := door.Listen(t, "127.0.0.1:0")
	defer stop()
	const wish = `{"id":"1"}`
	asks := func(from string) string {
		document, err := wire.PeerRequest{
			PeerHeader: wire.PeerHeader{DatabaseUID: "db", From: wire.Member{Name: from}}, Kind: wire.PeerPlace,
			To: wire.Member{Name: "a"},
		}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return string(document)
	}
	// The loop accepts the first wish, refuses the second, replies to one message, and does not hear of others.
	go func() {
		for range 3 {
			switch asked := (<-events).(type) {
			case tenure.SwitchoverAsked:
				door.Decide(asked.ID, wire.SwitchoverReply{Accepted: asked.Switchover.ID == "1", Why: "because"})
			case tenure.PeerAsked:
				door.Reply(asked.Request.ID, wire.PeerReply{})
			}
		}
	}()
	for name, test := range map[string]struct {
		leaf, method, path, body string
		want                     int
	}{
		"a message of an operator":     {"operator", http.MethodPost, wire.PathPeer, "{}", http.StatusForbidden},
		"a message of somebody":        {"other", http.MethodPost, wire.PathPeer, "{}", http.StatusForbidden},
		"a message without sense":      {"instance", http.MethodPost, wire.PathPeer, "{}", http.StatusBadRequest},
		"a message of an instance":     {"b", http.MethodPost, wire.PathPeer, asks("b"), http.StatusOK},
		"a message in another's name":  {"b", http.MethodPost, wire.PathPeer, asks("c"), http.StatusForbidden},
		"a switchover of an instance":  {"instance", http.MethodPost, wire.PathSwitchover, wish, http.StatusForbidden},
		"a switchover of the operator": {"operator", http.MethodPost, wire.PathSwitchover, wish, http.StatusAccepted},
		"a switchover that is refused": {"operator", http.MethodPost, wire.PathSwitchover, `{"id":"2"}`, http.StatusConflict},
		"a switchover without an id":   {"operator", http.MethodPost, wire.PathSwitchover, `{}`, http.StatusBadRequest},
		"a report for somebody":        {"other", http.MethodGet, wire.PathReport, "", http.StatusForbidden},
		"a report for the operator":    {"operator", http.MethodGet, wire.PathReport, "", http.StatusServiceUnavailable},
	} {
		source := func() (pki.Material, error) { return state.Material(test.leaf) }
		client := &http.Client{Transport: &http.Transport{
			TLSClientConfig: pki.ClientConfig(&tls.Config{ServerName: "x.pods"}, source),
		}}
		request, err := http.NewRequest(test.method, "https://"+address+test.path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_ = response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%s: %d, want %d", name, response.StatusCode, test.want)
		}
	}
	if len(events) != 0 {
		t.Errorf("%d events more", len(events))
	}
}

// api is an API server with one EndpointSlice, one lease and one pod.
type api struct {
	mutex   sync.Mutex
	objects map[string]map[string]any
	code    int
	calls   int
	bodies  []string
}

// answer answers everything with this code; 0 answers as usual.
func (a *api) answer(code int) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.code = code
}

func (a *api) count() int {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.calls
}

func newAPI(t *testing.T) (*api, agent.APIOptions) {
	t.Helper()
	a := &api{objects: map[string]map[string]any{}}
	server := httptest.NewTLSServer(a)
	t.Cleanup(server.Close)
	folder := t.TempDir()
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, content := range map[string]string{"token": "secret\n", "ca.crt": certificate} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	return a, agent.APIOptions{Host: host, Port: port, Folder: folder}
}

func (a *api) ServeHTTP(out http.ResponseWriter, in *http.Request) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	body, _ := io.ReadAll(in.Body)
	a.calls++
	if in.Header.Get("Authorization") != "Bearer secret" {
		out.WriteHeader(http.StatusUnauthorized)
		return
	}
	if a.code != 0 {
		out.WriteHeader(a.code)
		return
	}
	object := a.objects[in.URL.Path]
	if object == nil {
		out.WriteHeader(http.StatusNotFound)
		return
	}
	metadata := object["metadata"].(map[string]any)
	switch in.Method {
	case http.MethodPut:
		var written map[string]any
		_ = json.Unmarshal(body, &written)
		if written["metadata"].(map[string]any)["resourceVersion"] != metadata["resourceVersion"] {
			out.WriteHeader(http.StatusConflict)
			return
		}
		version, _ := strconv.Atoi(metadata["resourceVersion"].(string))
		written["metadata"].(map[string]any)["resourceVersion"] = strconv.Itoa(version + 1)
		a.objects[in.URL.Path] = written
		object = written
	case http.MethodPatch:
		a.bodies = append(a.bodies, in.Header.Get("Content-Type")+" "+string(body))
	}
	_ = json.NewEncoder(out).Encode(object)
}

func (a *api) put(path, document string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var object map[string]any
	if err := json.Unmarshal([]byte(document), &object); err != nil {
		panic(err)
	}
	a.objects[path] = object
}

const slicePath = "/apis/discovery.k8s.io/v1/namespaces/here/endpointslices/cities-rw"

// The write address of a later term is never overwritten, nor is one written without the right to.
func TestRoute(t *testing.T) {
	const here, there = "10.0.0.1", "10.0.0.9"
	for name, test := range map[string]struct {
		term, address string
		may           bool
		want          tenure.RouteSeen
	}{
		"never written":   {`{}`, here, true, tenure.RouteSeen{Known: true, Address: here, Term: 3}},
		"an earlier term": {`{"meridian.dev/term":"2"}`, here, true, tenure.RouteSeen{Known: true, Address: here, Term: 3}},
		"a later term":    {`{"meridian.dev/term":"4"}`, here, true, tenure.RouteSeen{Known: true, Address: there, Term: 4}},
		"no right":        {`{}`, here, false, tenure.RouteSeen{Known: true, Address: there}},
		"no sense":        {`{"meridian.dev/term":"x"}`, here, true, tenure.RouteSeen{}},
		"closed":          {`{"meridian.dev/term":"3"}`, "", false, tenure.RouteSeen{Known: true, Term: 3}},
		"closed too late": {`{"meridian.dev/term":"4"}`, "", false, tenure.RouteSeen{Known: true, Address: there, Term: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			a, options := newAPI(t)
			a.put(slicePath, fmt.Sprintf(`{"metadata":{"resourceVersion":"1","annotations":%s,"labels":{"kept":"yes"}},
				"endpoints":[{"addresses":["10.0.0.9"]}],"ports":[{"port":5432}]}`, test.term))
			events := make(chan tenure.Event, 10)
			around := agent.NewSurroundings(t, options, func(int64) bool { return test.may }, events)
			around.WriteRoute(test.address, 3)
			if got := next(t, events); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
			if test.want == (tenure.RouteSeen{}) {
				return
			}
			around.ReadRoute()
			if got := next(t, events); got != test.want {
				t.Errorf("read %+v, want %+v", got, test.want)
			}
			object := a.objects[slicePath]
			if object["metadata"].(map[string]any)["labels"].(map[string]any)["kept"] != "yes" || object["ports"] == nil {
				t.Errorf("something was lost: %v", object)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	a, options := newAPI(t)
	events := make(chan tenure.Event, 10)
	around := agent.NewSurroundings(t, options, nil, events)
	around.WriteLabels("primary", true, "", 0)
	if got := next(t, events); got != (tenure.Labelled{Role: "primary", Read: true}) {
		t.Errorf("a pod that is not there: %+v", got)
	}
	a.put("/api/v1/namespaces/here/pods/cities-1-0", `{"metadata":{"resourceVersion":"1"}}`)
	around.WriteLabels("primary", true, "", 0)
	if got := next(t, events); got != (tenure.Labelled{Done: true, Role: "primary", Read: true}) {
		t.Errorf("%+v", got)
	}
	want := `application/merge-patch+json {"metadata":{"annotations":{"meridian.dev/cut-off":null,` +
		`"meridian.dev/volume-use":null},"labels":{"meridian.dev/read":"true","meridian.dev/role":"primary"},"uid":"p1"}}`
	if len(a.bodies) != 1 || a.bodies[0] != want {
		t.Errorf("sent %q", a.bodies)
	}
	around.WriteLabels("replica", true, "x", 85)
	if got := next(t, events); got != (tenure.Labelled{Done: true, Role: "replica", Read: true, Cut: "x", Use: 85}) {
		t.Errorf("%+v", got)
	}
	if !strings.Contains(a.bodies[1], `"meridian.dev/cut-off":"x","meridian.dev/volume-use":"85"`) {
		t.Errorf("sent %q", a.bodies)
	}
}

// What pods say of not reaching the primary is read from those that are there.
func TestCuts(t *testing.T) {
	a, options := newAPI(t)
	events := make(chan tenure.Event, 10)
	around := agent.NewSurroundings(t, options, nil, events)
	cut := wire.CutOff{
		Member: wire.Member{Name: "cities-2", Incarnation: "i2"}, Holder: wire.Member{Name: "cities-1", Incarnation: "i1"},
		Term: 3, LeaseVersion: "700",
	}
	a.put("/api/v1/namespaces/here/pods/cities-2-0", fmt.Sprintf(
		`{"metadata":{"resourceVersion":"1","annotations":{"meridian.dev/cut-off":%q}}}`, cut.Encode()))
	a.put("/api/v1/namespaces/here/pods/cities-3-0", `{"metadata":{"resourceVersion":"1"}}`)
	around.ReadCuts([]string{"cities-2", "cities-3", "cities-4"})
	if diff := cmp.Diff(tenure.CutsSeen{Cuts: []wire.CutOff{cut}}, next(t, events)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A write address that is not there is known to be so.
func TestRouteAbsent(t *testing.T) {
	_, options := newAPI(t)
	events := make(chan tenure.Event, 10)
	around := agent.NewSurroundings(t, options, func(int64) bool { return true }, events)
	for _, look := range []func(){around.ReadRoute, func() { around.WriteRoute("10.0.0.1", 3) }} {
		look()
		if got := next(t, events); got != (tenure.RouteSeen{Known: true, Absent: true}) {
			t.Errorf("%+v", got)
		}
	}
}

const (
	claimPath = "/api/v1/namespaces/here/persistentvolumeclaims/cities-1"
	podPath   = "/api/v1/namespaces/here/pods/cities-1-0"
)

// The claim of the volume is read once; the copy's own is what a user may vouch for, by the UID of that very claim.
func TestClaim(t *testing.T) {
	for name, test := range map[string]struct {
		claim, pod string
		want       postgres.Claim
	}{
		"there": {`{"metadata":{"uid":"k1"}}`, `{"metadata":{"uid":"p1"}}`, postgres.Claim{UID: "k1"}},
		"accepted": {
			`{"metadata":{"uid":"k1","annotations":{"meridian.dev/accept-copy":"k1"}}}`, `{"metadata":{"uid":"p1"}}`,
			postgres.Claim{UID: "k1", Accepted: true},
		},
		"accepted as another, such as by an annotation from a backup": {
			`{"metadata":{"uid":"k2","annotations":{"meridian.dev/accept-copy":"k1"}}}`, `{"metadata":{"uid":"p1"}}`,
			postgres.Claim{UID: "k2"},
		},
		"of the pod that has taken the place of this one": {
			`{"metadata":{"uid":"k2"}}`, `{"metadata":{"uid":"p2"}}`, postgres.Claim{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, options := newAPI(t)
			a.put(claimPath, test.claim)
			a.put(podPath, test.pod)
			told := make(chan struct{}, 10)
			claims := agent.NewClaims(t, options, func() { told <- struct{}{} })
			if got := claims.Look("k1"); got != (postgres.Claim{Asked: true}) {
				t.Errorf("before the first answer: %+v", got)
			}
			life, end := context.WithCancel(t.Context())
			defer end()
			go claims.Learn(life)
			<-told
			if got := claims.Look(test.want.UID); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// An API server that does not answer, and an operator that gave no right, hold nothing up; a user's word is looked for
// only while the claim is not the one that was recorded.
func TestClaimUnknown(t *testing.T) {
	a, options := newAPI(t)
	a.put(claimPath, `{"metadata":{"uid":"k2"}}`)
	a.put(podPath, `{"metadata":{"uid":"p1"}}`)
	a.answer(http.StatusForbidden)
	told := make(chan struct{}, 10)
	claims := agent.NewClaims(t, options, func() { told <- struct{}{} })
	learned := make(chan struct{})
	go func() {
		claims.Learn(t.Context())
		close(learned)
	}()
	<-told
	if got := claims.Look("k1"); got != (postgres.Claim{}) {
		t.Errorf("refused: %+v", got)
	}
	a.answer(0)
	<-told
	<-learned
	calls := a.count()
	if got := claims.Look("k2"); got != (postgres.Claim{UID: "k2"}) || a.count() != calls {
		t.Errorf("%+v after %d calls, %d before", got, a.count(), calls)
	}
	a.put(claimPath, `{"metadata":{"uid":"k2","annotations":{"meridian.dev/accept-copy":"k2"}}}`)
	claims.Due()
	if got := claims.Look("k1"); got != (postgres.Claim{UID: "k2"}) {
		t.Errorf("a look waits for nothing: %+v", got)
	}
	<-told
	if got := claims.Look("k1"); got != (postgres.Claim{UID: "k2", Accepted: true}) {
		t.Errorf("%+v", got)
	}
}

const leasePath = "/apis/coordination.k8s.io/v1/namespaces/here/leases/cities-primary"

func TestLeases(t *testing.T) {
	a, options := newAPI(t)
	events := make(chan tenure.Event, 10)
	leases := agent.NewLeases(t, options, events)
	leases.Read(5)
	if diff := cmp.Diff(tenure.Event(tenure.LeaseRead{Began: 5}), next(t, events)); diff != "" {
		t.Errorf("absent (-want +got):\n%s", diff)
	}
	a.put(leasePath, `{"metadata":{"uid":"u","resourceVersion":"9"},"spec":{}}`)
	record := wire.LeaseRecord{
		Version: 1, DatabaseUID: "d", Term: 1, Timeline: 1, W: 1, Members: []wire.Member{{Name: "a", Incarnation: "i"}},
	}
	write := tenure.Write{Version: "9", Holder: record.Members[0], Record: record}
	leases.Write(write)
	want := tenure.LeaseWritten{Verdict: tenure.WriteDone, View: tenure.View{
		UID: "u", Version: "10", Holder: record.Members[0], Term: 1, Record: &record, Duration: time.Second,
	}}
	if diff := cmp.Diff(want, next(t, events)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	verdict := func(change func()) tenure.Verdict {
		change()
		leases.Write(write)
		return next(t, events).(tenure.LeaseWritten).Verdict
	}
	if got := verdict(func() {}); got != tenure.WriteConflict {
		t.Errorf("at an old version: %s", got)
	}
	write.Version = "10"
	if got := verdict(func() { a.code = http.StatusForbidden }); got != tenure.WriteRefused {
		t.Errorf("forbidden: %s", got)
	}
	if got := verdict(func() { a.code = http.StatusInternalServerError }); got != tenure.WriteUnknown {
		t.Errorf("code 500: %s", got)
	}
	if got := verdict(func() { write.Version = "77" }); got != tenure.WriteRefused {
		t.Errorf("not even read: %s", got)
	}
	leases.Read(6)
	if got := next(t, events).(tenure.LeaseRead); got.Problem == nil {
		t.Errorf("code 500: %+v", got)
	}
	a.code = 0
	for document, problem := range map[string]string{
		`{"metadata":{"uid":"u","resourceVersion":"11"},"spec":{"leaseTransitions":2}}`:              "no record",
		`{"metadata":{"uid":"u","resourceVersion":"12","annotations":{"meridian.dev/record":"{}"}}}`: "decode",
	} {
		a.put(leasePath, document)
		view, err := leases.Get(context.Background())
		if err != nil || !strings.Contains(view.Problem, problem) {
			t.Errorf("%s: %+v, %v", document, view, err)
		}
	}
}
