package lives

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
	"meridian.dev/meridian/test/sim/law"
)

// Life is a story of a database or a cache.
type Life struct {
	Name string
	// Cache means that it is the life of a cache.
	Cache bool
	// From is the beginning, nil for an empty cluster.
	From func() (*search.Settled, error)
	// Script is what the user, and the world, does.
	Script []search.Step
	// End is what there is in the end.
	End func(search.State) error
	// Timed says that hours pass in its script, for what is done meanwhile. They pass for nothing while a call of the
	// operator stands still for several steps, as in swarms.
	Timed bool
	// Slow means that the cluster does one thing at a time, so that more can come between.
	Slow bool
	// Restarts is how often each pod may end at most.
	Restarts int
	// Trials is how many pods of restores on trial may end at most.
	Trials int
	// Moves is how often the primary may change at most.
	Moves int
	// Wakes means that the user waits until everything sleeps, and wakes it then.
	Wakes bool
}

// Scenario is the life for the search, with a flaw in the operator or without.
func (l Life) Scenario(flaw Flaw) (search.Scenario, error) {
	known, err := kube.Scheme()
	if err != nil {
		return search.Scenario{}, err
	}
	custom, err := kube.Kinds()
	if err != nil {
		return search.Scenario{}, err
	}
	made := search.Scenario{
		Name: l.Name, Scheme: known, Kinds: custom, Programs: programs(flaw, l.Cache), Script: l.Script,
		Actors: append(clusterActors(l.Slow), databaseAgents()), Chance: []schema.GroupVersionKind{secretKind},
		Always: judgeWrite, Calls: judge(flaw.Blind), Finally: l.judgeEnd,
	}
	if l.Cache {
		made.Actors = append(clusterActors(l.Slow), cacheAgents())
	}
	if l.Wakes {
		made.Actors = append(made.Actors, search.Actor{Name: "user", Step: kube.FirstOf(wakeSleepers)})
	}
	if l.From == nil {
		made.Setup = Settle
		return made, nil
	}
	made.From, err = l.From()
	return made, err
}

// judgeEnd asks what there is in the end, and what it has cost.
func (l Life) judgeEnd(state search.State) error {
	ends := map[string]int{}
	for _, event := range state.Events {
		if event.Kind.Kind == "Pod" && event.Type == watch.Deleted {
			ends[event.Key.Name]++
		}
	}
	var problems []error
	for name, count := range ends {
		most := l.Restarts
		if name == database.TrialName(Cities.Name) {
			most = l.Trials
		}
		if count > most {
			problems = append(problems, fmt.Errorf("%s: %s has ended %d times", law.FewMoves.ID, name, count))
		}
	}
	if count, err := movesIn(state); err != nil || count > l.Moves {
		problems = append(problems, errors.Join(err, fmt.Errorf("%s: the primary has moved %d times", law.FewMoves.ID,
			count)))
	}
	if l.End != nil {
		if err := l.End(state); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", law.Reach.ID, err))
		}
	}
	return errors.Join(problems...)
}

// movesIn is how often a primary has begun, apart from the first one.
func movesIn(state search.State) (int, error) {
	terms := map[int64]bool{}
	for _, event := range state.Events {
		if event.Kind.Kind == "Lease" && event.Type != watch.Deleted {
			terms[termOf(event.Object)] = true
		}
	}
	delete(terms, 0)
	if len(state.Events) == 0 {
		return 0, nil
	}
	first := int64(0)
	var leases unstructured.UnstructuredList
	leases.SetGroupVersionKind(coordinationv1.SchemeGroupVersion.WithKind("LeaseList"))
	if err := state.At(state.Events[0].Version-1).List(context.Background(), &leases); err != nil {
		return 0, err
	}
	for i := range leases.Items {
		first = max(first, termOf(&leases.Items[i]))
	}
	if first == 0 {
		return max(0, len(terms)-1), nil
	}
	delete(terms, first)
	return len(terms), nil
}

func termOf(lease *unstructured.Unstructured) int64 {
	term, _, _ := unstructured.NestedInt64(lease.Object, "spec", "leaseTransitions") // 0 before there is one
	return term
}

// newDatabase is what a user asks for.
func newDatabase(instances int32, reclaim v1alpha1.Reclaim) *v1alpha1.GeoDatabase {
	durability := v1alpha1.DurabilityStrict
	if instances == 1 {
		durability = v1alpha1.DurabilityAsync
	}
	return &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: Cities.Namespace, Name: Cities.Name},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: instances, Durability: durability,
			Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi"), Reclaim: reclaim},
		},
	}
}

func createDatabase(instances int32, reclaim v1alpha1.Reclaim) search.Step {
	return search.Step{
		Name: fmt.Sprintf("create a database of %d", instances),
		Do: func(ctx context.Context, cluster client.Client) error {
			return cluster.Create(ctx, newDatabase(instances, reclaim))
		},
	}
}

// after returns a beginning: the world at the end of a calm life.
func after(life Life) func() (*search.Settled, error) {
	return sync.OnceValues(func() (*search.Settled, error) {
		scenario, err := life.Scenario(Flaw{})
		if err != nil {
			return nil, err
		}
		return search.Settle(scenario)
	})
}

