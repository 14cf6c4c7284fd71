package controller_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/controller"
	"meridian.dev/meridian/internal/wire"
)

// world is all that one instance stands on, in memory and in one thread. Events are taken between passes.
type world struct {
	t      *testing.T
	now    tenure.Instant
	jumps  tenure.Jumps
	fresh  int
	events []tenure.Event

	view    tenure.View
	away    bool // The API server does not answer.
	stored  tenure.Stored
	full    bool // Nothing can be stored.
	guard   tenure.Guard
	deaf    bool // The watchdog does not answer.
	route   tenure.RouteSeen
	labels  string
	policy  tenure.Policy
	sent    []wire.PeerRequest
	replies []wire.PeerReply

	facts    tenure.Engine
	standing tenure.Standing
	starts   int
	refused  error
	loop     *controller.Loop
}

var errAway = errors.New("nobody answers")

func newWorld(t *testing.T) *world {
	w := &world{t: t, now: 1000, facts: tenure.Engine{Known: true, Data: tenure.DataNone}}
	w.view = tenure.View{UID: "lease", Version: "1"}
	w.policy = tenure.Policy{
		Known: true, LeaseUID: "lease", Durability: tenure.Strict, Instances: []string{"a"}, Duration: 10 * time.Second,
		Renew: 2 * time.Second, Margin: 2 * time.Second,
	}
	w.restart()
	return w
}

// restart is another life of the agent.
func (w *world) restart() {
	w.events, w.standing, w.facts.Leading, w.facts.Processes = nil, tenure.Standing{}, nil, false
	w.facts.Obeyed, w.guard = 0, tenure.Guard{Alive: true}
	w.loop = controller.New(tenure.Ports{
		Clock: w, Leases: w, Peers: w, Volume: w, Watchdog: dog{w}, Surroundings: w, Door: w, Wishes: w, Server: w,
		Fresh: func() string { w.fresh++; return "i" + strconv.Itoa(w.fresh) },
	}, "a", "10.0.0.1", logr.Discard())
}

func (w *world) Now() tenure.Instant { return w.now }
func (*world) Boot() string          { return "boot" }
func (w *world) Jumps() tenure.Jumps { return w.jumps }

// jump puts the wall clock forward.
func (w *world) jump(by time.Duration) {
	w.jumps = append(w.jumps, tenure.Jump{At: w.now, By: by})
}

func (w *world) Read(began tenure.Instant) {
	view, err := w.Get(context.Background())
	w.events = append(w.events, tenure.LeaseRead{View: view, Began: began, Problem: err})
}

func (w *world) Get(context.Context) (tenure.View, error) {
	if w.away {
		return tenure.View{}, errAway
	}
	return w.view, nil
}

func (w *world) Write(write tenure.Write) {
	verdict := tenure.WriteDone
	switch {
	case w.away:
		verdict = tenure.WriteUnknown
	case write.Version != w.view.Version:
		verdict = tenure.WriteConflict
	default:
		if _, err := write.Record.Encode(); err != nil {
			w.t.Errorf("write %+v: %v", write, err)
		}
		version, _ := strconv.Atoi(w.view.Version)
		record := write.Record
		w.view = tenure.View{
			UID: "lease", Version: strconv.Itoa(version + 1), Holder: write.Holder, Term: record.Term, Record: &record,
		}
	}
	w.events = append(w.events, tenure.LeaseWritten{Verdict: verdict, View: w.view})
}

func (w *world) Send(request wire.PeerRequest, _ string, _ tenure.Instant) {
	w.sent = append(w.sent, request)
	w.events = append(w.events, tenure.PeerLost{Request: request})
}
func (w *world) Reply(_ uint64, reply wire.PeerReply) { w.replies = append(w.replies, reply) }

func (w *world) Load() (tenure.Stored, error) { return w.stored, nil }
func (w *world) Store(stored tenure.Stored) error {
	if w.full {
		return errAway
	}
	if _, err := stored.Encode(); err != nil {
		w.t.Errorf("store %+v: %v", stored, err)
	}
	w.stored = stored
	return nil
}

// dog is the watchdog.
type dog struct{ *world }

func (d dog) Look() tenure.Guard { return d.guard }
func (d dog) Arm(until tenure.Instant) error {
	if d.deaf {
		return errAway
	}
	d.guard.Until = until
	return nil
}

