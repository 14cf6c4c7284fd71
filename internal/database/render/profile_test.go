package render

import (
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
)

// TestLogFitsItsVolume holds what PostgreSQL may keep of its log against the volume that it is on: an absent replica
// must not stop the primary, however small the volume and whatever the profile.
func TestLogFitsItsVolume(t *testing.T) {
	profiles := []v1alpha1.Profile{
		v1alpha1.ProfileGeneral, v1alpha1.ProfileTiles, v1alpha1.ProfileAnalysis, v1alpha1.ProfileBulkload,
	}
	for _, sizes := range []struct{ data, log string }{
		{data: "1Gi"},
		{data: "10Gi"},
		{data: "4Ti"},
		{data: "1Ti", log: "512Mi"}, // What suits the data would fill this log many times.
		{data: "1Gi", log: "64Ti"},
	} {
		for _, name := range profiles {
			spec := v1alpha1.GeoDatabaseSpec{Profile: name}
			spec.Storage.Size = resource.MustParse(sizes.data)
			volume := spec.Storage.Size
			if sizes.log != "" {
				volume = resource.MustParse(sizes.log)
				spec.Storage.WALSize = &volume
			}
			set := profile(spec)
			checkpoint, slot := inMegabytes(t, set["max_wal_size"]), inMegabytes(t, set["max_slot_wal_keep_size"])
			kept := max(slot, inMegabytes(t, set["wal_keep_size"]))
			if all := checkpoint + kept; all > volume.Value()/megabyte*8/10 {
				t.Errorf("data %s, log %q, profile %s: the log may come to %d MB (%v)", sizes.data, sizes.log, name, all, set)
			}
		}
	}
}

func inMegabytes(t *testing.T, value string) int64 {
	t.Helper()
	number, found := strings.CutSuffix(value, "MB")
	amount, err := strconv.ParseInt(number, 10, 64)
	if !found || err != nil {
		t.Fatalf("%q is no number of megabytes", value)
	}
	return amount
}
