package status_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/status"
	"meridian.dev/meridian/internal/wire"
)

// A base backup on request counts as carried out when it is in the repository, and not when it was asked for.
func TestRequestIsCarriedOutWhenTheBackupIsThere(t *testing.T) {
	asked := &wire.BaseWanted{ID: "now-1", Instance: "cities-1"}
	older, newer := []wire.BaseBackup{{For: "now-0"}}, []wire.BaseBackup{{For: "now-1"}}
	for name, test := range map[string]struct {
		before string
		asked  *wire.BaseWanted
		there  []wire.BaseBackup
		silent bool
		want   string
	}{
		"it was asked for":              {asked: asked, want: ""},
		"another one was made before":   {before: "first", asked: asked, there: older, want: "first"},
		"it is there":                   {before: "first", asked: asked, there: newer, want: "second"},
		"nobody tells what there is":    {before: "first", asked: asked, silent: true, want: "first"},
		"a later one is on its way":     {before: "second", asked: &wire.BaseWanted{ID: "due-1"}, want: "second"},
		"nothing is asked for any more": {before: "first", want: "second"},
	} {
		t.Run(name, func(t *testing.T) {
			report := &wire.BackupReport{Listed: time.Unix(1, 0), Backups: test.there, BackupCount: len(test.there)}
			if test.silent {
				report = nil
			}
			snapshot := database.Snapshot{
				Identity: database.Identity{Name: "cities"},
				Spec:     v1alpha1.GeoDatabaseSpec{Backup: &v1alpha1.Backup{Now: "second"}},
				Backup:   database.Backup{Now: "second", Settings: &wire.BackupSettings{Base: test.asked}},
				Lease:    database.Lease{Holder: "cities-1"},
			}
			snapshot.Instances = []database.Instance{{Name: "cities-1", Pod: &database.Pod{}}}
			told := &snapshot.Instances[0].Report
			told.Reachable, told.Role, told.Backup = true, string(wire.RolePrimary), report
			before := v1alpha1.GeoDatabaseStatus{}
			if test.before != "" {
				before.Backup = &v1alpha1.BackupStatus{Now: test.before}
			}
			after, _ := status.Report(before, status.Pass{Snapshot: snapshot})
			if after.Backup == nil || after.Backup.Now != test.want {
				t.Errorf("carried out is %+v, want %q", after.Backup, test.want)
			}
		})
	}
}

// What is written down about a restore on trial counts until the repository tells of a later one, and one that was not
// good leaves standing when a backup was last found good.
func TestWhenABackupWasVerified(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	note := func(minute int, outcome database.TrialOutcome) database.TrialNote {
		made := database.TrialNote{Pod: "uid", At: at(minute), Outcome: outcome, RestoreMilliseconds: 61400}
		if outcome != database.TrialGood {
			made.Problem = string(outcome)
		}
		made.Now = "please"
		return made
	}
	before := metav1.NewTime(at(1))
	for name, test := range map[string]struct {
		last    database.TrialNote
		told    time.Time
		wrong   string
		want    time.Time
		took    time.Duration
		problem string
		token   string
	}{
		"nothing was tried":         {},
		"the repository alone says": {told: at(5), want: at(5), took: 33 * time.Second},
		"the repository is older": {
			told: at(5), last: note(8, database.TrialGood), want: at(8), took: 61 * time.Second, token: "please",
		},
		"the repository is newer": {
			told: at(9), last: note(8, database.TrialGood), want: at(9), took: 33 * time.Second, token: "please",
		},
		"the last one was bad": {
			told: at(5), last: note(8, database.TrialBad), want: at(1), took: time.Hour, problem: "Bad", token: "please",
		},
		"the repository says that it was bad": {told: at(9), wrong: "bad", want: at(1), took: time.Hour, problem: "bad"},
		"a later one was good": {
			told: at(5), wrong: "bad", last: note(8, database.TrialGood), want: at(8), took: 61 * time.Second, token: "please",
		},
		"it could not be made": {
			told: at(5), last: note(8, database.TrialNoRoom), want: at(1), took: time.Hour, problem: "NoRoom", token: "please",
		},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := database.Snapshot{
				Identity:  database.Identity{Name: "cities"},
				Spec:      v1alpha1.GeoDatabaseSpec{Backup: &v1alpha1.Backup{}},
				Backup:    database.Backup{Trials: database.Trials{Last: test.last}},
				Lease:     database.Lease{Holder: "cities-1"},
				Instances: []database.Instance{{Name: "cities-1", Pod: &database.Pod{}}},
			}
			told := &snapshot.Instances[0].Report
			told.Reachable, told.Role = true, string(wire.RolePrimary)
			told.Backup = &wire.BackupReport{
				Listed: at(0), LastVerified: test.told, RestoreMilliseconds: 33000, VerifyProblem: test.wrong,
			}
			was := v1alpha1.GeoDatabaseStatus{Backup: &v1alpha1.BackupStatus{
				LastVerified: &before, RestoreDuration: &metav1.Duration{Duration: time.Hour},
			}}
			after, _ := status.Report(was, status.Pass{Snapshot: snapshot})
			got := after.Backup
			if got.VerifyProblem != test.problem || got.VerifyNow != test.token {
				t.Errorf("problem %q, carried out %q", got.VerifyProblem, got.VerifyNow)
			}
			if test.want.IsZero() {
				if got.LastVerified != nil || got.RestoreDuration != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if !got.LastVerified.Time.Equal(test.want) || got.RestoreDuration.Duration != test.took {
				t.Errorf("verified %s within %s", got.LastVerified, got.RestoreDuration.Duration)
			}
		})
	}
}

func TestStatusTellsOfARestoreOnTrialThatRuns(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		pod  *database.TrialPod
		want string
	}{
		"none": {},
		"one waits": {
			&database.TrialPod{Created: began}, "cities-trial: waits for a node and a volume since 2026-03-01T12:00:00Z",
		},
		"one runs": {
			&database.TrialPod{Created: began, Started: began}, "cities-trial: restores since 2026-03-01T12:00:00Z",
		},
		"one ended":  {&database.TrialPod{Created: began, Started: began, Ended: began}, ""},
		"one leaves": {&database.TrialPod{Created: began, Started: began, Deleting: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			after, _ := status.Report(v1alpha1.GeoDatabaseStatus{}, status.Pass{Snapshot: database.Snapshot{
				Identity: database.Identity{Name: "cities"}, Spec: v1alpha1.GeoDatabaseSpec{Backup: &v1alpha1.Backup{}},
				Backup: database.Backup{Trials: database.Trials{Pod: test.pod}},
			}})
			if after.Backup.Verifying != test.want {
				t.Errorf("got %q, want %q", after.Backup.Verifying, test.want)
			}
		})
	}
}