func (w *world) Usher(string) {}
func (w *world) ReadRoute()   { w.events = append(w.events, w.route) }
func (w *world) WriteRoute(address string, term int64) {
	w.route = tenure.RouteSeen{Known: true, Address: address, Term: term}
	w.events = append(w.events, w.route)
}
func (w *world) WriteLabels(role string, read bool, cut string, use int) {
	w.labels = fmt.Sprint(role, " ", read)
	w.events = append(w.events, tenure.Labelled{Done: true, Role: role, Read: read, Cut: cut, Use: use})
}
func (w *world) ReadCuts([]string)                   { w.events = append(w.events, tenure.CutsSeen{}) }
func (w *world) Decide(uint64, wire.SwitchoverReply) {}
func (w *world) Look() (string, tenure.Policy)       { return "database", w.policy }

func (w *world) Facts() tenure.Engine      { return w.facts }
func (w *world) Obey(told tenure.Standing) { w.standing = told }
func (w *world) Kill()                     { w.facts.Processes, w.facts.Leading = false, nil }
func (w *world) Fence(context.Context) (tenure.Position, error) {
	return tenure.Position{Timeline: 1, LSN: 100}, nil
}

// serve is the server: it becomes what it is told to be, if it may.
func (w *world) serve() {
	told := w.standing
	switch told.Role {
	case tenure.RoleBegin:
		w.facts.Incarnation, w.facts.SystemIdentifier = told.Incarnation, "74"
	case tenure.RoleLead:
		if w.facts.Leading == nil {
			if w.refused = w.loop.MayLead(told.Serial); w.refused != nil {
				break
			}
			w.starts++
			w.facts.Data, w.facts.Processes, w.facts.Final = tenure.DataWhole, true, nil
			w.facts.Leading = &tenure.Leading{
				Term: told.Term, Timeline: told.Timeline, Start: strconv.Itoa(w.starts), Recovered: 50, Flushed: 100,
			}
		}
		leading := *w.facts.Leading
		setting := told.Setting
		leading.Setting, leading.Open = &setting, told.OpenStart == leading.Start
		leading.Prepared = told.Prepare
		w.facts.Leading = &leading
	case tenure.RoleYield:
		w.Kill()
		w.facts.Final = &tenure.Position{Timeline: 1, LSN: 100}
	default:
		w.Kill()
	}
	if w.facts.Data == tenure.DataWhole {
		w.facts.Flushed = &tenure.Position{Timeline: 1, LSN: 100}
	}
	w.facts.Obeyed = told.Serial
}

// passes runs for a while and returns whether the loop has ended.
func (w *world) passes(count int, stopping bool) bool {
	for range count {
		taken := w.events
		w.events = nil
		for _, event := range taken {
			w.loop.Take(event)
		}
		if finished, _ := w.loop.Pass(context.Background(), stopping); finished {
			return true
		}
		if shown, _ := w.loop.Shown(); len(shown.Violations) > 0 {
			w.t.Fatalf("violations %+v", shown.Violations)
		}
		w.serve()
		w.now = w.now.Add(100 * time.Millisecond)
	}
	return false
}

func (w *world) plan() string {
	shown, _ := w.loop.Shown()
	return fmt.Sprintf("%s\nproblem %q\nlease %+v\nengine %+v\nstored %+v", shown.Plan, shown.Problem,
		shown.Snapshot.Lease, shown.Snapshot.Engine, shown.Snapshot.Stored)
}

// begun is a world whose one instance leads.
func begun(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.passes(40, false)
	if w.facts.Leading == nil || !w.facts.Leading.Open || w.view.Holder.Name != "a" || !w.view.Record.Initialised {
		t.Fatalf("after 4 s:\n%s", w.plan())
	}
	return w
}

// One instance makes the first data, leads, lets applications in, and gives everything back at the end.
func TestALife(t *testing.T) {
	w := begun(t)
	if w.route.Address != "10.0.0.1" || w.labels != "primary true" || w.starts != 1 {
		t.Errorf("route %+v, labels %s, starts %d", w.route, w.labels, w.starts)
	}
	version := w.view.Version
	w.passes(100, false)
	if w.view.Version == version || w.starts != 1 {
		t.Errorf("version %s, starts %d:\n%s", w.view.Version, w.starts, w.plan())
	}
	if !w.passes(100, true) || w.facts.Processes {
		t.Fatalf("it does not end:\n%s", w.plan())
	}
	w.restart()
	w.passes(30, false)
	if w.facts.Leading == nil || !w.facts.Leading.Open || w.starts != 2 {
		t.Errorf("it does not come back:\n%s", w.plan())
	}
}

