package expect

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Ledger records the writes of one owner. It is what code that writes is handed, so that it cannot write down a
// write under another owner's name. The zero Ledger records nothing.
type Ledger struct {
	tracker *Tracker
	owner   Owner
}

// Of returns the ledger of the owner.
func (t *Tracker) Of(owner Owner) Ledger {
	return Ledger{tracker: t, owner: owner}
}

// Wrote records a create or an update, see Tracker.Wrote.
func (l Ledger) Wrote(obj client.Object) {
	if l.tracker != nil {
		l.tracker.Wrote(l.owner, obj)
	}
}

// Deleted records a delete, see Tracker.Deleted.
func (l Ledger) Deleted(obj client.Object) {
	if l.tracker != nil {
		l.tracker.Deleted(l.owner, obj)
	}
}

// Doubt records a write of unknown outcome, see Tracker.Doubt.
func (l Ledger) Doubt(why string) {
	if l.tracker != nil {
		l.tracker.Doubt(l.owner, why)
	}
}

var _ prometheus.Collector = (*Tracker)(nil)

var (
	checksDescription = prometheus.NewDesc("expect_checks_total",
		"Answers to the question whether the caches show all own writes.", []string{"answer"}, nil)
	pendingDescription = prometheus.NewDesc("expect_pending_writes",
		"Own writes that no cache has been seen to show yet.", nil, nil)
	ownersDescription = prometheus.NewDesc("expect_owners", "Owners whose writes are remembered.", nil, nil)
)

// Describe implements prometheus.Collector. Wrap the registerer to add a prefix or the name of the controller.
func (t *Tracker) Describe(out chan<- *prometheus.Desc) {
	out <- checksDescription
	out <- pendingDescription
	out <- ownersDescription
}

// Collect implements prometheus.Collector.
func (t *Tracker) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	pending := 0
	for _, known := range t.owners {
		pending += len(known.pending)
	}
	for _, answer := range []Answer{ReadCache, Wait, ReadLive} {
		out <- prometheus.MustNewConstMetric(
			checksDescription, prometheus.CounterValue, float64(t.counts[answer]), answer.String())
	}
	out <- prometheus.MustNewConstMetric(pendingDescription, prometheus.GaugeValue, float64(pending))
	out <- prometheus.MustNewConstMetric(ownersDescription, prometheus.GaugeValue, float64(len(t.owners)))
}
