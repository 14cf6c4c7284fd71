package observe

import (
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
)

// Barrier is the memory of the quorum, for the tests.
type Barrier struct{ barrier }

// Look takes the snapshot of a pass.
func (b *Barrier) Look(s postgres.Snapshot) postgres.Quorum { return b.look(s) }

// Ran is the memory of which copy a server ran on, for the tests.
type Ran struct{ ran }

// Look takes the snapshot of a pass.
func (r *Ran) Look(s *postgres.Snapshot) { r.look(s) }

// Short is the memory of whether a copy lacks what makes it whole, for the tests.
type Short struct{ short }

// Look takes the snapshot of a pass, and the end of the WAL that is read beside a server.
func (m *Short) Look(s *postgres.Snapshot, beside *tenure.Position) {
	m.short.look(s, func() *tenure.Position { return beside })
}

// Silent is the memory of since when a server has let nobody in, for the tests.
type Silent struct{ silent }

// Look takes the snapshot of a pass.
func (m *Silent) Look(s *postgres.Snapshot) { m.silent.look(s) }

// RememberAhead is a look at a replica.
func (o *Observer) RememberAhead(server *postgres.Server) { o.rememberAhead(server) }

// Foreign is the memory of positions of another timeline, for the tests.
type Foreign struct{ foreign }

// Look takes the snapshot of a pass.
func (f *Foreign) Look(s postgres.Snapshot) string { return f.look(s, s.LeadingStart()) }
