package main

import (
	"bytes"
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRun(t *testing.T) {
	tests := map[string]struct {
		args       []string
		wantCode   int
		wantStdout string // a part of it
		wantStderr string // a part of it
	}{
		"no command explains itself": {
			wantStdout: "Runs geographic databases on Kubernetes",
		},
		"version as text": {
			args:       []string{"version"},
			wantStdout: "meridian devel " + runtime.Version(),
		},
		"version as JSON": {
			args:       []string{"version", "-o", "json"},
			wantStdout: `"version": "devel"`,
		},
		"unknown format is refused with the way out": {
			args:       []string{"version", "-o", "xml"},
			wantCode:   1,
			wantStderr: `meridian: unknown output format "xml": use text or json`,
		},
		"rights for all namespaces": {
			args:       []string{"rbac"},
			wantStdout: "kind: ClusterRole\n",
		},
		"rights for some namespaces": {
			args:       []string{"rbac", "--namespaces", "roses,tulips"},
			wantStdout: "namespace: tulips\n",
		},
		"what somebody saw is decided on again": {
			args:       []string{"recall", "../../internal/recall/testdata/towns.tar.gz"},
			wantStdout: "Invariants\n  all hold\n",
		},
		"a bundle that is not there": {
			args:       []string{"recall", "nowhere.tar.gz"},
			wantCode:   1,
			wantStderr: "open the bundle: open nowhere.tar.gz",
		},
		"the operator takes no argument": {
			args:       []string{"operator", "now"},
			wantCode:   1,
			wantStderr: "now",
		},
		"unknown command is refused": {
			args:       []string{"fly"},
			wantCode:   1,
			wantStderr: `unknown command "fly"`,
		},
		"version takes no argument": {
			args:       []string{"version", "now"},
			wantCode:   1,
			wantStderr: "now",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(test.args, &stdout, &stderr); code != test.wantCode {
				t.Errorf("exit code %d, want %d; stderr: %s", code, test.wantCode, &stderr)
			}
			if !strings.Contains(stdout.String(), test.wantStdout) {
				t.Errorf("stdout %q lacks %q", &stdout, test.wantStdout)
			}
			if !strings.Contains(stderr.String(), test.wantStderr) {
				t.Errorf("stderr %q lacks %q", &stderr, test.wantStderr)
			}
		})
	}
}

func TestVersionJSONHasTheNamesThatScriptsRead(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"version", "--output=json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d; stderr: %s", code, &stderr)
	}
	var got map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatalf("parse %q: %v", &stdout, err)
	}
	for _, key := range []string{"version", "go", "platform"} {
		if value, _ := got[key].(string); value == "" {
			t.Errorf("no %q in %s", key, &stdout)
		}
	}
}

func TestFactsOf(t *testing.T) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	tests := map[string]struct {
		linked string
		info   *debug.BuildInfo
		want   buildFacts
	}{
		"nothing known": {
			want: buildFacts{Version: "devel", Go: runtime.Version(), Platform: platform},
		},
		"built in a work tree": {
			info: &debug.BuildInfo{
				Main: debug.Module{Version: "(devel)"},
				Settings: []debug.BuildSetting{
					{Key: "vcs.revision", Value: "4f2a"},
					{Key: "vcs.modified", Value: "true"},
				},
			},
			want: buildFacts{
				Version: "devel", Commit: "4f2a", Modified: true, Go: runtime.Version(), Platform: platform,
			},
		},
		"installed by go install": {
			info: &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}},
			want: buildFacts{Version: "v0.1.0", Go: runtime.Version(), Platform: platform},
		},
		"the linker's word wins": {
			linked: "v0.2.0",
			info:   &debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}},
			want:   buildFacts{Version: "v0.2.0", Go: runtime.Version(), Platform: platform},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, factsOf(test.linked, test.info)); diff != "" {
				t.Errorf("facts differ (-want +got):\n%s", diff)
			}
		})
	}
}
