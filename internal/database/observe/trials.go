package observe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/redact"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// readTrials finds the pod of a restore on trial. If one is due and there is none, the API server is asked whether it
// would take it: a quota is a fact, and no failure of a pass.
func (p *pass) readTrials(ctx context.Context) error {
	facts := &p.facts.Backup.Trials
	var pod corev1.Pod
	key := client.ObjectKey{Namespace: p.object.Namespace, Name: database.TrialName(p.object.Name)}
	found, err := get(ctx, p.reader, key, &pod)
	if err != nil {
		return err
	}
	facts.Crowd = p.Crowd.Look(client.ObjectKeyFromObject(p.object), found && p.ours(&pod), p.facts.Now)
	var wanted *corev1.Pod
	if !found && p.trialDue() {
		if wanted = p.askedTrial(facts); wanted != nil {
			// What the cache does not show may be there for all that.
			if found, err = get(ctx, p.Live, key, &pod); err != nil {
				return err
			}
		}
	}
	switch {
	case found && !p.ours(&pod):
		facts.Foreign = "it belongs to somebody else"
	case found:
		facts.Pod = p.trialFacts(&pod)
	case wanted != nil:
		judgeTrialPod(p.Try(ctx, wanted), facts)
		p.Crowd.heard(client.ObjectKeyFromObject(p.object), podText(wanted), *facts, p.facts.Now)
	}
	return nil
}

// askedTrial is the pod that the API server is to be asked about, nil if nobody has to: it has said no lately, or the
// restore on trial waits for others.
func (p *pass) askedTrial(facts *database.Trials) *corev1.Pod {
	wanted, err := render.TrialPod(design.Of(p.facts), design.WishedTrial(p.facts).TrialWish)
	if err != nil {
		facts.Refusal = err.Error() // What cannot be rendered is a fact, and said in the status.
		return nil
	}
	if facts.Crowd.Need != "" || facts.Crowd.Held != "" {
		return nil
	}
	if answer, known := p.Crowd.refused(client.ObjectKeyFromObject(p.object), podText(wanted), p.facts.Now); known {
		facts.Refusal, facts.Full = answer.Refusal, answer.Full
		return nil
	}
	return wanted
}

// podText tells pods apart that are asked about.
func podText(pod *corev1.Pod) string {
	text, _ := json.Marshal(pod) // What was rendered can be written.
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (p *pass) trialDue() bool {
	if p.Try == nil || p.Outside || p.facts.Spec.Paused || p.facts.Problem != "" {
		return false
	}
	wish := design.WishedTrial(p.facts)
	return wish != nil && !p.facts.Now.Before(wish.NotBefore)
}

// judgeTrialPod tells a no from no answer.
func judgeTrialPod(err error, into *database.Trials) {
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		into.Refusal, into.Full = redact.Refusal(err), exceeded.MatchString(err.Error())
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		into.Refusal = redact.Refusal(err)
	default:
		into.Unknown = service.Brief(err)
	}
}

func (p *pass) trialFacts(pod *corev1.Pod) *database.TrialPod {
	facts := &database.TrialPod{
		UID: string(pod.UID), ResourceVersion: pod.ResourceVersion, Deleting: pod.DeletionTimestamp != nil,
		Created: pod.CreationTimestamp.UTC(), UnplacedSince: service.UnplacedSince(pod),
		Unplaced: service.Unschedulable(pod, p.facts.Now),
	}
	// What cannot be read says nothing: it is one of no wish, and goes when it has ended.
	_ = json.Unmarshal([]byte(pod.Annotations[database.AnnotationTrial]), &facts.Wish)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		if waiting != nil && slices.Contains(hopeless, waiting.Reason) && facts.Stuck == "" {
			facts.Stuck = fmt.Sprintf("%s: %s: %s", status.Name, waiting.Reason, waiting.Message)
		}
		if status.Name != database.ContainerTrial {
			continue
		}
		if status.State.Running != nil {
			facts.Started = status.State.Running.StartedAt.UTC()
		}
		if ended := status.State.Terminated; ended != nil {
			facts.Started, facts.Ended = ended.StartedAt.UTC(), orNow(ended.FinishedAt, p).UTC()
			facts.Result, facts.Problem = resultOf(ended)
		}
	}
	if facts.Ended.IsZero() && pod.Status.Phase == corev1.PodFailed {
		// The kubelet did not let it end by itself, or is gone.
		facts.Ended = p.facts.Now.UTC()
		facts.Problem = "its pod has failed: " + cmp.Or(pod.Status.Reason, "nobody says why")
		if pod.Status.Message != "" {
			facts.Problem += ": " + pod.Status.Message
		}
	}
	return facts
}

func orNow(at metav1.Time, p *pass) metav1.Time {
	if at.IsZero() {
		return metav1.NewTime(p.facts.Now)
	}
	return at
}

// resultOf reads what the container has left.
func resultOf(ended *corev1.ContainerStateTerminated) (*wire.TrialResult, string) {
	if result, err := wire.DecodeTrialResult([]byte(ended.Message)); err == nil {
		return &result, ""
	}
	problem := fmt.Sprintf("its container has ended with %d", ended.ExitCode)
	if ended.Reason != "" {
		problem += ": " + ended.Reason
	}
	return nil, problem
}
