package observe

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/redact"
	"meridian.dev/meridian/internal/service"
)

// tryTemplate asks the API server about a pod from the wanted template, when one is about to be made: what admission
// refuses must be known before a pod that works is deleted.
func (p *pass) tryTemplate(ctx context.Context) error {
	if p.Try == nil || p.facts.Deleting || p.facts.Spec.Paused || p.facts.Problem != "" {
		return nil
	}
	design := design.Of(p.facts)
	for _, wanted := range design.Instances {
		instance, _ := p.facts.Instance(wanted.Name)
		target := render.Template(design, wanted.Name)
		if !p.changes(instance, target) {
			continue
		}
		pod, err := render.Pod(design, wanted.Name)
		if err != nil || pod == nil {
			return err
		}
		p.facts.Trial = judgeTrial(target, p.Try(ctx, pod), growth(instance.Pod, render.SizeOf(design, wanted.Name)))
		return nil
	}
	return nil
}

// changes says that a pod of an instance is to be made soon, or its template to be written: because the user asks for
// it, because its node is too small for it, or because there is none.
func (p *pass) changes(instance database.Instance, target string) bool {
	set, pod := instance.Set, instance.Pod
	if set == nil || set.Stopped {
		return false
	}
	if pod == nil {
		return set.Observed
	}
	if pod.Resize == database.PodResizeInfeasible || pod.SizeTrial != nil && pod.SizeTrial.NodeTooSmall {
		return true
	}
	asked := func(wish, restart string) bool {
		return !render.SameWish(p.facts.Spec, wish) || p.facts.Spec.Restart != "" && p.facts.Spec.Restart != restart
	}
	written := set.Template == target
	if !written && p.facts.Fleet.Held != "" && !pod.Deleting && instance.Broken() == "" {
		return false // Its turn has not come, and its StatefulSet stays as it is until then: nothing is asked.
	}
	return !written && (asked(set.Wish, set.Restart) || pod.Deleting || pod.Stuck != "") ||
		pod.Template != target && asked(pod.Wish, pod.Restart)
}

// judgeTrial tells a no from no answer. A quota counts the old pod together with the new one: it is a no only if there
// is no room without the old one either.
func judgeTrial(template string, err error, grows resourceGrowth) *database.Trial {
	trial := &database.Trial{Template: template}
	switch {
	case err == nil || apierrors.IsForbidden(err) && fitsQuota(err.Error(), grows):
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsForbidden(err):
		trial.Refusal = redact.Refusal(err)
	default:
		trial.Unknown = service.Brief(err)
	}
	return trial
}

// Refusals remembers for each database what the agent of its holder has refused lately: it does not hand over. Whoever
// forgets it asks again. It is safe for concurrent use.
type Refusals struct {
	lock  sync.Mutex
	heard map[types.NamespacedName]map[string]database.Refusal
}

// lately is how long a refusal is remembered.
const lately = 10 * time.Minute

// Note takes note of a refusal.
func (r *Refusals) Note(key types.NamespacedName, id, why string, at time.Time) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.heard == nil {
		r.heard = map[types.NamespacedName]map[string]database.Refusal{}
	}
	if r.heard[key] == nil {
		r.heard[key] = map[string]database.Refusal{}
	}
	r.heard[key][id] = database.Refusal{ID: id, Why: why, At: at}
}

// Lately are the refusals that still count, sorted by id.
func (r *Refusals) Lately(key types.NamespacedName, now time.Time) []database.Refusal {
	if r == nil {
		return nil
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	var list []database.Refusal
	for _, id := range slices.Sorted(maps.Keys(r.heard[key])) {
		refusal := r.heard[key][id]
		if now.Sub(refusal.At) > lately {
			delete(r.heard[key], id)
			continue
		}
		list = append(list, refusal)
	}
	return list
}

// Forget drops a database that is gone.
func (r *Refusals) Forget(key types.NamespacedName) {
	r.lock.Lock()
	defer r.lock.Unlock()
	delete(r.heard, key)
}
