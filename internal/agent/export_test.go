package agent

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/wire"
)

// NewServerLog lets a test read what becomes of PostgreSQL's log.
func NewServerLog(out io.Writer) *serverLog { return newServerLog(slog.NewJSONHandler(out, nil)) }

// Add takes one line.
func (l *serverLog) Add(line []byte) { l.add(line) }

// Flush writes what is kept.
func (l *serverLog) Flush() { l.flush() }

// Shown is what the loop has shown last.
type Shown = controller.State

// Probe asks both probes, and returns the codes of the answers.
func Probe(shown *Shown, now time.Time) (live, ready int) {
	probed := &servers{now: func() time.Time { return now }, begun: now, state: func() (Shown, bool) {
		if shown == nil {
			return Shown{}, false
		}
		return *shown, true
	}}
	ask := func(path string) int {
		recorder := httptest.NewRecorder()
		probed.probes().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		return recorder.Code
	}
	return ask(wire.PathLive), ask(wire.PathReady)
}
