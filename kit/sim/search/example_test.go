package search_test

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/sim/search"
)

// naive is what a first controller looks like. For each StatefulSet it keeps one Secret with a token, under a name that
// the API server makes up, and it rolls the pods over to a new image, one at a time, by deleting what has the old one.
// It reads from its cache and writes what follows; there is no mistake in it but that.
type naive struct{ client.Client }

func (r naive) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := r.Get(ctx, request.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	tokens := &corev1.SecretList{}
	if err := r.List(ctx, tokens, client.InNamespace(set.Namespace)); err != nil {
		return reconcile.Result{}, err
	}
	if len(tokens.Items) == 0 {
		token := tokenOf(set)
		token.Name, token.GenerateName = "", "token-"
		if err := r.Create(ctx, token); err != nil {
			return reconcile.Result{}, err
		}
	}
	for i := range *set.Spec.Replicas {
		pod := &corev1.Pod{}
		err := r.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: fmt.Sprintf("%s-%d", set.Name, i)}, pod)
		switch {
		case apierrors.IsNotFound(err):
			return reconcile.Result{}, nil // It comes back, and an event with it.
		case err != nil:
			return reconcile.Result{}, err
		case pod.Spec.Containers[0].Image != set.Spec.Template.Spec.Containers[0].Image:
			return reconcile.Result{}, client.IgnoreNotFound(r.Delete(ctx, pod))
		case pod.Status.Phase != corev1.PodRunning:
			return reconcile.Result{}, nil
		}
	}
	return reconcile.Result{}, nil
}

func tokenOf(set *appsv1.StatefulSet) *corev1.Secret {
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: set.Namespace, Name: set.Name + "-token",
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, kind)},
	}}
}

// careful does the same with kit/expect and kit/apply: it does not act before its cache shows its own writes, reads
// live when it cannot know, and every write names the state that it was decided on.
type careful struct {
	client  client.Client
	live    client.Reader
	tracker *expect.Tracker
}

var author = apply.Author{Scheme: scheme.Scheme, Prefix: "example.com", Manager: "careful"}

func (r careful) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := r.client.Get(ctx, request.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	owner := expect.OwnerOf(set)
	verdict := r.tracker.Check(owner)
	witness := expect.NewWitness(r.client, r.client.Scheme())
	switch verdict.Answer {
	case expect.Wait:
		return reconcile.Result{RequeueAfter: verdict.Recheck}, nil
	case expect.ReadLive:
		witness = expect.NewWitness(r.live, r.client.Scheme())
	case expect.ReadCache:
	}
	if err := witness.Get(ctx, request.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	actions, err := r.decide(ctx, witness, set)
	if err != nil {
		return reconcile.Result{}, err
	}
	if verdict.Answer == expect.ReadLive {
		r.tracker.Confirm(owner, witness.Saw()...)
	}
	actor := apply.Actor{Client: r.client, Live: r.live, Recorder: r.tracker.Of(owner)}
	for _, action := range actions {
		if _, err := actor.Do(ctx, action); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
}

func (r careful) decide(
	ctx context.Context, reader client.Reader, set *appsv1.StatefulSet,
) (actions []apply.Action, err error) {
	want, err := author.Intent(tokenOf(set), set.UID)
	if err != nil {
		return nil, err
	}
	token := &corev1.Secret{}
	switch err := reader.Get(ctx, want.Key(), token); {
	case apierrors.IsNotFound(err):
		token = nil
	case err != nil:
		return nil, err
	}
	if action, needed := apply.Compare(want, token).Action(); needed {
		actions = append(actions, action)
	}
	for i := range *set.Spec.Replicas {
		pod := &corev1.Pod{}
		err := reader.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: fmt.Sprintf("%s-%d", set.Name, i)}, pod)
		switch {
		case apierrors.IsNotFound(err):
			return actions, nil
		case err != nil:
			return nil, err
		case pod.Spec.Containers[0].Image != set.Spec.Template.Spec.Containers[0].Image:
			removal, err := author.Remove(pod, set.UID)
			return append(actions, removal), err
		case pod.Status.Phase != corev1.PodRunning:
			return actions, nil
		}
	}
	return actions, nil
}