// databaseOf reads the database.
func databaseOf(state client.Reader) (*v1alpha1.GeoDatabase, error) {
	var found v1alpha1.GeoDatabase
	err := state.Get(context.Background(), Cities, &found)
	return &found, err
}

// served says that the database is as wished, with exactly these instances.
func served(instances ...string) func(search.State) error {
	return func(state search.State) error {
		found, err := databaseOf(state)
		if err != nil {
			return err
		}
		if !condition.IsTrue(found.Status.Conditions, condition.Ready) ||
			found.Status.ObservedGeneration != found.Generation {
			return fmt.Errorf("it is not ready: %s", told(found.Status.Conditions))
		}
		return hasInstances(state, instances...)
	}
}

func told(conditions []metav1.Condition) string {
	text := ""
	for _, each := range conditions {
		text += fmt.Sprintf("%s=%s %s: %s; ", each.Type, each.Status, each.Reason, each.Message)
	}
	return text
}

// hasInstances says that sets, pods, settings and members are those, and nobody else is.
func hasInstances(state search.State, instances ...string) error {
	scene, err := sceneOf(state)
	if err != nil {
		return err
	}
	var sets, members []string
	for _, set := range scene.view.Sets.Items {
		if set.Labels[database.LabelDatabase] == Cities.Name {
			sets = append(sets, set.Name)
		}
	}
	for _, member := range scene.record.Members {
		members = append(members, member.Name)
	}
	if have := [][]string{sets, members, scene.settings.Instances}; !slices.Equal(sets, instances) ||
		!slices.Equal(members, instances) || !slices.Equal(scene.settings.Instances, instances) {
		return fmt.Errorf("the sets, members and instances in the settings are %v, want %v", have, instances)
	}
	for _, name := range instances {
		if !scene.alive(name) {
			return fmt.Errorf("%s is not alive", name)
		}
	}
	pods := 0
	for _, pod := range scene.view.Pods.Items {
		if pod.DeletionTimestamp == nil { // One whose node is lost stays for as long as that.
			pods++
		}
	}
	if pods != len(instances) {
		return fmt.Errorf("there are %d pods, want %d", pods, len(instances))
	}
	return nil
}

// claims says which claims of the database there are.
func claims(names ...string) func(search.State) error {
	return func(state search.State) error {
		var list corev1.PersistentVolumeClaimList
		if err := state.List(context.Background(), &list, client.InNamespace(space)); err != nil {
			return err
		}
		var found []string
		for _, claim := range list.Items {
			if claim.Annotations[stranger] != "" {
				continue
			}
			if claim.DeletionTimestamp != nil {
				return fmt.Errorf("the claim %s is being deleted", claim.Name)
			}
			found = append(found, claim.Name)
		}
		if !slices.Equal(found, names) {
			return fmt.Errorf("the claims are %v, want %v", found, names)
		}
		return nil
	}
}

// left asks for these claims, each with what it takes to come back.
func left(names ...string) func(search.State) error {
	return all(claims(names...), func(state search.State) error {
		for _, name := range names {
			var claim corev1.PersistentVolumeClaim
			if err := state.Get(context.Background(), client.ObjectKey{Namespace: space, Name: name}, &claim); err != nil {
				return err
			}
			if claim.Annotations[database.AnnotationParting] == "" {
				return fmt.Errorf("the claim %s has no note by which somebody could come back", name)
			}
		}
		return nil
	})
}

// all asks several.
func all(questions ...func(search.State) error) func(search.State) error {
	return func(state search.State) error {
		for _, ask := range questions {
			if err := ask(state); err != nil {
				return err
			}
		}
		return nil
	}
}

// gone says that nothing of the database is left but its claims.
func gone(state search.State) error {
	if _, err := databaseOf(state); client.IgnoreNotFound(err) != nil || err == nil {
		return fmt.Errorf("the database is there: %w", err)
	}
	return nothingIsLeft(state)
}

// nothingIsLeft looks for objects of any kind but claims, which are asked for by name.
func nothingIsLeft(state search.State) error {
	known, err := kube.Scheme()
	if err != nil {
		return err
	}
	groups := []string{
		"", "apps", "coordination.k8s.io", "discovery.k8s.io", "networking.k8s.io", "policy", "rbac.authorization.k8s.io",
	}
	var found []string
	for kind := range known.AllKnownTypes() {
		if !strings.HasSuffix(kind.Kind, "List") || kind.Version != "v1" || !slices.Contains(groups, kind.Group) {
			continue
		}
		var list unstructured.UnstructuredList
		list.SetGroupVersionKind(kind)
		err := state.List(context.Background(), &list, client.InNamespace(space))
		if err != nil && !meta.IsNoMatchError(err) { // The simulated API server has not all kinds.
			return err
		}
		for _, item := range list.Items {
			if item.GetAnnotations()[stranger] == "" && item.GetKind() != "PersistentVolumeClaim" {
				found = append(found, item.GetKind()+" "+item.GetName())
			}
		}
	}
	if slices.Sort(found); len(found) > 0 {
		return fmt.Errorf("there are left: %s", strings.Join(found, ", "))
	}
	return nil
}
