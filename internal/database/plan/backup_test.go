package plan_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/invariant"
	"meridian.dev/meridian/internal/database/plan"
	"meridian.dev/meridian/internal/wire"
)

// kept is a database with backups, and a base backup that was asked for.
func kept(t *testing.T) database.Snapshot {
	t.Helper()
	snapshot := base()
	snapshot.Spec.Instances = 3
	snapshot.Spec.Backup = &v1alpha1.Backup{Repository: v1alpha1.Repository{
		S3: &v1alpha1.S3Repository{Bucket: "b", Credentials: v1alpha1.SecretReference{Name: "c"}},
	}}
	run(&snapshot, snapshot)
	label(&snapshot, snapshot)
	settings := design.Of(snapshot).BackupSettings
	if settings == nil {
		t.Fatal("there are no settings of backups")
	}
	settings.Base = &wire.BaseWanted{ID: "due-1", Instance: "cities-2"}
	snapshot.Backup = database.Backup{
		Settings: settings, Stored: "abc",
		Access: database.Access{Secret: database.Secret{Exists: true, UID: "uid-repository", ResourceVersion: "7"}},
	}
	return snapshot
}

func TestInvariantsOfBackupsBite(t *testing.T) {
	want := func(id, instance string) database.Action {
		return database.Action{
			Do: database.WantBase{ID: id, Instance: instance}, Kind: database.KindSettings, Name: "cities-settings",
			UID: "uid-configmap", ResourceVersion: "5",
		}
	}
	access := database.Action{
		Do: database.StoreAccess{}, Kind: database.KindSecret, Name: "cities-repository", UID: "uid-repository",
		ResourceVersion: "7",
	}
	source := database.Action{Do: database.StoreAccess{Begin: true}, Kind: database.KindSecret, Name: "cities-source"}
	create := database.Action{Do: database.Create{}, Kind: database.KindSettings, Name: "cities-settings"}
	try := database.Action{
		Do:   database.BeginTrial{TrialWish: database.TrialWish{For: "due-1", Try: 1}},
		Kind: database.KindPod, Name: "cities-trial",
	}
	end := database.Action{
		Do: database.EndTrial{}, Kind: database.KindPod, Name: "cities-trial", UID: "uid-trial", ResourceVersion: "3",
	}
	begins := func(s *database.Snapshot) {
		s.Record = database.Record{}
		s.Spec.Bootstrap.Clone = &v1alpha1.Clone{Name: "towns"}
	}
	for name, test := range map[string]struct {
		world  func(*database.Snapshot)
		action database.Action
		want   string // Empty: it is taken.
	}{
		"the same of another instance":   {action: want("due-1", "cities-3")},
		"another before the one is done": {action: want("due-2", "cities-3"), want: "database.ask-for-one-base-backup"},
		"another when it is done": {
			world: func(s *database.Snapshot) {
				s.Instances[0].Report.Backup = &wire.BackupReport{
					Listed: s.Now, Backups: []wire.BaseBackup{{ID: "x", For: "due-1", At: s.Now}},
				}
			},
			action: want("due-2", "cities-3"),
		},
		"of an instance that leaves": {action: want("due-1", "cities-9"), want: "database.ask-for-one-base-backup"},
		"without backups": {
			world: func(s *database.Snapshot) { s.Spec.Backup = nil }, action: want("due-1", "cities-3"),
			want: "database.ask-for-one-base-backup",
		},
		"unconditionally": {
			action: database.Action{
				Do: database.WantBase{ID: "due-1", Instance: "cities-3"}, Kind: database.KindSettings, Name: "cities-settings",
			},
			want: "database.write-conditionally",
		},
		"while paused": {
			world: func(s *database.Snapshot) { s.Spec.Paused = true }, action: want("due-1", "cities-3"),
			want: "database.respect-the-pause",
		},
		"credentials while paused": {world: func(s *database.Snapshot) { s.Spec.Paused = true }, action: access},
		"credentials of another repository while paused": {
			world: func(s *database.Snapshot) {
				s.Spec.Paused = true
				s.Spec.Backup = s.Spec.Backup.DeepCopy()
				s.Spec.Backup.Repository.S3.Bucket = "other"
			},
			action: access, want: "database.mix-no-repositories",
		},
		"credentials in a Secret of somebody else": {
			world:  func(s *database.Snapshot) { s.Backup.Access.Foreign = "it belongs to somebody else" },
			action: access, want: "database.touch-nothing-foreign",
		},
		"credentials half conditionally": {
			action: database.Action{
				Do: database.StoreAccess{}, Kind: database.KindSecret, Name: "cities-repository", UID: "uid-repository",
			},
			want: "database.write-conditionally",
		},
		"a restore on trial": {action: try},
		"a second restore on trial": {
			world: func(s *database.Snapshot) { s.Backup.Trials.Pod = &database.TrialPod{UID: "uid-trial"} }, action: try,
			want: "database.try-beside-the-instances",
		},
		"a restore on trial in the place of an instance": {
			action: database.Action{
				Do: try.Do, Kind: database.KindPod, Name: "cities-2-0",
			},
			want: "database.try-beside-the-instances",
		},
		"a restore on trial while the database sleeps": {
			world: func(s *database.Snapshot) { s.Spec.Hibernated = true }, action: try,
			want: "database.try-beside-the-instances",
		},
		"a restore on trial while paused": {
			world: func(s *database.Snapshot) { s.Spec.Paused = true }, action: try, want: "database.respect-the-pause",
		},
		"a restore on trial for the dead": {
			world: func(s *database.Snapshot) { s.Deleting = true }, action: try,
			want: "database.build-nothing-for-a-deleted-database",
		},
		"the pod of an instance as one of a trial": {
			world: func(s *database.Snapshot) { s.Backup.Trials.Pod = &database.TrialPod{UID: "uid-trial"} },
			action: database.Action{
				Do: database.EndTrial{}, Kind: database.KindPod, Name: "cities-2-0", UID: "uid-pod-2", ResourceVersion: "6",
			},
			want: "database.try-beside-the-instances",
		},
		"a trial whose end nobody knows": {
			world: func(s *database.Snapshot) {
				s.Backup.Trials.Pod = &database.TrialPod{UID: "uid-trial", Ended: s.Now}
				s.Backup.Trials.Pod.Wish.Now = "please"
				s.Spec.Backup.VerifyNow = "please"
			},
			action: end, want: "database.forget-no-trial",
		},
		"a trial whose end is known": {
			world: func(s *database.Snapshot) {
				s.Backup.Trials.Pod = &database.TrialPod{UID: "uid-trial", Ended: s.Now}
				s.Backup.Trials.Last.Pod = "uid-trial"
			},
			action: end,
		},
		"a trial of a deleted database": {
			world: func(s *database.Snapshot) {
				s.Deleting = true
				s.Backup.Trials.Pod = &database.TrialPod{UID: "uid-trial"}
			},
			action: end,
		},
		"the end of another trial": {
			world: func(s *database.Snapshot) { s.Backup.Trials.Pod = &database.TrialPod{UID: "uid-trial"} },
			action: database.Action{
				Do: database.NoteTrial{TrialNote: database.TrialNote{Pod: "uid-other"}}, Kind: database.KindSettings,
				Name: "cities-settings", UID: "uid-configmap", ResourceVersion: "5",
			},
			want: "database.try-beside-the-instances",
		},
		"what a database begins with": {
			world: func(s *database.Snapshot) {
				begins(s)
				s.Backup.Begin = &wire.Restore{Namespace: "gis", Name: "towns"}
			},
			action: source,
		},
		"settings of a clone of nobody knows what": {world: begins, action: create, want: "database.begin-as-asked"},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := kept(t)
			if test.world != nil {
				test.world(&snapshot)
			}
			var broken []string
			for _, violation := range invariant.Check(snapshot, database.Plan{
				Decided: database.Decided{Actions: []database.Action{test.action}}, Design: design.Of(snapshot),
			}) {
				broken = append(broken, violation.Rule)
			}
			if test.want == "" && len(broken) > 0 || test.want != "" && !slices.Contains(broken, test.want) {
				t.Errorf("broken: %v, want %q", broken, test.want)
			}
		})
	}
}

