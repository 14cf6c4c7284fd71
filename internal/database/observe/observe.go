// Package observe reads everything that one pass needs to know about a database, once, and interprets it into the small
// facts of a Snapshot. It decides nothing and writes nothing.
//
// Children are read through the reader of the pass, which is the cache or the API server; Secrets always by name from
// the API server, so that no cache ever holds one; agents over mutual TLS with a short time limit. An agent that gives
// no answer is a fact. An API server that gives none is an error: there is no Snapshot to speak of.
//
// Start reading at Observer.Observe.
package observe

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/pki"
)

// Observer reads for passes.
type Observer struct {
	// Live reads from the API server: Secrets and storage classes by name, and once which restarts have begun.
	Live client.Reader
	// Author recognises our children.
	Author apply.Author
	Images database.Images
	Now    func() time.Time
	// AskTime asks the API server for its time before certificates are made. Without it no clock is compared.
	AskTime service.AskTime
	// Installation is what this operator calls itself.
	Installation string
	// LostAfter is how long a node may be away before its instances are replaced.
	LostAfter time.Duration
	// Pulse knows when leases were last seen to change. Without one no lease ever expires.
	Pulse *service.Pulse
	// Try asks the API server whether it would take a pod, and makes none. Without it nothing is tried.
	Try func(ctx context.Context, pod *corev1.Pod) error
	// TryResize asks the API server whether a pod may be patched to another size, and has the answer filled in. Without it
	// nothing is tried.
	TryResize func(ctx context.Context, pod *corev1.Pod, patch client.Patch) error
	// Fleet knows what the other databases allow; without one, everything.
	Fleet *Fleet
	// Crowd knows what the other databases leave to restores on trial; without one, everything.
	Crowd *Crowd
	// Refusals are what agents have refused.
	Refusals *Refusals
	// Outside says that somebody else than the operator looks, with rights of their own: Secrets are not read and are
	// taken to be whole, and agents are asked without a certificate, by whatever way Ask knows.
	Outside bool
	// TryWrite says what admission would make of a write. Without it no field is tolerated.
	TryWrite service.TryWrite
	// Ask gets the report of an agent. It keeps to the time limit of its context.
	Ask func(ctx context.Context, agent service.Agent) (wire.Report, error)
}

// pass is one observation under way.
type pass struct {
	Observer
	reader client.Reader
	object *v1alpha1.GeoDatabase
	facts  database.Snapshot
	// material is what the operator presents to agents, nil while there is none.
	material *pki.Material
	// claims are those that were read, by name, nil for one that is not there. Each is read once: whoever has handed one
	// over meanwhile must not make it ours for one question and somebody else's for another.
	claims map[string]*corev1.PersistentVolumeClaim
	// authority is its Secret, nil if there is none of ours. Its values do not get into the facts.
	authority *corev1.Secret
	// binding is the Secret for applications, nil if there is none of ours. Its values do not get into the facts.
	binding *corev1.Secret
}

// Observe takes the snapshot of one database.
func (o Observer) Observe(
	ctx context.Context, reader client.Reader, object *v1alpha1.GeoDatabase,
) (database.Snapshot, error) {
	if err := o.Fleet.Recall(ctx, o.Live); err != nil {
		return database.Snapshot{}, err
	}
	p := &pass{
		Observer: o, reader: reader, object: object, claims: map[string]*corev1.PersistentVolumeClaim{},
	}
	p.facts = database.Snapshot{
		Now: o.Now(), Images: o.Images, Spec: object.Spec,
		Identity: database.Identity{
			Namespace: object.Namespace, Name: object.Name, UID: string(object.UID), Generation: object.Generation,
		},
		Deleting:     object.DeletionTimestamp != nil,
		Guarded:      controllerutil.ContainsFinalizer(object, database.Finalizer),
		Young:        young(object),
		WasReady:     condition.IsTrue(object.Status.Conditions, v1alpha1.ConditionReady),
		Installation: o.Installation, StampedBy: object.Annotations[database.AnnotationInstallation],
		LostAfter: o.LostAfter,
		Refusals:  o.Refusals.Lately(client.ObjectKeyFromObject(object), o.Now()),
		Window:    windowOf(object.Spec, o.Now()),
	}
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"instances", p.readInstances},
		{"settings", p.readSettings},
		{"nodes", p.readNodes},
		{"secrets", p.readSecrets},
		{"reports", p.readReports},
		{"lease", p.readLease},
		{"record", p.readRecord},
		{"backups", p.readBackup},
		{"certificates", p.readCertificates},
		{"what earlier databases have left", p.readKept},
		{"route", p.readRoute},
		{"the read address", p.readReads},
		{"request", p.readRequest},
		{"orphans", p.readOrphans},
		{"storage classes", p.readClasses},
		{"storage classes to choose from", p.listClasses},
		{"children", p.compareChildren},
		{"what is left over", p.readSurplus},
		{"what other databases allow", p.readFleet},
		{"the trial of the sizes", p.trySizes},
		{"the trial of the template", p.tryTemplate},
		{"restores on trial", p.readTrials},
		{"caches", p.readCaches},
	} {
		if err := step.read(ctx); err != nil {
			return database.Snapshot{}, fmt.Errorf("read %s: %w", step.what, err)
		}
	}
	return p.facts, nil
}

