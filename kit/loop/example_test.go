package loop_test

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
)

// A loop that gives every Deployment as many Pods as it has replicas: facts, a pure decision, conditional writes,
// and a status. The second pass finds nothing to do and writes nothing.
func Example() {
	type facts struct {
		object *appsv1.Deployment
		pods   map[string]bool
	}
	type decision struct{ create []*corev1.Pod }
	type done struct{ created []string }

	server := &api{shelf: shelf{}} // In a controller: the manager's client, and its API reader for Live.
	author := apply.Author{Scheme: scheme.Scheme, Prefix: "example.com", Manager: "example"}

	stages := loop.Stages[*appsv1.Deployment, facts, decision, done]{
		Observe: func(ctx context.Context, reader client.Reader, object *appsv1.Deployment) (facts, error) {
			seen := facts{object: object, pods: map[string]bool{}}
			var pods corev1.PodList
			err := reader.List(ctx, &pods, client.InNamespace(object.Namespace))
			for _, pod := range pods.Items {
				seen.pods[pod.Name] = true
			}
			return seen, err
		},
		Decide: func(seen facts) (plan decision) {
			for i := range *seen.object.Spec.Replicas {
				name := fmt.Sprintf("%s-%d", seen.object.Name, i)
				if !seen.pods[name] {
					meta := metav1.ObjectMeta{Namespace: seen.object.Namespace, Name: name}
					plan.create = append(plan.create, &corev1.Pod{ObjectMeta: meta})
				}
			}
			return plan
		},
		Act: func(
			ctx context.Context, ledger expect.Ledger, object *appsv1.Deployment, plan decision,
		) (outcome done, err error) {
			actor := apply.Actor{Client: server, Live: server, Recorder: ledger}
			for _, pod := range plan.create {
				want, failed := author.Intent(pod, object.UID)
				if failed == nil {
					action, _ := apply.Compare(want, nil).Action()
					_, failed = actor.Do(ctx, action)
				}
				if failed == nil {
					outcome.created = append(outcome.created, pod.Name)
				}
				err = errors.Join(err, failed)
			}
			return outcome, err
		},
		Report: func(object *appsv1.Deployment, pass loop.Pass[facts, decision, done]) []loop.Event {
			object.Status.Replicas = int32(len(pass.Snapshot.pods) + len(pass.Outcome.created))
			fmt.Println("read:", pass.Reading.Answer, "created:", pass.Outcome.created)
			return nil
		},
	}
	pods, err := loop.New(loop.Config{
		Name: "pods", Client: server, Live: server.shelf,
		Tracker: expect.New(server.shelf, scheme.Scheme, expect.Options{}),
	}, stages)
	if err != nil {
		fmt.Println(err)
		return
	}

	two := int32(2)
	server.store(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one", UID: "uid-one"},
		Spec:       appsv1.DeploymentSpec{Replicas: &two},
	})
	for range 2 {
		result, err := pods.Reconcile(context.Background(), request)
		fmt.Println("requeue:", result.RequeueAfter, "error:", err, "status writes:", server.statusWrites)
	}

	// Output:
	// read: ReadLive created: [one-0 one-1]
	// requeue: 0s error: <nil> status writes: 1
	// read: ReadCache created: []
	// requeue: 0s error: <nil> status writes: 1
}
