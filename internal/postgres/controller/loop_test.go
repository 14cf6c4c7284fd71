//go:build !cluster

package controller_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

func well(state controller.State) bool {
	report := state.Report
	return state.Ready && report.State == wire.StateRunning && report.Role == wire.RolePrimary && report.Reason == ""
}

func TestFromNothingToServing(t *testing.T) {
	w := newWorld(t)
	if state := w.passes(); !well(state) || state.Report.SettingsHash != w.settings.Hash() {
		t.Errorf("state %+v", state)
	}
	before := w.effects
	if w.passes(); w.effects != before {
		t.Errorf("a converged instance was touched: %v", w.trace[before:])
	}
}

// The agent dies before and after each of its effects, in the making of an instance and in a change of everything. It
// always comes to the same end, and data is made exactly once.
func TestTheAgentDiesAnywhere(t *testing.T) {
	whole := newWorld(t)
	whole.passes()
	making := whole.effects
	change(whole)
	whole.passes()
	total := whole.effects
	if making < 12 || total < making+6 {
		t.Fatalf("%d effects, %d with the change: too few to show anything: %v", making, total, whole.trace)
	}
	for crashAt := 1; crashAt <= total; crashAt++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("at %d %s, after %t", crashAt, whole.trace[crashAt-1], after), func(t *testing.T) {
				w := newWorld(t)
				w.crashAt, w.after = crashAt, after
				if state := w.passes(); !well(state) {
					t.Fatalf("state %+v after %v", state, w.trace)
				}
				incarnation := w.volume.record.Incarnation
				change(w)
				state := w.passes()
				if !well(state) || state.Report.SettingsHash != w.settings.Hash() {
					t.Errorf("state %+v after %v", state, w.trace)
				}
				record := w.volume.record
				if w.made != 1 || incarnation != "first" || record.Incarnation != incarnation ||
					record.SystemIdentifier != "7401" {
					t.Errorf("made %d times, record %+v", w.made, w.volume.record)
				}
				if w.content.password != w.password {
					t.Error("the new password is not in force")
				}
			})
		}
	}
}

// change is what a user and an operator may do at once.
func change(w *world) {
	w.settings.Initialised, w.settings.SystemIdentifier = true, w.standing.SystemIdentifier
	w.settings.Parameters = []wire.Parameter{{Name: "work_mem", Value: "9MB"}}
	w.settings.Extensions = []string{"postgis", "pgrouting"}
	w.password, w.cert = "p2", "c2"
}

// Two crashes: the second pod dies as well, at every later effect.
func TestTheAgentDiesTwice(t *testing.T) {
	whole := newWorld(t)
	whole.passes()
	for first := 1; first <= whole.effects; first++ {
		for second := first + 1; second <= whole.effects+first; second++ {
			w := newWorld(t)
			w.crashAt = first
			loop := w.loop()
			for !w.pass(loop) {
				w.operate(loop)
			}
			w.restart()
			w.crashAt, w.after = second, true
			if state := w.passes(); !well(state) || w.made != 1 {
				t.Fatalf("crashes at %d and %d: made %d, state %+v after %v", first, second, w.made, state, w.trace)
			}
		}
	}
}

func TestAVolumeIsLostWhileThePodIsAway(t *testing.T) {
	w := newWorld(t)
	w.passes()
	w.restart()
	w.volume.record, w.volume.data = nil, postgres.Data{Presence: postgres.DataAbsent}
	state := w.passes()
	if state.Report.State != wire.StateFailed || state.Report.Reason != wire.ReasonVolumeEmpty || w.made != 1 {
		t.Errorf("made %d, state %+v", w.made, state)
	}
}

// put is what becomes of the pod when its volume comes back with another claim. The loop of the lease gives it nothing
// to lead.
func (w *world) put(claim postgres.Claim) *controller.Loop {
	w.restart()
	w.claim = claim
	w.standing.Serial++
	w.standing.Role, w.standing.OpenStart = tenure.RoleIdle, ""
	loop := w.loop()
	for range 20 {
		w.pass(loop)
	}
	return loop
}

