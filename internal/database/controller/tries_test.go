package controller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
)

// TestARefusedTrialIsAskedAboutRarely has a quota without room for a restore on trial, as most that were measured for
// the instances. The restore on trial is due in each pass, for as long as the quota stays: the API server is asked now
// and then, and at once when another pod is wanted.
func TestARefusedTrialIsAskedAboutRarely(t *testing.T) {
	w := rollTown(t)
	begin, tries := w.clock.Now(), 0
	observer := observe.Observer{
		Live: w.admin, Now: w.clock.Now, Installation: "home/operator",
		Author: apply.Author{
			Scheme: w.admin.Scheme(), Prefix: database.AnnotationPrefix, Manager: database.FieldManager,
		},
		Images: database.Images{Agent: w.agent, Server: "postgis"}, Crowd: &observe.Crowd{},
		Ask: func(ctx context.Context, agent service.Agent) (wire.Report, error) {
			report, err := w.ask(ctx, agent)
			report.Backup = &wire.BackupReport{
				Ships: true, Listed: begin, BackupCount: 1, Backups: []wire.BaseBackup{{ID: "b1", For: "first", At: begin}},
			}
			return report, err
		},
		Try: func(_ context.Context, pod *corev1.Pod) error {
			if pod.Labels[database.LabelTrial] == "" {
				return nil
			}
			tries++
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name, errors.New(
				"exceeded quota: team, requested: cpu=1, used: cpu=3, limited: cpu=3"))
		},
	}
	object := w.database()
	object.Spec.Backup = &v1alpha1.Backup{VerifyNow: "a", Repository: v1alpha1.Repository{
		S3: &v1alpha1.S3Repository{Bucket: "b", Credentials: v1alpha1.SecretReference{Name: "c"}},
	}}
	look := func() {
		t.Helper()
		w.clock.Advance(3 * time.Second)
		seen, err := observer.Observe(t.Context(), w.admin, object)
		w.must(err)
		if trials := seen.Backup.Trials; trials.Refusal == "" || !trials.Full {
			t.Fatalf("it is not known that there is no room: %+v", trials)
		}
	}
	for range 600 { // Half an hour.
		look()
	}
	if tries < 5 || tries > 7 {
		t.Errorf("the API server is asked %d times in half an hour", tries)
	}
	before := tries
	object.Spec.Backup.VerifyNow = "b"
	look()
	if tries != before+1 {
		t.Errorf("after another wish it is asked %d times", tries-before)
	}
}
