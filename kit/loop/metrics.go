package loop

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts and measures the passes of all loops of a process. A nil Metrics does nothing.
type Metrics struct {
	stages *prometheus.HistogramVec
	passes *prometheus.CounterVec
	holds  *prometheus.CounterVec
	events *prometheus.CounterVec
}

// NewMetrics registers the metrics. Wrap the registerer to give them a prefix.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	metrics := &Metrics{
		stages: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "loop_stage_seconds",
			Help:    "How long the stages of passes took.",
			Buckets: []float64{.0005, .002, .01, .05, .2, 1, 5, 20, 60},
		}, []string{"loop", "stage"}),
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "loop_passes_total",
			Help: "Passes by how they ended.",
		}, []string{"loop", "end"}),
		holds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "loop_holds_total",
			Help: "Passes that waited for something, by its name.",
		}, []string{"loop", "hold"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "loop_events_total",
			Help: "What passes did or noticed, as they told in events.",
		}, []string{"loop", "action", "reason"}),
	}
	for _, collector := range []prometheus.Collector{metrics.stages, metrics.passes, metrics.holds, metrics.events} {
		if err := registerer.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics of loops: %w", err)
		}
	}
	return metrics, nil
}

func (m *Metrics) observe(loop, stage string, took time.Duration) {
	if m != nil {
		m.stages.WithLabelValues(loop, stage).Observe(took.Seconds())
	}
}

func (m *Metrics) count(loop, end string) {
	if m != nil {
		m.passes.WithLabelValues(loop, end).Inc()
	}
}

func (m *Metrics) hold(loop, name string) {
	if m != nil {
		m.holds.WithLabelValues(loop, name).Inc()
	}
}

func (m *Metrics) event(loop, action, reason string) {
	if m != nil {
		m.events.WithLabelValues(loop, action, reason).Inc()
	}
}