// I1: the only copy of a database has come with another claim. It counts for nothing and stays as it is, until a user
// vouches for it.
func TestTheOnlyCopyWasPutBack(t *testing.T) {
	w := newWorld(t)
	w.claim = postgres.Claim{UID: "k1"}
	w.passes()
	before := *w.volume.record
	if before.ClaimUID != "k1" || before.Incarnation != "first" {
		t.Fatalf("record %+v", before)
	}
	starts := w.starts
	loop := w.put(postgres.Claim{UID: "k2"})
	state, _ := loop.State()
	if facts := loop.Facts(); facts.Data != tenure.DataPutBack || facts.Incarnation != "" || w.starts != starts {
		t.Errorf("facts %+v, %d starts", facts, w.starts-starts)
	}
	if state.Report.State != wire.StateFailed || state.Report.Reason != wire.ReasonVolumePutBack {
		t.Errorf("report %+v", state.Report)
	}
	if diff := cmp.Diff(before, *w.volume.record); diff != "" || w.volume.data.Presence != postgres.DataPresent {
		t.Errorf("data %+v, record -want +got:\n%s", w.volume.data, diff)
	}
	loop = w.put(postgres.Claim{Asked: true})
	if facts := loop.Facts(); facts.Known {
		t.Errorf("while the claim is asked for: %+v", facts)
	}
	loop = w.put(postgres.Claim{})
	if facts := loop.Facts(); facts.Data != tenure.DataWhole || facts.Incarnation != "first" {
		t.Errorf("while nobody knows the claim: %+v", facts)
	}
	loop = w.put(postgres.Claim{UID: "k2", Accepted: true})
	if facts := loop.Facts(); facts.Data != tenure.DataWhole || facts.Incarnation != "first" {
		t.Errorf("accepted: %+v", facts)
	}
	w.standing.Role = tenure.RoleLead
	state, record := w.passes(), w.volume.record
	if !well(state) || record.ClaimUID != "k2" || record.PutBack != 1 || w.made != 1 {
		t.Errorf("record %+v, state %+v", record, state)
	}
}

// donor is another instance that may lead.
type donor struct {
	postgres.Copies
	*world
	leads bool
}

func (d *donor) Ask(context.Context, postgres.Source) (postgres.Upstream, error) {
	return postgres.Upstream{
		Known: true, Leads: d.leads, SystemIdentifier: "7401", History: postgres.History{{Timeline: 1}},
	}, nil
}

func (d *donor) Discard(context.Context) error {
	return d.effect("discard", func() { d.volume.data = postgres.Data{Presence: postgres.DataAbsent} })
}

func (d *donor) Clone(context.Context, postgres.Source, func(done, total int64)) error {
	return d.effect("clone", func() {
		d.volume.data = postgres.Data{
			Presence: postgres.DataPresent, Private: true, Major: 17, SystemIdentifier: "7401", Timeline: 1, Standby: true,
		}
	})
}

// I1: a replica that was put back gets a new copy with a new incarnation, once another instance leads, and not before.
func TestAReplicaWasPutBack(t *testing.T) {
	w := newWorld(t)
	w.claim = postgres.Claim{UID: "k1"}
	w.passes()
	other := &donor{Copies: copies{}, world: w}
	w.copies = other
	holder := wire.Member{Name: "cities-2", Incarnation: "i9"}
	w.standing.Members = append(w.standing.Members, holder)
	loop := w.put(postgres.Claim{UID: "k2"})
	w.standing.Role, w.standing.Upstream = tenure.RoleFollow, holder
	w.standing.Serial++
	loop.Obey(w.standing)
	follow := func() {
		for range 30 {
			w.pass(loop)
			w.passed += time.Second
		}
	}
	follow()
	if w.volume.record.Incarnation != "first" || w.volume.record.InProgress != "" || slices.Contains(w.trace, "discard") {
		t.Fatalf("given up while nobody leads: %+v, %v", w.volume.record, w.trace)
	}
	other.leads = true
	// A user has just accepted the copy, and the loop has not heard of it.
	w.claimNow = postgres.Claim{UID: "k2", Accepted: true}
	follow()
	if w.volume.record.Incarnation != "first" || w.volume.record.InProgress != "" {
		t.Fatalf("given up although a user vouches for it: %+v, %v", w.volume.record, w.trace)
	}
	w.claimNow = postgres.Claim{}
	follow()
	record := w.volume.record
	if record.Incarnation == "first" || record.ClaimUID != "k2" || record.PutBack != 0 || !record.Whole() {
		t.Errorf("record %+v after %v", record, w.trace)
	}
	if facts := loop.Facts(); facts.Data != tenure.DataWhole || facts.Incarnation != record.Incarnation {
		t.Errorf("facts %+v", facts)
	}
}

