package scenario_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"meridian.dev/meridian/kit/scenario"
)

// patternVariable makes this test binary play scenarios in a process of its own,
// in which a failure can be looked at without failing.
const patternVariable = "SCENARIO_PATTERN"

func TestInOwnProcess(t *testing.T) {
	pattern := os.Getenv(patternVariable)
	if pattern == "" {
		t.Skip("only started by TestRun")
	}
	scenario.Run(t, pattern, copyAll)
}

func start(t *testing.T, pattern string, flags ...string) (passed bool, output string) {
	t.Helper()
	command := exec.Command(os.Args[0], append([]string{"-test.run=^TestInOwnProcess$", "-test.v"}, flags...)...)
	command.Env = append(os.Environ(), patternVariable+"="+pattern)
	text, err := command.CombinedOutput()
	return err == nil, string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRun(t *testing.T) {
	folder := t.TempDir()
	pattern, first, second := filepath.Join(folder, "*.txtar"),
		filepath.Join(folder, "first.txtar"), filepath.Join(folder, "second.txtar")
	expect := func(passed bool, parts []string, flags ...string) {
		t.Helper()
		got, output := start(t, pattern, flags...)
		if got != passed {
			t.Errorf("passed is %t:\n%s", got, output)
		}
		for _, part := range parts {
			if !strings.Contains(output, part) {
				t.Errorf("%q is missing in:\n%s", part, output)
			}
		}
	}

	expect(false, []string{"no scenario matches"})
	expect(false, []string{"no scenario matches"}, "-update")

	const good, old = "S.\n-- a --\n1\n-- want/a --\n1\n", "S.\n-- a --\n1\n-- want/a --\n2\n"
	write(t, first, good)
	write(t, second, old)
	expect(false, []string{"PASS: TestInOwnProcess/first", "FAIL: TestInOwnProcess/second",
		"want/a differs", "run the test again with -update"})
	if got := read(t, second); got != old {
		t.Errorf("without -update the scenario became %q", got)
	}

	expect(true, []string{"updated " + second}, "-update")
	if got := read(t, second); got != good {
		t.Errorf("after -update the scenario is %q", got)
	}
	expect(true, nil)

	const broken = "-- a --\n1\n-- want/a --\n2\n"
	write(t, second, broken)
	expect(false, []string{"has no story"}, "-update")
	if got := read(t, second); got != broken {
		t.Errorf("a scenario with a problem was updated to %q", got)
	}

	if passed, output := start(t, "[", "-update"); passed || !strings.Contains(output, "find scenarios [") {
		t.Errorf("a malformed pattern: %s", output)
	}
}
