package plugin

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/cluster"
)

// forNamed runs a verb on the database that the first argument names.
func (p *plugin) forNamed(
	run func(ctx context.Context, in *cluster.Cluster, key client.ObjectKey) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		in, namespace, err := p.connect()
		if err != nil {
			return err
		}
		key, err := choose(cmd.Context(), in, namespace, args)
		if err != nil {
			return err
		}
		return run(cmd.Context(), in, key)
	}
}

// ask writes a request onto a database, if that is still as it was read: what was checked then may not hold any more.
func ask(ctx context.Context, in *cluster.Cluster, read, asked *v1alpha1.GeoDatabase) error {
	err := in.Patch(ctx, asked, client.MergeFromWithOptions(read, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return errors.New("somebody has changed the database at the same moment; look at it and ask again")
	}
	return err
}

// await looks again and again until it is over, one way or the other. Whoever does not wait any longer learns what goes
// on all the same.
func await(ctx context.Context, every time.Duration, goesOn string, look func() (over bool, err error)) error {
	for {
		if over, err := look(); over || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.New("not waiting any longer; " + goesOn)
		case <-time.After(every):
		}
	}
}