// TestBaseBackupsFollowTheSchedule plays weeks of a database whose agents do what they are asked: there is one base
// backup for each moment of the schedule, and no more.
func TestBaseBackupsFollowTheSchedule(t *testing.T) {
	snapshot := kept(t)
	snapshot.Spec.Backup.Schedule, snapshot.Backup.Settings.Base = "Mon-Fri 22:00", nil
	catalogue := &wire.BackupReport{Ships: true, RecoverableFrom: snapshot.Now}
	snapshot.Instances[0].Report.Backup = catalogue
	begin, asked := snapshot.Now, 0 // A Sunday at noon.
	for snapshot.Now.Before(begin.Add(14 * 24 * time.Hour)) {
		catalogue.Listed, catalogue.RecoverableUntil = snapshot.Now, snapshot.Now
		for _, action := range plan.Decide(snapshot).Actions {
			want, wants := action.Do.(database.WantBase)
			if !wants {
				continue
			}
			asked++
			if want.Instance == snapshot.Lease.Holder {
				t.Errorf("%s: the primary is asked, and there are replicas", snapshot.Now)
			}
			snapshot.Backup.Settings.Base = &wire.BaseWanted{ID: want.ID, Instance: want.Instance}
			catalogue.BackupCount++
			catalogue.Backups = append(catalogue.Backups, wire.BaseBackup{ID: want.ID, For: want.ID, At: snapshot.Now})
		}
		snapshot.Now = snapshot.Now.Add(7 * time.Hour)
	}
	// The first one at once, and ten evenings of two weeks.
	if asked != 11 {
		t.Errorf("%d base backups were asked for, want 11", asked)
	}
}

