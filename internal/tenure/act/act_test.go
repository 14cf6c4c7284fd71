package act_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/tenure/act"
	"meridian.dev/meridian/internal/wire"
)

// world is every port at once, and writes down what is done to it.
type world struct {
	now       tenure.Instant
	done      []string
	broken    string // The act that fails.
	published uint64
	excluded  bool
	replies   map[uint64]wire.PeerReply
	jumps     tenure.Jumps
	armed     []tenure.Instant
	onArm     func()
}

var errBroken = errors.New("broken")

func (w *world) note(what string) error {
	if w.excluded {
		what = "[" + what + "]"
	}
	w.done = append(w.done, what)
	if what == w.broken || what == "["+w.broken+"]" {
		return errBroken
	}
	return nil
}

func (w *world) Now() tenure.Instant { w.now++; return w.now }

func (*world) Boot() string                             { return "boot" }
func (w *world) Jumps() tenure.Jumps                    { return w.jumps }
func (w *world) Read(tenure.Instant)                    { _ = w.note("read lease") }
func (w *world) Write(tenure.Write)                     { _ = w.note("write lease") }
func (*world) Get(context.Context) (tenure.View, error) { return tenure.View{}, errBroken }
func (*world) Load() (tenure.Stored, error)             { return tenure.Stored{}, nil }
func (w *world) Store(tenure.Stored) error              { return w.note("store") }
func (*world) Look() tenure.Guard                       { return tenure.Guard{Alive: true} }
func (w *world) Usher(to string)                        { _ = w.note("usher " + to) }
func (w *world) ReadRoute()                             { _ = w.note("read route") }
func (w *world) WriteRoute(string, int64)               { _ = w.note("write route") }
func (w *world) WriteLabels(string, bool, string, int)  { _ = w.note("label") }
func (w *world) ReadCuts([]string)                      { _ = w.note("read cuts") }
func (w *world) Decide(uint64, wire.SwitchoverReply)    { _ = w.note("decide") }
func (*world) Facts() tenure.Engine                     { return tenure.Engine{} }
func (w *world) Obey(tenure.Standing)                   { _ = w.note("obey") }
func (w *world) Kill()                                  { _ = w.note("kill") }
func (w *world) Reply(id uint64, reply wire.PeerReply)  { w.replies[id] = reply }
func (w *world) Fence(context.Context) (tenure.Position, error) {
	return tenure.Position{Timeline: 2, LSN: 99}, w.note("fence")
}

func (w *world) Arm(until tenure.Instant) error {
	w.armed = append(w.armed, until)
	if w.onArm != nil {
		w.onArm()
		w.onArm = nil
	}
	return w.note("arm")
}

func (w *world) Send(_ wire.PeerRequest, address string, _ tenure.Instant) {
	_ = w.note("send to " + address)
}

func (w *world) actor() *act.Actor {
	w.replies = map[uint64]wire.PeerReply{}
	return &act.Actor{
		Ports: tenure.Ports{
			Clock: w, Leases: w, Peers: w, Volume: w, Watchdog: w, Surroundings: w, Door: w, Server: w,
		},
		Exclusive: func(act func()) {
			w.excluded = true
			act()
			w.excluded = false
		},
		Publish: func(state *tenure.State) { w.published = state.Memory.Standing.Serial },
	}
}

var fence = tenure.Fence{LeaseUID: "u", Version: "5"}

// everything is one action of each kind.
func everything() tenure.Plan {
	return tenure.Plan{Actions: []tenure.Action{
		tenure.Store{Stored: tenure.Stored{DatabaseUID: "d", Fence: &fence}},
		tenure.Arm{Until: 7},
		tenure.Obey{Standing: tenure.Standing{Role: tenure.RoleIdle}},
		tenure.AnswerBallot{ID: 1, Fence: fence, Reply: wire.PeerReply{Yes: true}},
		tenure.Reply{ID: 2, Reply: wire.PeerReply{Yes: true}},
		tenure.Send{Request: wire.PeerRequest{Kind: wire.PeerTell, To: wire.Member{Name: "b"}}},
		tenure.ReadLease{},
		tenure.WriteLease{Kind: tenure.WriteRenew, Version: "5"},
		tenure.Conduct{Ballot: &tenure.Ballot{Version: "5"}},
		tenure.AnswerBallot{Fence: fence, Reply: wire.PeerReply{PeerHeader: wire.PeerHeader{From: wire.Member{Name: "a"}}}},
		tenure.Yield{},
		tenure.Rest{Until: 8},
		tenure.Forget{},
		tenure.ReadRoute{},
		tenure.WriteRoute{},
		tenure.WriteLabels{},
		tenure.ProxyTo{To: "10.0.0.2"},
		tenure.Kill{},
	}}
}

func state() *tenure.State {
	return &tenure.State{
		Loaded: true,
		Inbox:  []tenure.Request{{ID: 1}, {ID: 2}, {ID: 3}},
		Memory: tenure.Memory{
			Asked: &wire.Switchover{ID: "s"}, Peers: []tenure.Peer{{Name: "b", Address: "10.0.0.2"}},
			Standing: tenure.Standing{Serial: 4},
		},
	}
}

