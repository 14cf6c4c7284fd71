package recall_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/recall"
)

var given = flag.String("bundle", "testdata/towns.tar.gz", "bundle of kubectl meridian snapshot to decide on")

// TestBundle decides on a bundle that somebody has sent. The plan must keep every invariant, and the same bundle must
// give the same words twice. Of the one in testdata it is known what comes out.
func TestBundle(t *testing.T) {
	file, err := os.Open(*given)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	story, err := recall.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	decision := recall.Play(story)
	for _, violation := range decision.Violations {
		t.Errorf("the plan breaks %s: %s", violation.Rule, violation.Detail)
	}
	text := printed(t, story)
	if again := printed(t, story); again != text {
		t.Errorf("twice (-first +second):\n%s", cmp.Diff(text, again))
	}
	t.Logf("\n%s", text)
	if flag.Lookup("bundle").DefValue != *given {
		return
	}
	for _, want := range []string{
		"GeoDatabase gis/towns at", "\nWas assumed\n", "towns-3 cannot start: database: ImagePullBackOff",
		"\nInvariants\n  all hold\n", "  Serving is True: AcceptingWrites: towns-2",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
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

const secret = "hunter2"

// snapshot is that of one instance that was started for what the spec says, secrets included.
func snapshot() database.Snapshot {
	seen := database.Snapshot{
		Now:      time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Identity: database.Identity{Namespace: "gis", Name: "cities", UID: "db-1", Generation: 1},
		Images:   database.Images{Agent: "meridian:1", Server: "postgis"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: 1, Version: "17", Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")},
			Bootstrap:  v1alpha1.Bootstrap{Database: "app", Owner: "app"},
			Parameters: map[string]v1alpha1.Setting{"app.key": secret, "work_mem": "4MB"},
			PodTemplate: &v1alpha1.PodTemplate{
				Metadata: &v1alpha1.PodMetadata{Annotations: map[string]string{"example.com/key": secret}},
				Spec: &runtime.RawExtension{Raw: []byte(
					`{"containers":[{"name":"side","image":"a:1","env":[{"name":"A","value":"` + secret + `"}]}]}`)},
			},
		},
		Settings: database.Settings{UID: "s", Instances: []string{"cities-1"}},
		Lease:    database.Lease{UID: "l", Problem: "postgresql://app:" + secret + "@x"},
	}
	seen.Instances = []database.Instance{{
		Serial: 1, Name: "cities-1", Set: &database.Set{UID: "a"}, Pod: &database.Pod{UID: "b"},
		Report: database.Report{Reachable: true, Parameters: []database.Parameter{
			{Name: "app.key", State: "refused", Wanted: secret}, {Name: "work_mem", State: "refused", Wanted: "4MB"},
		}},
	}}
	design := design.Of(seen)
	pod, set := seen.Instances[0].Pod, seen.Instances[0].Set
	seen.Settings.Hash = render.Settings(design).Hash()
	seen.Instances[0].Report.SettingsHash, pod.Settings = seen.Settings.Hash, seen.Settings.Hash
	pod.Template, pod.Wish = render.Template(design, "cities-1"), render.Wish(seen.Spec)
	pod.Metadata = render.Metadata(seen.Spec)
	set.Template, set.Wish = pod.Template, pod.Wish
	return seen
}

// TestRedacted shows that what follows from a spec still follows when its secrets are gone, and what did not, does not.
func TestRedacted(t *testing.T) {
	for name, test := range map[string]struct {
		old  bool
		want bool
	}{"an instance as wanted": {false, true}, "an instance of an earlier wish": {true, false}} {
		t.Run(name, func(t *testing.T) {
			seen := snapshot()
			pod := seen.Instances[0].Pod
			if test.old {
				before := seen
				before.Spec.PodTemplate = nil
				pod.Template, pod.Wish, pod.Settings = "old", render.Wish(before.Spec), "old"
				pod.Metadata = `{"annotations":{"example.com/key":"` + secret + `-before"}}`
			}
			after, err := recall.Redacted(seen)
			if err != nil {
				t.Fatal(err)
			}
			document, err := json.Marshal(after)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(document), secret) || !strings.Contains(string(document), "4MB") {
				t.Errorf("the snapshot is %s", document)
			}
			design, pod := design.Of(after), after.Instances[0].Pod
			got := map[string]bool{
				"template": pod.Template == render.Template(design, "cities-1"),
				"wish":     render.SameWish(after.Spec, pod.Wish),
				"metadata": pod.Metadata == render.Metadata(after.Spec),
				"settings": pod.Settings == render.Settings(design).Hash(),
			}
			want := map[string]bool{"template": test.want, "wish": test.want, "metadata": test.want, "settings": test.want}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("as wanted (-want +got):\n%s", diff)
			}
			if strings.Contains(printed(t, recall.Story{Seen: after}), secret) {
				t.Error("a secret is printed")
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, content := range map[string]string{
		"nothing":          "",
		"another file":     "hello",
		"an unknown field": "x\n-- seen.yaml --\nname: a\nfuture: 1\n",
		"no name":          "x\n-- seen.yaml --\nnamespace: a\n",
	} {
		if _, err := recall.Open(strings.NewReader(content)); err == nil {
			t.Errorf("%s is taken for a bundle", name)
		}
	}
}