// TestBackupsAreLookedAt shows that what the agents tell of backups is asked for often: no event comes of it, and
// without that the condition would be of the past for minutes.
func TestBackupsAreLookedAt(t *testing.T) {
	snapshot := kept(t)
	snapshot.Instances[0].Report.Backup = &wire.BackupReport{
		Ships: true, Listed: snapshot.Now, RecoverableFrom: snapshot.Now.Add(-time.Hour), RecoverableUntil: snapshot.Now,
		BackupCount: 1, Backups: []wire.BaseBackup{{ID: "b1", For: "due-1", At: snapshot.Now.Add(-time.Hour)}},
	}
	if again := plan.Decide(snapshot).Again; again != 30*time.Second {
		t.Errorf("a database with backups is looked at again after %s", again)
	}
	// Whoever has asked for a base backup looks at how it goes.
	snapshot.Backup.Settings.Base = &wire.BaseWanted{ID: "now-some", Instance: "cities-2"}
	if again := plan.Decide(snapshot).Again; again <= 0 || again > 5*time.Second {
		t.Errorf("a database whose base backup is being made is looked at again after %s", again)
	}
	// A repository that was not read yet will be in a moment, and the first base backup waits for that.
	snapshot.Instances[0].Report.Backup = &wire.BackupReport{Ships: true}
	if again := plan.Decide(snapshot).Again; again <= 0 || again > 5*time.Second {
		t.Errorf("a repository that was not read yet is looked at again after %s", again)
	}
	snapshot.Spec.Backup = nil
	if again := plan.Decide(snapshot).Again; again < 5*time.Minute {
		t.Errorf("a database without backups is looked at again after %s", again)
	}
}

