package sim_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/scenarios"
	"meridian.dev/meridian/test/sim/swarms"
)

var (
	digestFlag  = flag.String("digest", "", "write a digest of many traces to this file")
	againstFlag = flag.String("against", "", "compare the digest with what was written to this file before a change")
	// A tenth as many put volumes back, a tenth run the whole database.
	digestsFlag = flag.Int("digests", 300, "of how many swarms of databases and of caches, each, there is a digest")
)

// TestDigest shows that a change changes nothing: the traces and the plans of many schedules are the same, bit for bit,
// as before it.
//
//	go test ./test/sim -run TestDigest -digest /tmp/before    # before the change
//	go test ./test/sim -run TestDigest -against /tmp/before   # after it: names each schedule that is another one
func TestDigest(t *testing.T) {
	if *digestFlag == "" && *againstFlag == "" {
		t.Skip("it compares two states of the code: see its flags")
	}
	lines := make([]string, len(digestCases()))
	t.Run("of", func(t *testing.T) {
		for index, c := range digestCases() {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				lines[index] = digest(c)
			})
		}
	})
	if *digestFlag != "" {
		if err := os.WriteFile(*digestFlag, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if *againstFlag != "" {
		document, err := os.ReadFile(*againstFlag)
		if err != nil {
			t.Fatal(err)
		}
		differences(t, strings.Split(string(document), "\n"), lines)
	}
}

func differences(t *testing.T, before, after []string) {
	t.Helper()
	if len(before) != len(after) {
		t.Fatalf("%d schedules before, and %d now", len(before), len(after))
	}
	others := 0
	for index := range after {
		if before[index] != after[index] {
			if others++; others <= 20 {
				t.Errorf("another trace:\n  before %s\n  now    %s", before[index], after[index])
			}
		}
	}
	t.Logf("%d of %d schedules have another trace", others, len(after))
}

// digestCases are swarms of all kinds, and every scenario: on the models, and with the loops of production that run the
// servers.
func digestCases() []sim.Case {
	var cases []sim.Case
	for seed := range uint64(*digestsFlag) {
		cases = append(cases, swarms.Swarm(6*(*fromFlag+seed)-2), swarms.Swarm(6*(*fromFlag+seed)-1))
		if seed%10 == 0 {
			cases = append(cases, swarms.PutBackSwarm(*fromFlag+seed), swarms.WholeSwarm(*fromFlag+seed))
		}
	}
	for _, s := range append(scenarios.All(), whole()...) {
		s.Seed = 1
		cases = append(cases, s.Case)
	}
	return cases
}

func digest(c sim.Case) string {
	c.Plans = true
	out := sim.Run(c, false)
	return fmt.Sprintf("%s, seed %d, whole %t: trace %016x plans %016x, %d steps, %d passes, %d acknowledged, %q",
		c.Name, c.Seed, c.Whole, out.Hash, out.Plans, out.Steps, out.Passes, out.Acks, out.Problems)
}
