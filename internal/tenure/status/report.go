// Package status says what an instance knows of the lease, in the words of its report. It is pure. Start reading at
// Complete.
package status

import (
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Complete adds to the report of the server what the agents have agreed on.
func Complete(report wire.Report, snapshot tenure.Snapshot, decided tenure.Plan) wire.Report {
	report.Term = snapshot.Stored.MaxTerm
	if snapshot.Lost() == "" {
		report.Term, report.Holder = max(snapshot.Lease.Term, report.Term), snapshot.Lease.Holder.Name
	}
	report.Standing, report.Fenced = string(snapshot.Standing.Role), snapshot.Stored.Fence != nil
	if report.Role == wire.RolePrimary {
		// An open primary serves only when applications find it.
		route := snapshot.Route
		report.Serving = report.Serving && route.Known && route.Address == snapshot.Address &&
			route.Term == snapshot.Standing.Term
	}
	if hold, waits := foremost(decided.Holds); waits && (report.Reason == "" || hold.Stalled) {
		report.Reason, report.Message = hold.Reason, hold.Detail
	}
	return report
}

// CompleteCache does the same for an instance of a cache.
func CompleteCache(report wire.CacheReport, snapshot tenure.Snapshot, decided tenure.Plan) wire.CacheReport {
	agreed := Complete(wire.Report{
		Role: report.Role, Serving: report.Serving, Reason: report.Reason, Message: report.Message,
	}, snapshot, decided)
	report.Term, report.Holder, report.Standing = agreed.Term, agreed.Holder, agreed.Standing
	report.Fenced, report.Serving = agreed.Fenced, agreed.Serving
	report.Reason, report.Message = agreed.Reason, agreed.Message
	return report
}

// foremost is the hold that a user should hear of: one that needs a human, or else the first.
func foremost(holds []tenure.Hold) (tenure.Hold, bool) {
	for _, hold := range holds {
		if hold.Stalled {
			return hold, true
		}
	}
	if len(holds) > 0 {
		return holds[0], true
	}
	return tenure.Hold{}, false
}
