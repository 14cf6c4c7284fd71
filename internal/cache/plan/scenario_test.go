package plan_test

import (
	stdcmp "cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/design"
	"meridian.dev/meridian/internal/cache/invariant"
	"meridian.dev/meridian/internal/cache/plan"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/cache/status"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/scenario"
)

var author = apply.Author{Scheme: scheme.Scheme, Prefix: cache.AnnotationPrefix, Manager: cache.FieldManager}

// TestStories plays the stories. Each starts from a small cache called tiles.
//
//   - before.yaml, if it is there, says that the cache runs already; it is a merge patch to the spec, with what was
//     different when children, pod and server were last changed. Without it nothing exists.
//   - snapshot.yaml is laid over all that: what is different in this story.
//   - want/plan.yaml is the decision, want/status.txt what a user sees of it after the plan was carried out.
func TestStories(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		snapshot := base()
		// Twice: what runs already depends on the spec of the story, and the story has the last word on all of it.
		in.YAML("snapshot.yaml", &snapshot)
		var past *cache.Snapshot
		if in.Has("before.yaml") {
			before, err := patched(snapshot, in.Text("before.yaml"))
			if err != nil {
				in.Fail(err)
			}
			run(&snapshot, &before)
			past = &before
			in.YAML("snapshot.yaml", &snapshot)
		}
		told := snapshot.Children
		if err := compare(&snapshot, past, told); err != nil {
			in.Fail(err)
		}
		decided := plan.Decide(snapshot)
		for _, violation := range invariant.Check(snapshot, decided) {
			in.Fail(fmt.Errorf("the plan breaks %s: %s", violation.Rule, violation.Detail))
		}
		out.SetYAML("plan.yaml", decided)
		seen, err := statusOf(snapshot, decided)
		if err != nil {
			in.Fail(err)
		}
		out.SetText("status.txt", seen)
		return out
	})
}

func base() cache.Snapshot {
	memory := resource.MustParse("64Mi")
	return cache.Snapshot{
		Now:      time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Identity: cache.Identity{Namespace: "gis", Name: "tiles", UID: "gc-1", Generation: 1},
		Images:   cache.Images{Agent: "meridian:1", Redis: "redis:8", Valkey: "valkey:8"},
		Database: cache.Database{Exists: true},
		Spec: v1alpha1.GeoCacheSpec{
			DatabaseRef: v1alpha1.DatabaseRef{Name: "cities"}, Replicas: 1, Memory: &memory,
			EvictionPolicy: v1alpha1.EvictAllLRU, Engine: v1alpha1.EngineRedis,
		},
		Certificates: cache.Certificates{Steps: []string{"create authority", "issue leaf"}},
	}
}

// run fills in what a running cache has: it is as the past wanted it.
func run(snapshot, before *cache.Snapshot) {
	secret := func(name string) cache.Secret {
		return cache.Secret{Exists: true, UID: "uid-" + name, ResourceVersion: "7"}
	}
	before.Instances = nil // What the story says of them is laid over what runs.
	agreed(before)
	agreed(snapshot)
	wanted := design.Of(*before)
	limit := wire.CacheLimit(wanted.Memory())
	wish, hash := render.Wish(before.Spec), render.Settings(wanted).Hash()
	snapshot.Binding, snapshot.Stored = secret("app"), cache.Settings{
		LeaseUID: "uid-lease", Hash: hash, ReplicationAlone: wanted.ReplicationAlone,
	}
	before.Stored = snapshot.Stored
	snapshot.Certificates = cache.Certificates{Authority: secret("ca"), Leaf: secret("tls"), Authorities: 1}
	snapshot.Instances = nil
	for _, name := range wanted.Instances {
		serial, _ := cache.SerialOf("tiles", name)
		number := strings.TrimPrefix(name, "tiles-")
		suffix := strings.TrimPrefix(number, "1")
		instance := cache.Instance{
			Serial: serial, Name: name,
			Set: &cache.Set{UID: "uid-set" + suffix, ResourceVersion: "5", Observed: true, Wish: wish, Template: "t1"},
			Pod: &cache.Pod{
				UID: "uid-pod" + suffix, ResourceVersion: "6", Wish: wish, Template: "t1", Ready: true, Node: "node" + number,
				Address: "10.0.0." + number, Limit: limit, Actual: limit,
			},
			Report: cache.Report{
				Reachable: true, State: "running", Role: "replica", Serving: true, Streams: true, ServerVersion: "8.0.2",
				Allowed: wanted.Memory(), Used: 8 << 20, Resident: 20 << 20, SettingsHash: hash,
				ReplicationPassword: true,
			},
		}
		if name == snapshot.Lease.Holder {
			instance.Report.Role, instance.Report.Streams = "primary", false
		}
		snapshot.Lease.Members = append(snapshot.Lease.Members, name)
		snapshot.Instances = append(snapshot.Instances, instance)
	}
	before.Lease, before.Instances = snapshot.Lease, snapshot.Instances
}

