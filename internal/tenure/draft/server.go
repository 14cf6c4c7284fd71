package draft

import (
	"cmp"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Leads says that the server was told to lead, or may still be leading.
func (d *Draft) Leads() bool {
	return d.Standing.Role == tenure.RoleLead || d.Standing.Role == tenure.RoleYield || d.Engine.Leading != nil
}

// Unattended says why nobody would carry out what the server is told, because the loop that does so hangs. It is empty
// if somebody would.
func (d *Draft) Unattended() string {
	if d.Engine.At == 0 || d.Now.Since(d.Engine.At) < attendedLately {
		return ""
	}
	return "the agent has not looked at it for long"
}

// FreshFacts says that what is known of the server was read not long ago. The gate, the members and the end of a server
// that hangs are not decided on old facts. What does not tell its age is taken as it is.
func (d *Draft) FreshFacts() bool {
	return d.Engine.At == 0 || d.Now.Since(d.Engine.At) < d.Policy.Duration/2
}

// Ending is the standing of a server that ends because its place is given away.
func (d *Draft) Ending() tenure.Standing {
	standing := d.Standing
	standing.Role, standing.OpenStart = tenure.RoleYield, ""
	return standing
}

// Idle is the standing of a copy that follows nobody.
func (d *Draft) Idle() tenure.Standing {
	standing := tenure.Standing{Role: tenure.RoleIdle, Term: d.Stored.MaxTerm, OpenReads: d.readable()}
	if record := d.Record(); record != nil {
		standing.Initialised, standing.SystemIdentifier = record.Initialised, record.SystemIdentifier
		standing.Members = record.Members
	}
	return standing
}

// CannotLead says why this instance would not take the lease, empty if it would.
func (d *Draft) CannotLead() string {
	switch {
	case d.Stopping:
		return "the pod was told to end"
	case d.Lease.Failing != nil:
		return "the API server does not answer here"
	case d.Now < d.Rest:
		return "a promotion has failed a moment ago"
	}
	return cmp.Or(d.Engine.CannotLead, d.Unattended())
}

// readable says that applications may read here: the write address does not lead to this replica, so that nobody takes
// it for the primary.
func (d *Draft) readable() bool { return d.Route.Known && d.Route.Address != d.Address }

// Whole says that the copy here can lead or be counted under the record: it is one that served, or the first one,
// complete and recorded.
func (d *Draft) Whole(record wire.LeaseRecord) bool {
	if d.Engine.Data == tenure.DataNone {
		return record.Initialised && d.Engine.SystemIdentifier == record.SystemIdentifier && record.Has(d.Self())
	}
	return d.Engine.Data == tenure.DataWhole
}

// Predates says that the copy here is from before the cache was emptied, as far as the facts show: it may have come
// further since.
func (d *Draft) Predates() bool {
	return d.Lease.Record != nil && d.Engine.Flushed != nil && Before(*d.Engine.Flushed, d.Lease.Record.Emptied)
}

// Before says that a position is from before an emptying. On a later timeline the writes go on counting where its
// primary began, and that one had come as far; so a copy that has not come as far by number either has not heard of it,
// whatever timeline it is on by now.
func Before(position tenure.Position, emptied *wire.Emptied) bool {
	return emptied != nil && (position.Timeline < emptied.Timeline || position.LSN < emptied.Offset)
}