var (
	setKind    = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	podKind    = corev1.SchemeGroupVersion.WithKind("Pod")
	secretKind = corev1.SchemeGroupVersion.WithKind("Secret")
)

// fleet is a StatefulSet of two pods that gets another image. The controller of StatefulSets and the kubelet are
// modelled in a few lines.
func fleet(
	name string, start func(search.Birth) (reconcile.Reconciler, error), always func(search.State) error,
) search.Scenario {
	return search.Scenario{
		Name: name, Scheme: scheme.Scheme,
		Programs: []search.Program{{
			Name: name, Start: start, Watches: []search.Watch{
				search.Itself(setKind), search.Owned(podKind, setKind), search.Owned(secretKind, setKind),
			},
		}},
		Setup: func(ctx context.Context, cluster client.Client) error {
			two := int32(2)
			return cluster.Create(ctx, &appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "sea", Name: "ship"},
				Spec: appsv1.StatefulSetSpec{
					Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "ship"}},
					UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "ship"}},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "ship:1"}}},
					},
				},
			})
		},
		Actors: []search.Actor{{Name: "statefulset", Step: makePod}, {Name: "kubelet", Step: runPod}},
		Script: []search.Step{{Name: "ship:2, please", Do: func(ctx context.Context, cluster client.Client) error {
			set := &appsv1.StatefulSet{}
			if err := cluster.Get(ctx, client.ObjectKey{Namespace: "sea", Name: "ship"}, set); err != nil {
				return err
			}
			set.Spec.Template.Spec.Containers[0].Image = "ship:2"
			return cluster.Update(ctx, set)
		}}},
		Always: always, Finally: rolled,
	}
}

// makePod makes the first pod that is missing.
func makePod(ctx context.Context, cluster client.Client) (bool, error) {
	set := &appsv1.StatefulSet{}
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: "sea", Name: "ship"}, set); err != nil {
		return false, err
	}
	pods := &corev1.PodList{}
	if err := cluster.List(ctx, pods); err != nil || len(pods.Items) == int(*set.Spec.Replicas) {
		return false, err
	}
	for i := range *set.Spec.Replicas {
		pod := &corev1.Pod{
			ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy(),
		}
		pod.Namespace, pod.Name = set.Namespace, fmt.Sprintf("%s-%d", set.Name, i)
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind)}
		switch err := cluster.Create(ctx, pod); {
		case err == nil:
			return true, nil
		case !apierrors.IsAlreadyExists(err):
			return false, err
		}
	}
	return false, nil
}

// runPod runs the first pod that does not run.
func runPod(ctx context.Context, cluster client.Client) (bool, error) {
	pods := &corev1.PodList{}
	if err := cluster.List(ctx, pods); err != nil {
		return false, err
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning {
			pod.Status.Phase = corev1.PodRunning
			return true, cluster.Status().Update(ctx, &pod)
		}
	}
	return false, nil
}

// tokens says that there are never more than so many.
func tokens(most int) func(search.State) error {
	return func(state search.State) error {
		found := &corev1.SecretList{}
		if err := state.List(context.Background(), found); err != nil {
			return err
		}
		if len(found.Items) > most {
			return fmt.Errorf("there are %d tokens", len(found.Items))
		}
		return nil
	}
}

// oneRestart says that no pod is restarted twice for one image.
func oneRestart(state search.State) error {
	restarts := map[string]int{}
	for _, event := range state.Events {
		if event.Kind != podKind || event.Type != watch.Deleted {
			continue
		}
		if restarts[event.Key.Name]++; restarts[event.Key.Name] > 1 {
			return fmt.Errorf("%s was restarted twice for one image", event.Key.Name)
		}
	}
	return nil
}

func strict(state search.State) error { return errors.Join(tokens(1)(state), oneRestart(state)) }

func rolled(state search.State) error {
	pods := &corev1.PodList{}
	if err := state.List(context.Background(), pods); err != nil {
		return err
	}
	var problems []error
	for _, pod := range pods.Items {
		if image := pod.Spec.Containers[0].Image; image != "ship:2" || pod.Status.Phase != corev1.PodRunning {
			problems = append(problems, fmt.Errorf("%s has %s and is %q", pod.Name, image, pod.Status.Phase))
		}
	}
	return errors.Join(problems...)
}

