package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/internal/plugin/view"
)

// patience is how long the database and the cache may take.
const patience = 4 * time.Minute

var getOptions = metav1.GetOptions{}

// apply sends the sample, as a user does.
func (d *demo) apply(ctx context.Context) error {
	content, err := os.ReadFile(sample)
	if err != nil {
		return err
	}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return fmt.Errorf("read %s: %w", sample, err)
		}
		short, err := yaml.Marshal(object["spec"])
		if err != nil {
			return err
		}
		d.say("%v %v:", object["kind"], object["metadata"].(map[string]any)["name"])
		for line := range strings.Lines(string(short)) {
			d.say("  %s", strings.TrimRight(line, "\n"))
		}
	}
	// Right after the operator has started, the API server may not reach its webhook yet.
	for start := time.Now(); ; {
		err := kubectl(ctx, "-n", namespace, "apply", "-f", sample)
		if err == nil || time.Since(start) > 20*time.Second || !strings.Contains(err.Error(), "webhook") {
			return err
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

// await shows what the operator does and waits for, until all is well.
func (d *demo) await(ctx context.Context) error {
	key := client.ObjectKey{Namespace: namespace, Name: databaseName}
	for start := time.Now(); ; {
		var facts view.Facts
		err := retry(ctx, func() (err error) {
			facts, err = d.cluster.Facts(ctx, key)
			return err
		})
		if err != nil {
			return err
		}
		of := view.Of(facts)
		d.screen.paint(of, facts.Now, time.Since(start))
		switch {
		case of.Verdict == view.Well && companionsWell(of):
			d.screen.close(of, facts.Now)
			d.primary = of.Primary
			for _, instance := range of.Instances {
				if instance.Name == of.Primary {
					d.node = instance.Node
				}
			}
			return nil
		case of.Verdict == view.Stalled:
			return fmt.Errorf("%s: %s (docs/runbook/%s.md)", of.Reason, of.Message, of.Reason)
		case time.Since(start) > patience:
			return fmt.Errorf("not ready after %s: %s", patience, explain(facts))
		}
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
}

// companionsWell says that the cache, which the demo makes beside its database, is there and well.
func companionsWell(of view.Overview) bool {
	for _, one := range of.Companions {
		if one.Verdict != view.Well {
			return false
		}
	}
	return len(of.Companions) > 0
}

func explain(facts view.Facts) string { return view.ExplainFacts(facts).Answer }

// paint shows the whole screen on a terminal, and elsewhere a line whenever something has changed.
func (s *screen) paint(of view.Overview, now time.Time, since time.Duration) {
	if s.terminal {
		var text bytes.Buffer
		view.Status(&text, s.style(), now, of)
		fmt.Fprintf(&text, "  %s so far, usually 10 to 30 s\n", seconds(since))
		s.repaint(text.String())
		return
	}
	line := view.Line(of)
	for _, one := range of.Companions {
		line += "; " + one.Kind.One + " " + one.Name + ": " + string(one.Verdict)
	}
	if line != s.last {
		fmt.Fprintf(s.out, "      [%5.1fs] %s\n", since.Seconds(), line)
		s.last = line
	}
}

func (s *screen) repaint(text string) {
	if s.lines > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.lines)
	}
	s.lines = 0
	for line := range strings.Lines(text) {
		fmt.Fprint(s.out, "      "+line)
		s.lines++
	}
}

// close leaves the last screen where it is.
func (s *screen) close(of view.Overview, now time.Time) {
	var text bytes.Buffer
	view.Status(&text, s.style(), now, of)
	if s.terminal {
		s.repaint(text.String())
		s.lines = 0
		return
	}
	for line := range strings.Lines(text.String()) {
		fmt.Fprint(s.out, "      "+line)
	}
}

var errNotYet = errors.New("not yet")

// retry repeats what may need a moment: Ready says where an address leads, and not that every node knows it already.
func retry(ctx context.Context, do func() error) error {
	for start := time.Now(); ; {
		err := do()
		if err == nil || time.Since(start) > settle {
			return err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}
