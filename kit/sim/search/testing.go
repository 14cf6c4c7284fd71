package search

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// replayed is a file that Save wrote. The flag belongs to the whole test binary.
var replayed = flag.String("sim.replay", "", "run the schedule of this file instead of searching")

// Saved is a schedule in a file, with what is needed to know that it still means the same.
type Saved struct {
	Scenario  string     `json:"scenario"`
	Violation *Violation `json:"violation,omitempty"`
	// Hash is that of the trace, when it was saved.
	Hash     string   `json:"hash"`
	Schedule Schedule `json:"schedule"`
}

// Save writes the schedule of a run into a file.
func Save(path string, scenario Scenario, result Result) error {
	content, err := json.MarshalIndent(Saved{
		Scenario: scenario.Name, Violation: result.Violation, Hash: result.Hash, Schedule: result.Schedule,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("encode a schedule: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("save a schedule: %w", err)
	}
	if err := os.WriteFile(path, append(content, '\n'), 0o600); err != nil {
		return fmt.Errorf("save a schedule: %w", err)
	}
	return nil
}

// Load reads what Save wrote.
func Load(path string) (Saved, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Saved{}, fmt.Errorf("load a schedule: %w", err)
	}
	var saved Saved
	if err := json.Unmarshal(content, &saved); err != nil {
		return Saved{}, fmt.Errorf("load the schedule %s: %w", path, err)
	}
	return saved, nil
}

// Test searches, and fails with the story of what it found, the file that it was saved to, and the command that runs it
// again; the test goes on. With -sim.replay it runs that file instead.
func Test(t *testing.T, scenario Scenario, options Options) Report {
	t.Helper()
	if *replayed != "" {
		replay(t, scenario, options.Turns)
		return Report{}
	}
	report, err := Explore(scenario, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(report)
	if report.Failure == nil {
		return report
	}
	failed := report.Failure
	// Each test has its own: two that search the same scenario in other ways do not overwrite what the other has found.
	name := strings.NewReplacer("/", "-", " ", "_").Replace(t.Name()) + ".json"
	file, err := filepath.Abs(filepath.Join("testdata", "failed", name))
	if err != nil {
		t.Fatal(err)
	}
	again := fmt.Sprintf("go test -run '^%s$' -v . -sim.replay=%s", t.Name(), file)
	if err := Save(file, scenario, failed.Result); err != nil {
		again = err.Error()
	}
	t.Errorf("%s\nfound after %d schedules with %d decisions, shrunk to %d:\n%s\nthe story:\n%s\nagain with:\n%s",
		failed.Violation, failed.After, len(failed.Found.Decisions), len(failed.Schedule.Decisions),
		failed.Schedule, failed.Story(), again)
	return report
}

func replay(t *testing.T, scenario Scenario, turns int) {
	t.Helper()
	saved, err := Load(*replayed)
	if err != nil {
		t.Fatal(err)
	}
	if saved.Scenario != scenario.Name {
		t.Skipf("the file is of the scenario %s", saved.Scenario)
	}
	result, err := Run(scenario, saved.Schedule, turns)
	if err != nil {
		t.Fatal(err)
	}
	if result.Hash != saved.Hash {
		t.Logf("the trace is another one than it was when the schedule was saved: the code has changed since")
	}
	t.Logf("the story:\n%s", result.Story())
	if result.Violation != nil {
		t.Fatal(result.Violation)
	}
}
