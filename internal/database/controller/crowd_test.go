//go:build cluster

package controller_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
)

// crowd is how many pods and how many ConfigMaps of others there are, bound what they may cost.
const (
	crowd = 500
	bound = 1 << 20
)

// TestCrowdCostsNothing runs the loop in a cluster in which others have hundreds of pods and ConfigMaps: they are not
// kept, and do not cost memory.
func TestCrowdCostsNothing(t *testing.T) {
	w := newWorld(t)
	w.three()
	before := heap()
	var group sync.WaitGroup
	numbers := make(chan int)
	for range 16 {
		group.Go(func() {
			for number := range numbers {
				name := fmt.Sprintf("foreign-%d", number)
				for _, object := range []client.Object{foreignPod(name), foreignConfig(name)} {
					if err := w.client.Create(t.Context(), object); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for number := range crowd {
		numbers <- number
	}
	close(numbers)
	group.Wait()
	// The marks are made last and bear our label: when the caches show them, they have taken in all before them.
	for _, object := range []client.Object{foreignPod("mark"), foreignConfig("mark")} {
		object.SetLabels(map[string]string{database.LabelManagedBy: "meridian"})
		w.create(object)
		w.until("the caches are where the API server is", func() bool {
			return w.reader.Get(t.Context(), client.ObjectKeyFromObject(object), object) == nil
		})
	}
	var pods corev1.PodList
	var configs corev1.ConfigMapList
	for _, list := range []client.ObjectList{&pods, &configs} {
		if err := w.reader.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	if len(pods.Items) != 4 || len(configs.Items) != 2 {
		t.Errorf("the caches hold %d pods and %d ConfigMaps, want 3 and 1 of ours, and a mark each", len(pods.Items),
			len(configs.Items))
	}
	after := heap()
	t.Logf("%d foreign pods and ConfigMaps each: the heap went from %d to %d KiB", crowd, before>>10, after>>10)
	if after > before+bound {
		t.Errorf("they cost %d MiB", (after-before)>>20)
	}
}

func heap() uint64 {
	var figures runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&figures)
	return figures.HeapAlloc
}

func foreignPod(name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: home, Name: name, Annotations: map[string]string{"example.com/note": strings.Repeat(name, 200)},
	}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "foreign"}}
	return pod
}

func foreignConfig(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name},
		Data:       map[string]string{"content": strings.Repeat(name, 300)},
	}
}

// TestLostLabelIsRepaired takes our label from children: no cache shows them any more, and they are found all the same.
func TestLostLabelIsRepaired(t *testing.T) {
	w := newWorld(t)
	w.three()
	unlabelled := map[string]client.Object{
		"cities-settings": &corev1.ConfigMap{}, "cities-ro": &corev1.Service{}, "cities-1": &appsv1.StatefulSet{},
	}
	for name, object := range unlabelled {
		change(w, name, object, func(object client.Object) {
			kept := object.GetLabels()
			delete(kept, database.LabelManagedBy)
			object.SetLabels(kept)
		})
		w.until("the cache has lost sight of "+name, func() bool {
			return w.reader.Get(t.Context(), client.ObjectKeyFromObject(object), object) != nil
		})
	}
	w.passUntil("the labels are back", func() bool {
		for name, object := range unlabelled {
			if !w.get(name, object) || object.GetLabels()[database.LabelManagedBy] != "meridian" {
				return false
			}
		}
		return true
	})
	w.passUntil("the database is ready", w.ready)
}