// TestTrialsFollowTheSchedule plays weeks of a database whose restores on trial end as they are told to: there is never
// more than one pod, one good end for each moment of the schedule, and those that fail come less and less often.
func TestTrialsFollowTheSchedule(t *testing.T) {
	for name, test := range map[string]struct {
		outcome database.TrialOutcome
		begun   int
	}{
		// Two Sundays.
		"good": {database.TrialGood, 2},
		// Each week anew: one at once, eight at pauses that double up to a day, and then one a day.
		"failed": {database.TrialFailed, 26},
		"bad":    {database.TrialBad, 26},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := kept(t)
			snapshot.Spec.Backup.Verify = "weekly sun 13:00"
			snapshot.Backup.Trials.Asked = design.TrialsAsked(snapshot)
			catalogue := &wire.BackupReport{
				Ships: true, RecoverableFrom: snapshot.Now, BackupCount: 1,
				Backups: []wire.BaseBackup{{ID: "x", For: "due-1", At: snapshot.Now}},
			}
			snapshot.Instances[0].Report.Backup = catalogue
			trials, begun, end := &snapshot.Backup.Trials, 0, snapshot.Now.Add(13*24*time.Hour)
			for snapshot.Now.Before(end) {
				catalogue.Listed, catalogue.RecoverableUntil = snapshot.Now, snapshot.Now
				catalogue.Backups[0].For = snapshot.Backup.Settings.Base.ID
				decided := plan.Decide(snapshot)
				for _, violation := range invariant.Check(snapshot, decided) {
					t.Fatalf("%s: %s", snapshot.Now, violation.Detail)
				}
				for _, action := range decided.Actions {
					switch do := action.Do.(type) {
					case database.BeginTrial:
						begun++
						trials.Pod = &database.TrialPod{
							UID: snapshot.Now.String(), ResourceVersion: "1", Wish: do.TrialWish, Created: snapshot.Now,
							Started: snapshot.Now, Ended: snapshot.Now.Add(time.Minute),
							Result: &wire.TrialResult{Backup: "x", RestoreMilliseconds: 1000},
						}
						switch test.outcome {
						case database.TrialFailed:
							trials.Pod.Result.Failure = "away"
						case database.TrialBad:
							trials.Pod.Result.Problem = "bad"
						default:
						}
					case database.NoteTrial:
						if do.Outcome != test.outcome {
							t.Fatalf("noted %+v", do)
						}
						trials.Last = do.TrialNote
					case database.EndTrial:
						trials.Pod = nil
					case database.WantBase:
						snapshot.Backup.Settings.Base = &wire.BaseWanted{ID: do.ID, Instance: do.Instance}
					default:
					}
				}
				snapshot.Now = snapshot.Now.Add(20 * time.Minute)
			}
			if begun != test.begun {
				t.Errorf("%d restores on trial were begun, want %d", begun, test.begun)
			}
		})
	}
}

