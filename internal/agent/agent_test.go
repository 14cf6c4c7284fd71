package agent_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/agent"
)

func TestInstall(t *testing.T) {
	folder := t.TempDir()
	source, target := filepath.Join(folder, "source"), filepath.Join(folder, "target")
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := agent.Install(source, target); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(target)
		if string(got) != content || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		if info, err := os.Stat(target); err != nil || info.Mode() != 0o755 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 2 {
		t.Errorf("drafts were left: %v", entries)
	}
	if err := agent.Install(filepath.Join(folder, "absent"), target); err == nil {
		t.Error("a program that is not there was installed")
	}
}

func TestOptionsNameWhatIsMissing(t *testing.T) {
	options := agent.Options{
		Database: "cities", Instance: "cities-1", Namespace: "here", Pod: "cities-1-0", Address: "10.0.0.1",
		ReportAddress: ":8700", Fast: time.Second, Immediate: time.Second,
	}
	if err := options.Check(); err != nil {
		t.Error(err)
	}
	nameless, placeless, deaf, boundless := options, options, options, options
	nameless.Database, placeless.Address, deaf.ReportAddress, boundless.Fast = "", "", "8700", 0
	if err := placeless.Check(); err == nil || !strings.Contains(err.Error(), "POD_IP") {
		t.Errorf("error %v", err)
	}
	if err := deaf.Check(); err == nil {
		t.Error("an address without a port is accepted")
	}
	if err := nameless.Check(); err == nil || !strings.Contains(err.Error(), "MERIDIAN_DATABASE") {
		t.Errorf("error %v", err)
	}
	if err := boundless.Check(); err == nil {
		t.Error("a stop without bounds is accepted")
	}
}

func TestProbes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, test := range map[string]struct {
		shown       *agent.Shown
		ago         time.Duration
		live, ready int
	}{
		"before the first pass":       {nil, 0, 200, 503},
		"ready":                       {&agent.Shown{Ready: true, At: now.Add(-time.Second)}, 0, 200, 200},
		"not ready":                   {&agent.Shown{At: now.Add(-time.Second)}, 0, 200, 503},
		"in a long step":              {&agent.Shown{Ready: true, At: now.Add(-time.Minute)}, 0, 200, 200},
		"the loop stands still":       {&agent.Shown{Ready: true, At: now.Add(-time.Hour)}, 0, 503, 503},
		"the other loop stands still": {&agent.Shown{Ready: true, At: now}, time.Hour, 503, 503},
		"the clock was set forward":   {&agent.Shown{Ready: true, At: now.Add(time.Hour)}, 0, 200, 200},
	} {
		t.Run(name, func(t *testing.T) {
			if live, ready := agent.Probe(test.shown, now, test.ago); live != test.live || ready != test.ready {
				t.Errorf("live %d, ready %d; want %d, %d", live, ready, test.live, test.ready)
			}
		})
	}
}

// TestStart waits longer than any other answer may take. An agent that is long past its beginning does not wait.
func TestStart(t *testing.T) {
	t.Parallel()
	const wait = 11 * time.Second
	if code, took := agent.Start(t, 0, wait); code != http.StatusOK || took < wait {
		t.Errorf("a new instance: %d after %v", code, took)
	}
	if code, took := agent.Start(t, time.Hour, time.Hour); code != http.StatusOK || took > wait {
		t.Errorf("an old instance: %d after %v", code, took)
	}
}
