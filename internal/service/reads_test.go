package service_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/kit/sim"
)

// TestFindReads reads the slices that Kubernetes keeps for a Service, however many there are, and no others.
func TestFindReads(t *testing.T) {
	server, err := sim.New(sim.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	process, err := server.Start(sim.Life{Name: "kubernetes"})
	if err != nil {
		t.Fatal(err)
	}
	writer := process.Live()
	yes, no := true, false
	add := func(name, service string, endpoints ...discoveryv1.Endpoint) {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "gis", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service},
			},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		}
		if err := writer.Create(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
	}
	at := func(address string, ready *bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready},
		}
	}
	instances := map[string]string{"10.0.0.1": "cities-1", "10.0.0.2": "cities-2", "10.0.0.3": "cities-3"}
	find := func() *service.Reads {
		reads, err := service.FindReads(t.Context(), writer, client.ObjectKey{Namespace: "gis", Name: "cities-ro"},
			func(address string) string { return instances[address] })
		if err != nil {
			t.Fatal(err)
		}
		return reads
	}
	if reads := find(); reads != nil {
		t.Errorf("without a slice nobody knows, got %v", reads)
	}
	add("cities-rw", "cities-rw", at("10.0.0.1", &yes))
	add("cities-ro-a", "cities-ro", at("10.0.0.3", nil), at("10.0.0.9", &yes))
	add("cities-ro-b", "cities-ro", at("10.0.0.2", &yes), at("10.0.0.1", &no))
	if diff := cmp.Diff([]string{"cities-2", "cities-3"}, find().Targets); diff != "" {
		t.Errorf("targets differ (-want +got):\n%s", diff)
	}
}

func TestReadsLack(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	both := []string{"cities-2", "cities-3"}
	ago := func(age time.Duration, targets ...string) *service.Reads {
		return &service.Reads{Targets: targets, Since: now.Add(-age)}
	}
	tests := map[string]struct {
		reads    *service.Reads
		readers  []string
		wasReady bool
		readyFor time.Duration
		want     string
	}{
		"nobody knows":    {nil, both, false, 0, ""},
		"nobody to read":  {ago(0, "cities-1"), nil, false, 0, ""},
		"to the replicas": {ago(time.Minute, both...), both, false, 0, ""},
		"to one of them":  {ago(time.Minute, "cities-2"), both, true, 0, "the read address does not lead to cities-3 yet"},
		"to the primary": {
			ago(time.Minute, "cities-1"), both, false, 0,
			"the read address does not lead to cities-2 and cities-3 yet",
		},
		"to the primary, too": {
			ago(time.Minute, "cities-1", "cities-2", "cities-3"), both, false, 0,
			"the read address still leads to the primary cities-1 as well",
		},
		"since a moment ago": {
			ago(time.Second, both...), both, false, 0,
			"the read address was changed a moment ago, and nodes follow within seconds",
		},
		"ready, and the primary is read too": {ago(0, "cities-1", "cities-2", "cities-3"), both, true, 0, ""},
		"under load": {
			ago(0, "cities-1", "cities-2", "cities-3"), both, false, time.Minute, "",
		},
		"the primary is all there is": {ago(time.Minute, "cities-1"), []string{"cities-1"}, false, 0, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.reads.Lack(test.readers, "cities-1", test.wasReady, now.Add(-test.readyFor), now); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
