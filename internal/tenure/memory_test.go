package tenure_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

const second = tenure.Instant(time.Second)

var (
	a = wire.Member{Name: "a", Incarnation: "i1"}
	b = wire.Member{Name: "b", Incarnation: "i2"}
	c = wire.Member{Name: "c", Incarnation: "i3"}
)

func record(term int64) wire.LeaseRecord {
	return wire.LeaseRecord{DatabaseUID: "u1", Term: term, Timeline: 5, Members: []wire.Member{a, b, c}, W: 2}
}

func view(version string, holder wire.Member, term int64) tenure.View {
	record := record(term)
	return tenure.View{UID: "l1", Version: version, Holder: holder, Term: term, Record: &record}
}

func renewal(version string, started tenure.Instant) tenure.Write {
	return tenure.Write{
		Kind: tenure.WriteRenew, Version: version, Holder: a, Record: record(3), Started: started, Duration: time.Second,
	}
}

func TestTheRightCountsFromTheBeginOfTheWrite(t *testing.T) {
	var memory tenure.Memory
	memory.ReadDone(view("700", a, 3), 1*second, 1*second)
	memory.WriteBegun(renewal("700", 2*second))
	memory.WriteEnded(a, tenure.WriteDone, view("701", a, 3), 4*second)
	if diff := cmp.Diff(tenure.Right{Term: 3, Renewed: 2 * second, Duration: time.Second}, memory.Right); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

func TestAWriteInDoubt(t *testing.T) {
	for name, test := range map[string]struct {
		then func(*tenure.Memory)
		// Right is the begin of the write that the right counts from, 0 if there is none; doubts those that stay.
		right  tenure.Instant
		doubts int
	}{
		"nobody knows yet": {func(*tenure.Memory) {}, 0, 1},
		"a read shows the version of before: it may still be done": {
			func(m *tenure.Memory) { m.ReadDone(view("700", a, 3), 5*second, 5*second) }, 0, 1,
		},
		"C1: a read shows another version, and not whose write that was": {
			func(m *tenure.Memory) { m.ReadDone(view("701", a, 3), 5*second, 5*second) }, 0, 0,
		},
		"C1: a watch shows another version, and not whose write that was": {
			func(m *tenure.Memory) { m.Watched(view("701", a, 3), 5*second) }, 0, 0,
		},
		"somebody else has the lease": {
			func(m *tenure.Memory) { m.ReadDone(view("701", b, 4), 5*second, 5*second) }, 0, 0,
		},
		"a later renewal settles it": {
			func(m *tenure.Memory) {
				m.WriteBegun(renewal("700", 6*second))
				m.WriteEnded(a, tenure.WriteDone, view("701", a, 3), 6*second)
			}, 6 * second, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var memory tenure.Memory
			memory.ReadDone(view("700", a, 3), 1*second, 1*second)
			memory.WriteBegun(renewal("700", 2*second))
			memory.WriteEnded(a, tenure.WriteUnknown, tenure.View{}, 4*second)
			test.then(&memory)
			memory.Settle(a)
			if memory.Right.Renewed != test.right || len(memory.Doubts) != test.doubts {
				t.Errorf("right %+v, doubts %d", memory.Right, len(memory.Doubts))
			}
		})
	}
}

func TestARecordInDoubtThatTheLeaseShowsGivesTheRight(t *testing.T) {
	for revision, want := range map[int64]tenure.Instant{9: 2 * second, 8: 0} {
		var memory tenure.Memory
		memory.ReadDone(view("700", a, 3), 1*second, 1*second)
		write := renewal("700", 2*second)
		write.Kind, write.Record.Revision = tenure.WriteRecord, 9
		memory.WriteBegun(write)
		memory.WriteEnded(a, tenure.WriteUnknown, tenure.View{}, 4*second)
		seen := view("701", a, 3)
		shown := record(3)
		shown.Revision = revision
		seen.Record = &shown
		memory.ReadDone(seen, 5*second, 5*second)
		memory.Settle(a)
		if memory.Right.Renewed != want {
			t.Errorf("revision %d: the right is %+v", revision, memory.Right)
		}
	}
}

