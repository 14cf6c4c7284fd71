package controller_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
)

// TestLeaseOfADatabaseThatIsGone takes the finalizer off a database by hand, and deletes it: when the garbage collector
// deletes its lease, that goes. With the word that children stay nobody deletes it, and it stays.
func TestLeaseOfADatabaseThatIsGone(t *testing.T) {
	for how, left := range map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationBackground: `null`, metav1.DeletePropagationOrphan: `["orphan"]`,
	} {
		t.Run(string(how), func(t *testing.T) {
			w := readyTown(t)
			w.must(w.admin.Delete(t.Context(), w.database(), client.PropagationPolicy(how)))
			w.must(w.admin.Patch(t.Context(), w.database(), client.RawPatch("application/merge-patch+json",
				[]byte(`{"metadata":{"finalizers":`+left+`}}`))))
			var lease coordinationv1.Lease
			if !w.get(database.LeaseName(towns.Name), &lease) || len(lease.Finalizers) == 0 {
				t.Fatalf("the lease has %v before the operator has looked: this shows nothing", lease.Finalizers)
			}
			if how == metav1.DeletePropagationOrphan {
				round := 0
				w.until("twenty passes are over", func() bool { round++; return round > 20 })
				if w.database().UID != "" {
					t.Fatal("the database is still there")
				}
				if !w.get(database.LeaseName(towns.Name), &lease) || lease.DeletionTimestamp != nil {
					t.Error("the lease of pods that were to stay is gone")
				}
				return
			}
			if lease.DeletionTimestamp == nil {
				w.must(w.admin.Delete(t.Context(), &lease))
			}
			w.until("the lease is gone", func() bool { return !w.get(database.LeaseName(towns.Name), &lease) })
		})
	}
}
