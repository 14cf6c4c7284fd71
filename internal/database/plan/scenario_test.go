package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/invariant"
	"meridian.dev/meridian/internal/database/plan"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/database/status"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/scenario"
)

var author = apply.Author{
	Scheme: scheme.Scheme, Prefix: database.AnnotationPrefix, Manager: database.FieldManager, Memo: apply.NewMemo(4096),
}

// TestStories plays the stories. Each starts from a small database called cities.
//
//   - snapshot.yaml is laid over it: what is different in this story.
//   - before.yaml, if it is there, says that the database runs already; it is a merge patch to the snapshot, with what
//     was different when the children were last written. Without it nothing exists but what snapshot.yaml names.
//   - instances.yaml, if it is there, says what is different of the instances that run, as merge patches by name. The
//     template of a set or pod is that of before, or, with the word "wanted", that of now.
//   - seen.yaml, instead of all these, is the whole snapshot, as internal/recall takes it for a bundle.
//   - want/plan.yaml is the decision, want/status.txt what a user sees of it after the plan was carried out.
func TestStories(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		snapshot := told(in)
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

// told is the snapshot of a story.
func told(in scenario.Files) database.Snapshot {
	if in.Has("seen.yaml") {
		return seen(in)
	}
	snapshot := base()
	in.YAML("snapshot.yaml", &snapshot)
	if !in.Has("before.yaml") {
		if err := compare(&snapshot, nil); err != nil {
			in.Fail(err)
		}
		return snapshot
	}
	before, err := patched(snapshot, in.Text("before.yaml"))
	if err != nil {
		in.Fail(err)
	}
	run(&snapshot, before)
	if err := adjust(in, &snapshot); err != nil {
		in.Fail(err)
	}
	label(&snapshot, before)
	if err := compare(&snapshot, &before); err != nil {
		in.Fail(err)
	}
	return snapshot
}

// seen is the snapshot of a bundle, whole as it is. What the person who took it could not know is for the reader.
func seen(in scenario.Files) (snapshot database.Snapshot) {
	in.YAML("seen.yaml", &snapshot)
	for _, remark := range []string{"assumed.txt", "unread.txt"} {
		if in.Has(remark) {
			in.Text(remark)
		}
	}
	return snapshot
}

func base() database.Snapshot {
	cpu, memory := resource.MustParse("500m"), resource.MustParse("1Gi")
	return database.Snapshot{
		Now:      time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		Identity: database.Identity{Namespace: "gis", Name: "cities", UID: "db-1", Generation: 1},
		Images:   database.Images{Agent: "meridian:1", Server: "postgis"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: 1, Version: "17", Profile: v1alpha1.ProfileGeneral, Extensions: []string{"postgis"},
			Storage:   v1alpha1.Storage{Size: resource.MustParse("1Gi"), Reclaim: v1alpha1.ReclaimRetain},
			Resources: v1alpha1.Resources{CPU: &cpu, Memory: &memory},
			Bootstrap: v1alpha1.Bootstrap{Database: "app", Owner: "app"},
		},
		Certificates: database.Certificates{Steps: []string{"create authority", "issue leaf"}},
		Installation: "meridian-system/meridian-operator", LostAfter: 5 * time.Minute,
	}
}

// run fills in what a running database has, unless the story says otherwise.
func run(snapshot *database.Snapshot, before database.Snapshot) {
	secret := func(name string) database.Secret {
		return database.Secret{Exists: true, UID: "uid-" + name, ResourceVersion: "7"}
	}
	learnt := snapshot.Record.Initialised
	if !learnt {
		snapshot.Record = database.Record{Initialised: true, SystemIdentifier: "7001"}
	}
	snapshot.Guarded = true
	if snapshot.StampedBy == "" {
		snapshot.StampedBy = snapshot.Installation
	}
	if told := snapshot.Settings.Instances; len(told) == 0 {
		for serial := 1; serial <= int(max(before.Spec.Instances, 1)); serial++ {
			told = append(told, database.InstanceName(snapshot.Name, serial))
		}
		snapshot.Settings.Instances = told
	}
	lead(snapshot)
	if snapshot.Binding == (database.Secret{}) {
		snapshot.Binding = secret("app")
	}
	if snapshot.Certificates.Authority == (database.Secret{}) {
		snapshot.Certificates.Authority = secret("ca")
		snapshot.Certificates.Authorities = 1
		if snapshot.Certificates.Again.IsZero() {
			snapshot.Certificates.Steps = nil
		}
	}
	if len(snapshot.Instances) == 0 {
		for _, name := range snapshot.Settings.Instances {
			serial, _ := database.SerialOf(snapshot.Name, name)
			snapshot.Instances = append(snapshot.Instances, instance(*snapshot, serial, before.Spec.Storage.Size))
		}
	}
	certify(snapshot, secret)
	for i := range snapshot.Instances {
		// A primary that a story tells of serves, unless its term is another one.
		if report := &snapshot.Instances[i].Report; report.Role == "primary" && report.Term == 0 {
			report.Term, report.Serving = snapshot.Lease.Term, true
		}
	}
	if !learnt {
		storeRecord(snapshot)
	}
	settle(snapshot, before)
}

// certify gives each instance a certificate of its own, and those that share one what they share.
func certify(snapshot *database.Snapshot, secret func(string) database.Secret) {
	certificates := &snapshot.Certificates
	if certificates.Authority != secret("ca") || certificates.Authorities == 0 {
		return
	}
	if snapshot.Mounts(database.LeafName(snapshot.Name)) && certificates.Leaf == (database.Secret{}) {
		certificates.Leaf = secret("tls")
	}
	for _, instance := range snapshot.Instances {
		told := func(own database.Certificate) bool { return own.Instance == instance.Name }
		if slices.ContainsFunc(certificates.Own, told) {
			continue
		}
		certificates.Own = append(certificates.Own, database.Certificate{
			Instance: instance.Name, Secret: secret(fmt.Sprint("cert", instance.Serial)), Identity: certificates.Identity,
		})
	}
}

// settle fills in the settings as they were written last.
func settle(snapshot *database.Snapshot, before database.Snapshot) {
	settings := &snapshot.Settings
	if settings.UID == "" {
		settings.UID, settings.ResourceVersion = "uid-configmap", "5"
	}
	if settings.LeaseUID == "" {
		settings.LeaseUID = "uid-lease"
	}
	keep(&before, *snapshot)
	hash := render.Settings(design.Of(before)).Hash()
	if settings.Hash == "" && settings.Problem == "" {
		settings.Hash = hash
	}
	for i := range snapshot.Instances {
		if snapshot.Instances[i].Report.SettingsHash == "before" {
			snapshot.Instances[i].Report.SettingsHash = hash
		}
	}
}

// label fills in which template StatefulSets and pods have: the one of before, or that of now if a story says "wanted".
func label(snapshot *database.Snapshot, before database.Snapshot) {
	if snapshot.Lease.UID == "none" {
		snapshot.Lease = database.Lease{}
	}
	keep(&before, *snapshot)
	was, is := design.Of(before), design.Of(*snapshot)
	for _, instance := range snapshot.Instances {
		if pod := instance.Pod; pod != nil && pod.Memory.IsZero() {
			size := render.SizeOf(was, instance.Name)
			pod.CPU, pod.Memory = size.CPU, size.Memory
			pod.Metadata = render.Metadata(before.Spec)
		}
		if set := instance.Set; set != nil && set.Memory.IsZero() {
			size := render.SizeOf(was, instance.Name)
			set.CPU, set.Memory = size.CPU, size.Memory
		}
		for _, has := range templates(instance) {
			switch *has[0] {
			case "wanted":
				*has[0], *has[1], *has[2] = render.Template(is, instance.Name), render.Wish(is.Spec), is.Spec.Restart
			case "":
				*has[0], *has[1], *has[2] = render.Template(was, instance.Name), render.Wish(was.Spec), was.Spec.Restart
			}
		}
	}
}

// templates are the template, wish and restart that an instance has.
func templates(instance database.Instance) [][3]*string {
	var found [][3]*string
	if set := instance.Set; set != nil {
		found = append(found, [3]*string{&set.Template, &set.Wish, &set.Restart})
	}
	if pod := instance.Pod; pod != nil {
		found = append(found, [3]*string{&pod.Template, &pod.Wish, &pod.Restart})
	}
	return found
}

// adjust lays what a story says of single instances over them, and adds those that are new.
func adjust(in scenario.Files, snapshot *database.Snapshot) error {
	if !in.Has("instances.yaml") {
		return nil
	}
	var patches map[string]json.RawMessage
	in.YAML("instances.yaml", &patches)
	for _, name := range slices.Sorted(maps.Keys(patches)) {
		at := slices.IndexFunc(snapshot.Instances, func(each database.Instance) bool { return each.Name == name })
		if at < 0 {
			serial, _ := database.SerialOf(snapshot.Name, name)
			snapshot.Instances = append(snapshot.Instances, instance(*snapshot, serial, snapshot.Spec.Storage.Size))
			at = len(snapshot.Instances) - 1
			snapshot.Instances[at].Report.SettingsHash = snapshot.Settings.Hash
			snapshot.Instances[at].Claim.Copy = snapshot.Record
			if log := snapshot.Instances[at].LogClaim; log != nil {
				log.Copy = snapshot.Record
			}
		}
		document, err := json.Marshal(snapshot.Instances[at])
		if err != nil {
			return err
		}
		if document, err = jsonpatch.MergePatch(document, patches[name]); err != nil {
			return err
		}
		snapshot.Instances[at] = database.Instance{}
		if err := yaml.UnmarshalStrict(document, &snapshot.Instances[at]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	slices.SortFunc(snapshot.Instances, func(a, b database.Instance) int { return a.Serial - b.Serial })
	return nil
}

// lead gives a database a lease and a primary, unless the story has told of one.
func lead(snapshot *database.Snapshot) {
	lease := &snapshot.Lease
	if lease.UID == "" && lease.Foreign == "" {
		lease.UID, lease.ResourceVersion, lease.Guarded = "uid-lease", "8", true
	}
	if lease.Holder == "" {
		lease.Holder, lease.HolderIncarnation = "cities-1", "a1"
	}
	if lease.Term == 0 {
		lease.Term = 1
	}
	if lease.Members == nil {
		for _, name := range snapshot.Settings.Instances {
			lease.Members = append(lease.Members, database.Member{
				Name: name, Incarnation: "a" + strings.TrimPrefix(name, "cities-"),
			})
		}
	}
	if lease.W == 0 {
		lease.W = min(len(lease.Members), 2)
	}
	if !lease.Copy.Initialised && lease.Problem == "" {
		lease.Copy = snapshot.Record
	}
	if snapshot.Route == (database.Route{}) {
		snapshot.Route = database.Route{Family: "IPv4", Target: lease.Holder, Term: lease.Term}
	}
}

// instance is one that does its work, as the primary if it holds the lease.
func instance(snapshot database.Snapshot, serial int, size resource.Quantity) database.Instance {
	made := database.Instance{
		Serial: serial, Name: database.InstanceName(snapshot.Name, serial),
		Claim: &database.Claim{UID: "uid-claim" + suffix(serial), ResourceVersion: "5", Bound: true, Class: "fast",
			Requested: size, Capacity: size, Expansion: database.Expandable},
		Set: &database.Set{UID: "uid-set" + suffix(serial), ResourceVersion: "9", Observed: true, Revision: "r1"},
		Pod: &database.Pod{UID: "uid-pod" + suffix(serial), ResourceVersion: "6", Revision: "r1", Ready: true,
			Node: fmt.Sprintf("node%d", serial), Address: fmt.Sprintf("10.0.0.%d", serial)},
		Report: database.Report{Reachable: true, State: "running", Role: "replica", SystemIdentifier: "7001",
			ServerVersion: "17.6", SettingsHash: "before", Streams: true, Serving: true,
			Term: snapshot.Lease.Term, Holder: snapshot.Lease.Holder},
	}
	if log := snapshot.Spec.Storage.WALSize; log != nil {
		made.LogClaim = &database.Claim{UID: "uid-log" + suffix(serial), ResourceVersion: "15", Bound: true, Class: "fast",
			Requested: *log, Capacity: *log, Expansion: database.Expandable}
	}
	if made.Name == snapshot.Lease.Holder {
		made.Report.Role, made.Report.Streams = "primary", false
	}
	return made
}

// suffix tells the parts of instances apart.
func suffix(serial int) string {
	if serial == 1 {
		return ""
	}
	return fmt.Sprintf("-%d", serial)
}

// storeRecord fills in the copies of the record, but for those that the story tells.
func storeRecord(snapshot *database.Snapshot) {
	if snapshot.Settings.UID == "" && snapshot.Settings.Problem == "" {
		snapshot.Settings.Copy = snapshot.Record
	}
	for _, instance := range snapshot.Instances {
		if instance.Claim != nil && instance.Claim.Copy == (database.Record{}) {
			instance.Claim.Copy = snapshot.Record
		}
		if instance.LogClaim != nil && instance.LogClaim.Copy == (database.Record{}) {
			instance.LogClaim.Copy = snapshot.Record
		}
	}
}

// keep gives the past what does not change with the spec. A record that the settings do not have was not there yet.
func keep(before *database.Snapshot, snapshot database.Snapshot) {
	before.Instances, before.Settings = snapshot.Instances, snapshot.Settings
	before.Lease, before.Route, before.Installation = snapshot.Lease, snapshot.Route, snapshot.Installation
	if snapshot.Settings.Copy.Initialised {
		before.Record = snapshot.Record
	}
}

// compare does what observe does, with children as they were written before. Children that the story names stay.
func compare(snapshot, before *database.Snapshot) error {
	told := snapshot.Children
	snapshot.Children = nil
	now, was := design.Of(*snapshot), database.Design{}
	wanted, err := render.Children(now)
	if err != nil {
		snapshot.Problem = err.Error()
	}
	if before != nil {
		kept := *before
		keep(&kept, *snapshot)
		was = design.Of(kept)
	}
	for _, child := range wanted {
		fact := database.Child{Kind: child.Kind, Name: child.Name, State: database.Absent}
		if before != nil {
			if fact, err = difference(child, types.UID(snapshot.UID), was); err != nil {
				return err
			}
			correct(&fact, *snapshot, now, was)
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

// correct has the facts of a StatefulSet agree with the template that a story gives it.
func correct(fact *database.Child, snapshot database.Snapshot, now, before database.Design) {
	instance, _ := snapshot.Instance(fact.Name)
	at := slices.IndexFunc(now.Instances, func(one database.InstanceDesign) bool { return one.Name == fact.Name })
	if fact.Kind != database.KindSet || instance.Set == nil || at < 0 {
		return
	}
	has, is := instance.Set.Template, render.Template(now, fact.Name)
	was := render.Template(before, fact.Name)
	switch {
	case has != is && has != was:
		fact.State, fact.Changes = database.Changed, []string{"spec.template.spec.containers[name=database].image"}
	case instance.Set.Stopped != now.Instances[at].Stopped:
		fact.State, fact.Changes = database.Changed, []string{"spec.replicas"}
	case has == is && (has != was || instance.Set.Stopped):
		fact.State, fact.Changes = database.Same, nil
	}
}

func difference(child render.Child, owner types.UID, before database.Design) (database.Child, error) {
	fact := database.Child{
		Kind: child.Kind, Name: child.Name, State: database.Same,
		UID: "uid-" + strings.ToLower(child.Kind), ResourceVersion: "5",
	}
	written, err := render.Find(before, child.Kind, child.Name)
	if err != nil {
		return fact, err
	}
	want, err := author.Intent(child.Object, owner)
	if err != nil {
		return fact, err
	}
	was, err := author.Intent(written, owner)
	if err != nil {
		return fact, err
	}
	if want.Hash() == was.Hash() {
		return fact, nil
	}
	fact.State = database.Changed
	live := written.(client.Object)
	marks := map[string]string{database.AnnotationOwner: string(owner)}
	for key, value := range live.GetAnnotations() {
		marks[key] = value
	}
	live.SetAnnotations(marks)
	for _, change := range apply.Compare(want, live).Changes {
		fact.Changes = append(fact.Changes, change.Path)
	}
	return fact, nil
}

func patched(snapshot database.Snapshot, patch string) (database.Snapshot, error) {
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
	var before database.Snapshot
	return before, errors.Join(yaml.UnmarshalStrict(document, &before))
}

// statusOf prints what a user sees, one condition a line, and refuses conditions that mislead.
func statusOf(snapshot database.Snapshot, decided database.Plan) (string, error) {
	pass := status.Pass{Snapshot: snapshot, Plan: decided}
	for _, action := range decided.Actions {
		pass.Outcome.Results = append(pass.Outcome.Results, database.Result{Action: action, Done: true, Wrote: true})
	}
	after, events := status.Report(v1alpha1.GeoDatabaseStatus{}, pass)
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
	fmt.Fprintf(&text, "kstatus %s; primary %q; replicas %s; version %q\n",
		verdict, after.Primary, after.Replicas, after.Version)
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
