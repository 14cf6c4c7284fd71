package lives

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
	"meridian.dev/meridian/test/sim/lives/sloppy"
	"meridian.dev/meridian/test/sim/lives/trial"
)

// stage is where backups are restored on trial.
var stage = trial.Stage{
	Database: Cities, Ends: client.ObjectKey{Namespace: home, Name: "trials"}, Nodes: nodes, Lost: kube.IsLost,
}

func liveTrial(v *kube.View) (bool, error) { return stage.Step(v, v) }

// trials are lives of databases with backups, which are restored on trial by themselves once a week.
func trials() []Life {
	created := Life{
		Name: "backups are turned on", From: three, Script: stage.Keep(map[string]string{stranger: "yes"}),
		End: all(served(upTo(3)...), stage.NoneIsLeft),
	}
	backed, well := after(created), all(served(upTo(3)...), claims(upTo(3)...), stage.Told("a", ""))
	begun := []search.Step{stage.End(trial.GoesOn), stage.Now("a")}
	then := func(steps ...search.Step) []search.Step { return slices.Concat(begun, steps) }
	ends := func(how, told string) Life {
		return Life{Name: "a restore on trial: " + how, From: backed, Trials: 1, End: all(served(upTo(3)...),
			stage.Told("a", told)), Script: []search.Step{stage.End(how), stage.Now("a")}}
	}
	return []Life{
		created,
		{Name: "a restore on trial", From: backed, Trials: 1, Script: []search.Step{stage.Now("a")}, End: well},
		{Name: "a week passes", From: backed, Timed: true, Trials: 1, End: all(served(upTo(3)...), stage.Told("", "")),
			Script: []search.Step{{Name: "eight days pass", Wait: 8 * 24 * time.Hour}}},
		ends(trial.EndsBadly, "a file is not what it was"), ends(trial.EndsKilled, "137: OOMKilled"),
		ends(trial.Evicted, "Evicted"),
		{Name: "the pod of a restore on trial is deleted", From: backed, Trials: 2, End: well,
			Script: then(stage.LosePod(), stage.End(trial.EndsWell))},
		{Name: "the node of a restore on trial is lost, and comes back", From: backed, Trials: 2, End: well,
			Script: then(loseNodeOf(nodes), stage.End(trial.EndsWell), search.Step{Name: "it is back", Do: bringBack(nodes)})},
		{Name: "a replica ends during a restore on trial", From: backed, Restarts: 1, Trials: 2, End: well,
			Script: then(endPodOf("cities-3"), stage.End(trial.EndsWell))},
		{Name: "a restore on trial is not wanted any more", From: backed, Trials: 1, Script: then(stage.Never()),
			End: all(served(upTo(3)...), claims(upTo(3)...), stage.NoneIsLeft)},
		{Name: "a restore on trial, and then sleep", From: backed, Restarts: 1, Trials: 1, Script: then(hibernate(true)),
			End: all(stage.NoneIsLeft, claims(upTo(3)...))},
		{Name: "deleted during a restore on trial", From: backed, Restarts: 1, Trials: 1, Script: then(drop()),
			End: all(gone, claims())},
	}
}

// trialFlaws are mistakes about restores on trial.
func trialFlaws() []Flaw {
	return []Flaw{
		{Name: "a restore on trial is labelled as an instance", Lives: []string{"a restore on trial"},
			Parts: writes(func(s *sloppy.Client) {
				s.OnCreate = func(ctx context.Context, object client.Object, o ...client.CreateOption) error {
					if pod, ok := object.(*corev1.Pod); ok && trial.Is(pod) {
						pod.Labels[database.LabelDatabase] = Cities.Name
					}
					return s.Client.Create(ctx, object, o...)
				}
			})},
		{Name: "how a restore on trial has ended is not read", Lives: []string{"a restore on trial"},
			Parts: sees(func(stored *corev1.ConfigMap) { delete(stored.Annotations, database.AnnotationTrial) })},
		{Name: "a restore on trial that has failed counts as one that runs", Lives: []string{"a restore on trial: killed"},
			Parts: sees(func(pod *corev1.Pod) {
				if trial.Is(pod) && pod.Status.Phase == corev1.PodFailed {
					pod.Status.Phase, pod.Status.ContainerStatuses = corev1.PodRunning, nil
				}
			})},
		{Name: "restores on trial are asked for anew in each pass", Lives: []string{"a week passes"},
			Parts: sees(func(stored *corev1.ConfigMap) { delete(stored.Annotations, database.AnnotationTrialsAsked) })},
	}
}
