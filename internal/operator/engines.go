package operator

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	cacheloop "meridian.dev/meridian/internal/cache/controller"
	databaseloop "meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/kit/rbac"
)

// engine is a kind of resource that the operator works on.
type engine struct {
	// rights are what its loop may do.
	rights func() rbac.Table
	// add puts its loop into the manager, over the objects of the cluster that all loops of a scope share.
	add func(of scope, ctx context.Context, into manager.Manager, part cluster.Cluster) error
}

// engines are all of them. The settings of each are in Options.
var engines = []engine{
	{databaseloop.Rights, scope.addDatabases},
	{cacheloop.Rights, scope.addCaches},
}
