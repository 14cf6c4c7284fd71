package controller_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache/controller"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/sim"
)

// limit is the memory of the server's container.
func (w *world) limit() int64 {
	var pod corev1.Pod
	w.get("tiles-1-0", &pod)
	return pod.Spec.Containers[0].Resources.Limits.Memory().Value()
}

// story is the life of a cache until it is as wished after its memory has grown and shrunk.
func story(w *world) {
	w.t.Helper()
	w.create("64Mi")
	w.settle("it is ready", w.ready("64Mi"))
	w.remember("256Mi")
	w.settle("it has grown", w.ready("256Mi"))
	w.remember("64Mi")
	w.settle("it has shrunk", func() bool { return w.ready("64Mi")() && w.limit() == wire.CacheLimit(64<<20) })
}

// checkStory judges the log of the server: what must never have happened in a story.
func checkStory(w *world) {
	w.t.Helper()
	passwords, pods, bundles := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, kind := range w.server.Kinds() {
		for _, event := range w.server.Events(kind, 0, w.server.Version()) {
			var secret corev1.Secret
			switch event.Kind.Kind {
			case "Secret":
				must(w.t, runtime.DefaultUnstructuredConverter.FromUnstructured(event.Object.Object, &secret))
			case "Pod":
				pods[string(event.Object.GetUID())] = true
			}
			if password, found := secret.Data["password"]; found {
				passwords[string(password)] = true
			}
			if bundle, found := secret.Data["ca.crt"]; found {
				bundles[string(bundle)] = true
			}
		}
	}
	if len(passwords) != 1 || len(pods) != 1 || len(bundles) != 1 {
		w.t.Errorf("%d passwords, %d pods and %d authorities were ever shown, want one of each",
			len(passwords), len(pods), len(bundles))
	}
	before := w.writes
	for range 10 {
		w.play()
		w.pass()
	}
	if w.writes != before {
		w.t.Errorf("%d writes for a cache that is as wished", w.writes-before)
	}
}

