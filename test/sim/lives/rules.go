package lives

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	cacheloop "meridian.dev/meridian/internal/cache/controller"
	"meridian.dev/meridian/internal/database"
	databaseloop "meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/rbac"
	"meridian.dev/meridian/kit/rule"
	"meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/lives/trial"
)

// beforeWrites are asked about every write of the operator, with the world as it is when the write arrives. A delete
// that arrives too late, because its object is another by now, does no harm: it is refused, and not asked about.
var beforeWrites = []struct {
	rule rule.Rule
	ask  func(search.State, sim.Call) error
}{
	{law.Conditional, IsConditional},
	{law.Allowed, IsAllowed},
	{law.LeaveStrangers, leavesStrangers},
	{law.TakeNoCopy, takesNoCopy},
	{law.StopOne, stopsOneReplica},
	{law.KeepClaims, keepsClaims},
	{law.ReplaceNone, replacesNoVolume},
	{law.MakeWished, makesWhatIsWished},
	{law.TellTrial, stage.Tells},
}

// judge asks all of them but some.
func judge(blind []rule.Rule) func(search.State, sim.Call) error {
	return func(state search.State, call sim.Call) error {
		for _, each := range beforeWrites {
			if slices.ContainsFunc(blind, func(blind rule.Rule) bool { return blind.ID == each.rule.ID }) {
				continue
			}
			if err := each.ask(state, call); err != nil {
				return fmt.Errorf("%s: %s: %w", each.rule.ID, each.rule.Why, err)
			}
		}
		return nil
	}
}

// IsConditional asks whether a write names what it was decided on.
func IsConditional(_ search.State, call sim.Call) error {
	switch {
	case call.Verb == sim.Create:
		return nil
	case call.Verb == sim.DeleteCollection:
		return errors.New("it takes whatever there is")
	case call.ResourceVersion == "":
		return errors.New("it names no version")
	case call.Verb == sim.Delete && call.UID == "":
		return errors.New("it names no UID")
	}
	return nil
}

// resources are the names under which rights are given.
var resources = map[string]string{
	"NetworkPolicy": "networkpolicies", "StorageClass": "storageclasses",
}

// IsAllowed asks whether there is a right to it.
func IsAllowed(_ search.State, call sim.Call) error {
	table := databaseloop.Rights()
	if strings.HasPrefix(call.Process, cacheOperator) {
		table = cacheloop.Rights()
	}
	resource, known := resources[call.Kind.Kind]
	if !known {
		resource = strings.ToLower(call.Kind.Kind) + "s"
	}
	if call.Subresource != "" {
		resource += "/" + call.Subresource
	}
	if !slices.ContainsFunc(table, func(row rbac.Row) bool {
		return row.Group == call.Kind.Group && row.Resource == resource && slices.Contains(row.Verbs, string(call.Verb))
	}) {
		return fmt.Errorf("there is no right to %s %s", call.Verb, resource)
	}
	return nil
}

func leavesStrangers(state search.State, call sim.Call) error {
	if call.Verb == sim.Create || call.Key.Namespace != space {
		return nil
	}
	for _, theirs := range append(strangers(), squatter()) {
		if theirs.GetName() != call.Key.Name || kube.KindOf(theirs) != call.Kind {
			continue
		}
		err := state.Get(context.Background(), call.Key, theirs)
		if err == nil && theirs.GetAnnotations()[stranger] != "" {
			return errors.New("it belongs to somebody else")
		}
		return client.IgnoreNotFound(err)
	}
	return nil
}

// scene is what the rules look at: the database, or the cache, with what is written down about its copies.
type scene struct {
	folk
	database v1alpha1.GeoDatabase
	cache    v1alpha1.GeoCache
	settings wire.Settings
	record   wire.LeaseRecord
	holder   wire.Member
	view     kube.View
}

func sceneOf(reader client.Reader) (*scene, error) { return citizens.scene(reader) }

