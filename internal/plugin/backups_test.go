package plugin_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// shelved makes the primary answer with two backups, of which the second is needed.
func shelved(w *world) {
	w.t.Helper()
	kept(w)
	at := time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)
	until := at.Add(10 * time.Hour)
	content, err := json.Marshal(wire.BackupList{
		Folder: "geo/maps/cities/uid-1/", WindowSeconds: 3600, AtLeast: 1,
		Backups: []wire.ListedBackup{
			{ID: "now-1-a", At: at, Size: 3 << 30, Stored: 512 << 20, Timeline: 1, Start: "0/1", Stop: "0/2"},
			{
				ID: "due-2-b", At: at, Size: 3 << 30, Timeline: 2, Start: "0/3", Stop: "0/4", From: "0/4", Until: "0/9",
				FromTime: &at, UntilTime: &until, Needed: "LSN 0/9 is the newest place that could be restored",
				Trials: []wire.ListedTrial{{At: at, RestoreMilliseconds: 61000}, {At: until, Problem: "pg_amcheck: bad"}},
			},
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.captured = content
}

func TestBackups(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"the list": {
			[]string{"list", "cities"},
			[]string{"now-1-a", "3Gi", "512Mi", "2026-03-01T12:00:00Z", "bad"},
		},
		"the list as JSON": {[]string{"list", "-o", "json"}, []string{`"id": "now-1-a"`, `"atLeast": 1`}},
		"one": {
			[]string{"show", "cities", "due-2-b"},
			[]string{"0/4 to 0/9", "is the newest", "good, restored within 1m1s"},
		},
		"one by its begin":   {[]string{"show", "cities", "now"}, []string{"base/now-1-a/", "it can be deleted"}},
		"one that is usable": {[]string{"delete", "cities", "now-1-a", "--yes"}, []string{"Deleted the backup now-1-a."}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			shelved(w)
			got, err := w.run(append([]string{"backups"}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			asked := w.ran[0]
			if asked[1] != "exec" || !slices.Contains(asked, "cities-1-0") || asked[len(asked)-1] != "list" {
				t.Errorf("it has run %v", asked)
			}
		})
	}
}

func TestBackupsRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"what is needed":      {[]string{"delete", "cities", "due-2-b", "--yes"}, "due-2-b is kept: LSN 0/9 is the"},
		"without an answer":   {[]string{"delete", "cities", "now-1-a"}, "nothing was deleted"},
		"what is not there":   {[]string{"show", "cities", "first"}, `there is no backup "first"`},
		"no backup at all":    {[]string{"delete", "cities", ""}, "there is no backup"},
		"an unknown verb":     {[]string{"destroy"}, `unknown command "destroy"`},
		"an unknown database": {[]string{"list", "towns"}, `"towns" not found`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			shelved(w)
			_, err := w.run(append([]string{"backups"}, test.args...)...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			for _, ran := range w.ran {
				if slices.Contains(ran, "delete") {
					t.Errorf("it has run %v", ran)
				}
			}
		})
	}
	w := newWorld(t)
	if _, err := w.run("backups", "list", "cities"); err == nil || !strings.Contains(err.Error(), "no spec.backup") {
		t.Errorf("without backups: %v", err)
	}
	shelved(w)
	w.refusal = errors.New("the repository is away")
	if _, err := w.run("backups", "list", "cities"); err == nil || !strings.Contains(err.Error(), "is away") {
		t.Errorf("with a repository that is away: %v", err)
	}
}
