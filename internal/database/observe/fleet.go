package observe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
)

// Fleet counts which databases are being restarted instance by instance, and which of these have stopped at harm: a
// mistake that is made for all databases at once must not reach all of them. It is safe for concurrent use.
//
// That a restart has begun is a fact: the settings of the database bear database.LabelRoll from before its first step
// until all instances are well again. So a process that starts knows whom the one before has let begin, whatever the
// status of a database tells. What has become of a restart is what the last pass has found; until there was one, it
// counts as under way and as harm alike, because it may be either.
//
// Namespaces are tenants: none learns a name of another, and none can stop another by its own mistakes. What a tenant
// has changed counts in its namespace. A restart without such a change puts in force what a new version of Meridian
// brings, so harm that it does counts everywhere, once for each namespace.
type Fleet struct {
	// Most is how many may be restarted at once, Failures after how many that have stopped no other one begins. Zero
	// means any number.
	Most, Failures int
	// Namespaces are those where the databases are, none for all.
	Namespaces []string

	lock    sync.Mutex
	members map[types.NamespacedName]member
	// recalled says that this process knows who had begun before it.
	recalled bool
}

// member is what is known of the restart of one database.
type member struct {
	// begun says that it bears the mark, or that it was just allowed to.
	begun bool
	// seen says that roll is what a pass of this process has found.
	seen bool
	roll database.Roll
	// restarts says that the spec asks for what the pods have already.
	restarts bool
}

// Recall comes before the first look at any database: it finds those whose restart has begun, in all namespaces, since
// they leave room to each other. It reads live, and not through the reader of a pass: what somebody else has marked is
// in no cache, and a pass waits for what it has read.
func (f *Fleet) Recall(ctx context.Context, live client.Reader) error {
	if f == nil {
		return nil
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	if f.recalled {
		return nil
	}
	namespaces := f.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		// Where the rights were taken away, with the namespace perhaps, nothing is restarted by us.
		if err := f.recall(ctx, live, namespace); err != nil && !apierrors.IsForbidden(err) {
			return err
		}
	}
	f.recalled = true
	return nil
}

// recall takes what is marked in a namespace. The settings of a database that is gone, or of another one of its name,
// count for nothing.
func (f *Fleet) recall(ctx context.Context, live client.Reader, namespace string) error {
	var marked corev1.ConfigMapList
	if err := live.List(ctx, &marked, client.InNamespace(namespace), client.HasLabels{database.LabelRoll}); err != nil {
		return fmt.Errorf("list the settings of databases that are being restarted: %w", err)
	}
	var databases v1alpha1.GeoDatabaseList
	if err := live.List(ctx, &databases, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list the databases: %w", err)
	}
	owners := map[types.UID]types.NamespacedName{}
	for index := range databases.Items {
		owners[databases.Items[index].UID] = client.ObjectKeyFromObject(&databases.Items[index])
	}
	for index := range marked.Items {
		if owner := metav1.GetControllerOfNoCopy(&marked.Items[index]); owner != nil {
			if key, lives := owners[owner.UID]; lives && key.Namespace == marked.Items[index].Namespace {
				f.set(key, member{begun: true})
			}
		}
	}
	return nil
}

// Look takes note of what is observed of a database, and tells it what the others allow. Begun says that its settings
// bear the mark and that it counts, restarts that its spec asks for what its pods have already. One that did not count
// for a while, because it was paused, waits for room like any other.
func (f *Fleet) Look(key types.NamespacedName, begun, restarts bool) database.Fleet {
	if f == nil {
		return database.Fleet{}
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	one := f.members[key]
	one.begun, one.restarts = one.begun && begun, restarts
	f.set(key, one)
	one.begun = begun && f.held(key) == ""
	f.set(key, one)
	waiting := 0
	for other, one := range f.members {
		if one.roll == database.RollDue && !one.begun && other != key {
			waiting++
		}
	}
	return database.Fleet{Held: f.held(key), Waiting: waiting}
}

// held says why no restart may begin for a database, empty if one may, or has.
func (f *Fleet) held(key types.NamespacedName) string {
	self := f.members[key]
	if self.begun {
		return ""
	}
	running, stopped := tally{}, tally{}
	for other, one := range f.members {
		if other == key {
			continue
		}
		if one.begun && one.roll != database.RollStopped {
			running.add(key, other)
		}
		if one.roll == database.RollStopped && one.restarts == self.restarts || one.begun && !one.seen {
			stopped.add(key, other)
		}
	}
	switch {
	case f.Failures > 0 && len(stopped.here) >= f.Failures:
		return "changes have done harm to other databases of this namespace, so that none begins: " + some(stopped.here)
	case f.Failures > 0 && self.restarts && len(stopped.elsewhere) >= f.Failures:
		return fmt.Sprintf("restarts that put this version of Meridian in force have done harm in %d other namespaces, so "+
			"that none begins", len(stopped.elsewhere))
	case f.Most > 0 && len(running.here)+running.others >= f.Most && !f.firstHere(self, running):
		return fmt.Sprintf("%d other databases are being restarted, and at most %d may be at once%s",
			len(running.here)+running.others, f.Most, some(running.here, ": of this namespace "))
	}
	return ""
}

// firstHere says that a database may begin because no other one of its namespace is under way: what a tenant has
// changed does not wait for others, whatever they do, and a restart waits for as many namespaces as there may be
// databases.
func (f *Fleet) firstHere(self member, running tally) bool {
	return len(running.here) == 0 && (!self.restarts || len(running.elsewhere) < f.Most)
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

// Begin is asked right before the mark is written: of two passes that saw the same room, one gets it. If the mark does
// not get there, the next look gives the room back.
func (f *Fleet) Begin(key types.NamespacedName) string {
	f.lock.Lock()
	defer f.lock.Unlock()
	if why := f.held(key); why != "" {
		return why
	}
	one := f.members[key]
	one.begun, one.seen = true, true
	f.set(key, one)
	return ""
}

// Note takes note of what a pass has found.
func (f *Fleet) Note(key types.NamespacedName, roll database.Roll) {
	f.lock.Lock()
	defer f.lock.Unlock()
	one := f.members[key]
	one.seen, one.roll = true, roll
	f.set(key, one)
}

func (f *Fleet) set(key types.NamespacedName, one member) {
	if f.members == nil {
		f.members = map[types.NamespacedName]member{}
	}
	f.members[key] = one
}

// Forget drops a database that is gone.
func (f *Fleet) Forget(key types.NamespacedName) {
	f.lock.Lock()
	defer f.lock.Unlock()
	delete(f.members, key)
}