// Applications are let in only to the start that was named, and no data counts before the lease tells of it.
func TestNobodyIsLetInUntold(t *testing.T) {
	w := newWorld(t)
	loop := w.loop()
	for range 20 {
		w.pass(loop)
	}
	facts := loop.Facts()
	if w.running || facts.SystemIdentifier != "7401" || facts.Incarnation != "first" || facts.Data != tenure.DataNone ||
		w.volume.record.InProgress == "" {
		t.Errorf("after the begin: %+v, record %+v", facts, w.volume.record)
	}
	w.operate(loop)
	for range 20 {
		w.pass(loop)
	}
	state, _ := loop.State()
	facts = loop.Facts()
	if state.Ready || facts.Leading == nil || facts.Leading.Open || w.volume.record.InProgress != "" {
		t.Errorf("before the gate opens: %+v, %+v", state, facts)
	}
	w.settle(loop)
	if state, _ := loop.State(); !well(state) || !loop.Facts().Leading.Open {
		t.Errorf("after: %+v", state)
	}
	// Another start under the same standing lets nobody in.
	w.running = false
	for range 5 {
		w.pass(loop)
	}
	if state, _ := loop.State(); state.Ready || loop.Facts().Leading == nil || loop.Facts().Leading.Open {
		t.Errorf("after another start: %+v, %+v", state, loop.Facts())
	}
}

// A database or role that is renamed or dropped is not made anew, by this agent or a later one.
func TestTheApplicationIsMadeOnce(t *testing.T) {
	for name, change := range map[string]func(*world){
		"the database": func(w *world) { w.content.database = false },
		"the role":     func(w *world) { w.content.role = false },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.passes()
			change(w)
			w.restart()
			before := w.content
			state := w.passes()
			if state.Report.Reason != wire.ReasonApplicationMissing || state.Ready || w.databases != 1 {
				t.Errorf("made %d databases, state %+v", w.databases, state)
			}
			if w.content.database != before.database || w.content.role != before.role {
				t.Errorf("made anew: %v", w.trace)
			}
		})
	}
}

// A full volume keeps new settings from being put in force, and nothing else, while the server runs. After its end it
// does not lead again: the rules of access on the disk would let applications in before they may (G1).
func TestAFullVolume(t *testing.T) {
	w := newWorld(t)
	loop := w.settle(w.loop())
	old := w.settings.Hash()
	w.full = true
	w.settings.Parameters = []wire.Parameter{{Name: "work_mem", Value: "9MB"}}
	w.password = "p2"
	for range 10 {
		w.pass(loop)
	}
	state, _ := loop.State()
	if !w.running || !state.Ready || state.Report.Reason != wire.ReasonVolumeUnwritable {
		t.Errorf("running %t, state %+v after %v", w.running, state, w.trace)
	}
	if w.volume.record.Settings.Hash() != old || w.content.password != "p2" {
		t.Errorf("record %+v, password %s", w.volume.record, w.content.password)
	}
	w.running = false
	for range 10 {
		w.pass(loop)
	}
	if w.running || loop.Facts().CannotLead == "" {
		t.Errorf("running %t, facts %+v", w.running, loop.Facts())
	}
	w.full = false
	w.settle(loop)
	if state, _ := loop.State(); !well(state) || state.Report.SettingsHash != w.settings.Hash() {
		t.Errorf("state %+v after %v", state, w.trace)
	}
}

// With a little room a primary takes no writes; without any it ends, starts once more with the reserve, and then waits.
// Room alone brings everything back.
func TestAFullVolumeHasAReserve(t *testing.T) {
	const mib = 1 << 20
	w := newWorld(t)
	w.size, w.free = 1024*mib, 512*mib
	loop := w.settle(w.loop())
	if w.reserve != postgres.ReserveSize {
		t.Fatalf("the reserve has %d bytes: %v", w.reserve, w.trace)
	}
	w.free = w.reserve + 20*mib
	w.settle(loop)
	state, _ := loop.State()
	if !w.readOnly || !state.Ready || state.Report.Reason != wire.ReasonVolumeFull || w.starts != 1 {
		t.Errorf("read-only %t after %d starts, state %+v", w.readOnly, w.starts, state)
	}
	w.running, w.free = false, w.reserve
	w.settle(loop)
	state, _ = loop.State()
	if !w.running || !w.readOnly || !state.Ready || w.reserve > 0 || w.starts != 2 {
		t.Errorf("running %t, read-only %t, reserve %d, starts %d, state %+v", w.running, w.readOnly, w.reserve, w.starts,
			state)
	}
	w.running, w.free = false, 0
	for range 10 {
		w.pass(loop)
	}
	state, _ = loop.State()
	if w.running || w.starts != 2 || state.Report.Reason != wire.ReasonVolumeFull ||
		state.Report.State != wire.StateStarting || loop.Facts().CannotLead == "" {
		t.Errorf("%d starts, state %+v, facts %+v", w.starts, state, loop.Facts())
	}
	w.free = 512 * mib
	w.settle(loop)
	if state, _ := loop.State(); !well(state) || w.readOnly || w.starts != 3 || w.reserve == 0 {
		t.Errorf("read-only %t after %d starts, reserve %d, state %+v", w.readOnly, w.starts, w.reserve, state)
	}
}

