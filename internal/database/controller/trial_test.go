//go:build cluster

package controller_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// TestRestoreOnTrial asks for restores on trial and plays the kubelet: there is one pod for each, also when the
// operator starts anew while it runs; how it has ended is told before it goes; and a deleted database leaves none.
func TestRestoreOnTrial(t *testing.T) {
	w := newWorld(t)
	members := w.three()
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: "s3"},
		Data:       map[string][]byte{v1alpha1.KeyAccessKeyID: []byte("a"), v1alpha1.KeySecretAccessKey: []byte("b")},
	})
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) {
		d.Spec.Backup = &v1alpha1.Backup{Repository: v1alpha1.Repository{
			S3:         &v1alpha1.S3Repository{Bucket: "backups", Credentials: v1alpha1.SecretReference{Name: "s3"}},
			Encryption: v1alpha1.Encryption{Mode: v1alpha1.EncryptionNone},
		}}
	})
	w.lock.Lock()
	primary := w.reports[addressOf(members[0])]
	at := time.Now().Add(-time.Hour)
	primary.Backup = &wire.BackupReport{
		Listed: time.Now(), Ships: true, BackupCount: 1, RecoverableFrom: at, RecoverableUntil: time.Now(),
		Backups: []wire.BaseBackup{{ID: "b1", For: "first", At: time.Now()}},
	}
	w.reports[addressOf(members[0])] = primary
	w.lock.Unlock()
	w.passUntil("access is mounted", func() bool { return w.get("cities-repository", &corev1.Secret{}) })
	for range 5 {
		w.pass()
	}
	if w.get("cities-trial", &corev1.Pod{}) {
		t.Error("a restore on trial is made that nobody has asked for")
	}

	pod := askTrial(w, "first")
	selected := metav1.FormatLabelSelector(metav1.SetAsLabelSelector(pod.Labels))
	for _, label := range []string{database.LabelDatabase, database.LabelInstance, database.LabelAppOf} {
		if _, bears := pod.Labels[label]; bears {
			t.Errorf("somebody may take it for an instance: %s", selected)
		}
	}
	// Another process begins in the middle.
	w.loop = w.another()
	for range 5 {
		w.pass()
	}
	var same corev1.Pod
	if !w.get("cities-trial", &same) || same.UID != pod.UID {
		t.Errorf("the operator that has begun anew has made another one: %s and %s", pod.UID, same.UID)
	}
	w.passUntil("it is told that one runs", func() bool {
		return strings.HasPrefix(w.database().Status.Backup.Verifying, "cities-trial: ")
	})
	endTrial(w, `{"version":1,"backup":"b1","restoreMilliseconds":61400}`)
	told := w.database().Status.Backup
	if told.LastVerified == nil || told.RestoreDuration == nil || told.RestoreDuration.Duration != 61*time.Second ||
		told.VerifyNow != "first" || told.VerifyProblem != "" || told.Verifying != "" {
		t.Errorf("the status is %+v", told)
	}
	for range 5 {
		w.pass()
	}
	if w.get("cities-trial", &corev1.Pod{}) {
		t.Error("what was carried out is carried out again")
	}

	good := *told.LastVerified
	askTrial(w, "second")
	endTrial(w, `{"version":1,"failure":"the repository is away"}`)
	if told = w.database().Status.Backup; told.VerifyNow != "second" || told.VerifyProblem != "the repository is away" ||
		!told.LastVerified.Equal(&good) {
		t.Errorf("the status is %+v", told)
	}
	w.passUntil("the condition says so", func() bool {
		return strings.Contains(w.database().Status.WaitingFor, "the repository is away; the next one is made at")
	})

	askTrial(w, "third")
	if err := w.client.Delete(t.Context(), w.database()); err != nil {
		t.Fatal(err)
	}
	w.passUntil("a deleted database has no restore on trial", func() bool {
		return !w.get("cities-trial", &corev1.Pod{})
	})
}

func askTrial(w *world, token string) corev1.Pod {
	w.t.Helper()
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Backup.VerifyNow = token })
	var pod corev1.Pod
	w.passUntil("a restore on trial begins", func() bool { return w.get("cities-trial", &pod) })
	return pod
}

// endTrial plays the kubelet: the container ends and leaves a message.
func endTrial(w *world, message string) {
	w.t.Helper()
	changeStatus(w, "cities-trial", &corev1.Pod{}, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodSucceeded
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "trial", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{
				StartedAt: metav1.Now(), FinishedAt: metav1.Now(), Message: message,
			},
		}}}
	})
	w.passUntil("its pod is gone", func() bool { return !w.get("cities-trial", &corev1.Pod{}) })
	w.pass()
}
