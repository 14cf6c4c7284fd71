package operator

import (
	"context"

	"github.com/spf13/pflag"
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
	// images adds the flags that name the images of its servers.
	images func(*Options, *pflag.FlagSet)
	// add puts its loop into the manager, over the objects of the cluster that all loops of a scope share.
	add func(of scope, ctx context.Context, into manager.Manager, part cluster.Cluster) error
}

// engines are all of them. The settings of each are in Options.
var engines = []engine{
	{databaseloop.Rights, databaseImages, scope.addDatabases},
	{cacheloop.Rights, cacheImages, scope.addCaches},
}

// AddImageFlags adds the flags that name the images of servers.
func (o *Options) AddImageFlags(flags *pflag.FlagSet) {
	for _, each := range engines {
		each.images(o, flags)
	}
}
