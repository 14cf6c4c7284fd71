//go:build cluster

package e2e_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
)

// spaceOf is the namespace of a test, named after it. Somebody who shares the cluster says which one is to be used.
func spaceOf(test string) string {
	own := strings.ToLower(strings.TrimPrefix(test, "Test"))
	return cmp.Or(os.Getenv("MERIDIAN_TEST_SPACE"), "e2e-"+strings.NewReplacer("/", "-", "_", "-").Replace(own))
}

// runLabel says on a namespace which process of the tests has made it.
const runLabel = "meridian.dev/test-process"

// namespace makes a namespace that enforces the strictest level, and has it removed at the end.
func (c *cluster) namespace(name string) {
	c.t.Helper()
	c.awaitLeaving(name)
	c.clearLeft(name)
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", runLabel: strconv.Itoa(os.Getpid()),
	}}}
	if c.isBeside() {
		space.Labels[besideLabel] = "true"
	}
	if err := c.Create(c.t.Context(), space); err != nil {
		c.t.Fatalf("create namespace %s: %v", name, err)
	}
	c.t.Cleanup(func() { c.leave(name) })
	if c.isBeside() {
		c.reserveLittle(name)
	}
}

// clearLeft removes what a run of these tests that was ended halfway has left, and nothing of anybody else.
func (c *cluster) clearLeft(name string) {
	c.t.Helper()
	var space corev1.Namespace
	if c.Get(c.t.Context(), client.ObjectKey{Name: name}, &space) != nil {
		return
	}
	process, err := strconv.Atoi(space.Labels[runLabel])
	switch {
	case err != nil:
		c.t.Fatalf("there is a namespace %s, and these tests have not made it", name)
	case process != os.Getpid() && syscall.Kill(process, 0) == nil:
		c.t.Fatalf("process %d is at work in the namespace %s: one run of these tests at a time", process, name)
	}
	c.t.Logf("process %d has left the namespace %s and is gone: it is cleared", process, name)
	if err := c.remove(name); err != nil {
		c.t.Fatal(err)
	}
	if !shared() { // `sandbox up` heals the nodes, and does not know that one was drained.
		c.kubectl("uncordon", "--selector=kubernetes.io/hostname")
	}
}

// leaving are the namespaces of tests that have ended. Only who needs the cluster for itself, or the name again, waits
// until they are gone; TestMain does so at the end, and a namespace that does not go fails the run.
var leaving struct {
	sync.Mutex
	spaces []*departure
}

// departure is the end of one namespace. Its problem is known when it is done.
type departure struct {
	name    string
	done    chan struct{}
	problem error
}

// leave begins to remove a namespace.
func (c *cluster) leave(name string) {
	one := &departure{name: name, done: make(chan struct{})}
	leaving.Lock()
	leaving.spaces = append(leaving.spaces, one)
	leaving.Unlock()
	go func() {
		defer close(one.done)
		one.problem = c.remove(name)
	}()
}

// awaitLeaving waits until the namespace of this name has left, or each one if there is no name.
func (c *cluster) awaitLeaving(name string) {
	c.t.Helper()
	if err := awaitLeaving(name); err != nil {
		c.t.Fatal(err)
	}
}

func awaitLeaving(name string) error {
	leaving.Lock()
	spaces := slices.Clone(leaving.spaces)
	leaving.Unlock()
	var problems []error
	for _, one := range spaces {
		if name == "" || one.name == name {
			<-one.done
			problems = append(problems, one.problem)
		}
	}
	return errors.Join(problems...)
}

// remove removes a namespace, and says why if it does not go. The test that had it may have ended.
func (c *cluster) remove(name string) error {
	problem := c.empty(name)
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Delete(context.Background(), space); client.IgnoreNotFound(err) != nil {
		return errors.Join(problem, fmt.Errorf("delete namespace %s: %w", name, err))
	}
	for start := time.Now(); time.Since(start) < time.Minute; time.Sleep(200 * time.Millisecond) {
		if c.Get(context.Background(), client.ObjectKeyFromObject(space), space) != nil {
			return problem
		}
	}
	return errors.Join(problem, fmt.Errorf("namespace %s is not gone after a minute", name))
}

// empty deletes what belongs to Meridian first, then what else has pods. Whoever deletes a namespace with running pods
// in it waits for half of their grace periods until Kubernetes looks again.
func (c *cluster) empty(namespace string) error {
	ours := []client.Object{&v1alpha1.GeoCache{}, &v1alpha1.GeoDatabase{}}
	others := []client.Object{&appsv1.Deployment{}, &batchv1.Job{}}
	in := client.InNamespace(namespace)
	err := c.deleteAll(ours, in)
	c.awaitNoPods(in, client.HasLabels{"meridian.dev/instance"})
	err = errors.Join(err, c.deleteAll(others, in, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	c.awaitNoPods(in)
	return err
}

func (c *cluster) deleteAll(kinds []client.Object, which ...client.DeleteAllOfOption) error {
	var problems []error
	for _, kind := range kinds {
		err := c.DeleteAllOf(context.Background(), kind, which...)
		if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
			problems = append(problems, fmt.Errorf("delete each %T: %w", kind, err))
		}
	}
	return errors.Join(problems...)
}

// awaitNoPods waits for half a minute at most until none of the pods runs. One that has ended by itself keeps nobody.
func (c *cluster) awaitNoPods(which ...client.ListOption) {
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(200 * time.Millisecond) {
		var pods corev1.PodList
		if err := c.List(context.Background(), &pods, which...); err == nil &&
			!slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
				return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
			}) {
			return
		}
	}
}
