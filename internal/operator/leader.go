package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// renewDeadline is how long a leader tries to renew its lease before it ends. Requests take half of it at most.
const renewDeadline = 10 * time.Second

// newLock is the lease of the election, under a name that no other process has ever had.
func newLock(config *rest.Config, home string) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find a name for the election: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, home, Name,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, renewDeadline)
	if err != nil {
		return nil, fmt.Errorf("make the lease of the election: %w", err)
	}
	return lock, nil
}

// leads asks live whether a process still holds the lease of the election. One that was stopped for a while does not
// know that it has lost it, and its successor is at work.
func leads(live client.Reader, home, identity string) func(context.Context) error {
	return func(ctx context.Context) error {
		var lease coordinationv1.Lease
		if err := live.Get(ctx, client.ObjectKey{Namespace: home, Name: Name}, &lease); err != nil {
			return fmt.Errorf("read who leads: %w", err)
		}
		if holder := lease.Spec.HolderIdentity; holder == nil || *holder != identity {
			return apierrors.NewConflict(schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}, Name,
				errors.New("another process leads"))
		}
		return nil
	}
}
