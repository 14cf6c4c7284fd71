// Package service holds what the loops of the operator have in common: the nouns of what they see and decide, the plan
// in the making, and how agents, routes and admission are seen. It knows no loop.
//
// Start reading at [Agent].
package service

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// LeaseChanged says that more about a lease is new than the time of its last renewal.
func LeaseChanged(before, after *coordinationv1.Lease) bool {
	was, is := before.DeepCopy(), after.DeepCopy()
	for _, lease := range []*coordinationv1.Lease{was, is} {
		lease.Spec.RenewTime, lease.ResourceVersion, lease.ManagedFields = nil, "", nil
	}
	return !equality.Semantic.DeepEqual(was, is)
}