// TestTrialsOfManyDoNotBeginTogether gives a week of restores on trial to many databases at once that have had backups
// for long, as another default does: none begins at once or counts as late, and never do many begin together.
func TestTrialsOfManyDoNotBeginTogether(t *testing.T) {
	const databases, most = 200, 6
	begun, first := 0, map[time.Time]int{}
	for number := range databases {
		snapshot := kept(t)
		snapshot.UID, snapshot.Spec.Backup.Verify = fmt.Sprintf("db-%d", number), ""
		since := snapshot.Now
		made := since.Add(-30 * 24 * time.Hour)
		catalogue := &wire.BackupReport{
			Ships: true, RecoverableFrom: made, BackupCount: 1, Listed: since, RecoverableUntil: since,
			Backups: []wire.BaseBackup{{ID: "x", For: "due-1", At: made}, {ID: "y", For: "due-2", At: since}},
		}
		snapshot.Instances[0].Report.Backup = catalogue
		asked := design.TrialsAsked(snapshot)
		if !asked.Since.Equal(since) {
			t.Fatalf("it counts as asked for since %s", asked.Since)
		}
		for ; snapshot.Now.Before(since.Add(8 * 24 * time.Hour)); snapshot.Now = snapshot.Now.Add(10 * time.Minute) {
			catalogue.Listed, catalogue.RecoverableUntil = snapshot.Now, snapshot.Now
			snapshot.Backup.Trials.Asked = asked
			if snapshot.Now.Equal(since) {
				snapshot.Backup.Trials.Asked = database.TrialsAsked{} // Not written down yet.
			}
			if wish := design.WishedTrial(snapshot); wish != nil {
				begun++
				first[snapshot.Now]++
				break
			}
		}
		snapshot.Now = since.Add(6 * 24 * time.Hour)
		catalogue.Backups[1].At = snapshot.Now
		if told := plan.Decide(snapshot).Recoverable; told == nil || told.Reason == "VerifyOverdue" {
			t.Fatalf("within the first week it is said that %+v", told)
		}
		snapshot.Now = since.Add(17 * 24 * time.Hour)
		catalogue.Listed, catalogue.Backups[1].At = snapshot.Now, snapshot.Now
		if told := plan.Decide(snapshot).Recoverable; told == nil || told.Reason != "VerifyOverdue" {
			t.Fatalf("none was made for more than two weeks, and it is said that %+v", told)
		}
	}
	if begun != databases {
		t.Errorf("%d of %d databases are restored on trial within a week", begun, databases)
	}
	for at, count := range first {
		if count > most || at.Hour() < 2 || at.Hour() > 7 {
			t.Errorf("%d begin within the ten minutes until %s", count, at)
		}
	}
}

// TestBaseBackupsAreThrottled has the agents told of the rate that a user wants.
func TestBaseBackupsAreThrottled(t *testing.T) {
	snapshot := kept(t)
	if told := design.Of(snapshot).BackupSettings; told.MaxRate != 0 {
		t.Errorf("without a rate they are told of %d", told.MaxRate)
	}
	rate := resource.MustParse("50Mi")
	snapshot.Spec.Backup.MaxRate = &rate
	if told := design.Of(snapshot).BackupSettings; told.MaxRate != 50<<20 {
		t.Errorf("they are told of %d", told.MaxRate)
	}
}

// tried is a database whose base backups are of now, for which a restore on trial is due every day.
func tried(t *testing.T) (*database.Snapshot, *wire.BackupReport) {
	t.Helper()
	snapshot := kept(t)
	snapshot.Spec.Backup.Verify, snapshot.Spec.Backup.Schedule = "daily 11:30", "hourly"
	made := snapshot.Now.Add(-30 * 24 * time.Hour)
	snapshot.Backup.Trials.Asked = database.TrialsAsked{Verify: "daily 11:30", Since: made}
	catalogue := &wire.BackupReport{
		Ships: true, RecoverableFrom: made, RecoverableUntil: snapshot.Now, Listed: snapshot.Now, BackupCount: 500,
	}
	for hours := range wire.MostBackups {
		at := snapshot.Now.Add(-time.Duration(wire.MostBackups-1-hours) * time.Hour)
		catalogue.Backups = append(catalogue.Backups, wire.BaseBackup{ID: at.String(), For: "due-1", At: at})
	}
	snapshot.Instances[0].Report.Backup = catalogue
	return &snapshot, catalogue
}

