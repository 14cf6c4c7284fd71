package agent

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"meridian.dev/meridian/internal/metrics"
	"meridian.dev/meridian/internal/tenure/status"
	"meridian.dev/meridian/internal/wire"
)

// withFigures serves metrics beside the probes: whoever scrapes has no certificate of the database, and figures are no
// secret.
func withFigures(probes http.Handler, collectors ...prometheus.Collector) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", probes)
	mux.Handle("GET "+metrics.Path, metrics.Handler(collectors...))
	return mux
}

// report is what the loops have shown last.
func (s *servers) report() (wire.Report, bool) {
	state, ok := s.state()
	if !ok {
		return wire.Report{}, false
	}
	report := state.Report
	if s.tenure != nil {
		if shown, _, ok := s.tenure(); ok {
			report = status.Complete(report, shown.Snapshot, shown.Plan)
		}
	}
	if s.backup != nil {
		report.Backup = s.backup()
	}
	return report, true
}