func TestEveryAction(t *testing.T) {
	w, state := &world{}, state()
	if err := w.actor().Do(context.Background(), everything(), state); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"store", "arm", "[obey]", "[fence]", "send to 10.0.0.2", "read lease", "write lease", "[fence]", "read route",
		"write route", "label", "usher 10.0.0.2", "kill",
	}
	if diff := cmp.Diff(want, w.done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
	memory := state.Memory
	if memory.Standing.Serial != 5 || w.published != 5 {
		t.Errorf("the standing has number %d, and %d was published", memory.Standing.Serial, w.published)
	}
	if memory.Write == nil || memory.Reading == nil || memory.Yielding == nil || memory.Asked != nil || memory.Rest != 8 {
		t.Errorf("memory %+v", memory)
	}
	if memory.Ballot == nil || len(memory.Ballot.Answers) != 1 || memory.Ballot.Answers[0].Position.LSN != 99 {
		t.Errorf("ballot %+v", memory.Ballot)
	}
	if w.replies[1].LSN != 99 || !w.replies[2].Yes || len(state.Inbox) != 1 || state.Inbox[0].ID != 3 {
		t.Errorf("replies %+v, inbox %+v", w.replies, state.Inbox)
	}
	if state.Stored.Fence == nil {
		t.Error("what was stored is not known")
	}
}

// F1, C2: what comes after a failed store, arm or fence does not happen.
func TestTheRestIsLeft(t *testing.T) {
	for broken, last := range map[string]string{"store": "store", "arm": "arm", "fence": "[fence]"} {
		w, state := &world{broken: broken}, state()
		if err := w.actor().Do(context.Background(), everything(), state); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", broken, err)
		}
		if w.done[len(w.done)-1] != last {
			t.Errorf("%s: done %v", broken, w.done)
		}
		if state.Loaded == (broken == "store") {
			t.Errorf("%s: loaded %t", broken, state.Loaded)
		}
		if reply, replied := w.replies[1]; replied != (broken == "fence") || reply.Yes {
			t.Errorf("%s: replies %+v", broken, w.replies)
		}
	}
}

func TestNoAnswerWithoutTheStoredFence(t *testing.T) {
	for name, stored := range map[string]*tenure.Fence{"none": nil, "another": {LeaseUID: "u", Version: "4"}} {
		w, state := &world{}, state()
		state.Stored.Fence = stored
		err := w.actor().Do(context.Background(), tenure.Plan{Actions: []tenure.Action{
			tenure.AnswerBallot{ID: 1, Fence: fence},
		}}, state)
		if err == nil || len(w.done) != 0 || len(w.replies) != 0 {
			t.Errorf("%s: %v, done %v", name, err, w.done)
		}
	}
}

func TestOneWriteAtATime(t *testing.T) {
	w, state := &world{}, state()
	state.Memory.Write = &tenure.Write{}
	err := w.actor().Do(context.Background(), tenure.Plan{Actions: []tenure.Action{tenure.WriteLease{}}}, state)
	if err == nil || len(w.done) != 0 {
		t.Errorf("%v, done %v", err, w.done)
	}
}

// C2: when nothing may lead and the watchdog is gone, the agent ends the server itself.
func TestAWatchdogThatIsGone(t *testing.T) {
	w, state := &world{broken: "arm"}, state()
	err := w.actor().Do(context.Background(), tenure.Plan{Actions: []tenure.Action{
		tenure.Arm{}, tenure.Obey{Standing: tenure.Standing{Role: tenure.RoleIdle}},
	}}, state)
	if diff := cmp.Diff([]string{"arm", "kill", "[obey]"}, w.done); diff != "" || err != nil {
		t.Errorf("%v, done (-want +got):\n%s", err, diff)
	}
}

// C1: a deadline that was computed before the wall clock jumped, and that reaches the watchdog after it saw the jump,
// has the jump taken off: nobody else would do so until the next pass.
func TestADeadlineFromBeforeAJump(t *testing.T) {
	const second = tenure.Instant(time.Second)
	jump := tenure.Jump{At: 90 * second, By: 5 * time.Second}
	for name, test := range map[string]struct {
		arm    tenure.Arm
		before tenure.Jumps
		within tenure.Jumps
		want   []tenure.Instant
	}{
		"no jump": {tenure.Arm{Until: 107 * second}, nil, nil, []tenure.Instant{107 * second}},
		"a jump it knew of": {
			tenure.Arm{Until: 107 * second, Jumped: jump.By}, tenure.Jumps{jump}, nil, []tenure.Instant{107 * second},
		},
		"a jump since": {tenure.Arm{Until: 107 * second}, tenure.Jumps{jump}, nil, []tenure.Instant{102 * second}},
		"a jump while the watchdog is told": {
			tenure.Arm{Until: 107 * second}, nil, tenure.Jumps{jump}, []tenure.Instant{107 * second, 102 * second},
		},
		"a jump past the boot": {tenure.Arm{Until: 3 * second}, tenure.Jumps{jump}, nil, []tenure.Instant{1}},
		"nothing may lead":     {tenure.Arm{}, tenure.Jumps{jump}, nil, []tenure.Instant{0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{jumps: test.before}
			if test.within != nil {
				w.onArm = func() { w.jumps = test.within }
			}
			if err := w.actor().Do(context.Background(), tenure.Plan{Actions: []tenure.Action{test.arm}}, state()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, w.armed); diff != "" {
				t.Errorf("deadlines of the watchdog (-want +got):\n%s", diff)
			}
		})
	}
}
