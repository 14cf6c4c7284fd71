package plugin_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
)

// kept gives the database of the world backups, from ten in the morning on, with a gap before.
func kept(w *world) *v1alpha1.GeoDatabase {
	w.t.Helper()
	key := client.ObjectKey{Namespace: "maps", Name: "cities"}
	var database v1alpha1.GeoDatabase
	if err := w.client.Get(w.t.Context(), key, &database); err != nil {
		w.t.Fatal(err)
	}
	database.Spec.Backup = &v1alpha1.Backup{Repository: v1alpha1.Repository{
		S3:         &v1alpha1.S3Repository{Bucket: "geo", Credentials: v1alpha1.SecretReference{Name: "c"}},
		Encryption: v1alpha1.Encryption{Key: &v1alpha1.SecretReference{Name: "k"}},
	}, Now: "x"}
	database.Spec.Restart = "yesterday"
	if err := w.client.Update(w.t.Context(), &database); err != nil {
		w.t.Fatal(err)
	}
	hour := func(hour int) metav1.Time { return metav1.NewTime(time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC)) }
	from, until := hour(10), hour(12)
	database.Status.Backup = &v1alpha1.BackupStatus{
		Repository: "s3://geo/maps/cities/uid-1/", RecoverableFrom: &from, RecoverableUntil: &until,
		Gaps: []v1alpha1.BackupGap{{From: hour(8), Until: hour(9)}},
	}
	if err := w.client.Status().Update(w.t.Context(), &database); err != nil {
		w.t.Fatal(err)
	}
	return &database
}

func TestRestoreManifest(t *testing.T) {
	for to, want := range map[string]v1alpha1.RestoreTarget{
		"latest":               {},
		"10 minutes ago":       {Time: &metav1.Time{Time: time.Date(2026, 3, 1, 11, 50, 0, 0, time.UTC)}},
		"1h30m ago":            {Time: &metav1.Time{Time: time.Date(2026, 3, 1, 10, 30, 0, 0, time.UTC)}},
		"90 seconds ago":       {Time: &metav1.Time{Time: time.Date(2026, 3, 1, 11, 58, 30, 0, time.UTC)}},
		"2026-03-01T11:15:00Z": {Time: &metav1.Time{Time: time.Date(2026, 3, 1, 11, 15, 0, 0, time.UTC)}},
		"2026-03-01 11:15:00":  {Time: &metav1.Time{Time: time.Date(2026, 3, 1, 11, 15, 0, 0, time.UTC)}},
		"2026-03-01T07:15:00Z": {Time: &metav1.Time{Time: time.Date(2026, 3, 1, 7, 15, 0, 0, time.UTC)}},
		"0/3000148":            {LSN: "0/3000148"},
	} {
		t.Run(to, func(t *testing.T) {
			w := newWorld(t)
			source := kept(w)
			got, err := w.run("restore", "cities", "--to", to, "--as", "before", "--dry-run")
			if err != nil {
				t.Fatal(err)
			}
			var made v1alpha1.GeoDatabase
			if err := yaml.UnmarshalStrict([]byte(got), &made); err != nil {
				t.Fatalf("%v in\n%s", err, got)
			}
			restore := made.Spec.Bootstrap.Restore
			if made.Name != "before" || restore == nil || restore.Source != (v1alpha1.RestoreSource{
				Namespace: "maps", Name: "cities", UID: "uid-1",
			}) || restore.Repository.S3.Bucket != "geo" {
				t.Fatalf("the manifest is\n%s", got)
			}
			target := v1alpha1.RestoreTarget{}
			if restore.Target != nil {
				target = *restore.Target
			}
			if target.LSN != want.LSN || (target.Time == nil) != (want.Time == nil) ||
				want.Time != nil && !target.Time.Equal(want.Time) {
				t.Errorf("the target is %v, want %v", target, want)
			}
			if made.Spec.Restart != "" || made.Spec.Backup.Now != "" ||
				made.Spec.Storage.Size.Cmp(source.Spec.Storage.Size) != 0 {
				t.Errorf("wishes of a moment are taken over:\n%s", got)
			}
			if strings.Contains(got, "status") || strings.Contains(got, "null") {
				t.Errorf("the manifest has more than is needed:\n%s", got)
			}
			missing := w.client.Get(t.Context(), client.ObjectKey{Namespace: "maps", Name: "before"}, &v1alpha1.GeoDatabase{})
			if client.IgnoreNotFound(missing) != nil || missing == nil {
				t.Errorf("a dry run has made something: %v", missing)
			}
		})
	}
}

func TestRestoreIsMade(t *testing.T) {
	w := newWorld(t)
	kept(w)
	got, err := w.run("restore", "cities", "--to", "10 minutes ago", "--as", "before", "--instances", "1", "--wait=false")
	if err != nil {
		t.Fatal(err)
	}
	var made v1alpha1.GeoDatabase
	if err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "maps", Name: "before"}, &made); err != nil {
		t.Fatal(err)
	}
	if made.Spec.Instances != 1 || made.Spec.Bootstrap.Restore == nil || !strings.Contains(got, "Made before") {
		t.Errorf("%s\n%v", got, made.Spec)
	}
}

func TestRestoreRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no name":           {[]string{"cities"}, `required flag(s) "as" not set`},
		"its own name":      {[]string{"cities", "--as", "cities"}, "is the database itself"},
		"nobody knows when": {[]string{"cities", "--as", "b", "--to", "yesterday"}, `"yesterday" is no time`},
		"some time ago":     {[]string{"cities", "--as", "b", "--to", "long ago"}, `"long" is no span of time`},
		"the future":        {[]string{"cities", "--as", "b", "--to", "2026-03-01T13:00:00Z"}, "is in the future"},
		"in a gap":          {[]string{"cities", "--as", "b", "--to", "2026-03-01T08:30:00Z"}, "is within a gap"},
		"before the window": {
			[]string{"cities", "--as", "b", "--to", "2026-03-01T09:30:00Z"}, "is before 2026-03-01T10:00:00Z",
		},
		"another database": {[]string{"towns", "--as", "b"}, "there is no database maps/towns"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			kept(w)
			_, err := w.run(append([]string{"restore"}, test.args...)...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	w := newWorld(t)
	if _, err := w.run("restore", "cities", "--as", "b"); err == nil || !strings.Contains(err.Error(), "no spec.backup") {
		t.Errorf("without backups: %v", err)
	}
}
