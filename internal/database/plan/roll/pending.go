package roll

import (
	"fmt"
	"strings"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// TellPendingRestarts lists what takes effect when an instance starts again and is no reason to start it: what only a
// new version of Meridian brings. It also says when a restart has not helped.
func TellPendingRestarts(d *draft.Draft) {
	for _, wanted := range d.Plan.Design.Instances {
		instance, _ := d.Instance(wanted.Name)
		if instance.Pod == nil || instance.Broken() != "" || !d.ClaimStays(instance) {
			continue
		}
		one := dueOf(d, instance)
		if !one.pod && !atTarget(d, instance) && instance.Pod.Template != "" && !instance.Pod.Deleting {
			message := fmt.Sprintf("%s takes over from this version of Meridian at its next restart%s: %s", instance.Name,
				nextWindow(d), difference(d, instance.Name))
			if instance.Pod.Shares {
				message += "; until then it presents the certificate that all instances had in common"
			}
			d.Plan.Pending = append(d.Plan.Pending, message)
			d.Plan.Restarts = append(d.Plan.Restarts, message)
		}
		if pending := instance.Report.PendingRestart; len(pending) > 0 && !one.pod && !one.server &&
			instance.Report.Restart == tokenOf(d, instance.Name) {
			d.Hold(database.Degraded, 0, "RestartPending", fmt.Sprintf(
				"%s has restarted, and %s still requires a restart", instance.Name, strings.Join(pending, ", ")))
		}
	}
}

// nextWindow says when what waits is carried out at the latest, and has a pass run then: that a window opens is no
// event.
func nextWindow(d *draft.Draft) string {
	if d.Window.Begins.IsZero() || d.Invalid {
		return ""
	}
	d.Look(d.Now, d.Window.Begins)
	return ", or in the maintenance window that opens at " + d.Window.Begins.Format(time.RFC3339)
}

// difference is what the wanted template changes, in short.
func difference(d *draft.Draft, instance string) string {
	child, _ := d.Child(database.KindSet, instance)
	if child.State != database.Changed {
		return "its template is newer"
	}
	return d.Summary(child.Changes)
}
