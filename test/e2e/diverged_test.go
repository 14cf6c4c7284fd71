//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// followDiverged is the chain by which a former primary once acknowledged what nobody else had (B3). One that was
// elected is cut off with a session that writes inside it, until another leads. It comes back while the third instance
// is away, so that all that is acknowledged from then on hangs on it; then the new primary loses power, and the former
// one and the third instance elect.
func (f *failover) followDiverged() func() {
	f.t.Helper()
	first := f.number(f.node)
	f.c.sandbox("node", "stop", first)
	f.awaitTerm(f.term)
	f.awaitSteady("writes are accepted by one that was elected")
	f.c.sandbox("node", "start", first)
	f.awaitWell()

	f.steer()
	former, cut := f.before, f.node
	f.startInner()
	f.c.sandbox("node", "cut", f.number(cut))
	f.awaitTerm(f.term)
	leads := f.awaitAnother(former)
	next := f.pod(leads).Spec.NodeName
	f.steerThrough(next)
	f.awaitSteady("writes are accepted by the next primary")

	away := ""
	for _, instance := range f.instances() {
		if instance != former && instance != leads {
			away = f.pod(instance).Spec.NodeName
		}
	}
	f.c.sandbox("node", "stop", f.number(away))
	time.Sleep(2 * time.Second)
	acknowledged := f.traffic.Acknowledged()
	f.c.sandbox("node", "heal", f.number(cut))
	f.steerThrough(cut)
	f.c.until("the former primary alone helps to acknowledge", 2*time.Minute, func(context.Context) (bool, string) {
		more := f.traffic.Acknowledged() - acknowledged
		return more >= 20, fmt.Sprint(more)
	})
	f.c.sandbox("node", "stop", f.number(next))
	f.c.sandbox("node", "start", f.number(away))
	return func() { f.c.sandbox("node", "start", f.number(next)) }
}

// awaitAnother waits until the status tells of another primary, and returns it.
func (f *failover) awaitAnother(than string) (primary string) {
	f.t.Helper()
	f.c.until("another instance than "+than+" is the primary", 2*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := f.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		primary = database.Status.Primary
		return primary != "" && primary != than && database.Status.Term == f.leaseTerm(ctx), primary
	})
	return primary
}

// steerThrough sends the traffic through a node.
func (f *failover) steerThrough(name string) {
	f.t.Helper()
	var node corev1.Node
	if err := f.c.Get(f.t.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		f.t.Fatal(err)
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			command(f.t, "ip", "route", "replace", f.address+"/32", "via", address.Address)
			f.way = name
		}
	}
}
