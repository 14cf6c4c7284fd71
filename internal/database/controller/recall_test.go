package controller_test

import (
	"bytes"
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/plugin/bundle"
	"meridian.dev/meridian/internal/recall"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// take takes a snapshot the way a person does, and reads it back from its file.
func (w *town) take() (recall.Story, string) {
	w.t.Helper()
	source := recall.Source{
		Reader: w.admin, Scheme: w.admin.Scheme(), Now: w.clock.Now,
		Ask: func(ctx context.Context, pod corev1.Pod) (wire.Report, error) {
			report, err := w.ask(ctx, service.Agent{Address: pod.Status.PodIP})
			return report.Public(), err
		},
	}
	story, err := source.Take(w.t.Context(), w.database())
	w.must(err)
	document, err := story.Encode()
	w.must(err)
	story, err = recall.Decode([]byte(document))
	w.must(err)
	return story, document
}

// TestRecall has decisions made again from what a person saw: those of a database that is well, of one whose spec has a
// secret in it, and of one to which a change has done harm.
func TestRecall(t *testing.T) {
	w := rollTown(t)
	idle := func(what string) string {
		story, document := w.take()
		decision := recall.Play(story)
		if len(decision.Plan.Actions)+len(decision.Plan.Holds)+len(decision.Violations) > 0 {
			t.Errorf("%s: %v", what, printed(t, story))
		}
		return document
	}
	idle("a database that is well")

	const secret = "hunter2"
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) {
		spec.PodTemplate = &v1alpha1.PodTemplate{
			Metadata: &v1alpha1.PodMetadata{Annotations: map[string]string{"example.com/key": secret}},
			Spec: &runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"side","image":"side:1",` +
				`"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}},` +
				`"args":["` + secret + `"],"env":[{"name":"TOKEN","value":"` + secret + `"}]}]}`)},
		}
	})
	w.until("the secret is everywhere", func() bool { return w.ready() && len(w.births) == 3 })
	if document := idle("a database with a secret"); strings.Contains(document, secret) {
		t.Errorf("a secret is in\n%s", document)
	}

	w.bad = []string{"side:2"}
	w.wish(func(spec *v1alpha1.GeoDatabaseSpec) {
		spec.PodTemplate.Spec.Raw = bytes.ReplaceAll(spec.PodTemplate.Spec.Raw, []byte("side:1"), []byte("side:2"))
	})
	w.until("the change has stopped", func() bool {
		stalled := condition.Find(w.database().Status.Conditions, v1alpha1.ConditionStalled)
		return stalled != nil && stalled.Reason == "RollStopped"
	})
	story, document := w.take()
	decision := recall.Play(story)
	stopped := func(hold database.Hold) bool { return hold.Name == "RollStopped" }
	if !slices.ContainsFunc(decision.Plan.Holds, stopped) || len(decision.Plan.Actions)+len(decision.Violations) > 0 {
		t.Errorf("a change that has stopped: %s", printed(t, story))
	}
	if strings.Contains(document, secret) {
		t.Errorf("a secret is in\n%s", document)
	}
	if file := os.Getenv("MERIDIAN_TEST_BUNDLE"); file != "" {
		w.must(os.WriteFile(file, packed(t, story, document), 0o600))
	}
}

func printed(t *testing.T, story recall.Story) string {
	t.Helper()
	var text bytes.Buffer
	if err := recall.Print(&text, story, recall.Play(story)); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// packed is the bundle from which the one in internal/recall/testdata was made.
func packed(t *testing.T, story recall.Story, document string) []byte {
	t.Helper()
	var file bytes.Buffer
	writer := bundle.New(&file, "gis-towns", story.Seen.Now)
	if err := writer.Redacted(recall.FileName, document); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}