func TestAViewOfThePastIsNotBelieved(t *testing.T) {
	var memory tenure.Memory
	memory.ReadDone(view("1000", b, 4), 1*second, 1*second)
	memory.Watched(view("999", a, 3), 2*second)
	memory.ReadDone(view("998", a, 3), 0, 2*second)
	if memory.Lease.Holder != b || memory.Lease.Changed != 1*second || memory.Lease.Read != 1*second {
		t.Errorf("%+v", memory.Lease)
	}
}

func TestATransferEndsTheRight(t *testing.T) {
	memory := tenure.Memory{Right: tenure.Right{Term: 3, Renewed: 1 * second}}
	memory.ReadDone(view("700", a, 3), 1*second, 1*second)
	transfer := renewal("700", 2*second)
	transfer.Kind, transfer.Holder, transfer.Record = tenure.WriteTransfer, b, record(4)
	memory.WriteBegun(transfer)
	memory.WriteEnded(a, tenure.WriteDone, view("701", b, 4), 3*second)
	if memory.Right != (tenure.Right{}) {
		t.Errorf("%+v", memory.Right)
	}
}

func TestReplies(t *testing.T) {
	ask := wire.PeerRequest{
		PeerHeader: wire.PeerHeader{DatabaseUID: "u1", LeaseUID: "l1", Term: 3}, Kind: wire.PeerAsk, To: b,
		LeaseVersion: "700",
	}
	yes := wire.PeerReply{PeerHeader: wire.PeerHeader{DatabaseUID: "u1", From: b, Address: "10.0.0.2"}, Yes: true}
	fence, other, foreign, replaced := ask, ask, yes, yes
	fence.Kind = wire.PeerFence
	other.LeaseVersion = "699"
	foreign.DatabaseUID = "u2"
	replaced.From.Incarnation = "i9"
	for name, test := range map[string]struct {
		request          wire.PeerRequest
		reply            wire.PeerReply
		willing, answers int
	}{
		"willing":                 {ask, yes, 1, 0},
		"about another version":   {other, yes, 0, 0},
		"of another database":     {ask, foreign, 0, 0},
		"I1: of a replaced copy":  {ask, replaced, 0, 0},
		"an answer":               {fence, yes, 0, 1},
		"an answer of a new copy": {fence, replaced, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			memory := tenure.Memory{Ballot: &tenure.Ballot{LeaseUID: "l1", Version: "700"}}
			memory.Replied(test.request, test.reply, 1*second, 2*second)
			if len(memory.Ballot.Willing) != test.willing || len(memory.Ballot.Answers) != test.answers {
				t.Errorf("%+v", memory.Ballot)
			}
		})
	}
}