func TestAuthority(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		want   string
	}{
		"as it is":             {func(*world) {}, ""},
		"past the deadline":    {func(w *world) { w.now = w.now.Add(9 * time.Second) }, "the deadline was"},
		"a jump of the clock":  {func(w *world) { w.jump(8 * time.Second) }, "the deadline was"},
		"a small jump":         {func(w *world) { w.jump(5 * time.Second) }, ""},
		"two small jumps":      {func(w *world) { w.jump(5 * time.Second); w.jump(3 * time.Second) }, "the deadline was"},
		"the watchdog is gone": {func(w *world) { w.guard.Alive = false }, "the watchdog is gone"},
		"an older standing":    {func(w *world) { w.standing.Serial-- }, "replaced"},
		"a watchdog that knows of an earlier deadline": {func(w *world) {
			w.deaf, w.guard.Until = true, w.now
			w.loop.Pass(context.Background(), false)
		}, "the deadline was"},
	} {
		t.Run(name, func(t *testing.T) {
			w := begun(t)
			test.change(w)
			err := w.loop.MayLead(w.standing.Serial)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// C2: without a watchdog that knows the deadline nothing leads.
func TestADeafWatchdog(t *testing.T) {
	w := newWorld(t)
	w.deaf = true
	w.passes(60, false)
	if w.facts.Leading != nil || w.standing.Role == tenure.RoleLead {
		t.Errorf("it leads:\n%s", w.plan())
	}
	w.deaf = false
	w.passes(20, false)
	if w.facts.Leading == nil {
		t.Errorf("it does not lead:\n%s", w.plan())
	}
}

// C1: a jump of the wall clock counts as time that has passed. If that takes the right to lead away, the server ends at
// once, and leads again only after a renewal.
func TestTheClockJumps(t *testing.T) {
	for _, by := range []time.Duration{8 * time.Second, 10 * time.Second, time.Hour} {
		w := begun(t)
		w.cutOff()
		w.jump(by)
		w.passes(2, false)
		if w.facts.Leading != nil {
			t.Errorf("it leads after a jump by %s:\n%s", by, w.plan())
		}
	}
}

// A write of the lease that was begun before the jump and is confirmed after it counts from its begin, less the jump.
func TestTheClockJumpsWhileTheLeaseIsRenewed(t *testing.T) {
	w := begun(t)
	version := w.view.Version
	for w.view.Version == version {
		w.loop.Pass(context.Background(), false)
		if w.view.Version == version {
			w.now = w.now.Add(100 * time.Millisecond)
		}
	}
	w.jump(10 * time.Second) // The answer waits among the events.
	w.cutOff()
	w.passes(2, false)
	if w.facts.Leading != nil {
		t.Errorf("it leads by a renewal from before the machine stood still:\n%s", w.plan())
	}
}

// A healthy holder renews at once when the wall clock has jumped, and goes on.
func TestAHealthyHolderOutlivesAJump(t *testing.T) {
	w := begun(t)
	for range 5 {
		starts, version := w.starts, w.view.Version
		w.jump(5 * time.Second)
		w.passes(3, false)
		if w.facts.Leading == nil || w.starts != starts || w.view.Version == version {
			t.Fatalf("starts %d, version %s:\n%s", w.starts, w.view.Version, w.plan())
		}
		w.passes(7, false)
	}
}

// cutOff takes the API server away, and a second member that is needed for every promise.
func (w *world) cutOff() {
	w.away = true
	w.policy.Instances = []string{"a", "b"} // So that promises alone are not enough.
	members := append([]wire.Member{{Name: "b", Incarnation: "x"}}, w.view.Record.Members...)
	w.view.Record.Members, w.view.Record.W = members, 2
	w.stored.LastRecord = w.view.Record
}

// A standing is not replaced while somebody acts by it, and whoever comes later is refused.
func TestExclude(t *testing.T) {
	w := begun(t)
	serial := w.standing.Serial
	ran := false
	if err := w.loop.Exclude(serial, func() error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("ran %t, %v", ran, err)
	}
	if err := w.loop.Exclude(serial, func() error { return errAway }); !errors.Is(err, errAway) {
		t.Errorf("%v", err)
	}
	entered, leave, changed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		_ = w.loop.Exclude(serial, func() error {
			close(entered)
			<-leave
			if w.standing.Serial != serial {
				return errors.New("the standing was replaced in the middle of an act")
			}
			return nil
		})
	}()
	<-entered
	go func() {
		defer close(changed)
		w.guard.Alive = false // It stops to lead.
		w.loop.Pass(context.Background(), false)
	}()
	select {
	case <-changed:
		t.Error("the standing was replaced in the middle of an act")
	case <-time.After(50 * time.Millisecond):
	}
	close(leave)
	<-changed
	if err := w.loop.Exclude(serial, func() error { t.Error("it ran"); return nil }); err == nil {
		t.Error("an act by a standing that was replaced is not refused")
	}
}

func TestConfirm(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*world)
		want   string
	}{
		"as it is":       {func(*world) {}, ""},
		"no answer":      {func(w *world) { w.away = true }, "read the lease"},
		"another holder": {func(w *world) { w.view.Holder.Incarnation = "x" }, "held by"},
		"another term":   {func(w *world) { w.view.Term++ }, "term"},
		"another lease":  {func(w *world) { w.view.UID = "x" }, "not there"},
		"no lease":       {func(w *world) { w.view = tenure.View{} }, "not there"},
	} {
		t.Run(name, func(t *testing.T) {
			w := begun(t)
			test.change(w)
			err := w.loop.Confirm(context.Background(), w.standing.Serial)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// What cannot be stored is not acted upon.
func TestAFullVolume(t *testing.T) {
	w := newWorld(t)
	w.full = true
	w.passes(40, false)
	if w.view.Version != "1" || w.facts.SystemIdentifier != "" {
		t.Errorf("the lease has version %s:\n%s", w.view.Version, w.plan())
	}
	shown, _ := w.loop.Shown()
	if !strings.Contains(shown.Problem, "Store") {
		t.Errorf("problem %q", shown.Problem)
	}
	w.full = false
	w.passes(40, false)
	if w.facts.Leading == nil {
		t.Errorf("it does not lead:\n%s", w.plan())
	}
}

// A starting agent tells the others once where it is.
func TestGreeting(t *testing.T) {
	w := newWorld(t)
	w.policy.Instances = []string{"a", "b", "c"}
	w.passes(5, false)
	greeted := map[string]int{}
	for _, request := range w.sent {
		if request.Kind == wire.PeerTell && request.Address == "10.0.0.1" && request.DatabaseUID == "database" {
			greeted[request.To.Name]++
		}
	}
	if len(greeted) != 2 || greeted["b"] != 1 || greeted["c"] != 1 {
		t.Errorf("greeted %v", greeted)
	}
}

// Every request of a peer gets a reply, whatever state the instance is in.
func TestEveryRequestIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.facts.Known = false
	ask := func(id uint64) {
		w.events = append(w.events, tenure.PeerAsked{Request: tenure.Request{ID: id, PeerRequest: wire.PeerRequest{
			PeerHeader: wire.PeerHeader{DatabaseUID: "database", LeaseUID: "lease", From: wire.Member{Name: "b"}},
			Kind:       wire.PeerAsk, To: wire.Member{Name: "a"}, LeaseVersion: "1",
		}}})
	}
	ask(1)
	w.passes(1, false)
	w.facts.Known = true
	ask(2)
	w.passes(1, false)
	w.passes(40, false)
	ask(3)
	w.passes(1, false)
	if len(w.replies) != 3 {
		t.Fatalf("replies %+v", w.replies)
	}
	for _, reply := range w.replies {
		if reply.Yes || reply.Why == "" {
			t.Errorf("reply %+v", reply)
		}
	}
}

func TestRun(t *testing.T) {
	w := newWorld(t)
	events := make(chan tenure.Event, 10)
	told, changed := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- w.loop.Run(context.Background(), told, changed, events) }()
	events <- tenure.LeaseWatched{View: w.view}
	changed <- struct{}{}
	close(told)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the loop does not end")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := newWorld(t).loop.Run(ctx, nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