func (f folk) scene(reader client.Reader) (*scene, error) {
	ctx := context.Background()
	made := &scene{folk: f, settings: f.read(ctx, reader), view: kube.View{Context: ctx}}
	if _, err := kube.Get(ctx, reader, Cities.Name, &made.database); err != nil {
		return nil, err
	}
	if _, err := kube.Get(ctx, reader, Tiles.Name, &made.cache); err != nil {
		return nil, err
	}
	var lease coordinationv1.Lease
	if _, err := kube.Get(ctx, reader, f.leaseName, &lease); err != nil {
		return nil, err
	}
	var err error
	if made.record, err = recordOf(&lease); err != nil {
		return nil, err
	}
	made.holder = holderOf(&lease)
	if made.record.Term == 0 { // The lease is lost. The agents count on each other all the same.
		if made.record, made.holder, err = remembered(ctx, reader); err != nil {
			return nil, err
		}
	}
	for _, list := range []client.ObjectList{&made.view.Sets, &made.view.Pods, &made.view.Claims} {
		if err := reader.List(ctx, list, client.InNamespace(space)); err != nil {
			return nil, err
		}
	}
	trial.Apart(&made.view.Pods)
	return made, nil
}

// alive says that an instance has a copy whose agent works.
func (s *scene) alive(name string) bool {
	_, alive := s.copyOf(name)
	return alive
}

func (s *scene) copyOf(name string) (wire.Member, bool) {
	return (&council{View: &s.view, folk: s.folk}).alive(name)
}

// there says that a member is alive. The copy of a cache is another one in another pod.
func (s *scene) there(member wire.Member) bool {
	now, alive := s.copyOf(member.Name)
	return alive && (now == member || !s.volatile)
}

func (s *scene) member(name string) bool {
	return slices.ContainsFunc(s.record.Members, func(member wire.Member) bool { return member.Name == name })
}

func (s *scene) deleting() bool {
	if s.volatile {
		return s.cache.UID == "" || s.cache.DeletionTimestamp != nil
	}
	return s.database.UID == "" || s.database.DeletionTimestamp != nil
}

// asleep says that nobody needs the cache, because the database hibernates.
func (s *scene) asleep() bool {
	return s.volatile && s.cache.Spec.FollowDatabase && s.database.Spec.Hibernated
}

// folkOf are the agents of what a process of the operator cares for.
func folkOf(call sim.Call) folk {
	if strings.HasPrefix(call.Process, cacheOperator) {
		return tilers
	}
	return citizens
}

// takes returns the scene of a delete of one of the kinds that would be carried out, nil for anything else.
func takes(state search.State, call sim.Call, blank ...client.Object) (*scene, error) {
	folk := folkOf(call)
	if call.Verb != sim.Delete || !strings.HasPrefix(call.Key.Name, folk.of.Name+"-") {
		return nil, nil
	}
	for _, object := range blank {
		if kube.KindOf(object) != call.Kind {
			continue
		}
		err := state.Get(context.Background(), call.Key, object)
		meant := call.UID == "" || call.UID == object.GetUID()
		meant = meant && (call.ResourceVersion == "" || call.ResourceVersion == object.GetResourceVersion())
		if err != nil || !meant || object.GetDeletionTimestamp() != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return folk.scene(state)
	}
	return nil, nil
}

// takesNoCopy lets everything go of a cache that sleeps, also while the settings still name it: actions of a cache are
// independent, so one instance goes although the patch of the settings was refused.
func takesNoCopy(state search.State, call sim.Call) error {
	scene, err := takes(state, call, &appsv1.StatefulSet{}, &corev1.PersistentVolumeClaim{})
	switch {
	case scene == nil || err != nil || scene.deleting() || scene.asleep():
		return err
	case slices.Contains(scene.settings.Instances, ownerOf(call)):
		return errors.New("the settings name it")
	case scene.member(ownerOf(call)):
		return errors.New("the lease counts on it")
	}
	return nil
}

func stopsOneReplica(state search.State, call sim.Call) error {
	scene, err := takes(state, call, &appsv1.StatefulSet{}, &corev1.Pod{})
	if scene == nil || err != nil || scene.deleting() {
		return err
	}
	instance := strings.TrimSuffix(call.Key.Name, "-0")
	if call.Kind.Kind == "StatefulSet" {
		instance = call.Key.Name
	}
	others := 0
	for _, member := range scene.record.Members {
		switch {
		case member.Name == instance || scene.asleep() && !scene.there(member):
		case !scene.there(member) && scene.alive(instance):
			return fmt.Errorf("%s is away, and %s would be as well", member.Name, instance)
		default:
			others++
		}
	}
	// The primary of a cache hands over when its pod is told to end.
	leads := scene.holder.Name == instance && scene.alive(instance) && (!scene.volatile || call.Kind.Kind != "Pod")
	switch {
	case leads && others > 0:
		return errors.New("it is the primary")
	case scene.volatile && call.Kind.Kind == "Pod" && scene.alive(instance) && others == 0:
		return errors.New("it has the only copy")
	}
	return nil
}

