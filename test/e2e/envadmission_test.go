//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
	processes "meridian.dev/meridian/test/e2e/faults"
)

// tryQuota raises the memory beyond a quota: nothing that runs is touched, the status has the words of whoever refuses,
// and the change goes on by itself when it is allowed.
func (f *failover) tryQuota() {
	pods, operator := f.podUIDs(), operatorPods(f.c)
	end := f.begin(5 * time.Second)
	if *chosenEnvironments != "short" {
		f.tryLimitRange(pods)
	}
	f.apply(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: tight}, spec: {hard: {requests.memory: 3300Mi}}}`)
	f.awaitQuota()
	f.patch(`{"spec":{"resources":{"memory":"1400Mi"}}}`)
	f.awaitStatus("the status names the quota", time.Minute, func(database *v1alpha1.GeoDatabase) bool {
		return stalledBy(database, "ResizeRefused", "exceeded quota: tight")
	})
	f.stayPut(pods)
	f.c.kubectl("-n", f.c.space, "patch", "resourcequota", "tight", "--type=merge", "-p",
		`{"spec":{"hard":{"requests.memory":"5000Mi"}}}`)
	f.awaitMemory("1400Mi")
	end()
	if count := changed(pods, f.podUIDs()); count > 0 {
		f.t.Errorf("%d pods were made anew", count)
	}
	if now := operatorPods(f.c); now != operator {
		f.t.Errorf("the operator was %s, and is %s", operator, now)
	}
}

// tryLimitRange does the same with a LimitRange, which is taken away again.
func (f *failover) tryLimitRange(pods map[string]types.UID) {
	f.t.Helper()
	f.apply(`{apiVersion: v1, kind: LimitRange, metadata: {name: small},
		spec: {limits: [{type: Container, max: {memory: 1Gi}}]}}`)
	f.patch(`{"spec":{"resources":{"memory":"1200Mi"}}}`)
	f.awaitStatus("the status names the LimitRange", time.Minute, func(database *v1alpha1.GeoDatabase) bool {
		return stalledBy(database, "ResizeRefused", "maximum memory usage per Container is 1Gi")
	})
	f.stayPut(pods)
	f.c.kubectl("-n", f.c.space, "delete", "limitrange", "small")
	f.awaitMemory("1200Mi")
}

// awaitQuota waits until the quota counts what is there: before that it refuses everything.
func (f *failover) awaitQuota() {
	f.t.Helper()
	f.c.until("the quota counts", time.Minute, func(ctx context.Context) (bool, string) {
		var quota corev1.ResourceQuota
		if err := f.c.Get(ctx, client.ObjectKey{Namespace: f.c.space, Name: "tight"}, &quota); err != nil {
			return false, err.Error()
		}
		used := quota.Status.Used[corev1.ResourceRequestsMemory]
		return used.Cmp(resource.MustParse("3Gi")) >= 0, used.String()
	})
}

// awaitMemory waits until all instances have so much memory, and the database is Ready.
func (f *failover) awaitMemory(memory string) {
	f.t.Helper()
	wanted := resource.MustParse(memory)
	begun := time.Now()
	f.awaitStatus("all instances have "+memory, 4*time.Minute, func(database *v1alpha1.GeoDatabase) bool {
		return condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionReady) &&
			!slices.ContainsFunc(f.instances(), func(name string) bool {
				statuses := f.pod(name).Status.ContainerStatuses
				return len(statuses) == 0 || statuses[0].Resources == nil ||
					statuses[0].Resources.Limits.Memory().Cmp(wanted) != 0
			})
	})
	f.t.Logf("all have %s %s after it was allowed", memory, time.Since(begun).Round(time.Second))
}

// tryOpenShift looks at the accounts, has a cache beside the database, and loses the primary.
func (f *failover) tryOpenShift() {
	for _, instance := range f.instances() {
		found, err := processes.Find(f.c.space, instance)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, process := range found.All() {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
			if err == nil && !strings.Contains(string(text), "\nUid:\t1000650000\t1000650000\t") {
				f.t.Errorf("process %d of %s runs as another account:\n%s", process, instance, text)
			}
		}
	}
	f.makeCache(v1alpha1.EgressOpen)
	f.tryOnce(fault{name: "pod delete", moves: true, gap: 2 * time.Second, do: (*failover).deletePod}, 1)
	f.tryOnce(fault{
		name: "freeze pod 20 s", moves: true, gap: 13 * time.Second, hold: 20 * time.Second, do: (*failover).freezePod,
	}, 1)
}

// loadMirror gives the nodes the images of the database under the names that they have in the mirror.
func loadMirror(c *cluster) {
	c.t.Helper()
	file := imageFile(c, "postgis-17", "localhost/meridian/postgis:17")
	for _, tag := range []string{"17", "17-next"} {
		path := filepath.Join(c.t.TempDir(), "mirror.tar")
		copyImage(c.t, file, path, "meridian/postgis:17", "mirror/postgis:"+tag)
		c.sandbox("image", "load", path)
	}
}

// tryMirror changes the image where admission rewrites images, gives pods more CPU than they ask for, one of them
// less, and refuses to resize them: the change reaches each pod once, what is changed is told, and nothing goes on
// restarting.
func (f *failover) tryMirror() {
	before := f.podUIDs()
	end := f.begin(5 * time.Second)
	f.patch(`{"spec":{"image":"localhost/meridian/postgis:17-next"}}`)
	seen := map[string]map[types.UID]bool{}
	done := time.Time{}
	for begun := time.Now(); time.Since(begun) < 2*(*calmTime) || done.IsZero(); time.Sleep(300 * time.Millisecond) {
		for name, pod := range f.presentPods() {
			if seen[name] == nil {
				seen[name] = map[types.UID]bool{before[name]: true}
			}
			seen[name][pod.UID] = true
		}
		database, err := f.get(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		if done.IsZero() && f.images("localhost/mirror/postgis:17-next") == 3 &&
			condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionReady) {
			done = time.Now()
			f.t.Logf("the image has reached all %s after the change; told: %q", done.Sub(begun).Round(time.Second),
				database.Status.PendingChanges)
			told := strings.Join(database.Status.PendingChanges, "\n")
			for _, words := range []string{"admission in this cluster changes the StatefulSet", "the platform gives pods"} {
				if !strings.Contains(told, words) {
					f.t.Errorf("what admission changes is not told: no %q in %q", words, told)
				}
			}
		}
		if time.Since(begun) > 5*time.Minute+2*(*calmTime) {
			f.t.Fatalf("the image has not reached all: %+v", database.Status)
		}
	}
	end()
	for name, uids := range seen {
		if len(uids) != 2 {
			f.t.Errorf("the pod of %s was made anew %d times", name, len(uids)-1)
		}
	}
}

// images counts the pods whose database container has an image.
func (f *failover) images(image string) int {
	f.t.Helper()
	count := 0
	for _, pod := range f.presentPods() {
		if pod.Spec.Containers[0].Image == image {
			count++
		}
	}
	return count
}
