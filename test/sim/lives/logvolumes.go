package lives

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/kit/sim/search"
)

// Lives of databases whose logs have volumes of their own. Data and log are one copy.

// copyOf names the copy on the volumes of these claims: another claim of either is another copy.
func copyOf(data, log *corev1.PersistentVolumeClaim) string {
	if log == nil || log.UID == "" {
		return string(data.UID)
	}
	return string(data.UID) + "/" + string(log.UID)
}

// ownerOf is the instance that an object belongs to by its name.
func ownerOf(call sim.Call) string {
	instance, _ := database.ClaimOwner(call.Key.Name)
	return instance
}

func createWithLogs(instances int32, reclaim v1alpha1.Reclaim) search.Step {
	return search.Step{
		Name: fmt.Sprintf("create a database of %d with volumes for logs", instances),
		Do: func(ctx context.Context, cluster client.Client) error {
			object, size := newDatabase(instances, reclaim), resource.MustParse("1Gi")
			object.Spec.Storage.WALSize = &size
			return cluster.Create(ctx, object)
		},
	}
}

func growLogs(size string) search.Step {
	return search.Step{Name: "volumes of logs of " + size, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		wanted := resource.MustParse(size)
		object.Spec.Storage.WALSize = &wanted
	})}
}

func loseLogClaimOf(instance string) search.Step {
	return search.Step{Name: "the claim of the log and the pod of " + instance + " are deleted",
		Do: func(ctx context.Context, cluster client.Client) error {
			name := database.LogClaimName(instance)
			if err := remove(&corev1.PersistentVolumeClaim{}, name)(ctx, cluster); err != nil {
				return err
			}
			return remove(&corev1.Pod{}, database.PodName(instance))(ctx, cluster)
		}}
}

// withLogs are the claims of these instances.
func withLogs(instances []string) []string {
	names := slices.Clone(instances)
	for _, instance := range instances {
		names = append(names, database.LogClaimName(instance))
	}
	slices.Sort(names)
	return names
}

func logsHaveSize(size string) func(search.State) error { return haveSize(size, database.LogClaimName) }

func logVolumes() []Life {
	created := Life{
		Name: "create three with logs", Script: []search.Step{createWithLogs(3, v1alpha1.ReclaimDelete)},
		End: all(served(upTo(3)...), claims(withLogs(upTo(3))...)),
	}
	kept := Life{
		Name: "create three with logs to keep", Script: []search.Step{createWithLogs(3, v1alpha1.ReclaimRetain)},
		End: all(served(upTo(3)...), claims(withLogs(upTo(3))...)),
	}
	logs, keptLogs := after(created), after(kept)
	return []Life{
		created,
		{Name: "volumes of logs grow", From: logs, Script: []search.Step{growLogs("2Gi")},
			End: all(served(upTo(3)...), logsHaveSize("2Gi"), hasSize("1Gi"))},
		{Name: "the claim of a log is lost", From: logs, Restarts: 1, Script: []search.Step{loseLogClaimOf("cities-3")},
			End: served("cities-1", "cities-2", "cities-4")},
		{Name: "scale down with logs", From: logs, Restarts: 1, Script: []search.Step{scale(2)},
			End: all(served(upTo(2)...), claims(withLogs(upTo(2))...))},
		{Name: "deleted with its logs", From: logs, Restarts: 1, Script: []search.Step{drop()}, End: all(gone, claims())},
		{Name: "deleted with its logs kept", From: keptLogs, Restarts: 1, Script: []search.Step{drop()},
			End: all(gone, claims(withLogs(upTo(3))...))},
	}
}