func keepsClaims(state search.State, call sim.Call) error {
	scene, err := takes(state, call, &corev1.PersistentVolumeClaim{})
	if scene == nil || err != nil {
		return err
	}
	if scene.database.Spec.Storage.Reclaim != v1alpha1.ReclaimDelete {
		return errors.New("spec.storage.reclaim is not Delete")
	}
	copies := slices.ContainsFunc(scene.record.Members, func(member wire.Member) bool {
		return member.Name != ownerOf(call) && scene.alive(member.Name)
	})
	if !scene.deleting() && !copies && scene.record.Initialised {
		return errors.New("no other copy is known to be alive")
	}
	return nil
}

func replacesNoVolume(state search.State, call sim.Call) error {
	if call.Verb != sim.Create || call.Kind.Kind != "PersistentVolumeClaim" {
		return nil
	}
	scene, err := sceneOf(state)
	if err == nil && scene.member(ownerOf(call)) && scene.view.Claim(call.Key.Name) == nil {
		return errors.New("the lease counts on the one that is lost")
	}
	return err
}

func makesWhatIsWished(state search.State, call sim.Call) error {
	if call.Verb != sim.Create || call.Kind.Kind != "StatefulSet" {
		return nil
	}
	folk, ctx := folkOf(call), context.Background()
	settings := folk.read(ctx, state)
	if settings.DatabaseUID == "" || slices.Contains(settings.Instances, call.Key.Name) {
		return nil
	}
	// A create cannot be conditional on another object. One that was decided a moment ago may come too late: what it has
	// made is on nobody's list, and goes again.
	for _, event := range state.Events {
		if event.Kind.Kind == "ConfigMap" && event.Key.Name == folk.settingsName &&
			slices.Contains(folk.read(ctx, state.At(event.Version)).Instances, call.Key.Name) {
			return nil
		}
	}
	if folk.volatile {
		return makesNoMore(state)
	}
	return errors.New("the settings do not name it, and never did")
}

// makesNoMore is what is left of L9 when the settings of a cache do not name an instance. Actions of a cache are
// independent, so it is made although the patch of the settings was refused, and has no copy before they name it. But
// the spec must have asked for so many.
func makesNoMore(state search.State) error {
	scene, err := tilers.scene(state)
	if err != nil {
		return err
	}
	there, wanted := 0, scene.cache.Spec.Replicas
	for _, set := range scene.view.Sets.Items {
		if set.DeletionTimestamp == nil {
			there++
		}
	}
	for _, event := range state.Events {
		if event.Kind == cacheKind && event.Type != watch.Deleted {
			asked, _, _ := unstructured.NestedInt64(event.Object.Object, "spec", "replicas") // the schema has it
			wanted = max(wanted, int32(asked))
		}
	}
	if there >= int(wanted) {
		return fmt.Errorf("the settings do not name it, and there are %d already", there)
	}
	return nil
}

// afterWrites are asked after every write of anybody.
var afterWrites = []struct {
	rule rule.Rule
	kind client.Object
	ask  func(search.State, sim.Event) error
}{
	{law.LeaseOnce, &coordinationv1.Lease{}, makesLeaseOnce},
	{law.KeepRecord, &corev1.ConfigMap{}, keepsRecord},
	{law.KeepSecrets, &corev1.Secret{}, keepsSecrets},
	{law.KnownLogin, &corev1.Secret{}, publishesKnownLogins},
	{law.Trusted, &corev1.Secret{}, presentsWhatIsTrusted},
	{law.GoLast, &v1alpha1.GeoDatabase{}, goesLast},
	{law.Fits, &corev1.Pod{}, serverFits},
	{law.TryBeside, &corev1.Pod{}, stage.Beside},
}

func judgeWrite(state search.State) error {
	event := state.Events[len(state.Events)-1]
	for _, each := range afterWrites {
		if event.Kind != kube.KindOf(each.kind) {
			continue
		}
		if err := each.ask(state, event); err != nil {
			return fmt.Errorf("%s: %s: %w", each.rule.ID, each.rule.Why, err)
		}
	}
	return nil
}

