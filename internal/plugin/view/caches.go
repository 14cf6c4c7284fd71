package view

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/kind"
)

var caches = CompanionKind{
	Kind: kind.Cache,
	List: func() client.ObjectList { return &v1alpha1.GeoCacheList{} },
	Of:   func(object client.Object) Companion { return cache{object.(*v1alpha1.GeoCache)} },

	columns: []string{"MEMORY", "HITS"},
}

// The figures of an agent of a cache that are shown.
const (
	FigureMemoryUsed  = "meridian_cache_memory_used_bytes"
	FigureMemoryLimit = "meridian_cache_memory_allowed_bytes"
	FigureHits        = "meridian_cache_hits_total"
	FigureMisses      = "meridian_cache_misses_total"
)

type cache struct{ *v1alpha1.GeoCache }

func (c cache) Kind() kind.Kind                    { return kind.Cache }
func (c cache) Database() string                   { return c.Spec.DatabaseRef.Name }
func (c cache) Members() []v1alpha1.InstanceStatus { return c.Status.Members }

func (c cache) state() subject {
	return subject{
		object: c.ObjectMeta, observed: c.Status.ObservedGeneration, conditions: c.Status.Conditions, paused: c.Spec.Paused,
	}
}

func (c cache) show(facts Facts, shown *Shown) {
	status := c.Status
	shown.Primary, shown.Ready, shown.Wanted = status.Primary, status.ReadyReplicas, max(c.Spec.Replicas, 1)
	shown.Engine, shown.Version, shown.WaitingFor = string(c.Spec.Engine), status.Version, status.WaitingFor
	var used int64
	var hits, misses float64
	for _, instance := range shown.Instances {
		used = max(used, instance.Used)
		hits += facts.Figures[instance.Pod][FigureHits]
		misses += facts.Figures[instance.Pod][FigureMisses]
	}
	memory, share := "-", "-"
	if status.Memory != nil {
		shown.Memory = status.Memory.String()
		memory = shown.Memory
	}
	if used > 0 && shown.Memory != "" {
		memory = Size(used) + " of " + shown.Memory
	}
	if hits+misses > 0 {
		ratio := hits / (hits + misses)
		shown.HitRatio, share = &ratio, fmt.Sprintf("%.0f%%", 100*ratio)
	}
	shown.cells = []cell{text("%s", memory), text("%s", share)}
}
