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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/pki"
)

// Observer reads for passes.
type Observer struct {
	// Live reads from the API server: Secrets and storage classes, by name.
	Live client.Reader
	// Author recognises our children.
	Author apply.Author
	Images database.Images
	Now    func() time.Time
	// Ask gets the report of an agent. It keeps to the time limit of its context.
	Ask func(ctx context.Context, agent Agent) (wire.Report, error)
}

// Agent is where an agent is reached, and as whom.
type Agent struct {
	// Address is that of the pod, Host the name that its certificate must have.
	Address, Host string
	Material      pki.Material
}

// pass is one observation under way.
type pass struct {
	Observer
	reader client.Reader
	object *v1alpha1.GeoDatabase
	facts  database.Snapshot
	// material is what the operator presents to agents, nil while there is none.
	material *pki.Material
	// addresses are those of the pods, by instance.
	addresses map[string]string
}

// Observe takes the snapshot of one database.
func (o Observer) Observe(
	ctx context.Context, reader client.Reader, object *v1alpha1.GeoDatabase,
) (database.Snapshot, error) {
	p := &pass{Observer: o, reader: reader, object: object, addresses: map[string]string{}}
	p.facts = database.Snapshot{
		Now: o.Now(), Images: o.Images, Spec: object.Spec,
		Identity: database.Identity{
			Namespace: object.Namespace, Name: object.Name, UID: string(object.UID), Generation: object.Generation,
		},
		Deleting: object.DeletionTimestamp != nil,
		Guarded:  controllerutil.ContainsFinalizer(object, database.Finalizer),
	}
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"instances", p.readInstances},
		{"secrets", p.readSecrets},
		{"reports", p.readReports},
		{"record", p.readRecord},
		{"route", p.readRoute},
		{"storage classes", p.readClasses},
		{"children", p.compareChildren},
	} {
		if err := step.read(ctx); err != nil {
			return database.Snapshot{}, fmt.Errorf("read %s: %w", step.what, err)
		}
	}
	return p.facts, nil
}

// ours says whether a child belongs to this database, and not to an earlier one of the same name.
func (p *pass) ours(child client.Object) bool {
	if controller := metav1.GetControllerOfNoCopy(child); controller != nil {
		return controller.UID == p.object.UID
	}
	return child.GetAnnotations()[p.Author.Prefix+"/owner"] == string(p.object.UID)
}

// find reads an object by name through the reader of the pass. It reports whether there is one.
func (p *pass) find(ctx context.Context, name string, into client.Object) (bool, error) {
	return get(ctx, p.reader, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, into)
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

// readRecord finds what was frozen at the first initialisation: in the settings, on a claim, or, the first time, in the
// report of the instance that has just made the data. Whether the copies agree is for the plan to judge.
func (p *pass) readRecord(ctx context.Context) error {
	var settings corev1.ConfigMap
	found, err := p.find(ctx, database.SettingsName(p.object.Name), &settings)
	if err != nil {
		return err
	}
	if found && p.ours(&settings) {
		p.facts.Settings = settingsFacts(&settings)
	}
	p.facts.Record = recordOf(p.facts)
	return nil
}

func settingsFacts(settings *corev1.ConfigMap) database.Settings {
	facts := database.Settings{
		UID: string(settings.UID), ResourceVersion: settings.ResourceVersion,
		Deleting: settings.DeletionTimestamp != nil,
	}
	stored, err := wire.DecodeSettings([]byte(settings.Data[wire.KeySettings]))
	if err != nil {
		facts.Problem = err.Error()
		return facts
	}
	facts.Copy = database.Record{Initialised: stored.Initialised, SystemIdentifier: stored.SystemIdentifier}
	return facts
}

// recordOf takes the first copy that there is. A failed instance teaches nothing: it may have the volume of another.
func recordOf(facts database.Snapshot) database.Record {
	if facts.Settings.Copy.Initialised {
		return facts.Settings.Copy
	}
	for _, instance := range facts.Instances {
		if instance.Claim != nil && instance.Claim.Copy.Initialised {
			return instance.Claim.Copy
		}
	}
	for _, instance := range facts.Instances {
		report := instance.Report
		if report.Reachable && report.SystemIdentifier != "" && report.State != string(wire.StateFailed) {
			return database.Record{Initialised: true, SystemIdentifier: report.SystemIdentifier}
		}
	}
	return database.Record{}
}

func (p *pass) readRoute(ctx context.Context) error {
	var service corev1.Service
	found, err := p.find(ctx, database.WriteName(p.object.Name), &service)
	if found && p.ours(&service) {
		p.facts.Routed = service.Spec.Selector[database.LabelInstance]
	}
	return err
}

// compareChildren holds what the spec asks for against what is there.
func (p *pass) compareChildren(ctx context.Context) error {
	wanted, err := render.Children(render.DesignOf(p.facts))
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
	// A blank object: a live read decodes into what is there already.
	live := reflect.New(reflect.TypeOf(child.Object).Elem()).Interface().(client.Object)
	found, err := p.find(ctx, child.Name, live)
	if err != nil {
		return database.Child{}, err
	}
	if !found {
		return database.Child{Kind: child.Kind, Name: child.Name, State: database.Absent}, nil
	}
	difference := apply.Compare(intent, live)
	fact := database.Child{
		Kind: child.Kind, Name: child.Name, State: database.State(difference.State), Problem: difference.Problem,
		UID: string(live.GetUID()), ResourceVersion: live.GetResourceVersion(),
	}
	for _, change := range difference.Changes {
		// Values are left out: a plan is shown in events, and a page of settings is no sentence.
		text := change.Path
		if len(change.By) > 0 {
			text += " by " + strings.Join(change.By, ", ")
		}
		fact.Changes = append(fact.Changes, text)
	}
	return fact, nil
}

// sortInstances puts the facts into the order that a Snapshot promises.
func sortInstances(instances []database.Instance) {
	slices.SortFunc(instances, func(a, b database.Instance) int { return a.Serial - b.Serial })
}
