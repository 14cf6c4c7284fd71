package checks_test

import (
	"testing"
	"time"

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
	verdict := checks.Judge(operations, []int64{1, 3}, 0)
	lost := len(verdict.Lost) == 1 && verdict.Lost[0] == 2
	if !lost || verdict.Unknown != 1 || verdict.Failed != 1 || verdict.Bad() == "" {
		t.Errorf("%+v", verdict)
	}
	if verdict.Invalid() == "" {
		t.Error("a run with two writes counts")
	}
	if verdict = checks.Judge(operations, []int64{1, 2}, 0); verdict.Bad() != "" {
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
	if got := checks.Gap(operations, 105*ms); got != 40*ms {
		t.Errorf("%s", got)
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
