package observe

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/internal/database"
)

// Fleet knows which databases of this process are being restarted instance by instance, and which of these have stopped
// at harm: a mistake that is made for all databases at once must not reach all of them. It is safe for concurrent use.
// A process that starts knows of none, and learns with its first passes.
type Fleet struct {
	// Most is how many may be restarted at once, Failures after how many that have stopped no other one begins. Zero
	// means any number.
	Most, Failures int

	lock  sync.Mutex
	rolls map[types.NamespacedName]database.Roll
}

// Held says why no restart may begin for a database, empty if one may. One that has begun goes on.
func (f *Fleet) Held(key types.NamespacedName) string {
	if f == nil {
		return ""
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	return f.held(key)
}

func (f *Fleet) held(key types.NamespacedName) string {
	if f.rolls[key] == database.RollRunning {
		return ""
	}
	running := 0
	var stopped []string
	for other, roll := range f.rolls {
		switch {
		case other == key:
		case roll == database.RollRunning:
			running++
		case roll == database.RollStopped:
			stopped = append(stopped, other.String())
		}
	}
	slices.Sort(stopped)
	switch {
	case f.Failures > 0 && len(stopped) >= f.Failures:
		return "changes have done harm to other databases, so that none begins: " + strings.Join(stopped, ", ")
	case f.Most > 0 && running >= f.Most:
		return fmt.Sprintf("%d other databases are being restarted, and at most %d may be at once", running, f.Most)
	}
	return ""
}

// Begin is asked right before a step: of two passes that saw the same room, one gets it.
func (f *Fleet) Begin(key types.NamespacedName) string {
	f.lock.Lock()
	defer f.lock.Unlock()
	if why := f.held(key); why != "" {
		return why
	}
	f.set(key, database.RollRunning)
	return ""
}

// Note takes note of what a pass has found.
func (f *Fleet) Note(key types.NamespacedName, roll database.Roll) {
	f.lock.Lock()
	defer f.lock.Unlock()
	f.set(key, roll)
}

func (f *Fleet) set(key types.NamespacedName, roll database.Roll) {
	if f.rolls == nil {
		f.rolls = map[types.NamespacedName]database.Roll{}
	}
	if delete(f.rolls, key); roll != "" {
		f.rolls[key] = roll
	}
}

// Forget drops a database that is gone.
func (f *Fleet) Forget(key types.NamespacedName) { f.Note(key, "") }
