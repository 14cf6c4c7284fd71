package tenure_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// A holder's word is taken for a newer version of the lease that is obeyed, at a term that was not exceeded, and for
// nothing else.
func TestTheWordOfAHolder(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*tenure.State, *wire.PeerRequest)
		want   bool
	}{
		"a newer version": {func(*tenure.State, *wire.PeerRequest) {}, true},
		"the lease was not read in this life": {
			func(s *tenure.State, _ *wire.PeerRequest) { s.Memory.Lease = tenure.Lease{} }, true,
		},
		"the known version": {
			func(_ *tenure.State, r *wire.PeerRequest) { r.LeaseVersion = "700" }, false,
		},
		"an old message": {
			func(_ *tenure.State, r *wire.PeerRequest) { r.LeaseVersion = "99" }, false,
		},
		"a holder of a lower term than was seen": {
			func(s *tenure.State, _ *wire.PeerRequest) { s.Stored.MaxTerm = 5 }, false,
		},
		"another lease": {
			func(_ *tenure.State, r *wire.PeerRequest) { r.LeaseUID = "l2" }, false,
		},
		"another database": {
			func(_ *tenure.State, r *wire.PeerRequest) { r.DatabaseUID = "u2" }, false,
		},
		"the lease is gone": {
			func(s *tenure.State, _ *wire.PeerRequest) { s.Memory.ReadDone(tenure.View{}, 5*second, 5*second) }, false,
		},
		"the own word that comes back": {
			func(_ *tenure.State, r *wire.PeerRequest) { r.From = a }, false,
		},
		"no record": {
			func(_ *tenure.State, r *wire.PeerRequest) { r.Record = nil }, false,
		},
		"nothing is known of the volume": {
			func(s *tenure.State, _ *wire.PeerRequest) { s.Loaded = false }, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := tenure.State{Loaded: true, Stored: tenure.Stored{DatabaseUID: "u1", LeaseUID: "l1", MaxTerm: 3}}
			state.Memory.ReadDone(view("700", b, 3), 1*second, 1*second)
			told := record(4)
			request := wire.PeerRequest{
				PeerHeader: wire.PeerHeader{DatabaseUID: "u1", LeaseUID: "l1", Term: 4, From: c}, Kind: wire.PeerTell, To: a,
				LeaseVersion: "702", Record: &told,
			}
			test.change(&state, &request)
			tenure.PeerAsked{Request: tenure.Request{ID: 1, PeerRequest: request}}.Apply(&state, a, 9*second)
			lease := state.Memory.Lease
			if lease.Vouched != test.want || lease.Vouched && (lease.Version != "702" || lease.Holder != c || lease.Read != 0) {
				t.Errorf("the lease is %+v, want vouched %t", lease, test.want)
			}
		})
	}
}

// A consistent read that began after a version was seen and shows an older one tells that the lease was put back; any
// other old view is only late.
func TestALeaseThatWasPutBack(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*tenure.Memory)
		want string
	}{
		"a watch shows an old version": {
			func(m *tenure.Memory) { m.Watched(view("600", a, 2), 9*second) }, "700",
		},
		"a read that began before is old": {
			func(m *tenure.Memory) { m.ReadDone(view("600", a, 2), 4*second, 9*second) }, "700",
		},
		"a read that began after": {
			func(m *tenure.Memory) { m.ReadDone(view("600", a, 2), 6*second, 9*second) }, "600",
		},
		"it is gone, and an old watch shows it": {
			func(m *tenure.Memory) {
				m.ReadDone(tenure.View{}, 6*second, 7*second)
				m.Watched(view("690", a, 3), 9*second)
			}, "700",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var memory tenure.Memory
			memory.ReadDone(view("700", a, 3), 5*second, 5*second)
			test.then(&memory)
			if diff := cmp.Diff(test.want, memory.Lease.Version); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What a holder has begun to write into a lost lease is told to the others, whether it was done or not: a term of it
// must not be given out again. A record that is later than that is told as it is.
func TestTestimony(t *testing.T) {
	last, next := record(3), record(6)
	snapshot := tenure.Snapshot{Stored: tenure.Stored{
		LastRecord: &last, NextRecord: &next, Anew: &tenure.Anew{Leases: []string{"l2"}, Version: "7", Term: 5},
	}}
	var terms []int64
	for _, told := range snapshot.Testimony() {
		terms = append(terms, told.Term)
	}
	if want := []int64{3, 6, 5}; !slices.Equal(terms, want) {
		t.Errorf("records of the terms %v are told, want %v", terms, want)
	}
	if len(snapshot.Records()) != 2 {
		t.Errorf("it counts as a record in force: %v", snapshot.Records())
	}
}