// The own promise and one of another member make two of three. Each counts from when it was asked for, under each
// record that may be in force.
func TestPromises(t *testing.T) {
	shrunk := record(3)
	shrunk.Members = []wire.Member{a, c}
	for name, test := range map[string]struct {
		change func(*tenure.Snapshot)
		want   tenure.Instant
	}{
		"the API server is there: promises do not count": {func(s *tenure.Snapshot) { s.Lease.Failing = nil }, 18 * second},
		"one promise":                    {func(*tenure.Snapshot) {}, 28 * second},
		"one of another term":            {func(s *tenure.Snapshot) { s.Promises[0].Term = 2 }, 18 * second},
		"one of a replaced copy":         {func(s *tenure.Snapshot) { s.Promises[0].Member.Incarnation = "i9" }, 18 * second},
		"a record in doubt leaves b out": {func(s *tenure.Snapshot) { s.Stored.NextRecord = &shrunk }, 18 * second},
		"both records have c": {
			func(s *tenure.Snapshot) {
				s.Stored.NextRecord = &shrunk
				s.Promises = append(s.Promises, tenure.Promised{Member: c, Term: 3, Sent: 19 * second, Duration: 10 * time.Second})
			}, 27 * second,
		},
		"behind a fence the own promise is none": {
			func(s *tenure.Snapshot) { s.Stored.Fence = &tenure.Fence{} }, 18 * second,
		},
		"a later term was seen": {func(s *tenure.Snapshot) { s.Stored.MaxTerm = 4 }, 18 * second},
		"another lease was taken over and lost since": {
			func(s *tenure.Snapshot) {
				s.Stored.LeaseUID = "l1"
				s.Lease = tenure.Lease{Known: true, Exists: true, UID: "l3", Succeeds: "l2", Before: []string{"l1"}}
			}, 18 * second,
		},
		"the lease that was lost since is one that was written here": {
			func(s *tenure.Snapshot) {
				s.Stored.LeaseUID, s.Stored.Anew = "l1", &tenure.Anew{Leases: []string{"l2"}, Version: "7", Term: 4}
				s.Lease = tenure.Lease{Known: true, Exists: true, UID: "l3", Succeeds: "l2", Before: []string{"l1"}}
			}, 28 * second,
		},
		"one copy is promised: all must promise, because one answer may do": {
			func(s *tenure.Snapshot) { s.Stored.LastRecord.W = 1 }, 18 * second,
		},
		"the lease may have been given away": {
			func(s *tenure.Snapshot) {
				given := record(4)
				s.Stored.NextRecord = &given
			}, 18 * second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			last, failing := record(3), 12*second
			snapshot := tenure.Snapshot{
				Now: 20 * second, Name: "a", Engine: tenure.Engine{Incarnation: "i1"},
				Policy: tenure.Policy{Durability: tenure.Strict, Duration: 10 * time.Second, Margin: 2 * time.Second},
				Stored: tenure.Stored{LastRecord: &last, MaxTerm: 3, HeldTerm: 3},
			}
			snapshot.Right = tenure.Right{Term: 3, Renewed: 10 * second, Duration: 10 * time.Second}
			snapshot.Lease.Failing = &failing
			snapshot.Promises = []tenure.Promised{{Member: b, Term: 3, Sent: 20 * second, Duration: 10 * time.Second}}
			test.change(&snapshot)
			if term, until := snapshot.Deadline(); term != 3 || until != test.want {
				t.Errorf("term %d until %s, want %s", term, until, test.want)
			}
		})
	}
}

func TestAReadOfALeaseThatWasPutBack(t *testing.T) {
	now := view("700", a, 3)
	for name, test := range map[string]struct {
		read  tenure.View
		began tenure.Instant
		term  int64
	}{
		"to an older version":             {view("690", b, 2), 6 * second, 2},
		"counted anew to the version":     {view("700", b, 2), 6 * second, 2},
		"the same version, the same text": {view("700", a, 3), 6 * second, 3},
		"a read from before":              {view("700", b, 2), 4 * second, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var memory tenure.Memory
			memory.Watched(now, 5*second)
			memory.ReadDone(test.read, test.began, 7*second)
			if memory.Lease.Term != test.term {
				t.Errorf("the lease is at term %d, want %d", memory.Lease.Term, test.term)
			}
		})
	}
}

// TestAReadOfALeaseThatIsGone: an answer that was long on its way tells of the lease before the one that is known. And
// what peers say of a term is about one lease.
func TestAReadOfALeaseThatIsGone(t *testing.T) {
	next := view("700", b, 3)
	next.UID = "next"
	for name, test := range map[string]struct {
		version string
		began   tenure.Instant
		want    string
		told    int64
	}{
		"an old answer":                      {"690", 4 * second, "next", 3},
		"a later one":                        {"710", 4 * second, "lease", 0},
		"a read since then: it was put back": {"690", 6 * second, "lease", 0},
	} {
		t.Run(name, func(t *testing.T) {
			memory := tenure.Memory{}
			memory.Watched(next, 5*second)
			memory.Heard(wire.PeerRequest{
				Kind: wire.PeerTell, PeerHeader: wire.PeerHeader{From: b, LeaseUID: "next", Term: 3},
			}, 5*second)
			read := view(test.version, a, 1)
			read.UID = "lease"
			memory.ReadDone(read, test.began, 7*second)
			if memory.Lease.UID != test.want || memory.Peers[0].Term != test.told {
				t.Errorf("the lease is %s, and peers tell of term %d; want %s and %d", memory.Lease.UID,
					memory.Peers[0].Term, test.want, test.told)
			}
		})
	}
}