func TestLife(t *testing.T) {
	w := newWorld(t)
	story(w)
	checkStory(w)

	t.Run("a route that somebody changed is repaired", func(t *testing.T) {
		var service corev1.Service
		w.get("tiles-ro", &service)
		service.Spec.Selector["meridian.dev/read"] = "false"
		must(t, w.admin.Update(t.Context(), &service))
		w.settle("the route is repaired", func() bool {
			return w.get("tiles-ro", &service) && service.Spec.Selector["meridian.dev/read"] == "true"
		})
	})
	t.Run("it grows to three instances and back", func(t *testing.T) {
		w.change(func(spec *v1alpha1.GeoCacheSpec) { spec.Replicas = 3 })
		w.settle("there are three", func() bool { return w.ready("64Mi")() && w.cache().Status.ReadyReplicas == 3 })
		w.change(func(spec *v1alpha1.GeoCacheSpec) { spec.Replicas = 1 })
		w.settle("there is one", func() bool { return w.ready("64Mi")() && w.cache().Status.Replicas == 1 })
		if w.holder() != "tiles-1" || w.term != 1 {
			t.Errorf("%s leads at term %d: the primary was taken away", w.holder(), w.term)
		}
	})
	t.Run("it is emptied when somebody asks, once", func(t *testing.T) {
		object := w.cache()
		object.Annotations = map[string]string{"meridian.dev/flush": "now"}
		must(t, w.admin.Update(t.Context(), object))
		w.settle("it was emptied", func() bool { return w.cache().Status.Flushed != "" && w.ready("64Mi")() })
		if object = w.cache(); object.Annotations["meridian.dev/flush"] != "" || object.Status.Flushed != w.flushed {
			t.Errorf("annotations %v, status %s, done %s", object.Annotations, object.Status.Flushed, w.flushed)
		}
	})
	t.Run("it sleeps and wakes with its database", func(t *testing.T) {
		w.change(func(spec *v1alpha1.GeoCacheSpec) { spec.FollowDatabase, spec.Replicas = true, 2 })
		w.settle("it is bound", func() bool { return w.ready("64Mi")() && len(w.cache().OwnerReferences) == 1 })
		hibernate := func(asleep bool) {
			var database v1alpha1.GeoDatabase
			w.get("cities", &database)
			database.Spec.Hibernated = asleep
			must(t, w.admin.Update(t.Context(), &database))
		}
		hibernate(true)
		w.settle("it sleeps", func() bool { return w.cache().Status.Replicas == 0 })
		hibernate(false)
		w.settle("it is back", func() bool { return w.ready("64Mi")() && w.cache().Status.ReadyReplicas == 2 })
		w.change(func(spec *v1alpha1.GeoCacheSpec) { spec.FollowDatabase, spec.Replicas = false, 1 })
		w.settle("it is alone", func() bool {
			return w.ready("64Mi")() && len(w.cache().OwnerReferences) == 0 && w.cache().Status.Replicas == 1
		})
	})
	t.Run("applications get another password", func(t *testing.T) { rotatesPassword(t, w) })
	t.Run("a rotation that was put back is another one", func(t *testing.T) { restoresMidRotation(t, w) })
	t.Run("a rotation whose password is gone begins anew", func(t *testing.T) { losesNextPassword(t, w) })
	t.Run("a cache of before gets a password of replication", func(t *testing.T) { getsReplicationPassword(t, w) })
	t.Run("the leaf is replaced in time and the authority stays", func(t *testing.T) {
		var before, after corev1.Secret
		w.get("tiles-tls", &before)
		w.clock.Advance(61 * 24 * time.Hour)
		w.settle("the leaf is replaced", func() bool {
			return w.get("tiles-tls", &after) && !bytes.Equal(after.Data["tls.crt"], before.Data["tls.crt"])
		})
		if !bytes.Equal(after.Data["ca.crt"], before.Data["ca.crt"]) {
			t.Error("the bundle has changed")
		}
	})
	t.Run("nothing is left of a deleted cache", func(t *testing.T) {
		must(t, w.admin.Delete(t.Context(), w.cache()))
		w.pass()
		for w.server.Collect() {
		}
		if w.get("tiles", &corev1.Service{}) || w.get("tiles", &corev1.Secret{}) || w.get("tiles-1-0", &corev1.Pod{}) {
			t.Error("something is left")
		}
	})
}

// TestEveryWriteGoesWrong plays the story again and again. Each time another write goes wrong, in each way that there
// is, and the operator that comes after a crash starts with caches of before.
func TestEveryWriteGoesWrong(t *testing.T) {
	whole := newWorld(t)
	story(whole)
	total := whole.writes
	if total < 15 {
		t.Fatalf("only %d writes: the story is too short to show anything", total)
	}
	for _, verdict := range []sim.Verdict{sim.Refused, sim.Applied, sim.Conflicted, sim.CrashBefore, sim.CrashAfter} {
		for number := 1; number <= total; number++ {
			t.Run(fmt.Sprintf("%s at %d", verdict, number), func(t *testing.T) {
				w := newWorld(t)
				w.past = uint64(number % 7)
				count, hit := 0, false
				w.hook = func(sim.Call) sim.Verdict {
					if count++; count == number {
						hit = true
						return verdict
					}
					return sim.Done
				}
				story(w)
				w.hook = nil
				checkStory(w)
				if !hit {
					t.Error("nothing went wrong: the test shows nothing")
				}
			})
		}
	}
}

// TestStaleCaches moves the caches of the operator only now and then: it never makes anything twice, and gets there.
func TestStaleCaches(t *testing.T) {
	for _, every := range []int{2, 5, 9} {
		w := newWorld(t)
		w.lag = true
		passes := 0
		w.hook = func(sim.Call) sim.Verdict { return sim.Done }
		w.create("64Mi")
		follow := func(done func() bool) func() bool {
			return func() bool {
				if passes++; passes%every == 0 {
					w.operator.Cache().CatchUp()
				}
				return done()
			}
		}
		w.settle("it is ready", follow(w.ready("64Mi")))
		w.remember("256Mi")
		w.settle("it has grown", follow(w.ready("256Mi")))
		w.lag = false
		checkStory(w)
	}
}

