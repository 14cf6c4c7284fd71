package render

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// writeService selects nothing: the holder of the lease writes where it leads.
func writeService(design database.Design) *corev1.Service {
	return serviceOf(design, database.WriteName(design.Name), nil)
}

// readService leads to the replicas whose agents say that they are near enough.
func readService(design database.Design) *corev1.Service {
	return serviceOf(design, database.ReadName(design.Name), map[string]string{
		database.LabelDatabase: design.Name, database.LabelRead: "true",
	})
}

// podsService gives every pod a name, ready or not: agents look for each other when nothing is ready.
func podsService(design database.Design) *corev1.Service {
	headless := serviceOf(design, database.PodsName(design.Name), map[string]string{database.LabelDatabase: design.Name})
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	headless.Spec.PublishNotReadyAddresses = true
	headless.Spec.Ports = append(headless.Spec.Ports, service.Port("agent", wire.PortAgent))
	return headless
}

func serviceOf(design database.Design, name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: meta(design, name, "route"),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: selector,
			Ports: []corev1.ServicePort{service.Port(portName, wire.PortPostgres)},
		},
	}
}

const portName = "postgres"

// slice is where the write address leads: to nobody, until a holder writes itself into it. What a holder writes is not
// part of it, so nothing of that is ever undone.
func slice(design database.Design) *discoveryv1.EndpointSlice {
	name, number, protocol := portName, int32(wire.PortPostgres), corev1.ProtocolTCP
	made := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta(design, database.WriteName(design.Name), "route"),
		AddressType: discoveryv1.AddressType(design.Family),
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &number, Protocol: &protocol}},
	}
	made.Labels[discoveryv1.LabelServiceName] = database.WriteName(design.Name)
	made.Labels[discoveryv1.LabelManagedBy] = database.SliceManager
	return made
}

// Lease renders the lease as it is made, once, or in the place of one that is lost. From then on it belongs to the
// agents: they alone decide what is written into it.
func Lease(design database.Design, succeeds string, before []string) *coordinationv1.Lease {
	made := &coordinationv1.Lease{ObjectMeta: meta(design, database.LeaseName(design.Name), "lease")}
	made.Finalizers = []string{database.LeaseFinalizer}
	if succeeds != "" {
		made.Annotations = map[string]string{wire.AnnotationSucceeds: succeeds}
		if len(before) > 0 {
			made.Annotations[wire.AnnotationLostBefore] = wire.FormatLost(before)
		}
	}
	return made
}

// budget lets one instance at a time be disrupted: a drain goes on, and finds the next one only when the last is back.
// The primary hands over before its pod ends, so that a drain needs no other protection. A pod that is not ready may go
// at any time: it would hold up the drain for nothing.
func budget(design database.Design) *policyv1.PodDisruptionBudget {
	one, always := intstr.FromInt32(1), policyv1.AlwaysAllow
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: meta(design, database.PodsName(design.Name), "instance"),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: &one, UnhealthyPodEvictionPolicy: &always,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{database.LabelDatabase: design.Name}},
		},
	}
}
