package admit

import (
	"fmt"
	"time"
	_ "time/tzdata" // The names of time zones mean the same on every machine.

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/window"
)

// Window reads when maintenance is allowed. The problem is nil if there is such a time.
func Window(maintenance v1alpha1.Maintenance) (window.Window, *Problem) {
	zone, err := time.LoadLocation(maintenance.TimeZone)
	if err != nil || maintenance.TimeZone == "Local" {
		return window.Window{}, &Problem{"spec.maintenance.timeZone", fmt.Sprintf(
			"there is no time zone %q; write a name of the IANA database, such as UTC or Europe/Berlin", maintenance.TimeZone)}
	}
	parsed, err := window.Parse(maintenance.Window, zone)
	if err != nil {
		return window.Window{}, &Problem{"spec.maintenance.window", err.Error()}
	}
	return parsed, nil
}

func refuseImpossibleWindow(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	if database.Spec.Maintenance == nil {
		return nil
	}
	if _, problem := Window(*database.Spec.Maintenance); problem != nil {
		return []Problem{*problem}
	}
	return nil
}