// TestHoles has a server that does not give all of its memory back: the container shrinks as far as it can, the cache
// is as wished, and nothing is written over and over.
func TestHoles(t *testing.T) {
	w := newWorld(t)
	w.create("256Mi")
	w.settle("it is ready", w.ready("256Mi"))
	w.holes = 80 << 20
	w.remember("64Mi")
	w.settle("it is as wished", func() bool { return w.ready("64Mi")() && w.limit() < wire.CacheLimit(256<<20) })
	if pending := w.cache().Status.PendingChanges; len(pending) != 1 || !strings.Contains(pending[0], "holes") {
		t.Errorf("pending: %v", pending)
	}
	checkStory(w)
	w.holes = 0
	w.settle("the rest follows", func() bool { return w.limit() == wire.CacheLimit(64<<20) })
}

// TestDatabaseComesLater makes nothing for a cache whose database does not exist, and everything as soon as it does.
func TestDatabaseComesLater(t *testing.T) {
	w := newWorld(t)
	database := &v1alpha1.GeoDatabase{}
	w.get("cities", database)
	must(t, w.admin.Delete(t.Context(), database))
	w.create("64Mi")
	w.settle("the user is told", func() bool {
		return strings.Contains(w.cache().Status.WaitingFor, "GeoDatabase cities does not exist")
	})
	if w.get("tiles", &corev1.Service{}) || w.get("tiles-tls", &corev1.Secret{}) {
		t.Error("something was made")
	}
	database.ResourceVersion, database.UID = "", ""
	must(t, w.admin.Create(t.Context(), database))
	w.settle("it is ready", w.ready("64Mi"))
}

// TestNodeLost has the only node stop: the pod is not ready, is deleted in vain, and the user is told of both.
func TestNodeLost(t *testing.T) {
	w := newWorld(t)
	w.create("64Mi")
	w.settle("it is ready", w.ready("64Mi"))
	pod := &corev1.Pod{}
	w.get("tiles-1-0", pod)
	pod.Status.Conditions[0].Status = corev1.ConditionFalse
	pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(w.clock.Now())
	must(t, w.admin.Status().Update(t.Context(), pod))
	degraded := func(with string) func() bool {
		return func() bool {
			found := condition.Find(w.cache().Status.Conditions, v1alpha1.ConditionDegraded)
			return found.Status == metav1.ConditionTrue && found.Reason == "CopiesMissing" &&
				strings.Contains(found.Message, with)
		}
	}
	w.settle("it is told", degraded("0 of 1 instances are well: tiles-1 is not ready since"))
	w.get("tiles-1-0", pod)
	pod.Finalizers = []string{"example.org/nobody-says-that-it-has-ended"}
	must(t, w.admin.Update(t.Context(), pod))
	must(t, w.admin.Delete(t.Context(), pod))
	w.settle("the way out is told", degraded("taint it node.kubernetes.io/out-of-service"))
	if ready := condition.Find(w.cache().Status.Conditions, condition.Ready); ready.Reason != "CopiesMissing" {
		t.Errorf("Ready says %s: %s", ready.Reason, ready.Message)
	}
}

// TestForeignChild finds a Service of somebody else under the name of the cache: nothing is made.
func TestForeignChild(t *testing.T) {
	w := newWorld(t)
	service := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	service.Namespace, service.Name = space, "tiles"
	must(t, w.admin.Create(t.Context(), service))
	w.create("64Mi")
	w.settle("it is stalled", func() bool {
		return condition.IsTrue(w.cache().Status.Conditions, condition.Stalled)
	})
	if w.get("tiles-ro", &corev1.Service{}) || w.get("tiles-tls", &corev1.Secret{}) {
		t.Error("something was made around it")
	}
}

func TestRightsAreWhole(t *testing.T) {
	if err := controller.Rights().Check(); err != nil {
		t.Error(err)
	}
}

