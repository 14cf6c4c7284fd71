package observe

import "meridian.dev/meridian/internal/postgres"

// Barrier is the memory of the quorum, for the tests.
type Barrier struct{ barrier }

// Look takes the snapshot of a pass.
func (b *Barrier) Look(s postgres.Snapshot) postgres.Quorum { return b.look(s) }