// readFleet asks what the other databases allow. One that is paused, being deleted or another installation's does not
// count: nothing of it is restarted by us.
func (p *pass) readFleet(context.Context) error {
	key := client.ObjectKeyFromObject(p.object)
	ours := p.facts.StampedBy == "" || p.facts.StampedBy == p.Installation
	begun := p.facts.Settings.Rolling && ours && !p.facts.Deleting && !p.facts.Spec.Paused
	p.facts.Fleet = p.Fleet.Look(key, begun, p.asksForTheSame())
	return nil
}

// asksForTheSame says that every pod was made for what the spec asks for now.
func (p *pass) asksForTheSame() bool {
	return !slices.ContainsFunc(p.facts.Instances, func(instance database.Instance) bool {
		return instance.Pod != nil && !render.SameWish(p.facts.Spec, instance.Pod.Wish)
	})
}

// infancy is how soon after its creation a database gets its first status.
const infancy = time.Minute

// young says that a database was not Ready since it was made: the first word about that still stands.
func young(object *v1alpha1.GeoDatabase) bool {
	ready := condition.Find(object.Status.Conditions, v1alpha1.ConditionReady)
	return ready == nil || ready.Status != metav1.ConditionTrue &&
		ready.LastTransitionTime.Sub(object.CreationTimestamp.Time) < infancy
}

// windowOf is when maintenance is allowed. What is wrong with the spec is for the plan to say.
func windowOf(spec v1alpha1.GeoDatabaseSpec, now time.Time) database.Window {
	if spec.Maintenance == nil {
		return database.Window{}
	}
	times, problem := admit.Window(*spec.Maintenance)
	if problem != nil {
		return database.Window{}
	}
	span, open := times.At(now)
	return database.Window{Open: open, Ends: span.End.UTC(), Begins: times.Next(now).Begin.UTC()}
}

// ours says whether a child belongs to this database, and not to an earlier one of the same name.
func (p *pass) ours(child client.Object) bool {
	if controller := metav1.GetControllerOfNoCopy(child); controller != nil {
		return controller.UID == p.object.UID
	}
	return child.GetAnnotations()[p.Author.Prefix+"/owner"] == string(p.object.UID)
}

// find reads an object by name through the reader of the pass, and live if that one does not show it: caches hold what
// has our label, which somebody may have taken away, and the name may be taken by an object of somebody else. It
// reports whether there is one.
func (p *pass) find(ctx context.Context, name string, into client.Object) (bool, error) {
	key := client.ObjectKey{Namespace: p.object.Namespace, Name: name}
	if found, err := get(ctx, p.reader, key, into); err != nil || found {
		return found, err
	}
	return get(ctx, p.Live, key, into)
}

func get(ctx context.Context, reader client.Reader, key client.ObjectKey, into client.Object) (bool, error) {
	if err := reader.Get(ctx, key, into); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return false, nil
		}
		return false, fmt.Errorf("get %T %s: %w", into, key.Name, err)
	}
	return true, nil
}

// readRecord finds what was frozen at the first initialisation: in the lease, where the holder has written it, in the
// settings, or on a claim. Whether the copies agree is for the plan to judge.
func (p *pass) readRecord(context.Context) error {
	p.facts.Record = recordOf(p.facts)
	return nil
}

