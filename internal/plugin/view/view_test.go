package view_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/view"
	"meridian.dev/meridian/kit/scenario"
)

// pages stand for the runbook.
var pages = []string{"NoPrimary", "LeaseExpired", "QuorumMissing", "ReplicaJoining", "VolumeLost", "CopiesMissing"}

// TestViews plays each scenario through every view.
func TestViews(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var read struct {
			view.Facts
			Caches []v1alpha1.GeoCache `json:"caches"`
		}
		in.YAML("facts.yaml", &read)
		facts := read.Facts
		for index := range read.Caches {
			facts.Companions = append(facts.Companions, view.Companions[0].Of(&read.Caches[index]))
		}
		of := view.Of(facts)
		var status, check, explain, events bytes.Buffer
		view.Status(&status, view.Style{}, facts.Now, of)
		view.Check(&check, view.Style{}, facts.Database.Name, view.Diagnose(facts, pages))
		view.Explain(&explain, view.Style{}, facts.Now, view.ExplainFacts(facts))
		view.Events(&events, view.Style{}, facts.Now, view.Changes(facts, ""))
		out.SetText("status.txt", status.String())
		out.SetText("check.txt", check.String())
		out.SetText("explain.txt", explain.String())
		out.SetText("events.txt", events.String())
		out.SetText("line.txt", view.Line(of)+"\n")
		return out
	})
}

func TestColours(t *testing.T) {
	of := view.Overview{Namespace: "maps", Name: "cities", Verdict: view.Well}
	var plain, coloured bytes.Buffer
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	view.Status(&plain, view.Style{}, now, of)
	view.Status(&coloured, view.Style{Colour: true}, now, of)
	if strings.Contains(plain.String(), "\x1b") {
		t.Error("colours where none were asked for")
	}
	if !strings.Contains(coloured.String(), "\x1b[32mwell\x1b[0m") {
		t.Errorf("no green verdict in %q", coloured.String())
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0B", 999: "999B", 1024: "1Ki", 1536: "1.5Ki", 1 << 30: "1Gi", 412 << 20: "412Mi", 1023 << 20: "1.0Gi",
	} {
		if got := view.Size(bytes); got != want {
			t.Errorf("%d bytes are %s, want %s", bytes, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for span, want := range map[time.Duration]string{
		-time.Second: "0s", 90 * time.Second: "90s", 5 * time.Minute: "5m", 3 * time.Hour: "3h", 72 * time.Hour: "3d",
	} {
		if got := view.Span(span); got != want {
			t.Errorf("%v is %s, want %s", span, got, want)
		}
	}
}
