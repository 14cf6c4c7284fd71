package apply

import (
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Memo remembers what was rendered and what was compared, so that a pass in which nothing has changed costs next to
// nothing. An answer is given again only for an object that is deeply equal to the one before: with a memo and without
// one the answers are the same. It holds no Secrets, and may be used by several goroutines.
type Memo struct {
	most int

	mu     sync.Mutex
	held   int
	places map[place][]*rendered
}

// NewMemo returns a memo for so many intents. When there are more, it begins anew.
func NewMemo(most int) *Memo { return &Memo{most: most, places: map[place][]*rendered{}} }

// place is a child of an author.
type place struct {
	prefix, manager string
	kind            schema.GroupVersionKind
	key             types.NamespacedName
	owner           types.UID
}

// rendered is an intent with the object that it was rendered from, and live objects that were found to be as it says,
// the last one first. Neither is ever changed.
type rendered struct {
	from   client.Object
	intent Intent
	same   []client.Object
}

// Each place has the intents that it had last, and each of them the last live objects.
const (
	intentsOfAPlace = 16
	livesOfAnIntent = 16
)

func placeOf(want Intent) place {
	return place{want.author.Prefix, want.author.Manager, want.kind, want.key, want.owner}
}

// find returns the intent of an object that was rendered before.
func (m *Memo) find(want Intent, obj client.Object) (Intent, bool) {
	if m == nil || want.secret() {
		return Intent{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.places[placeOf(want)]
	for i, each := range known {
		if reflect.DeepEqual(each.from, obj) {
			copy(known[1:i+1], known[:i])
			known[0] = each
			found := each.intent
			found.author, found.memo = want.author, each
			return found, true
		}
	}
	return Intent{}, false
}

// keep remembers an intent, and returns it with its place in the memo.
func (m *Memo) keep(want Intent, obj client.Object) Intent {
	if m == nil || want.secret() {
		return want
	}
	made := &rendered{from: obj.DeepCopyObject().(client.Object), intent: want}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held >= m.most {
		m.places, m.held = map[place][]*rendered{}, 0
	}
	known := m.places[placeOf(want)]
	if len(known) == intentsOfAPlace {
		known = known[:intentsOfAPlace-1]
		m.held--
	}
	m.places[placeOf(want)] = append([]*rendered{made}, known...)
	m.held++
	want.memo = made
	return want
}

// isSame says that this very object was found to be as the intent says.
func (m *Memo) isSame(want Intent, live client.Object) bool {
	if m == nil || want.memo == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range want.memo.same {
		if each.GetResourceVersion() == live.GetResourceVersion() && reflect.DeepEqual(each, live) {
			return true
		}
	}
	return false
}

// keepSame remembers that an object is as the intent says.
func (m *Memo) keepSame(want Intent, live client.Object) {
	if m == nil || want.memo == nil {
		return
	}
	kept := live.DeepCopyObject().(client.Object)
	m.mu.Lock()
	defer m.mu.Unlock()
	known := want.memo.same
	if len(known) == livesOfAnIntent {
		known = known[:livesOfAnIntent-1]
	}
	want.memo.same = append([]client.Object{kept}, known...)
}

// Len is how many intents are remembered.
func (m *Memo) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held
}
