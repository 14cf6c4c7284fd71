package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/kit/sim/search"
)

// Beside is asked after every write of a pod: a restore on trial is nothing that anybody takes for an instance, and
// there is one.
func (s Stage) Beside(state search.State, event sim.Event) error {
	if event.Type != watch.Added || event.Object.GetLabels()[database.LabelTrial] == "" {
		return nil
	}
	var pods corev1.PodList
	if err := state.List(context.Background(), &pods, client.HasLabels{database.LabelTrial}); err != nil {
		return err
	}
	if len(pods.Items) != 1 || event.Key.Name != database.TrialName(s.Database.Name) {
		return fmt.Errorf("there are %d, and this one is %s", len(pods.Items), event.Key.Name)
	}
	for _, label := range []string{database.LabelDatabase, database.LabelInstance, database.LabelAppOf} {
		if _, bears := event.Object.GetLabels()[label]; bears {
			return fmt.Errorf("it bears the label %s", label)
		}
	}
	return nil
}

// Tells is asked before every write: how a restore on trial has ended is written down before its pod goes.
func (s Stage) Tells(state search.State, call sim.Call) error {
	if call.Verb != sim.Delete || call.Kind.Kind != "Pod" || call.Key.Name != database.TrialName(s.Database.Name) {
		return nil
	}
	ctx := context.Background()
	var pod corev1.Pod
	found, err := s.get(ctx, state, call.Key.Name, &pod)
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if !found || err != nil || pod.UID != call.UID || pod.ResourceVersion != call.ResourceVersion || !over {
		return err
	}
	var object v1alpha1.GeoDatabase
	there, err := s.get(ctx, state, s.Database.Name, &object)
	if err != nil || !there || !wanted(&object) {
		return err // Nobody needs to know.
	}
	var stored corev1.ConfigMap
	if _, err := s.get(ctx, state, database.SettingsName(s.Database.Name), &stored); err != nil {
		return err
	}
	var note database.TrialNote
	if document := stored.Annotations[database.AnnotationTrial]; document != "" {
		if err := json.Unmarshal([]byte(document), &note); err != nil {
			return err
		}
	}
	if note.Pod != string(pod.UID) {
		return fmt.Errorf("what is written down is %+v", note)
	}
	return nil
}

// wanted says that the database shall have restores on trial.
func wanted(object *v1alpha1.GeoDatabase) bool {
	backup := object.Spec.Backup
	return object.DeletionTimestamp == nil && !object.Spec.Hibernated && backup != nil &&
		(backup.Verify != v1alpha1.VerifyNever || backup.VerifyNow != "")
}

// NoneIsLeft says that neither the pod nor the claim of a restore on trial is there.
func (s Stage) NoneIsLeft(state search.State) error {
	ctx := context.Background()
	pod, err := s.get(ctx, state, database.TrialName(s.Database.Name), &corev1.Pod{})
	claim, problem := s.get(ctx, state, s.claimName(), &corev1.PersistentVolumeClaim{})
	if pod || claim {
		return fmt.Errorf("of a restore on trial is left: its pod %t, its claim %t", pod, claim)
	}
	return errors.Join(err, problem)
}

// Told says what is told of the last restore on trial, nothing of a problem if that is empty, and that none is left.
func (s Stage) Told(token, problem string) func(search.State) error {
	return func(state search.State) error {
		var found v1alpha1.GeoDatabase
		if err := state.Get(context.Background(), s.Database, &found); err != nil {
			return err
		}
		told := found.Status.Backup
		if told == nil || told.VerifyNow != token || !strings.Contains(told.VerifyProblem, problem) ||
			problem == "" && (told.VerifyProblem != "" || told.LastVerified == nil || told.RestoreDuration == nil) {
			return fmt.Errorf("of backups is told %+v", told)
		}
		return s.NoneIsLeft(state)
	}
}

// Report is what the agent of the primary says of the repository: every base backup that was asked for is there.
func (s Stage) Report(ctx context.Context, cluster client.Reader, now time.Time) (*wire.BackupReport, error) {
	var stored corev1.ConfigMap
	found, err := s.get(ctx, cluster, database.SettingsName(s.Database.Name), &stored)
	if document := stored.Data[wire.KeyBackup]; !found || err != nil || document == "" {
		return nil, err
	}
	settings, err := wire.DecodeBackupSettings([]byte(stored.Data[wire.KeyBackup]))
	if err != nil {
		return nil, err
	}
	report := &wire.BackupReport{Listed: now, Ships: true}
	if settings.Base == nil {
		return report, nil
	}
	begin := new(sim.Clock).Now()
	at := begin
	if due, err := time.Parse("20060102T150405Z", strings.TrimPrefix(settings.Base.ID, "due-")); err == nil {
		at = due
	}
	report.RecoverableFrom, report.RecoverableUntil, report.BackupCount = begin, now, 1
	report.Backups = []wire.BaseBackup{{ID: "b", For: settings.Base.ID, At: at}}
	return report, nil
}