// A token is one new start, whatever else goes on, and a start that comes for another reason counts.
func TestATokenIsOneStart(t *testing.T) {
	w := newWorld(t)
	loop := w.settle(w.loop())
	w.settings.Restarts = []wire.Restart{{Instance: "cities-1", Token: "t1"}, {Instance: "cities-2", Token: "t9"}}
	w.settle(loop)
	if state, _ := loop.State(); !well(state) || w.starts != 2 || state.Report.Restart != "t1" {
		t.Errorf("%d starts, state %+v", w.starts, state)
	}
	w.running = false
	w.settings.Restarts[0].Token = "t2"
	w.settle(loop)
	if state, _ := loop.State(); !well(state) || w.starts != 3 || state.Report.Restart != "t2" {
		t.Errorf("%d starts, state %+v", w.starts, state)
	}
}

// A first start without files of our own does not happen: initdb's let nobody in, and know nothing of TLS.
func TestAFullVolumeDoesNotStartWithForeignFiles(t *testing.T) {
	w := newWorld(t)
	loop := w.loop()
	for w.made == 0 || w.volume.record.InProgress != "" {
		w.pass(loop)
		w.operate(loop)
	}
	w.full = true
	for range 10 {
		w.pass(loop)
	}
	if state, _ := loop.State(); w.running || state.Report.Reason != wire.ReasonActionFailed {
		t.Errorf("running %t, state %+v", w.running, state)
	}
}

// A look at the volume that fails does not make it another copy, and does not end a server that runs.
func TestAnUnreadableVolumeIsTheSameCopy(t *testing.T) {
	w := newWorld(t)
	loop := w.settle(w.loop())
	before := loop.Facts()
	w.unreadable = true
	w.pass(loop)
	facts := loop.Facts()
	if facts.Incarnation != before.Incarnation || facts.Incarnation == "" ||
		facts.SystemIdentifier != before.SystemIdentifier || facts.Data != tenure.DataUnknown || !w.running {
		t.Errorf("before %+v, then %+v, running %t", before, facts, w.running)
	}
}

// A disk that stands still gives no answer, and does not hold up the loop of the lease either (F1).
func TestAFenceIsBounded(t *testing.T) {
	w := newWorld(t)
	loop := w.settle(w.loop())
	w.running, w.volume.data.Standby = false, true
	w.standstill = make(chan struct{})
	defer close(w.standstill)
	begin := time.Now()
	if position, err := loop.Fence(context.Background()); err == nil || time.Since(begin) > 3*time.Second {
		t.Errorf("position %s, error %v after %s", position, err, time.Since(begin))
	}
}

// A plan whose effect does not show is tried with growing pauses, but not by a primary: others wait for its facts.
func TestAPrimaryIsNotPatient(t *testing.T) {
	w := newWorld(t)
	loop := w.settle(w.loop())
	w.full = true
	w.settings.Parameters = []wire.Parameter{{Name: "work_mem", Value: "9MB"}}
	for range 12 {
		if _, next := loop.Pass(context.Background(), false); next > 500*time.Millisecond {
			t.Errorf("the next pass is in %s", next)
		}
	}
}

func TestRunEndsWhenTold(t *testing.T) {
	w := newWorld(t)
	told := make(chan struct{})
	close(told)
	done := make(chan error, 1)
	go func() { done <- w.loop().Run(context.Background(), told) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the loop does not end")
	}
	if w.running {
		t.Error("a server was left")
	}
}