func settingsFacts(settings *corev1.ConfigMap) database.Settings {
	facts := database.Settings{
		UID: string(settings.UID), ResourceVersion: settings.ResourceVersion,
		Deleting: settings.DeletionTimestamp != nil,
	}
	_, facts.Rolling = settings.Labels[database.LabelRoll]
	stored, err := wire.DecodeSettings([]byte(settings.Data[wire.KeySettings]))
	if err != nil {
		facts.Problem = err.Error()
		return facts
	}
	facts.Copy = database.Record{Initialised: stored.Initialised, SystemIdentifier: stored.SystemIdentifier}
	facts.DatabaseUID = stored.DatabaseUID
	facts.Hash, facts.LeaseUID, facts.Instances = stored.Hash(), stored.LeaseUID, stored.Instances
	facts.LostBefore = wire.ParseLost(settings.Annotations[wire.AnnotationLostBefore])
	for _, restart := range stored.Restarts {
		facts.Restarts = append(facts.Restarts, database.Restart(restart))
	}
	return facts
}

// recordOf takes the first copy that there is.
func recordOf(facts database.Snapshot) database.Record {
	copies := []database.Record{facts.Lease.Copy, facts.Settings.Copy}
	for _, instance := range facts.Instances {
		for _, claim := range facts.Claims(instance) {
			if claim.Claim != nil {
				copies = append(copies, claim.Copy)
			}
		}
	}
	for _, one := range copies {
		if one.Initialised {
			return one
		}
	}
	return database.Record{}
}

// compareChildren holds what the spec asks for against what is there.
func (p *pass) compareChildren(ctx context.Context) error {
	wanted, err := render.Children(design.Of(p.facts))
	if err != nil {
		// That is a mistake in the spec, not in the world: the plan refuses it.
		p.facts.Problem = err.Error()
	}
	for _, child := range wanted {
		fact, err := p.compare(ctx, child)
		if err != nil {
			return err
		}
		p.facts.Children = append(p.facts.Children, fact)
	}
	return nil
}

func (p *pass) compare(ctx context.Context, child render.Child) (database.Child, error) {
	intent, err := p.Author.Intent(child.Object, p.object.UID)
	if err != nil {
		return database.Child{}, err
	}
	live, err := p.liveOf(ctx, child)
	if err != nil {
		return database.Child{}, err
	}
	if live == nil {
		return database.Child{Kind: child.Kind, Name: child.Name, State: database.Absent}, nil
	}
	fact := database.Child{
		Kind: child.Kind, Name: child.Name, UID: string(live.GetUID()), ResourceVersion: live.GetResourceVersion(),
	}
	return service.Compared(ctx, p.TryWrite, fact, apply.Compare(intent, live), func(change apply.Change) string {
		if child.Kind == database.KindSet && strings.HasSuffix(change.Path, "].image") {
			// What waits for a restart is most often another image, which is no secret.
			return change.Path + " from " + brevity(change.From) + " to " + brevity(change.To)
		}
		return change.Path
	}), nil
}

// liveOf is the child as it is there, nil if it is not.
func (p *pass) liveOf(ctx context.Context, child render.Child) (client.Object, error) {
	if child.Kind == database.KindClaim {
		claim, err := p.claim(ctx, child.Name)
		if err != nil || claim == nil {
			return nil, err
		}
		return claim, nil
	}
	// A blank object: a live read decodes into what is there already.
	live := reflect.New(reflect.TypeOf(child.Object).Elem()).Interface().(client.Object)
	found, err := p.find(ctx, child.Name, live)
	if err != nil || !found {
		return nil, err
	}
	return live, nil
}

// brevity keeps a value within a sentence.
func brevity(value string) string {
	const most = 60
	switch {
	case value == "":
		return "nothing"
	case len(value) > most:
		return strings.ToValidUTF8(value[:most], "") + "…"
	}
	return value
}

// readSurplus finds objects of ours that the spec does not ask for any more.
func (p *pass) readSurplus(ctx context.Context) error {
	if render.HasPolicy(p.object.Spec) {
		return nil
	}
	var policy networkingv1.NetworkPolicy
	found, err := p.find(ctx, database.PodsName(p.object.Name), &policy)
	if err != nil || !found || !p.ours(&policy) || policy.DeletionTimestamp != nil {
		return err
	}
	p.facts.Surplus = append(p.facts.Surplus, database.Child{
		Kind: database.KindPolicy, Name: policy.Name, State: database.Changed,
		UID: string(policy.UID), ResourceVersion: policy.ResourceVersion,
	})
	return nil
}

// sortInstances puts the facts into the order that a Snapshot promises.
func sortInstances(instances []database.Instance) {
	slices.SortFunc(instances, func(a, b database.Instance) int { return a.Serial - b.Serial })
}