func makesLeaseOnce(state search.State, event sim.Event) error {
	if event.Key.Name == tilers.leaseName {
		return remakesNoLease(state, event)
	}
	named := settingsOf(context.Background(), state).LeaseUID
	if event.Type != watch.Added || named == "" || event.Object.GetAnnotations()[wire.AnnotationSucceeds] == named {
		return nil
	}
	return fmt.Errorf("the settings name %s", named)
}

// remakesNoLease lets another lease of a cache be made only when no pod is left that was a member under the last one.
func remakesNoLease(state search.State, event sim.Event) error {
	ctx := context.Background()
	if event.Type != watch.Added || tilersSettings(ctx, state).LeaseUID == "" {
		return nil
	}
	record, _, err := remembered(ctx, state)
	if err != nil {
		return err
	}
	for _, member := range record.Members {
		var pod corev1.Pod
		found, err := kube.Get(ctx, state, database.PodName(member.Name), &pod)
		if err != nil || found && string(pod.UID) == member.Incarnation && kube.Ready(&pod) {
			return fmt.Errorf("%s goes on under the one before: %w", member, err)
		}
	}
	return nil
}

func keepsRecord(state search.State, event sim.Event) error {
	ctx := context.Background()
	if event.Type == watch.Deleted || event.Key.Name != database.SettingsName(Cities.Name) {
		return nil
	}
	// Agents refuse volumes that know another database.
	var kept corev1.ConfigMap
	if err := state.Get(ctx, memoryKey, &kept); err == nil {
		record, err := wire.DecodeLeaseRecord(kept.Data["record"])
		if now := settingsOf(ctx, state).DatabaseUID; err != nil || record.DatabaseUID != now {
			return fmt.Errorf("the data knows the database %s, the settings say %s: %w", record.DatabaseUID, now, err)
		}
	}
	if event.Type != watch.Modified {
		return nil
	}
	was, is := settingsOf(ctx, state.At(event.Version-1)), settingsOf(ctx, state)
	switch {
	case was.LeaseUID != "" && was.LeaseUID != is.LeaseUID && !succeeds(state, is.LeaseUID, was.LeaseUID):
		return fmt.Errorf("the lease was %s, and is %s", was.LeaseUID, is.LeaseUID)
	case was.Initialised && (!is.Initialised || was.SystemIdentifier != is.SystemIdentifier):
		return fmt.Errorf("the system was %s, and is %q", was.SystemIdentifier, is.SystemIdentifier)
	}
	return nil
}

// succeeds says that the agents have taken a lease over from another one.
func succeeds(state client.Reader, lease, before string) bool {
	var found coordinationv1.Lease
	if ok, err := kube.Get(context.Background(), state, database.LeaseName(Cities.Name), &found); !ok || err != nil {
		return false
	}
	record, err := recordOf(&found)
	return err == nil && string(found.UID) == lease && slices.Contains(record.Succeeds, before)
}

func goesLast(state search.State, event sim.Event) error {
	if event.Type != watch.Deleted {
		return nil
	}
	ctx := context.Background()
	var gone v1alpha1.GeoDatabase
	if err := state.At(event.Version-1).Get(ctx, event.Key, &gone); err != nil {
		return err
	}
	scene, err := sceneOf(state)
	if err != nil {
		return err
	}
	for _, claim := range scene.view.Claims.Items {
		ours := claim.Annotations[database.AnnotationOwner] == string(gone.UID)
		if ours && claim.DeletionTimestamp == nil && gone.Spec.Storage.Reclaim == v1alpha1.ReclaimDelete {
			return fmt.Errorf("the claim %s is there, and reclaim is Delete", claim.Name)
		}
	}
	return nil
}

func serverFits(state search.State, event sim.Event) error {
	if event.Type != watch.Modified || !strings.HasPrefix(event.Key.Name, Tiles.Name) {
		return nil
	}
	var pod corev1.Pod
	if err := state.Get(context.Background(), event.Key, &pod); err != nil {
		return err
	}
	allowed, limit := allowedTo(&pod), serverLimit(&pod)
	if limit > 0 && allowed > 0 && residentOf(allowed) > limit {
		return fmt.Errorf("it takes %d of %d, and is killed", residentOf(allowed), limit)
	}
	return nil
}
