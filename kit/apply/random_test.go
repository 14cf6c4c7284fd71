package apply_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/kit/apply"
)

// TestRandomLives writes random intents to a Pod while others add, remove and vandalise. What others own bears an x.
// After each of our passes the fields of ours are exactly the intent in the intent's order, those of others are
// as they left them, and the next pass writes nothing.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := newServer()
		for step := range 12 {
			want := randomPod(random)
			var labels map[string]string
			if before, ok := s.live(want).(*corev1.Pod); ok {
				labels = before.Labels
			}
			do(t, s, want)
			where := fmt.Sprintf("seed %d step %d", seed, step)
			live := s.live(want).(*corev1.Pod)
			if labels["x"] != live.Labels["x"] {
				t.Fatalf("%s: a label of others was %q and is %q", where, labels["x"], live.Labels["x"])
			}
			if diff := cmp.Diff(parts(want, "", false), parts(live, "example.com/", false), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s: ours (-want +got):\n%s", where, diff)
			}
			if again := do(t, s, want); again.State != apply.Same {
				t.Fatalf("%s: the next pass finds %s %v", where, again.State, again.Changes)
			}
			edit(t, s, want, func(pod *corev1.Pod) { interfere(random, pod) })
			theirs := parts(s.live(want).(*corev1.Pod), "", true)
			do(t, s, want)
			if diff := cmp.Diff(theirs, parts(s.live(want).(*corev1.Pod), "", true), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s: what others own (-before +after our pass):\n%s", where, diff)
			}
			if again := do(t, s, want); again.State != apply.Same {
				t.Fatalf("%s: after the repair the next pass finds %s %v", where, again.State, again.Changes)
			}
		}
	}
}

func randomPod(random *rand.Rand) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "p", OwnerReferences: controlledBy("north", string(fleet)),
	}}
	if names := some(random); len(names) > 0 {
		pod.Labels = map[string]string{}
		for _, name := range names {
			pod.Labels[name] = fmt.Sprint(random.IntN(2))
		}
	}
	for _, name := range some(random) {
		container := corev1.Container{Name: name, Image: fmt.Sprint(random.IntN(3)), Args: some(random)}
		for _, variable := range some(random) {
			container.Env = append(container.Env, corev1.EnvVar{Name: variable, Value: fmt.Sprint(random.IntN(2))})
		}
		if random.IntN(2) == 0 {
			container.LivenessProbe = &corev1.Probe{PeriodSeconds: random.Int32N(2) + 1}
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
	}
	return pod
}

// some returns some of a few names in any order.
func some(random *rand.Rand) []string {
	names := []string{"a", "b", "c", "d"}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names[:random.IntN(len(names)+1)]
}

// interfere adds entries of others at random places, takes some of theirs away, and spoils some of ours.
func interfere(random *rand.Rand, pod *corev1.Pod) {
	chance := func() bool { return random.IntN(3) == 0 }
	if chance() {
		labels := map[string]string{"x": fmt.Sprint(random.IntN(9))}
		if _, ours := pod.Labels["a"]; ours {
			labels["a"] = "spoilt"
		}
		pod.Labels = labels
	}
	init := &pod.Spec.InitContainers
	if chance() {
		*init = slices.DeleteFunc(*init, func(c corev1.Container) bool { return c.Name == "x" || c.Name == "b" })
	}
	if chance() && !slices.ContainsFunc(*init, func(c corev1.Container) bool { return c.Name == "x" }) {
		*init = slices.Insert(*init, random.IntN(len(*init)+1), corev1.Container{Name: "x", Args: []string{"x"}})
	}
	for i := range *init {
		container := &(*init)[i]
		if container.Name == "x" {
			continue
		}
		if chance() {
			container.Image = "spoilt"
		}
		if chance() {
			random.Shuffle(len(container.Env), func(i, j int) {
				container.Env[i], container.Env[j] = container.Env[j], container.Env[i]
			})
		}
		if chance() && !slices.ContainsFunc(container.Env, func(v corev1.EnvVar) bool { return v.Name == "x" }) {
			container.Env = slices.Insert(container.Env, random.IntN(len(container.Env)+1), corev1.EnvVar{Name: "x", Value: "x"})
		}
	}
	if chance() {
		random.Shuffle(len(*init), func(i, j int) { (*init)[i], (*init)[j] = (*init)[j], (*init)[i] })
	}
}

// parts lists the labels and entries of a pod, either ours or those of others, in their order.
func parts(pod *corev1.Pod, annotations string, others bool) []string {
	var out []string
	add := func(name, line string) {
		if strings.HasPrefix(name, "x") == others {
			out = append(out, line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(pod.Labels)) {
		add(name, "label "+name+"="+pod.Labels[name])
	}
	for _, name := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if annotations == "" || !strings.HasPrefix(name, annotations) {
			add(name, "annotation "+name)
		}
	}
	for _, container := range pod.Spec.InitContainers {
		add(container.Name, fmt.Sprint("container ", container.Name, container.Image, container.Args))
		add(container.Name, fmt.Sprint("probe ", container.LivenessProbe))
		for _, variable := range container.Env {
			add(variable.Name, "variable "+container.Name+" "+variable.Name+"="+variable.Value)
		}
	}
	if others {
		slices.Sort(out) // Where they stand among ours is not theirs to say.
	}
	return out
}
