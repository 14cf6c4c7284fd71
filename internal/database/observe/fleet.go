package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/condition"
)

// Fleet knows which databases of this process are being restarted instance by instance, and which of these have stopped
// at harm: a mistake that is made for all databases at once must not reach all of them. It is safe for concurrent use.
// A process that starts takes what the last one has written into the status of each, until it has looked itself.
//
// Namespaces are tenants: none learns a name of another, and none can stop another by its own mistakes. What a tenant
// has changed counts in its namespace. A restart without such a change puts in force what a new version of Meridian
// brings, so harm that it does counts everywhere, once for each namespace.
type Fleet struct {
	// Most is how many may be restarted at once, Failures after how many that have stopped no other one begins. Zero
	// means any number.
	Most, Failures int

	lock  sync.Mutex
	rolls map[types.NamespacedName]database.Roll
	// restarts are the databases whose spec asks for what their pods have already.
	restarts map[types.NamespacedName]bool
	// recalled are the scopes whose databases have told what was there before this process.
	recalled map[string]bool
}

// Recall comes before the first look at any database of a scope: of a hundred with the same mistake, a few have
// stopped, and the first of the others that a new process looks at must not begin because nobody remembers.
func (f *Fleet) Recall(ctx context.Context, reader client.Reader, namespace string) error {
	if f == nil {
		return nil
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.recalled[namespace] {
		return nil
	}
	var list v1alpha1.GeoDatabaseList
	if err := reader.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list the databases: %w", err)
	}
	for index := range list.Items {
		f.set(client.ObjectKeyFromObject(&list.Items[index]), rollBefore(list.Items[index].Status))
	}
	if f.recalled == nil {
		f.recalled = map[string]bool{}
	}
	f.recalled[namespace] = true
	return nil
}

// What may have begun before this process counts for others, and is not exempt itself.
const (
	// rollRecalled is one of which the status tells.
	rollRecalled database.Roll = "Recalled"
	// rollHidden is one that something else may hide, such as the switchover which is a part of it.
	rollHidden database.Roll = "Hidden"
)

// rollBefore is what a status tells of a roll. One that waits may have begun.
func rollBefore(status v1alpha1.GeoDatabaseStatus) database.Roll {
	stalled := condition.Find(status.Conditions, v1alpha1.ConditionStalled)
	if stalled != nil && stalled.Status == metav1.ConditionTrue && stalled.Reason == database.ReasonRollStopped {
		return database.RollStopped
	}
	moving := condition.Find(status.Conditions, v1alpha1.ConditionProgressing)
	switch {
	case moving == nil || moving.Status != metav1.ConditionTrue:
		return ""
	case moving.Reason == database.ReasonRolling || moving.Reason == database.ReasonRollWaiting:
		return rollRecalled
	}
	return rollHidden
}

// Of is what a database learns of the others, and of itself. A restart that has begun goes on.
func (f *Fleet) Of(key types.NamespacedName) database.Fleet {
	if f == nil {
		return database.Fleet{}
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	roll := f.rolls[key]
	switch roll {
	case rollRecalled:
		roll = database.RollRunning
	case rollHidden:
		roll = ""
	default:
	}
	waiting := 0
	for other, one := range f.rolls {
		if one == database.RollHeld && other != key {
			waiting++
		}
	}
	return database.Fleet{Held: f.held(key), Roll: roll, Waiting: waiting}
}

// held says why no restart may begin for a database, empty if one may.
func (f *Fleet) held(key types.NamespacedName) string {
	if f.rolls[key] == database.RollRunning {
		return ""
	}
	running, stopped := tally{}, tally{}
	for other, roll := range f.rolls {
		switch {
		case other == key:
		case roll == database.RollRunning || roll == rollRecalled || roll == rollHidden:
			running.add(key, other)
		case roll == database.RollStopped && f.restarts[other] == f.restarts[key]:
			stopped.add(key, other)
		}
	}
	switch {
	case f.Failures > 0 && len(stopped.here) >= f.Failures:
		return "changes have done harm to other databases of this namespace, so that none begins: " + some(stopped.here)
	case f.Failures > 0 && f.restarts[key] && len(stopped.elsewhere) >= f.Failures:
		return fmt.Sprintf("restarts that put this version of Meridian in force have done harm in %d other namespaces, so "+
			"that none begins", len(stopped.elsewhere))
	case f.Most > 0 && len(running.here)+running.others >= f.Most && !f.firstHere(key, running):
		return fmt.Sprintf("%d other databases are being restarted, and at most %d may be at once%s",
			len(running.here)+running.others, f.Most, some(running.here, ": of this namespace "))
	}
	return ""
}

// firstHere says that a database may begin because no other one of its namespace is under way: what a tenant has
// changed does not wait for others, whatever they do, and a restart waits for as many namespaces as there may be
// databases.
func (f *Fleet) firstHere(key types.NamespacedName, running tally) bool {
	return len(running.here) == 0 && (!f.restarts[key] || len(running.elsewhere) < f.Most)
}

// tally counts databases: by name in the namespace of one, by namespace elsewhere.
type tally struct {
	here      []string
	others    int
	elsewhere map[string]bool
}

func (t *tally) add(of, other types.NamespacedName) {
	if other.Namespace == of.Namespace {
		t.here = append(t.here, other.Name)
		return
	}
	if t.elsewhere == nil {
		t.elsewhere = map[string]bool{}
	}
	t.others++
	t.elsewhere[other.Namespace] = true
}

// Restarts takes note of whether the spec of a database asks for what its pods have already.
func (f *Fleet) Restarts(key types.NamespacedName, restarts bool) {
	if f == nil {
		return
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.restarts == nil {
		f.restarts = map[types.NamespacedName]bool{}
	}
	if delete(f.restarts, key); restarts {
		f.restarts[key] = true
	}
}

// some names as many as fit into a condition, after words that are left out if there are none.
func some(names []string, words ...string) string {
	const most = 10
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return strings.Join(words, "") + strings.Join(names, ", ")
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

// Note takes note of what a pass has found. A plan to restart is not a restart: whether there was room for one is
// decided by Begin alone, and a pass that was refused there must not be exempt the next time.
func (f *Fleet) Note(key types.NamespacedName, roll database.Roll) {
	f.lock.Lock()
	defer f.lock.Unlock()
	if before := f.rolls[key]; roll == database.RollRunning {
		switch before {
		case "", database.RollHeld:
			roll = database.RollHeld
		case rollRecalled, rollHidden:
			// Something else has held it up so far: it counts, and has not begun by this process's leave.
			roll = rollRecalled
		default:
		}
	}
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
func (f *Fleet) Forget(key types.NamespacedName) {
	f.Note(key, "")
	f.Restarts(key, false)
}
