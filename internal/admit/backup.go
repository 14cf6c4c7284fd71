package admit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/window"
)

// Schedule reads when base backups are made. The problem is nil if it can be understood.
func Schedule(backup v1alpha1.Backup) (window.Schedule, *Problem) {
	return schedule(backup, "spec.backup.schedule", withDefault(backup.Schedule, "daily 02:00"))
}

// Verify reads when a database with this UID is restored on trial: a schedule of nothing if that is turned off. What
// names no time has one of its own for each database, between two and seven at night, and a week a day of its own: many
// databases with the same words, such as the default, do not begin together.
func Verify(backup v1alpha1.Backup, uid string) (window.Schedule, *Problem) {
	text := VerifyText(backup)
	if text == v1alpha1.VerifyNever {
		return window.Schedule{}, nil
	}
	sum := sha256.Sum256([]byte(uid))
	chosen := binary.BigEndian.Uint64(sum[:])
	at, day := chosen%nightMinutes, time.Weekday(chosen/nightMinutes%7)
	switch text {
	case "daily", "weekly":
		text += fmt.Sprintf(" %02d:%02d", nightBegins+at/60, at%60)
	}
	if rest, weekly := strings.CutPrefix(text, "weekly "); weekly && !strings.Contains(rest, " ") {
		text = fmt.Sprintf("weekly %s %s", strings.ToLower(day.String()[:3]), rest)
	}
	return schedule(backup, "spec.backup.verify", text)
}

// nightBegins is the first hour of the moments that are chosen for databases, nightMinutes how many there are.
const nightBegins, nightMinutes = 2, 5 * 60

// VerifyText is spec.backup.verify with its default.
func VerifyText(backup v1alpha1.Backup) string {
	return withDefault(backup.Verify, "weekly")
}

func withDefault(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func schedule(backup v1alpha1.Backup, field, text string) (window.Schedule, *Problem) {
	zone, err := time.LoadLocation(backup.TimeZone)
	if err != nil || backup.TimeZone == "Local" {
		return window.Schedule{}, &Problem{"spec.backup.timeZone", fmt.Sprintf(
			"there is no time zone %q; write a name of the IANA database, such as UTC or Europe/Berlin", backup.TimeZone)}
	}
	parsed, err := window.ParseSchedule(text, zone)
	if err != nil {
		return window.Schedule{}, &Problem{field, err.Error()}
	}
	return parsed, nil
}

// The retention of a spec that was stored without one.
const (
	defaultKeep    = 14 * 24 * time.Hour
	defaultAtLeast = 2
	// longestKeep is ten years: longer than anybody has waited for a restore, and far from where numbers end.
	longestKeep = 10 * 366 * 24 * time.Hour
)

// Keep reads how far back a restore shall be possible.
func Keep(retention v1alpha1.Retention) (time.Duration, *Problem) {
	text := retention.Window
	if text == "" {
		return defaultKeep, nil
	}
	units := map[byte]time.Duration{'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}
	unit, known := units[text[len(text)-1]]
	count, err := strconv.ParseInt(text[:len(text)-1], 10, 32)
	if !known || err != nil || count < 1 {
		return 0, &Problem{"spec.backup.retention.window", fmt.Sprintf(
			"%q is no number of hours, days or weeks; write it as 36h, 14d or 8w", text)}
	}
	if keep := time.Duration(count) * unit; count <= int64(longestKeep/unit) {
		return keep, nil
	}
	return 0, &Problem{"spec.backup.retention.window", text + " is more than ten years; write less"}
}

// AtLeast is how many base backups are kept.
func AtLeast(retention v1alpha1.Retention) int {
	if retention.AtLeast < 1 {
		return defaultAtLeast
	}
	return int(retention.AtLeast)
}

func refuseImpossibleBackup(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	backup := database.Spec.Backup
	if backup == nil {
		return nil
	}
	var problems []Problem
	_, unscheduled := Schedule(*backup)
	_, unverified := Verify(*backup, string(database.UID))
	_, unkept := Keep(backup.Retention)
	for _, problem := range []*Problem{unscheduled, unverified, unkept} {
		if problem != nil {
			problems = append(problems, *problem)
		}
	}
	return problems
}

// refuseOwnRepositoryAsSource finds a database that is to begin with itself: there is nothing of it to begin with.
func refuseOwnRepositoryAsSource(database *v1alpha1.GeoDatabase, _ Facts) []Problem {
	if clone := database.Spec.Bootstrap.Clone; clone != nil && clone.Name == database.Name {
		return []Problem{{"spec.bootstrap.clone.name", "is the database itself; name another one"}}
	}
	return nil
}

// ahead is how much later the clock of whoever writes a manifest may be.
const ahead = time.Minute

func refuseTargetInTheFuture(database *v1alpha1.GeoDatabase, facts Facts) []Problem {
	restore := database.Spec.Bootstrap.Restore
	if facts.Now.IsZero() || restore == nil || restore.Target == nil || restore.Target.Time == nil ||
		!restore.Target.Time.After(facts.Now.Add(ahead)) {
		return nil
	}
	return []Problem{{"spec.bootstrap.restore.target.time", fmt.Sprintf(
		"%s lies in the future; write a time that has been, or leave the target out to have the latest",
		restore.Target.Time.UTC().Format(time.RFC3339))}}
}
