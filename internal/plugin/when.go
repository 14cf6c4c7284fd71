package plugin

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
)

var (
	place = regexp.MustCompile(`^[0-9A-F]{1,8}/[0-9A-F]{1,8}$`)
	span  = regexp.MustCompile(`^([0-9]+) ?(s|seconds?|m|min|minutes?|h|hours?|d|days?|w|weeks?)$`)
)

// units are what a span of time is counted in, by the first letter.
var units = map[byte]time.Duration{
	's': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour,
}

// targetOf reads where a restore shall stop: "latest", "10 minutes ago", "1h30m ago", a time, or a place in the log.
// nil is the latest.
func targetOf(text string, now time.Time) (*v1alpha1.RestoreTarget, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "latest" {
		return nil, nil
	}
	if place.MatchString(text) {
		return &v1alpha1.RestoreTarget{LSN: text}, nil
	}
	at, err := timeOf(text, now)
	if err != nil {
		return nil, err
	}
	if at.After(now) {
		return nil, fmt.Errorf("--to: %s is in the future", at.UTC().Format(time.RFC3339))
	}
	// A target of whole seconds: what was written within the second of a mistake is not wanted.
	return &v1alpha1.RestoreTarget{Time: &metav1.Time{Time: at.UTC().Truncate(time.Second)}}, nil
}

func timeOf(text string, now time.Time) (time.Time, error) {
	if ago, found := strings.CutSuffix(text, "ago"); found {
		before, err := spanOf(strings.TrimSpace(ago))
		return now.Add(-before), err
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04"} {
		// Without a zone a time is that of the machine, as people mean it.
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("--to: %q is no time; write such as \"10 minutes ago\", 2026-11-18T10:15:00Z, "+
		"\"2026-11-18 10:15:00\", 0/3000148 or latest", text)
}

func spanOf(text string) (time.Duration, error) {
	if length, err := time.ParseDuration(strings.ReplaceAll(text, " ", "")); err == nil && length >= 0 {
		return length, nil
	}
	match := span.FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("--to: %q is no span of time; write such as 10 minutes ago, 1h30m ago or 2 days ago", text)
	}
	count, err := strconv.ParseInt(match[1], 10, 32)
	if err != nil || count > 100_000 {
		return 0, fmt.Errorf("--to: %q is too long ago", text)
	}
	return time.Duration(count) * units[match[2][0]], nil
}
