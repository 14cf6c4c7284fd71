package plan

import (
	"fmt"
	"strings"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/design"
)

func leaveTheDead(d *draft) { d.Ended = d.Deleting }

// refuseInvalid asks the same rules that the webhook asks, because an object may have been stored while it was away.
// What comes from the spec stays as it is; what keeps a running cache alive goes on.
func refuseInvalid(d *draft) {
	if problems := design.Problems(d.Snapshot); len(problems) > 0 {
		d.Hold(cache.Stalled, 0, "InvalidSpec", strings.Join(problems, "; "))
		d.Invalid = true
	}
}

func stopWhilePaused(d *draft) { d.StopWhilePaused(d.Spec.Paused) }

// stopAtForeign stops changes altogether: a cache that is half there under names of others would look alive.
func stopAtForeign(d *draft) {
	var problems []string
	for _, child := range d.Children {
		if child.Taken() {
			problems = append(problems, child.Problem)
		}
	}
	if d.Lease.Foreign != "" {
		problems = append(problems, d.Lease.Foreign)
	}
	for _, secret := range []cache.Secret{d.Binding, d.Certificates.Authority, d.Certificates.Leaf} {
		if secret.Foreign != "" {
			problems = append(problems, secret.Foreign)
		}
	}
	for _, problem := range problems {
		d.Hold(cache.Stalled, 0, "ForeignChild", problem+
			"; delete or rename that object, or make the cache under another name: a cache cannot have the name of a "+
			"GeoDatabase, because both name their objects after themselves")
		d.Stopped = true
	}
}

// waitForTheDatabase lets both be applied in any order. A cache that was built outlives the loss of its database: what
// it holds is the application's.
func waitForTheDatabase(d *draft) {
	name := d.Spec.DatabaseRef.Name
	switch {
	case d.Database.Exists:
	case d.Built():
		d.Hold(cache.Degraded, 0, "DatabaseMissing", fmt.Sprintf(
			"the GeoDatabase %s does not exist; the cache goes on without it: delete the cache if it is of no use any more",
			name))
	default:
		d.Stopped = true
		d.Hold(cache.Progressing, 0, "DatabaseMissing", fmt.Sprintf(
			"the GeoDatabase %s does not exist; the cache is made as soon as it does", name))
	}
}
