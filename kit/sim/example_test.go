package sim_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/sim"
)

// naive wants a number of pods per ConfigMap, as its cache shows them. It is what a first controller looks like.
type naive struct {
	client client.Client
	wished int
}

func (r *naive) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	owner := &corev1.ConfigMap{}
	if err := r.client.Get(ctx, request.NamespacedName, owner); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods, client.InNamespace(owner.Namespace)); err != nil {
		return reconcile.Result{}, err
	}
	if len(pods.Items) >= r.wished {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.client.Create(ctx, podOf(owner))
}

func podOf(owner *corev1.ConfigMap) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, GenerateName: owner.Name + "-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/main:1"}}},
	}
}

// careful wants the same. It acts only when its cache shows what it has written itself, or else reads live, and its
// pods have names, so that what was created in a life before is found again.
type careful struct {
	client  client.Client
	live    client.Reader
	tracker *expect.Tracker
	wished  int
}

func (r *careful) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	owner := &corev1.ConfigMap{}
	if err := r.client.Get(ctx, request.NamespacedName, owner); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	identity := expect.OwnerOf(owner)
	reader := client.Reader(r.client)
	verdict := r.tracker.Check(identity)
	switch verdict.Answer {
	case expect.Wait:
		return reconcile.Result{RequeueAfter: verdict.Recheck}, nil
	case expect.ReadLive:
		reader = r.live
	case expect.ReadCache:
	}
	witness := expect.NewWitness(reader, r.client.Scheme())
	var actions []apply.Action
	for i := range r.wished {
		difference, err := compare(ctx, witness, owner, fmt.Sprintf("%s-%d", owner.Name, i))
		if err != nil {
			return reconcile.Result{}, err
		}
		if action, needed := difference.Action(); needed {
			actions = append(actions, action)
		}
	}
	if verdict.Answer == expect.ReadLive {
		r.tracker.Confirm(identity, witness.Saw()...)
	}
	actor := apply.Actor{Client: r.client, Live: r.live, Recorder: r.tracker.Of(identity)}
	for _, action := range actions {
		if _, err := actor.Do(ctx, action); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
}

func compare(
	ctx context.Context, reader client.Reader, owner *corev1.ConfigMap, name string,
) (apply.Difference, error) {
	pod := podOf(owner)
	pod.GenerateName, pod.Name = "", name
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)}
	author := apply.Author{Scheme: scheme.Scheme, Prefix: "example.com", Manager: "careful"}
	want, err := author.Intent(pod, owner.UID)
	if err != nil {
		return apply.Difference{}, err
	}
	found := &corev1.Pod{}
	switch err := reader.Get(ctx, want.Key(), found); {
	case apierrors.IsNotFound(err):
		return apply.Compare(want, nil), nil
	case err != nil:
		return apply.Difference{}, err
	}
	return apply.Compare(want, found), nil
}

// The cache of pods stands still while a controller runs ten passes, and follows only afterwards. One of the two
// controllers falls into the loop of creations that has taken whole clusters down.
func Example() {
	for _, name := range []string{"naive", "careful"} {
		clock := &sim.Clock{}
		server, err := sim.New(sim.Options{Scheme: scheme.Scheme, Now: clock.Now})
		if err != nil {
			fmt.Println(err)
			return
		}
		process, err := server.Start(sim.Life{Name: name})
		if err != nil {
			fmt.Println(err)
			return
		}
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
		if err := process.Live().Create(context.Background(), owner); err != nil {
			fmt.Println(err)
			return
		}
		process.Cache().CatchUp()

		reconciler := reconcile.Reconciler(&naive{client: process.Client(), wished: 2})
		if name == "careful" {
			tracker := expect.New(process.Cache(), scheme.Scheme, expect.Options{Now: clock.Now})
			reconciler = &careful{client: process.Client(), live: process.Live(), tracker: tracker, wished: 2}
		}
		request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)}
		for range 10 { // The cache of pods does not move.
			if _, err := reconciler.Reconcile(context.Background(), request); err != nil {
				fmt.Println(err)
			}
		}
		stale := countPods(server)
		for range 10 { // Now it follows every write at once.
			process.Cache().CatchUp()
			if _, err := reconciler.Reconcile(context.Background(), request); err != nil {
				fmt.Println(err)
			}
		}
		fmt.Printf("%s: wished 2 pods, %d with a stale cache, %d in the end\n", name, stale, countPods(server))
	}
	// Output:
	// naive: wished 2 pods, 10 with a stale cache, 10 in the end
	// careful: wished 2 pods, 2 with a stale cache, 2 in the end
}

func countPods(server *sim.Server) int {
	pods, _, err := server.List(sim.Query{Kind: corev1.SchemeGroupVersion.WithKind("Pod")})
	if err != nil {
		return -1
	}
	return len(pods)
}