// agreed says that the agents have agreed on tiles-1, or whom the story names, and that the write address leads there.
func agreed(snapshot *cache.Snapshot) {
	holder := stdcmp.Or(snapshot.Lease.Holder, "tiles-1")
	snapshot.Lease = cache.Lease{UID: "uid-lease", Holder: holder, Term: 3}
	snapshot.Route = cache.Route{Family: "IPv4", Target: holder, Term: 3}
}

// compare does what observe does, with children as they were written before. Children that the story names stay.
func compare(snapshot, before *cache.Snapshot, told []cache.Child) error {
	snapshot.Children = nil
	wanted, err := render.Children(design.Of(*snapshot))
	if err != nil {
		snapshot.Problem = err.Error()
	}
	for _, child := range wanted {
		fact := cache.Child{Kind: child.Kind, Name: child.Name, State: cache.Absent}
		if before != nil {
			if fact, err = difference(child, *snapshot, *before); err != nil {
				return err
			}
		}
		for _, own := range told {
			if own.Kind == child.Kind && own.Name == child.Name {
				fact = own
			}
		}
		snapshot.Children = append(snapshot.Children, fact)
	}
	return nil
}

func difference(child render.Child, snapshot, before cache.Snapshot) (cache.Child, error) {
	fact := cache.Child{
		Kind: child.Kind, Name: child.Name, State: cache.Same, UID: "uid-" + child.Name, ResourceVersion: "5",
	}
	written, err := render.Find(design.Of(before), child.Kind, child.Name)
	if err != nil {
		//nolint:nilerr // It was not wanted before.
		return cache.Child{Kind: child.Kind, Name: child.Name, State: cache.Absent}, nil
	}
	want, err := author.Intent(child.Object, types.UID(snapshot.UID))
	if err != nil {
		return fact, err
	}
	was, err := author.Intent(written, types.UID(snapshot.UID))
	if err != nil || want.Hash() == was.Hash() {
		return fact, err
	}
	fact.State = cache.Changed
	live := written.(client.Object)
	marks := map[string]string{cache.AnnotationOwner: snapshot.UID}
	maps.Copy(marks, live.GetAnnotations())
	live.SetAnnotations(marks)
	for _, change := range apply.Compare(want, live).Changes {
		fact.Changes = append(fact.Changes, change.Path)
	}
	return fact, nil
}

func patched(snapshot cache.Snapshot, patch string) (cache.Snapshot, error) {
	document, err := json.Marshal(snapshot)
	if err != nil {
		return snapshot, err
	}
	change, err := yaml.YAMLToJSON([]byte(patch))
	if err != nil {
		return snapshot, err
	}
	if document, err = jsonpatch.MergePatch(document, change); err != nil {
		return snapshot, err
	}
	var before cache.Snapshot
	return before, yaml.UnmarshalStrict(document, &before)
}

// statusOf prints what a user sees, one condition a line, and refuses conditions that mislead.
func statusOf(snapshot cache.Snapshot, decided cache.Plan) (string, error) {
	pass := status.Pass{Snapshot: snapshot, Plan: decided}
	for _, action := range decided.Actions {
		pass.Outcome.Results = append(pass.Outcome.Results, cache.Result{Action: action, Done: true, Wrote: true})
	}
	after, events := status.Report(v1alpha1.GeoCacheStatus{}, pass)
	again, _ := status.Report(after, pass)
	if diff := cmp.Diff(after, again); diff != "" {
		return "", fmt.Errorf("the same pass gives another status the second time:\n%s", diff)
	}
	view := condition.View{
		Generation: snapshot.Generation, ObservedGeneration: after.ObservedGeneration,
		Deleting: snapshot.Deleting, Conditions: after.Conditions,
	}
	if problems := condition.Check(view); len(problems) > 0 {
		return "", fmt.Errorf("misleading conditions: %v", problems)
	}
	if unknown := status.Reasons.Unknown(after.Conditions); len(unknown) > 0 {
		return "", fmt.Errorf("reasons that are not in the catalogue: %v", unknown)
	}
	verdict, _ := condition.Read(view)
	var text strings.Builder
	fmt.Fprintf(&text, "kstatus %s; primary %q; ready %d of %d; memory %v; version %q\n",
		verdict, after.Primary, after.ReadyReplicas, after.Replicas, after.Memory, after.Version)
	for _, one := range after.Conditions {
		fmt.Fprintf(&text, "%-11s %-7s %s\n", one.Type, one.Status, one.Reason)
	}
	if after.WaitingFor != "" {
		fmt.Fprintf(&text, "waiting for: %s\n", after.WaitingFor)
	}
	for _, event := range events {
		fmt.Fprintf(&text, "event %s: %s\n", event.Reason, event.Note)
	}
	return text.String(), nil
}
