package lives

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/kit/sim/search"
)

// Lives of databases whose backups are restored on trial. The pod of one is made by the operator itself, and by no
// StatefulSet: a scheduler finds it a node, its volume comes and goes with it, and it ends as the world has it end.

// How the container of a restore on trial ends.
const (
	endsWell   = "well"
	endsBadly  = "badly"
	endsKilled = "killed"
	evicted    = "evicted"
	goesOn     = "goes on"
)

// trialEnds is where the world says how restores on trial end: well unless it says something else.
var trialEnds = client.ObjectKey{Namespace: home, Name: "trials"}

func isTrial(pod *corev1.Pod) bool { return pod.Labels[database.LabelTrial] != "" }

// apart takes the pods of restores on trial out of a list: nothing that looks at instances sees them.
func apart(pods *corev1.PodList) (trials []corev1.Pod) {
	for _, pod := range pods.Items {
		if isTrial(&pod) {
			trials = append(trials, pod)
		}
	}
	pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return isTrial(&pod) })
	return trials
}

// liveTrial is a step in the life of the pod of a restore on trial.
func liveTrial(v *view) (bool, error) {
	for i := range v.trials {
		pod := &v.trials[i]
		for _, step := range []func(*view, *corev1.Pod) (bool, error){endTrialPod, placeTrial, claimTrial, runTrial, finishTrial} {
			if acted, err := step(v, pod); acted || err != nil {
				return acted, err
			}
		}
	}
	return false, nil
}

// endTrialPod takes it away when it was told to end, and tells it to when its node is lost.
func endTrialPod(v *view, pod *corev1.Pod) (bool, error) {
	if pod.Spec.NodeName == "" {
		return false, nil // It goes as soon as it is deleted.
	}
	lost, err := v.lost(pod)
	switch {
	case err != nil:
		return false, err
	case lost && pod.DeletionTimestamp == nil:
		return true, v.Delete(v, pod)
	case !lost && pod.DeletionTimestamp != nil:
		return true, v.Delete(v, pod, client.GracePeriodSeconds(0))
	}
	return false, nil
}

// placeTrial finds it the last node that is there.
func placeTrial(v *view, pod *corev1.Pod) (bool, error) {
	if pod.Spec.NodeName != "" {
		return false, nil
	}
	for number := nodes; number > 0; number-- {
		pod.Spec.NodeName = fmt.Sprintf("node%d", number)
		if lost, err := v.lost(pod); err != nil || !lost {
			return err == nil, errors.Join(err, v.Update(v, pod))
		}
	}
	return false, nil
}

// claimTrial makes its claim, which goes with it, and the volume behind it.
func claimTrial(v *view, pod *corev1.Pod) (bool, error) {
	claim := v.claim(pod.Name + "-scratch")
	if pod.DeletionTimestamp != nil || claim != nil && claim.Status.Phase == corev1.ClaimBound {
		return false, nil
	}
	if claim != nil {
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
		return true, v.Status().Update(v, claim)
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Ephemeral == nil {
			continue
		}
		template := volume.Ephemeral.VolumeClaimTemplate
		made := &corev1.PersistentVolumeClaim{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		made.Namespace, made.Name = space, pod.Name+"-"+volume.Name
		made.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod")),
		}
		return true, v.Create(v, made)
	}
	return false, errors.New("the pod of a restore on trial has no volume of its own")
}

// runTrial begins its container. A claim of the pod before it is not its own.
func runTrial(v *view, pod *corev1.Pod) (bool, error) {
	claim := v.claim(pod.Name + "-scratch")
	if pod.Status.Phase != "" && pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil ||
		!metav1.IsControlledBy(claim, pod) || claim.DeletionTimestamp != nil {
		return false, nil
	}
	if mounted, err := v.mounted(pod); err != nil || !mounted {
		return false, err
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: database.ContainerTrial, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(search.Now(v))},
		},
	}}
	return true, v.Status().Update(v, pod)
}

