//go:build cluster

package controller_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// TestReadyWaitsForTheReadAddress plays the controller of EndpointSlices: it is late, as it is on a cluster that has
// much to do. All is well, and the read address still leads to the primary.
func TestReadyWaitsForTheReadAddress(t *testing.T) {
	w := newWorld(t)
	w.create(&v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "cities"},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: 2, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi"), Class: "fast"},
		},
	})
	for _, name := range []string{"cities-1", "cities-2"} {
		w.passUntil(name+" is made", func() bool {
			return w.get(name, &appsv1.StatefulSet{}) && w.get(name, &corev1.PersistentVolumeClaim{}) &&
				w.get("cities-ro", &corev1.Service{})
		})
		w.boot(name, "r1", running)
	}
	w.readsLeadTo("cities-1")
	w.lead(1, "cities-1", "cities-2")
	w.renewUntil("only the read address is waited for", func() bool {
		return w.because() == "ReadsNotRoutedYet" &&
			w.database().Status.WaitingFor == "the read address does not lead to cities-2 yet"
	})
	w.readsLeadTo("cities-1", "cities-2")
	w.renewUntil("the primary is still read", func() bool {
		return w.database().Status.WaitingFor == "the read address still leads to the primary cities-1 as well"
	})
	w.readsLeadTo("cities-2")
	w.renewUntil("nodes are waited for", func() bool {
		return w.database().Status.WaitingFor == "the read address was changed a moment ago, and nodes follow within seconds"
	})
	w.later += 5 * time.Second
	w.renewUntil("it is ready", w.ready)

	// From now on a primary that is read as well for a moment is no news.
	w.readsLeadTo("cities-1", "cities-2")
	passes := 0
	w.renewUntil("a few passes are made", func() bool { passes++; return passes > 5 })
	if !w.ready() {
		t.Errorf("Ready was taken back: %s", w.database().Status.WaitingFor)
	}
}

// renewUntil runs passes while the holder renews its lease: this takes longer than a lease lasts on a slow machine.
func (w *world) renewUntil(what string, done func() bool) {
	w.t.Helper()
	w.passUntil(what, func() bool {
		now := metav1.NowMicro()
		change(w, "cities-primary", &coordinationv1.Lease{}, func(lease *coordinationv1.Lease) {
			lease.Spec.RenewTime = &now
		})
		return done()
	})
}

// readsLeadTo writes the slice of the read address, with the labels of its Service, as Kubernetes does.
func (w *world) readsLeadTo(instances ...string) {
	w.t.Helper()
	var endpoints []discoveryv1.Endpoint
	for _, name := range instances {
		endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{addressOf(name)}})
	}
	if w.get("cities-ro-x", &discoveryv1.EndpointSlice{}) {
		change(w, "cities-ro-x", &discoveryv1.EndpointSlice{}, func(slice *discoveryv1.EndpointSlice) {
			slice.Endpoints = endpoints
		})
		return
	}
	var service corev1.Service
	w.get("cities-ro", &service)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: space, Name: "cities-ro-x", Labels: service.Labels},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
	}
	slice.Labels[discoveryv1.LabelServiceName] = "cities-ro"
	w.create(slice)
}

// because is the reason for which the database is not Ready.
func (w *world) because() string {
	ready := condition.Find(w.database().Status.Conditions, condition.Ready)
	if ready == nil || ready.Status == metav1.ConditionTrue {
		return ""
	}
	return ready.Reason
}
