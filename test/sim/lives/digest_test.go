package lives_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/lives"
)

var (
	digestFlag  = flag.String("digest", "", "write a digest of the traces of every life to this file")
	againstFlag = flag.String("against", "", "compare the digest with what was written to this file before a change")
	digestsFlag = flag.Int("digests", 401, "of every how manyth single fault in each life there is a digest")
)

// TestDigest shows that a change of the operator's loops changes nothing: the traces of some schedules of each life are
// the same, call for call, as before it.
//
//	go test ./test/sim/lives -run TestDigest -digest /tmp/before    # before the change
//	go test ./test/sim/lives -run TestDigest -against /tmp/before   # after it: names each life that is another one
func TestDigest(t *testing.T) {
	if *digestFlag == "" && *againstFlag == "" {
		t.Skip("it compares two states of the code: see its flags")
	}
	var lock sync.Mutex
	var lines []string
	t.Run("of", func(t *testing.T) {
		each(t, func(t *testing.T, life lives.Life, scenario search.Scenario) {
			t.Parallel()
			report, err := search.Explore(scenario, search.Options{
				Turns: turns, Every: *digestsFlag, Pairs: 1, Swarm: 1, Seed: 1, Alone: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			lock.Lock()
			defer lock.Unlock()
			lines = append(lines, fmt.Sprintf("%s: %d schedules, %s", life.Name, report.Schedules, report.Digest))
		})
	})
	slices.Sort(lines)
	if *digestFlag != "" {
		if err := os.WriteFile(*digestFlag, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if *againstFlag == "" {
		return
	}
	document, err := os.ReadFile(*againstFlag)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Split(string(document), "\n")
	if len(before) != len(lines) {
		t.Errorf("%d lives before, and %d now", len(before), len(lines))
	}
	for _, line := range lines {
		if !slices.Contains(before, line) {
			t.Errorf("it was not so before: %s", line)
		}
	}
}