// A restore on trial that cannot be made says nothing of backups, and hides nothing of them either: the base backups
// that are not there weigh more.
func TestWhatCannotBeTriedHidesNothing(t *testing.T) {
	snapshot, catalogue := tried(t)
	trials := &snapshot.Backup.Trials
	trials.Refusal, trials.Full = "exceeded quota: team", true
	catalogue.LastVerified = snapshot.Now.Add(-time.Hour)
	told := plan.Decide(*snapshot)
	if told.Recoverable.Reason != "NoRoomToVerify" || told.Holds[0].Recheck < 30*time.Second {
		t.Errorf("without room it is said that %+v, and %+v", told.Recoverable, told.Holds)
	}
	for i := range catalogue.Backups {
		catalogue.Backups[i].At = catalogue.Backups[i].At.Add(-3 * 24 * time.Hour)
	}
	if told := plan.Decide(*snapshot).Recoverable; told.Reason != "BackupOverdue" {
		t.Errorf("without room and without base backups for three days it is said that %+v", told)
	}
	catalogue.VerifyProblem = "a file is not what it was"
	if told := plan.Decide(*snapshot).Recoverable; told.Reason != "VerifyFailed" {
		t.Errorf("the backup was found bad, there is no room to try it again, and it is said that %+v", told)
	}
	trials.Refusal = ""
	trials.Last = database.TrialNote{
		TrialWish: database.TrialWish{For: "due-20260301T113000Z", Try: 2}, Pod: "uid-trial", At: snapshot.Now,
		Outcome: database.TrialNoRoom, Problem: "no node takes its pod",
	}
	if told := plan.Decide(*snapshot).Recoverable; told.Reason != "VerifyFailed" {
		t.Errorf("the backup was found bad, it found no room when it was tried again, and it is said that %+v", told)
	}
}

// A report lists the newest base backups: with one an hour they are all of today, and a restore on trial that was never
// made is overdue all the same.
func TestTrialsAreOverdueWithManyBaseBackups(t *testing.T) {
	snapshot, _ := tried(t)
	if told := plan.Decide(*snapshot).Recoverable; told.Reason != "VerifyOverdue" {
		t.Errorf("no backup was restored on trial for a month, and it is said that %+v", told)
	}
}

// TestInstancesGoBeforeTrials has an instance lack something while a backup is restored on trial.
func TestInstancesGoBeforeTrials(t *testing.T) {
	missing := func(s *database.Snapshot) { s.Instances[1].Pod, s.Instances[1].Report.Reachable = nil, false }
	grows := func(s *database.Snapshot) {
		s.Instances[1].Claim.Resize, s.Instances[1].Claim.Message = database.ResizeRunning, "out of room"
	}
	lasts := func(s *database.Snapshot) { s.Backup.Trials.Crowd.Since = s.Now.Add(-time.Minute) }
	held := func(s *database.Snapshot) { s.Backup.Trials.Crowd.Held = "ten others are" }
	others := func(s *database.Snapshot) { s.Backup.Trials.Crowd.Need = "towns-1 finds no node" }
	for name, test := range map[string]struct {
		world       []func(*database.Snapshot)
		ends, waits bool
	}{
		"nothing lacks":               {},
		"a pod is replaced":           {world: []func(*database.Snapshot){missing}, waits: true},
		"a pod cannot be made":        {world: []func(*database.Snapshot){missing, lasts}, ends: true, waits: true},
		"a volume grows":              {world: []func(*database.Snapshot){grows}, waits: true},
		"a volume cannot grow":        {world: []func(*database.Snapshot){grows, lasts}, ends: true, waits: true},
		"too many others":             {world: []func(*database.Snapshot){held}, waits: true},
		"another one's finds no node": {world: []func(*database.Snapshot){others}, ends: true, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot, catalogue := tried(t)
			catalogue.LastVerified = snapshot.Now.Add(-24 * time.Hour)
			for _, change := range test.world {
				change(snapshot)
			}
			does := func(verb string) bool {
				return slices.ContainsFunc(plan.Decide(*snapshot).Actions, func(action database.Action) bool {
					return action.Verb() == verb
				})
			}
			if begins := does("BeginTrial"); begins == test.waits {
				t.Errorf("a restore on trial begins: %t", begins)
			}
			snapshot.Backup.Trials.Pod = &database.TrialPod{
				UID: "uid-trial", ResourceVersion: "3", Wish: database.TrialWish{For: "due-20260301T113000Z", Try: 1},
				Created: snapshot.Now.Add(-time.Hour), Started: snapshot.Now.Add(-time.Hour),
			}
			if ends := does("EndTrial"); ends != test.ends {
				t.Errorf("the one that runs is ended: %t", ends)
			}
		})
	}
}