// finishTrial ends its container, as the world says.
func finishTrial(v *view, pod *corev1.Pod) (bool, error) {
	var told corev1.ConfigMap
	if err := v.Get(v, trialEnds, &told); client.IgnoreNotFound(err) != nil {
		return false, err
	}
	how := told.Data["how"]
	if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil || how == goesOn {
		return false, nil
	}
	ended := &corev1.ContainerStateTerminated{
		StartedAt: pod.Status.ContainerStatuses[0].State.Running.StartedAt, FinishedAt: metav1.NewTime(search.Now(v)),
	}
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: ended}
	result := wire.TrialResult{Version: 1, Backup: "b", RestoreMilliseconds: 61400}
	switch how {
	case endsBadly:
		result.Problem, ended.ExitCode, pod.Status.Phase = "a file is not what it was", 1, corev1.PodFailed
	case endsKilled:
		ended.Reason, ended.ExitCode, pod.Status.Phase = "OOMKilled", 137, corev1.PodFailed
	case evicted:
		pod.Status.ContainerStatuses, pod.Status.Phase, pod.Status.Reason = nil, corev1.PodFailed, "Evicted"
	}
	if ended.Reason == "" {
		document, err := json.Marshal(result)
		if err != nil {
			return false, err
		}
		ended.Message = string(document)
	}
	return true, v.Status().Update(v, pod)
}

// backupsOf is what the agent of the primary says of the repository: every base backup that was asked for is there.
func (a agents) backupsOf(ctx context.Context) (*wire.BackupReport, error) {
	var stored corev1.ConfigMap
	if _, err := get(ctx, a.cluster, database.SettingsName(Cities.Name), &stored); err != nil {
		return nil, err
	}
	document := stored.Data[wire.KeyBackup]
	if document == "" {
		return nil, nil
	}
	settings, err := wire.DecodeBackupSettings([]byte(document))
	if err != nil {
		return nil, err
	}
	begin := new(sim.Clock).Now()
	report := &wire.BackupReport{Listed: a.now(), Ships: true, RecoverableFrom: begin, RecoverableUntil: a.now()}
	if settings.Base == nil {
		report.RecoverableFrom, report.RecoverableUntil = time.Time{}, time.Time{}
		return report, nil
	}
	at := begin
	if due, err := time.Parse("20060102T150405Z", strings.TrimPrefix(settings.Base.ID, "due-")); err == nil {
		at = due
	}
	report.BackupCount, report.Backups = 1, []wire.BaseBackup{{ID: "b", For: settings.Base.ID, At: at}}
	return report, nil
}

// triesBeside is asked after every write of a pod: a restore on trial is nothing that anybody takes for an instance,
// and there is one.
func triesBeside(state search.State, event sim.Event) error {
	if event.Type != watch.Added || event.Object.GetLabels()[database.LabelTrial] == "" {
		return nil
	}
	var pods corev1.PodList
	if err := state.List(context.Background(), &pods, client.InNamespace(space)); err != nil {
		return err
	}
	if trials := apart(&pods); len(trials) != 1 || trials[0].Name != database.TrialName(Cities.Name) {
		return fmt.Errorf("there are %d, and this one is %s", len(trials), event.Key.Name)
	}
	for _, label := range []string{database.LabelDatabase, database.LabelInstance, database.LabelAppOf} {
		if _, bears := event.Object.GetLabels()[label]; bears {
			return fmt.Errorf("it bears the label %s", label)
		}
	}
	return nil
}

// tellsOfTrials is asked before every write: how a restore on trial has ended is written down before its pod goes.
func tellsOfTrials(state search.State, call sim.Call) error {
	if call.Verb != sim.Delete || call.Kind.Kind != "Pod" || call.Key.Name != database.TrialName(Cities.Name) {
		return nil
	}
	ctx := context.Background()
	var pod corev1.Pod
	found, err := get(ctx, state, call.Key.Name, &pod)
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if !found || err != nil || pod.UID != call.UID || pod.ResourceVersion != call.ResourceVersion || !over {
		return err
	}
	object, err := databaseOf(state)
	if err != nil || object.DeletionTimestamp != nil || object.Spec.Hibernated || object.Spec.Backup == nil ||
		object.Spec.Backup.Verify == v1alpha1.VerifyNever && object.Spec.Backup.VerifyNow == "" {
		return client.IgnoreNotFound(err) // Nobody needs to know.
	}
	note, err := trialNote(ctx, state)
	if err == nil && note.Pod != string(pod.UID) {
		return fmt.Errorf("what is written down is %+v", note)
	}
	return err
}