func rotatesPassword(t *testing.T, w *world) {
	t.Helper()
	var before, after, leaf corev1.Secret
	w.get("tiles", &before)
	w.change(func(spec *v1alpha1.GeoCacheSpec) { spec.Rotate = &v1alpha1.CacheRotate{Password: "monday"} })
	w.settle("it is rotated", func() bool {
		rotations := w.cache().Status.Rotations
		return rotations != nil && rotations.Password.Done != nil && w.ready("64Mi")()
	})
	w.get("tiles", &after)
	w.get("tiles-tls", &leaf)
	was, is := string(before.Data["password"]), string(after.Data["password"])
	if was == is || string(leaf.Data["next-password"]) != is || string(leaf.Data["previous-password"]) != was {
		t.Error("the Secret does not have the next password, or the instances do not accept both")
	}
	if !strings.Contains(string(after.Data["uri"]), is) || !bytes.Equal(after.Data["ca.crt"], before.Data["ca.crt"]) {
		t.Error("the address has another password, or what applications trust has changed")
	}
}

// begun waits until a rotation has begun, and what the instances mount stays as it was before.
func (w *world) begun(token string, mounts int64) (leaf corev1.Secret) {
	w.t.Helper()
	w.mounts = &mounts
	w.change(func(spec *v1alpha1.GeoCacheSpec) { spec.Rotate = &v1alpha1.CacheRotate{Password: token} })
	w.settle(token+" is begun", func() bool {
		return w.get("tiles-tls", &leaf) && strings.Contains(leaf.Annotations["meridian.dev/rotation"], token)
	})
	return leaf
}

// tells waits until applications are told another password, and says which rotation that is.
func (w *world) tells(token string) {
	w.t.Helper()
	w.mounts = nil
	w.settle(token+" is over", func() bool {
		rotation := w.cache().Status.Rotations.Password
		return rotation.Token == token && rotation.Done != nil && w.ready("64Mi")()
	})
	var app, leaf corev1.Secret
	w.get("tiles", &app)
	w.get("tiles-tls", &leaf)
	if !bytes.Equal(app.Data["password"], leaf.Data["next-password"]) || len(app.Data["password"]) == 0 {
		w.t.Error("applications are told a password that instances do not accept")
	}
}

// restoresMidRotation puts NAME-tls back to what it was before the rotation, after instances have mounted the next
// password: what they confirm is not the password that is made then.
func restoresMidRotation(t *testing.T, w *world) {
	t.Helper()
	var before, app, after corev1.Secret
	w.get("tiles-tls", &before)
	w.get("tiles", &app)
	leaf := w.begun("restored", 0)
	number, err := strconv.ParseInt(string(leaf.Data["next-rotation"]), 10, 64)
	must(t, err)
	w.mounts = &number
	leaf.Data, leaf.Annotations = before.Data, before.Annotations
	must(t, w.admin.Update(t.Context(), &leaf))
	w.settle("it is begun again", func() bool {
		return w.get("tiles-tls", &leaf) && strings.Contains(leaf.Annotations["meridian.dev/rotation"], "restored")
	})
	for range 5 {
		w.play()
		w.pass()
	}
	w.get("tiles", &after)
	if !bytes.Equal(after.Data["password"], app.Data["password"]) {
		t.Error("applications are told a password that no instance has mounted")
	}
	w.tells("restored")
}

// losesNextPassword removes the next password while a rotation is under way.
func losesNextPassword(t *testing.T, w *world) {
	t.Helper()
	leaf := w.begun("removed", 0)
	delete(leaf.Data, "next-password")
	must(t, w.admin.Update(t.Context(), &leaf))
	w.tells("removed")
}

func getsReplicationPassword(t *testing.T, w *world) {
	t.Helper()
	var leaf, after corev1.Secret
	w.get("tiles-tls", &leaf)
	delete(leaf.Data, "replication-password")
	must(t, w.admin.Update(t.Context(), &leaf))
	w.settle("it has one", func() bool {
		return w.get("tiles-tls", &after) && len(after.Data["replication-password"]) > 0
	})
	if !bytes.Equal(after.Data["tls.crt"], leaf.Data["tls.crt"]) ||
		!bytes.Equal(after.Data["next-password"], leaf.Data["next-password"]) {
		t.Error("the certificate or the password of applications has changed with it")
	}
}
