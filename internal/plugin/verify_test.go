package plugin_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/kit/sim"
)

// endsAs fails unless a command has ended without an error, or with one that says what is wanted.
func endsAs(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func says(t *testing.T, got string, wanted []string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// TestBackupsVerify plays the operator: a pod begins, restores, and ends in one way or another.
func TestBackupsVerify(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		problem string
		// silent has nobody carry it out, plain takes the backups away, paused and asleep say so.
		silent, plain, paused, asleep, other bool
		want                                 []string
		err                                  string
	}{
		"a good one": {want: []string{
			"Asked for a restore on trial of the latest backup of cities.\n", "cities-trial: restores since noon\n",
			"The latest backup is good. It was restored within 1m1s; with the looking through it took ",
		}},
		"a good one for programs": {
			args: []string{"-o", "json"}, want: []string{`"good": true`, `"restoreSeconds": 61`, `"verifyNow": "2026-`},
		},
		"a bad one":         {problem: "pg_amcheck: bad", err: "the restore on trial was not good: pg_amcheck: bad"},
		"without waiting":   {args: []string{"--timeout", "0"}, silent: true, want: []string{"Asked for a restore on trial"}},
		"nobody answers":    {args: []string{"--timeout", "5s"}, silent: true, err: "not done yet; the request stands"},
		"one that is later": {other: true, err: "somebody has asked for another one"},
		"while paused":      {paused: true, silent: true, want: []string{"spec.paused is true: it waits"}},
		"while it sleeps":   {asleep: true, err: "sleeps"},
		"without backups":   {plain: true, err: "cities has no spec.backup"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if !test.plain {
				kept(w)
			}
			database := w.database()
			database.Spec.Paused, database.Spec.Hibernated = test.paused, test.asleep
			if err := w.client.Update(t.Context(), database); err != nil {
				t.Fatal(err)
			}
			looks := 0
			w.before = func(call sim.Call) {
				database := w.database()
				if call.Verb != sim.Get || database.Spec.Backup == nil || database.Spec.Backup.VerifyNow == "" || test.silent {
					return
				}
				if looks++; test.other {
					database.Spec.Backup.VerifyNow = "another"
					if err := w.client.Update(t.Context(), database); err != nil {
						t.Fatal(err)
					}
					return
				}
				status := database.Status.Backup
				status.Verifying = "cities-trial: restores since noon"
				if looks > 3 {
					at := metav1.NewTime(w.now)
					status.Verifying, status.VerifyNow, status.VerifyProblem = "", database.Spec.Backup.VerifyNow, test.problem
					status.LastVerified, status.RestoreDuration = &at, &metav1.Duration{Duration: 61 * time.Second}
				}
				w.updateStatus(database)
			}
			got, err := w.run(append([]string{"backups", "verify", "cities"}, test.args...)...)
			endsAs(t, err, test.err)
			says(t, got, test.want)
			if strings.Count(got, "cities-trial: restores") > 1 {
				t.Errorf("a step is told again:\n%s", got)
			}
			if asked := w.database().Spec.Backup; !test.plain && !test.asleep && asked.VerifyNow == "" {
				t.Error("nothing was asked for")
			}
		})
	}
}