// TestAWriteUnderWayIsSeen: a read or a watch may be faster than the answer to a write, and whoever leads by it is not
// ended for that. The right counts from its begin all the same, and a renewal is shown by its own answer alone (C1).
func TestAWriteUnderWayIsSeen(t *testing.T) {
	for name, test := range map[string]struct {
		kind tenure.WriteKind
		seen tenure.View
		want tenure.Instant
	}{
		"a take-over":         {tenure.WriteTake, view("701", a, 3), 2 * second},
		"that of another one": {tenure.WriteTake, view("701", b, 3), 0},
		"not yet":             {tenure.WriteTake, view("700", b, 2), 0},
		"a renewal":           {tenure.WriteRenew, view("701", a, 3), 0},
	} {
		t.Run(name, func(t *testing.T) {
			var memory tenure.Memory
			memory.ReadDone(view("700", b, 2), 1*second, 1*second)
			write := renewal("700", 2*second)
			write.Kind = test.kind
			memory.WriteBegun(write)
			memory.ReadDone(test.seen, 3*second, 3*second)
			memory.Settle(a)
			if memory.Right.Renewed != test.want || memory.Write == nil {
				t.Errorf("the right counts from %s, want %s; under way %t", memory.Right.Renewed, test.want, memory.Write != nil)
			}
		})
	}
}

func TestHowLongAPeerHasBeenAsked(t *testing.T) {
	var memory tenure.Memory
	ask := func(kind wire.PeerKind, at tenure.Instant) {
		memory.SentTo(wire.PeerRequest{Kind: kind, To: b}, at)
	}
	lasts := func(kind wire.PeerKind, now tenure.Instant) time.Duration {
		for _, sent := range memory.Sent {
			if sent.To == b.Name && sent.Kind == kind {
				return sent.Lasts(now)
			}
		}
		return -1
	}
	ask(wire.PeerPlace, 10*second)
	ask(wire.PeerPlace, 11*second)
	ask(wire.PeerAsk, 11*second)
	ask(wire.PeerPlace, 12*second)
	if got := lasts(wire.PeerPlace, 12*second); got != 2*time.Second {
		t.Errorf("asked one time after the other for %s, want 2s", got)
	}
	if got := lasts(wire.PeerAsk, 12*second); got != time.Second {
		t.Errorf("another question was asked for %s, want 1s", got)
	}
	if got := lasts(wire.PeerPlace, 13*second+1); got != 0 {
		t.Errorf("asked more than a second ago, and that counts as %s, want 0s", got)
	}
	ask(wire.PeerPlace, 15*second)
	if got := lasts(wire.PeerPlace, 15*second); got != 0 {
		t.Errorf("asked after a break for %s, want 0s", got)
	}
}

// What a member has told of its place stays true when the lease is another one; the term that it knew of was of the one
// before.
func TestAPlaceThatWasToldUnderAnotherLease(t *testing.T) {
	var memory tenure.Memory
	memory.ReadDone(view("700", a, 3), second, second)
	header := wire.PeerHeader{DatabaseUID: "u1", From: b, LeaseUID: "l1", Term: 3}
	request := wire.PeerRequest{PeerHeader: wire.PeerHeader{DatabaseUID: "u1", From: c}, Kind: wire.PeerPlace, To: b}
	reply := wire.PeerReply{PeerHeader: header, Yes: true, Timeline: 5, LSN: 100}
	memory.Replied(request, reply, 2*second, 3*second)
	want := tenure.Place{Member: b, Position: tenure.Position{Timeline: 5, LSN: 100}, Term: 3, At: 2 * second}
	if diff := cmp.Diff([]tenure.Place{want}, memory.Places); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
	other := view("900", a, 1)
	other.UID = "l2"
	memory.ReadDone(other, 4*second, 4*second)
	want.Term = 0
	if diff := cmp.Diff([]tenure.Place{want}, memory.Places); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}
