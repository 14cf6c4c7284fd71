// Package metrics turns what the processes of Meridian know into figures for Prometheus: the report of an agent, the
// statistics of PostgreSQL, the conditions of databases, and the writes of the operator. It decides nothing, and a
// scrape that fails harms nobody but itself.
//
// An agent mounts Handler with Instance and Statistics, or with Cache; the operator registers Resources and puts Writes
// around its client. Every figure is described in docs/guide/monitoring.md, which a test compares with the code. Start
// reading at Handler.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Path is where metrics are served.
const Path = "/metrics"

// Handler serves the given figures, and no others. It answers two scrapes at a time, so that a scraper that hangs does
// not pile up work beside a database.
func Handler(collectors ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 2, DisableCompression: true,
	})
}

// figure is one that is computed from a T, without labels.
type figure[T any] struct {
	name, help string
	kind       prometheus.ValueType
	value      func(T) float64
	// when says whether there is such a figure; nil means always.
	when func(T) bool
}

func gauge[T any](name, help string, value func(T) float64) figure[T] {
	return figure[T]{name: name, help: help, kind: prometheus.GaugeValue, value: value}
}

func counter[T any](name, help string, value func(T) float64) figure[T] {
	return figure[T]{name: name, help: help, kind: prometheus.CounterValue, value: value}
}

// only is a figure that is not always there.
func only[T any](when func(T) bool, of figure[T]) figure[T] {
	of.when = when
	return of
}

// collector computes figures when it is asked. A source that has nothing to say gives none.
type collector[T any] struct {
	source  func() (T, bool)
	figures []figure[T]
	// more are those with labels.
	more func(T, chan<- prometheus.Metric)
	// labelled describes them.
	labelled []*prometheus.Desc
}

func (c *collector[T]) desc(of figure[T]) *prometheus.Desc {
	return prometheus.NewDesc(of.name, of.help, nil, nil)
}

// Describe implements prometheus.Collector.
func (c *collector[T]) Describe(out chan<- *prometheus.Desc) {
	for _, one := range c.figures {
		out <- c.desc(one)
	}
	for _, one := range c.labelled {
		out <- one
	}
}

// Collect implements prometheus.Collector.
func (c *collector[T]) Collect(out chan<- prometheus.Metric) {
	facts, ok := c.source()
	if !ok {
		return
	}
	for _, one := range c.figures {
		if one.when == nil || one.when(facts) {
			out <- prometheus.MustNewConstMetric(c.desc(one), one.kind, one.value(facts))
		}
	}
	if c.more != nil {
		c.more(facts, out)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
