package apply_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"meridian.dev/meridian/kit/apply"
)

// TestMemoAnswersTheSame renders and compares random objects, again and again and in any order, with a small memo that
// often begins anew, and without one. All answers are the same.
func TestMemoAnswersTheSame(t *testing.T) {
	plain := apply.Author{Scheme: scheme.Scheme, Prefix: "example.com", Manager: "author"}
	remembering := plain
	remembering.Memo = apply.NewMemo(20)
	random := rand.New(rand.NewPCG(1, 1))
	var wanted, lives []*corev1.Pod
	for i := range 12 {
		want := randomPod(random)
		live := want.DeepCopy()
		live.ResourceVersion = fmt.Sprint(i % 4) // Versions alone tell nothing.
		interfere(random, live)
		wanted, lives = append(wanted, want), append(lives, live)
	}
	states := map[apply.State]int{}
	for range 3000 {
		want, live := wanted[random.IntN(len(wanted))], lives[random.IntN(len(lives))].DeepCopy()
		first, err := plain.Intent(want, fleet)
		if err != nil {
			t.Fatal(err)
		}
		second, err := remembering.Intent(want, fleet)
		if err != nil {
			t.Fatal(err)
		}
		if first.Hash() != second.Hash() {
			t.Fatalf("the intent is %s, and remembered as %s", first.Hash(), second.Hash())
		}
		if random.IntN(2) == 0 { // An object as it was created: the usual one to compare with.
			live = created(t, first)
		}
		without, with := apply.Compare(first, live), apply.Compare(second, live)
		if without.State != with.State {
			t.Fatalf("the state is %s, and remembered as %s", without.State, with.State)
		}
		if diff := cmp.Diff(without.Changes, with.Changes); diff != "" {
			t.Fatalf("changes (-without +with):\n%s", diff)
		}
		states[with.State]++
	}
	if states[apply.Same] < 100 || states[apply.Changed] < 100 {
		t.Errorf("not a fair sample: %v", states)
	}
}

// created is what the API server has after the child was created.
func created(t *testing.T, want apply.Intent) *corev1.Pod {
	t.Helper()
	s := newServer()
	action, _ := apply.Compare(want, nil).Action()
	result, err := apply.Actor{Client: s, Live: s}.Do(t.Context(), action)
	if err != nil {
		t.Fatal(err)
	}
	return result.Object.(*corev1.Pod)
}

// TestMemoKeepsNoSecrets shows that what is secret is rendered each time.
func TestMemoKeepsNoSecrets(t *testing.T) {
	author := apply.Author{Scheme: scheme.Scheme, Prefix: "example.com", Manager: "author", Memo: apply.NewMemo(10)}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "s"}}
	for _, value := range []string{"one", "two"} {
		secret.Data = map[string][]byte{"password": []byte(value)}
		if _, err := author.Intent(secret, fleet); err != nil {
			t.Fatal(err)
		}
	}
	if held := author.Memo.Len(); held != 0 {
		t.Errorf("%d Secrets are remembered", held)
	}
}
