//go:build cluster

package e2e_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/test/e2e/checks"
)

// witness reads the status of the database all the time, as somebody does who repeats kubectl get.
type witness struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	said   []checks.Statement
}

func (f *failover) startWitness() {
	ctx, cancel := context.WithCancel(f.t.Context())
	f.witness = &witness{cancel: cancel}
	now := f.traffic.Now
	f.witness.done.Go(func() {
		for ctx.Err() == nil {
			bounded, cancel := context.WithTimeout(ctx, time.Second)
			at := now()
			database, err := f.get(bounded)
			cancel()
			f.witness.note(at, database, err)
			time.Sleep(50 * time.Millisecond)
		}
	})
}

// note keeps what was said, if it is another thing than before.
func (w *witness) note(at time.Duration, database *v1alpha1.GeoDatabase, err error) {
	statement := checks.Statement{At: at, Silent: err != nil}
	if err == nil {
		statement.Ready = condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionReady)
		if serving := condition.Find(database.Status.Conditions, v1alpha1.ConditionServing); serving != nil {
			statement.Serving = serving.Status == metav1.ConditionTrue
			statement.Why = serving.Reason + ": " + serving.Message
		}
		statement.Primary = database.Status.Primary
	}
	if last := len(w.said) - 1; last >= 0 {
		before := w.said[last]
		before.At = at
		if before == statement {
			return
		}
	}
	w.said = append(w.said, statement)
}

// stop ends it and returns what was said.
func (w *witness) stop() []checks.Statement {
	w.cancel()
	w.done.Wait()
	return w.said
}

// operatorIsOn says that the replica of the operator that works is on this node. If that goes, the status stands still
// until another replica has taken over.
func (f *failover) operatorIsOn(node string) bool {
	f.t.Helper()
	var leases coordinationv1.LeaseList
	var pods corev1.PodList
	space := client.InNamespace(operatorNamespace)
	if err := errors.Join(f.c.List(f.t.Context(), &leases, space), f.c.List(f.t.Context(), &pods, space)); err != nil {
		f.t.Fatal(err)
	}
	for _, lease := range leases.Items {
		for _, pod := range pods.Items {
			if holder := lease.Spec.HolderIdentity; holder != nil && strings.HasPrefix(*holder, pod.Name+"_") {
				return pod.Spec.NodeName == node
			}
		}
	}
	return false
}