func trialNote(ctx context.Context, reader client.Reader) (database.TrialNote, error) {
	var stored corev1.ConfigMap
	var note database.TrialNote
	_, err := get(ctx, reader, database.SettingsName(Cities.Name), &stored)
	if document := stored.Annotations[database.AnnotationTrial]; err == nil && document != "" {
		err = json.Unmarshal([]byte(document), &note)
	}
	return note, err
}

func keepBackups() search.Step {
	return search.Step{Name: "there shall be backups", Do: func(ctx context.Context, cluster client.Client) error {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: space, Name: "s3", Annotations: map[string]string{stranger: "yes"},
			},
			Data: map[string][]byte{v1alpha1.KeyAccessKeyID: []byte("a"), v1alpha1.KeySecretAccessKey: []byte("b")},
		}
		if err := cluster.Create(ctx, secret); err != nil {
			return err
		}
		return changeDatabase(func(object *v1alpha1.GeoDatabase) {
			object.Spec.Backup = &v1alpha1.Backup{Repository: v1alpha1.Repository{
				S3:         &v1alpha1.S3Repository{Bucket: "backups", Credentials: v1alpha1.SecretReference{Name: "s3"}},
				Encryption: v1alpha1.Encryption{Mode: v1alpha1.EncryptionNone},
			}}
		})(ctx, cluster)
	}}
}

func verifyNow(token string) search.Step {
	return search.Step{Name: "a restore on trial, please: " + token, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Backup.VerifyNow = token
	})}
}

func verifyNever() search.Step {
	return search.Step{Name: "no restores on trial", Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Backup.Verify, object.Spec.Backup.VerifyNow = v1alpha1.VerifyNever, ""
	})}
}

// trialsEnd says how restores on trial end from now on.
func trialsEnd(how string) search.Step {
	return search.Step{Name: "restores on trial: " + how, Do: func(ctx context.Context, cluster client.Client) error {
		told := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: trialEnds.Namespace, Name: trialEnds.Name},
			Data:       map[string]string{"how": how},
		}
		if err := cluster.Delete(ctx, told.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return err
		}
		return cluster.Create(ctx, told)
	}}
}

// tried says what is told of the last restore on trial: nothing of a problem if that is empty.
func tried(token, problem string) func(search.State) error {
	return all(noTrialIsLeft, func(state search.State) error {
		found, err := databaseOf(state)
		if err != nil {
			return err
		}
		told := found.Status.Backup
		if told == nil || told.VerifyNow != token || !strings.Contains(told.VerifyProblem, problem) ||
			problem == "" && (told.VerifyProblem != "" || told.LastVerified == nil || told.RestoreDuration == nil) {
			return fmt.Errorf("of backups is told %+v", told)
		}
		return nil
	})
}

// noTrialIsLeft says that neither the pod nor the claim of a restore on trial is there.
func noTrialIsLeft(state search.State) error {
	for name, object := range map[string]client.Object{
		database.TrialName(Cities.Name): &corev1.Pod{}, database.TrialName(Cities.Name) + "-scratch": &corev1.PersistentVolumeClaim{},
	} {
		if found, err := get(context.Background(), state, name, object); found || err != nil {
			return errors.Join(fmt.Errorf("%T %s is left", object, name), err)
		}
	}
	return nil
}

