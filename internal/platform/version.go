// Package platform is what Meridian demands of a cluster, whoever looks: the operator at its start, and the plugin
// before anything is installed. It is pure.
package platform

import (
	"fmt"
	"strconv"
	"strings"
)

// OldestMinor is the oldest minor version of Kubernetes 1 that has all that Meridian cannot do without, among it pods
// that are resized in place and policies of admission. It is tried with that one.
const OldestMinor = 33

// Version says in one sentence why a version of the API server is refused, or what is to be known of one that is not;
// both are empty for one that will do. A version that cannot be read is not refused: its owner knows
// better than we do.
func Version(reported string) (refusal, remark string) {
	minor, known := minorOf(reported)
	switch {
	case !known:
		return "", fmt.Sprintf("the version %q of Kubernetes cannot be read: it must be 1.%d or newer", reported, OldestMinor)
	case minor < OldestMinor:
		return fmt.Sprintf("Kubernetes %s is too old: Meridian needs 1.%d or newer", reported, OldestMinor), ""
	default:
		return "", ""
	}
}

// minorOf reads v1.36.3, and what distributions make of it: v1.36.3-gke.100, v1.36.3+rke2r1.
func minorOf(reported string) (int, bool) {
	major, rest, found := strings.Cut(strings.TrimPrefix(reported, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	number, err := strconv.Atoi(strings.TrimRight(minor, "+"))
	if !found || err != nil {
		return 0, false
	}
	if generation, err := strconv.Atoi(major); err != nil || generation != 1 {
		return 0, false
	}
	return number, true
}
