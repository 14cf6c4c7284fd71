package act

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// beginTrial makes the pod of a restore on trial. Its name is the same each time, so there is never a second one.
func (p *pass) beginTrial(
	ctx context.Context, action database.Action, begin database.BeginTrial,
) (database.Result, error) {
	if p.Try != nil {
		if why := p.Try(client.ObjectKeyFromObject(p.object)); why != "" {
			return database.Result{}, moved(action, why)
		}
	}
	pod, err := render.TrialPod(p.design, begin.TrialWish)
	if err != nil {
		return database.Result{}, err
	}
	return p.Write(ctx, pod, nil)
}

// noteTrial writes beside the settings of backups how a restore on trial has ended, and leaves everything else of them
// as it is stored.
func (p *pass) noteTrial(
	ctx context.Context, action database.Action, note database.NoteTrial,
) (database.Result, error) {
	return p.editSettings(ctx, action, func(settings *stored) error {
		settings.design.Backup.Trials.Last = note.TrialNote
		return nil
	})
}

// endTrial deletes the pod of a restore on trial, if it is still the one that was meant, and nothing else: an instance
// has another label.
func (p *pass) endTrial(ctx context.Context, action database.Action) (database.Result, error) {
	var pod corev1.Pod
	if err := p.ReadAsDecided(ctx, action, &pod); err != nil {
		return database.Result{}, err
	}
	if pod.Labels[database.LabelTrial] != p.object.Name || pod.Labels[database.LabelInstance] != "" {
		return database.Result{}, moved(action, "it does not restore on trial")
	}
	return p.Delete(ctx, action, &pod)
}
