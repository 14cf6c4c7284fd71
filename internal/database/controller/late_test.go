//go:build cluster

package controller_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/controller"
)

// late is by how many passes the caches are behind.
const late = 10

// TestLateRoll is the accident called the double rolling upgrade, on a real API server with late caches: a controller
// does not see that a pod is already a new one, and replaces it again. Three processes follow each other, each with an
// empty memory and caches that show the pods of before: the first ends when it has deleted a pod, the second when the
// primary has moved. Each pod is made anew once, and the primary moves once.
func TestLateRoll(t *testing.T) {
	w := newWorld(t)
	r := &lateRoll{world: w, term: 1, members: w.three(), births: map[string]int{}}

	lives := []life{{w.loop, w.reader}, r.next(), r.next()}
	w.lag.Set(late)
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Image = "postgis:new" })
	r.live(lives[0], "a pod is deleted", func() bool { return len(r.births) > 0 })
	r.live(lives[1], "the primary has moved", func() bool { return r.moves > 0 })
	r.live(lives[2], "all is done", func() bool { return len(r.births) == 3 && w.ready() && r.allNew() })
	for range 2 * late {
		r.step(lives[2])
	}
	t.Logf("pods anew: %v, moves: %d; the caches were behind in %d passes", r.births, r.moves, r.behind)
	for _, name := range []string{"cities-1", "cities-2", "cities-3"} {
		if r.births[name] != 1 {
			t.Errorf("%s has had %d new pods", name, r.births[name])
		}
	}
	if r.moves != 1 {
		t.Errorf("the primary has moved %d times", r.moves)
	}
	if r.behind < 2*late {
		t.Errorf("the caches were behind in %d passes only: the test has shown nothing", r.behind)
	}
}

// life is one process of the operator.
type life struct {
	loop  *controller.Loop
	cache client.Reader
}

// lateRoll plays what is missing on the API server: the StatefulSet controller, the kubelets and the agents.
type lateRoll struct {
	*world
	term int32
	// members has the primary first.
	members []string
	births  map[string]int
	moves   int
	told    int
	// behind is how often a cache showed another pod than there was.
	behind int
}

func (r *lateRoll) next() life {
	made := r.another()
	return life{loop: made, cache: r.reader}
}

// live runs passes of one process until something is so.
func (r *lateRoll) live(one life, what string, done func() bool) {
	r.t.Helper()
	r.until(what, func() bool { r.step(one); return done() })
}

// step is one pass, and what the others do after it, at once.
func (r *lateRoll) step(one life) {
	r.t.Helper()
	r.lag.Pass()
	r.loop = one.loop
	for _, name := range r.members {
		if shown, there := r.uid(one.cache, name), r.uid(r.client, name); shown != there {
			r.behind++
			break
		}
	}
	r.pass()
	for _, name := range r.members {
		r.playPod(name)
	}
	r.world.lock.Lock()
	asked := r.world.told[r.told:]
	r.told = len(r.world.told)
	r.world.lock.Unlock()
	if len(asked) == 0 {
		return
	}
	target := asked[len(asked)-1].Target
	if target == "" {
		target = r.members[1]
	}
	others := slices.DeleteFunc(slices.Clone(r.members), func(name string) bool { return name == target })
	r.members = append([]string{target}, others...)
	r.term++
	r.moves++
	r.lead(r.term, r.members...)
}

// playPod makes a pod anew that is deleted, by the template of the moment.
func (r *lateRoll) playPod(name string) {
	r.t.Helper()
	var set appsv1.StatefulSet
	if r.get(name, &set); set.Status.ObservedGeneration != set.Generation {
		changeStatus(r.world, name, &set, func(set *appsv1.StatefulSet) {
			set.Status.ObservedGeneration, set.Status.UpdateRevision = set.Generation, "r2"
		})
	}
	var pod corev1.Pod
	if r.get(database.PodName(name), &pod) {
		if pod.DeletionTimestamp == nil {
			return
		}
		if err := r.client.Delete(r.t.Context(), &pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			r.t.Fatal(err)
		}
	}
	r.boot(name, "r2", running)
	r.births[name]++
	r.lead(r.term, r.members...)
}

func (r *lateRoll) allNew() bool {
	return !slices.ContainsFunc(r.members, func(name string) bool {
		var pod corev1.Pod
		return !r.get(database.PodName(name), &pod) || pod.Spec.Containers[0].Image != "postgis:new"
	})
}

func (r *lateRoll) uid(from client.Reader, name string) types.UID {
	r.t.Helper()
	var pod corev1.Pod
	err := from.Get(r.t.Context(), client.ObjectKey{Namespace: space, Name: database.PodName(name)}, &pod)
	if client.IgnoreNotFound(err) != nil {
		r.t.Fatal(err)
	}
	return pod.UID
}