// trials are lives of databases with backups, which are restored on trial by themselves once a week.
func trials() []Life {
	created := Life{
		Name: "backups are turned on", From: three, Script: []search.Step{keepBackups()},
		End: all(served(upTo(3)...), noTrialIsLeft),
	}
	backed, well := after(created), all(served(upTo(3)...), claims(upTo(3)...), tried("a", ""))
	begun := []search.Step{trialsEnd(goesOn), verifyNow("a")}
	return []Life{
		created,
		{Name: "a restore on trial", From: backed, Trials: 1, Script: []search.Step{verifyNow("a")}, End: well},
		{Name: "a week passes", From: backed, Timed: true, Trials: 1, End: all(served(upTo(3)...), tried("", "")),
			Script: []search.Step{{Name: "eight days pass", Wait: 8 * 24 * time.Hour}}},
		{Name: "a restore on trial finds something", From: backed, Trials: 1,
			Script: []search.Step{trialsEnd(endsBadly), verifyNow("a")},
			End:    all(served(upTo(3)...), tried("a", "a file is not what it was"))},
		{Name: "a restore on trial is killed", From: backed, Trials: 1,
			Script: []search.Step{trialsEnd(endsKilled), verifyNow("a")},
			End:    all(served(upTo(3)...), tried("a", "137: OOMKilled"))},
		{Name: "a restore on trial is evicted", From: backed, Trials: 1,
			Script: []search.Step{trialsEnd(evicted), verifyNow("a")},
			End:    all(served(upTo(3)...), tried("a", "Evicted"))},
		{Name: "the pod of a restore on trial is deleted", From: backed, Trials: 2, End: well,
			Script: append(slices.Clip(begun), search.Step{
				Name: "somebody deletes its pod", Do: remove(&corev1.Pod{}, database.TrialName(Cities.Name)),
			}, trialsEnd(endsWell))},
		{Name: "the node of a restore on trial is lost, and comes back", From: backed, Trials: 2, End: well,
			Script: append(slices.Clip(begun), loseNodeOf(nodes), trialsEnd(endsWell),
				search.Step{Name: "the node has power again", Do: bringBack(nodes)})},
		{Name: "a replica ends during a restore on trial", From: backed, Restarts: 1, Trials: 2, End: well,
			Script: append(slices.Clip(begun), endPodOf("cities-3"), trialsEnd(endsWell))},
		{Name: "a restore on trial is not wanted any more", From: backed, Trials: 1,
			Script: append(slices.Clip(begun), verifyNever()),
			End:    all(served(upTo(3)...), claims(upTo(3)...), noTrialIsLeft)},
		{Name: "a restore on trial, and then sleep", From: backed, Restarts: 1, Trials: 1,
			Script: append(slices.Clip(begun), hibernate(true)), End: all(noTrialIsLeft, claims(upTo(3)...))},
		{Name: "deleted during a restore on trial", From: backed, Restarts: 1, Trials: 1,
			Script: append(slices.Clip(begun), drop()), End: all(gone, claims())},
	}
}

// takesTrialsForInstances gives the pod of a restore on trial the labels of an instance.
func takesTrialsForInstances(s *sloppy) {
	s.create = func(ctx context.Context, object client.Object, o ...client.CreateOption) error {
		if pod, ok := object.(*corev1.Pod); ok && isTrial(pod) {
			pod.Labels[database.LabelDatabase] = Cities.Name
		}
		return s.Client.Create(ctx, object, o...)
	}
}

// trialFlaws are mistakes about restores on trial.
func trialFlaws() []Flaw {
	return []Flaw{
		{Name: "a restore on trial is labelled as an instance", Lives: []string{"a restore on trial"},
			Parts: writes(takesTrialsForInstances)},
		{Name: "how a restore on trial has ended is not read", Lives: []string{"a restore on trial"},
			Parts: sees(func(stored *corev1.ConfigMap) { delete(stored.Annotations, database.AnnotationTrial) })},
		{Name: "a restore on trial that has failed counts as one that runs", Lives: []string{"a restore on trial is killed"},
			Parts: sees(forgetsItsEnd)},
		{Name: "restores on trial are asked for anew in each pass", Lives: []string{"a week passes"},
			Parts: sees(func(stored *corev1.ConfigMap) { delete(stored.Annotations, database.AnnotationTrialsAsked) })},
	}
}

// forgetsItsEnd has a pod that has failed look as if it still ran.
func forgetsItsEnd(pod *corev1.Pod) {
	if isTrial(pod) && pod.Status.Phase == corev1.PodFailed {
		pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodRunning, nil
	}
}
