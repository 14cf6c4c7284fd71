package checks_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/test/e2e/checks"
	"meridian.dev/meridian/test/e2e/traffic"
)

const ms = time.Millisecond

func ack(id int64, timeline string, begin, end time.Duration) traffic.Operation {
	return traffic.Operation{ID: id, Timeline: timeline, Begin: begin, End: end, Fate: traffic.Acknowledged}
}

func TestAnAcknowledgedWriteThatIsNotThereIsLost(t *testing.T) {
	operations := []traffic.Operation{
		ack(1, "00000001", 0, 1*ms), ack(2, "00000001", 1*ms, 2*ms),
		{ID: 3, Fate: traffic.Unknown}, {ID: 4, Fate: traffic.Failed},
	}
	verdict := checks.Judge(operations, []int64{1, 3}, checks.Times{})
	lost := len(verdict.Lost) == 1 && verdict.Lost[0] == 2
	if !lost || verdict.Unknown != 1 || verdict.Failed != 1 || verdict.Bad() == "" {
		t.Errorf("%+v", verdict)
	}
	if verdict.Invalid() == "" {
		t.Error("a run with two writes counts")
	}
	if verdict = checks.Judge(operations, []int64{1, 2}, checks.Times{}); verdict.Bad() != "" {
		t.Errorf("%+v", verdict)
	}
}

func TestTwoWriters(t *testing.T) {
	for name, test := range map[string]struct {
		operations []traffic.Operation
		want       time.Duration
	}{
		"one after the other": {[]traffic.Operation{ack(1, "00000001", 0, 5*ms), ack(2, "00000002", 6*ms, 9*ms)}, 0},
		"the old one answers late what it did in time": {
			[]traffic.Operation{ack(1, "00000001", 0, 20*ms), ack(2, "00000002", 6*ms, 9*ms)}, 0,
		},
		"the old one goes on": {
			[]traffic.Operation{ack(1, "00000001", 16*ms, 20*ms), ack(2, "00000002", 6*ms, 9*ms)}, 7 * ms,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := checks.Overlap(test.operations); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestTheGapIsAroundTheFault(t *testing.T) {
	operations := []traffic.Operation{
		ack(1, "1", 0, 1*ms), ack(2, "1", 0, 101*ms), ack(3, "1", 0, 110*ms), ack(4, "2", 0, 150*ms),
	}
	if got := checks.Gap(operations, checks.Times{Fault: 105 * ms, End: 155 * ms}); got != 40*ms {
		t.Errorf("%s", got)
	}
	late := append(operations, ack(5, "2", 0, 900*ms), ack(6, "2", 0, 1900*ms))
	if got := checks.Gap(late, checks.Times{Fault: 105 * ms, End: 155 * ms}); got != 40*ms {
		t.Errorf("with what came after the end: %s", got)
	}
	if got := checks.Gap(operations, checks.Times{Fault: 105 * ms, End: 250 * ms}); got != 100*ms {
		t.Errorf("writes that do not come back by the end: %s", got)
	}
}

func TestGapsOfSomeLength(t *testing.T) {
	operations := []traffic.Operation{ack(1, "1", 0, 10*ms), ack(2, "1", 0, 20*ms), ack(3, "1", 0, 60*ms)}
	want := []checks.Stretch{{Begin: 20 * ms, End: 60 * ms}, {Begin: 60 * ms, End: 95 * ms}}
	if diff := cmp.Diff(want, checks.Gaps(operations, checks.Times{End: 95 * ms}, 30*ms)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatTheStatusSaysIsComparedWithWhatClientsSaw(t *testing.T) {
	var operations []traffic.Operation
	serve := func(server string, from, to time.Duration) {
		for at := from; at <= to; at += 50 * ms {
			operation := ack(int64(at), "1", at-1, at)
			operation.Server = server
			operations = append(operations, operation)
		}
	}
	serve("a", 0, 1000*ms)
	serve("b", 3000*ms, 6000*ms)
	well := func(at time.Duration, primary string) checks.Statement {
		return checks.Statement{At: at, Ready: true, Serving: true, Primary: primary}
	}
	for name, test := range map[string]struct {
		statements []checks.Statement
		want       checks.Truth
	}{
		"it notices nothing": {
			[]checks.Statement{well(100*ms, "a")}, checks.Truth{Promised: 1990 * ms, Misnamed: 2980 * ms},
		},
		"it notices both": {
			[]checks.Statement{well(100*ms, "a"), {At: 1200 * ms, Why: "NoPrimary"}, well(3200*ms, "b")},
			checks.Truth{Promised: 180 * ms, Denied: 180 * ms, Misnamed: 180 * ms, Reasons: "NoPrimary"},
		},
		"it says Ready only": {[]checks.Statement{{At: 1100 * ms, Ready: true}, {At: 2000 * ms, Silent: true}},
			checks.Truth{Promised: 890 * ms}},
		"nobody can be asked": {[]checks.Statement{well(100*ms, "a"), {At: 1000 * ms, Silent: true}, well(3100*ms, "b")},
			checks.Truth{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, checks.Compare(test.statements, operations, 6000*ms)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRegisters(t *testing.T) {
	op := func(read bool, value int64, begin, end time.Duration) traffic.Operation {
		return traffic.Operation{
			Client: "r", Register: 1, Read: read, Value: value, Begin: begin, End: end, Fate: traffic.Acknowledged,
		}
	}
	good := []traffic.Operation{op(false, 5, 0, 1), op(true, 5, 2, 3), op(false, 6, 4, 5), op(true, 6, 6, 7)}
	if got := checks.Registers(good); got != "Ok" {
		t.Errorf("%s", got)
	}
	stale := append(good, op(true, 5, 8, 9))
	if got := checks.Registers(stale); got != "Illegal" {
		t.Errorf("a read of the past is %s", got)
	}
}