func startNaive(birth search.Birth) (reconcile.Reconciler, error) {
	return naive{birth.Process.Client()}, nil
}

func startCareful(birth search.Birth) (reconcile.Reconciler, error) {
	return careful{
		client: birth.Process.Client(), live: birth.Process.Live(),
		tracker: expect.New(birth.Process.Cache(), scheme.Scheme, expect.Options{Now: birth.Now}),
	}, nil
}

// The naive controller falls into the loop of creations and into the double rolling restart, and the search needs a
// moment for each. The careful one gets through.
func Example() {
	for _, scenario := range []search.Scenario{
		fleet("naive", startNaive, tokens(3)),
		fleet("naive", startNaive, oneRestart),
		fleet("careful", startCareful, strict),
	} {
		report, err := search.Explore(scenario, search.Options{Pairs: 50, Swarm: 50})
		switch {
		case err != nil:
			fmt.Println(err)
		case report.Failure == nil:
			fmt.Printf("%s: every rule held in each of %d hundred schedules\n", scenario.Name, report.Schedules/100)
		default:
			fmt.Printf("%s: %s\n%s", scenario.Name, report.Failure.Violation, report.Failure.Story())
		}
	}
	// Output:
	// naive: Always: there are 4 tokens
	//    0     → added StatefulSet sea/ship
	//    1 ! the cache of Secret in naive stands still for 10 turns
	//        naive looks at sea/ship
	//          call 1, naive 1: create Secret sea/
	//          → added Secret sea/token-5j849
	//    2   statefulset acts
	//          → added Pod sea/ship-0
	//    4   naive looks at sea/ship
	//          call 2, naive 2: create Secret sea/
	//          → added Secret sea/token-b7sn9
	//    5   statefulset acts
	//          → added Pod sea/ship-1
	//    7   naive looks at sea/ship
	//          call 3, naive 3: create Secret sea/
	//          → added Secret sea/token-hsg98
	//    8   kubelet acts
	//          → modified Pod sea/ship-0
	//   10   naive looks at sea/ship
	//          call 4, naive 4: create Secret sea/
	//          → added Secret sea/token-45q28
	//        ✗ Always: there are 4 tokens
	// naive: Always: ship-0 was restarted twice for one image
	//    0     → added StatefulSet sea/ship
	//    1   naive looks at sea/ship
	//          call 1, naive 1: create Secret sea/
	//          → added Secret sea/token-5j849
	//    3   naive looks at sea/ship
	//    4   statefulset acts
	//          → added Pod sea/ship-0
	//    6   naive looks at sea/ship
	//    7   statefulset acts
	//          → added Pod sea/ship-1
	//    9   naive looks at sea/ship
	//   10   kubelet acts
	//          → modified Pod sea/ship-0
	//   12   naive looks at sea/ship
	//   13   kubelet acts
	//          → modified Pod sea/ship-1
	//   15   naive looks at sea/ship
	//   16   the user: ship:2, please
	//          → modified StatefulSet sea/ship
	//   18   naive looks at sea/ship
	//          call 2, naive 2: delete Pod sea/ship-0
	//          → modified Pod sea/ship-0
	//          → deleted Pod sea/ship-0
	//   21   naive looks at sea/ship
	//   22   statefulset acts
	//          → added Pod sea/ship-0
	//   24   naive looks at sea/ship
	//   25   kubelet acts
	//          → modified Pod sea/ship-0
	//   27   naive looks at sea/ship
	//          call 3, naive 3: delete Pod sea/ship-1
	//      !   the answer to this call is: crash before, and the next life begins with a cache that is 3 versions behind
	//        naive'2 starts
	//   28   naive'2 looks at sea/ship
	//          call 4, naive'2 1: delete Pod sea/ship-0
	//          → modified Pod sea/ship-0
	//          → deleted Pod sea/ship-0
	//        ✗ Always: ship-0 was restarted twice for one image
	// careful: every rule held in each of 5 hundred schedules
}
