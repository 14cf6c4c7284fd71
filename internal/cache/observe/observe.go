// Package observe reads everything that one pass needs to know about a cache, once, and interprets it into the small
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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/design"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/pki"
)

// Observer reads for passes.
type Observer struct {
	// Live reads Secrets from the API server, by name.
	Live client.Reader
	// Author recognises our children.
	Author apply.Author
	Images cache.Images
	Now    func() time.Time
	// AskTime asks the API server for its time before certificates are made. Without it no clock is compared.
	AskTime service.AskTime
	// Pulse knows when leases were last seen to change. Without one no lease ever expires.
	Pulse *service.Pulse
	// TryWrite says what admission would make of a write. Without it no field is tolerated.
	TryWrite service.TryWrite
	// Ask gets the report of an agent. It keeps to the time limit of its context.
	Ask func(ctx context.Context, agent service.Agent) (wire.CacheReport, error)
}

// pass is one observation under way.
type pass struct {
	Observer
	reader client.Reader
	object *v1alpha1.GeoCache
	facts  cache.Snapshot
	// material is what the operator presents to agents, nil while there is none.
	material *pki.Material
}

// Observe takes the snapshot of one cache.
func (o Observer) Observe(
	ctx context.Context, reader client.Reader, object *v1alpha1.GeoCache,
) (cache.Snapshot, error) {
	p := &pass{Observer: o, reader: reader, object: object}
	p.facts = cache.Snapshot{
		Now: o.Now(), Images: o.Images, Spec: object.Spec, Deleting: object.DeletionTimestamp != nil,
		WasReady: condition.IsTrue(object.Status.Conditions, v1alpha1.ConditionReady),
		Identity: cache.Identity{
			Namespace: object.Namespace, Name: object.Name, UID: string(object.UID), Generation: object.Generation,
		},
	}
	for _, step := range []struct {
		what string
		read func(context.Context) error
	}{
		{"database", p.readDatabase},
		{"lease", p.readLease},
		{"settings", p.readSettings},
		{"request", p.readRequest},
		{"instances", p.readInstances},
		{"secrets", p.readSecrets},
		{"reports", p.readReports},
		{"route", p.readRoute},
		{"the read address", p.readReads},
		{"children", p.compareChildren},
	} {
		if err := step.read(ctx); err != nil {
			return cache.Snapshot{}, fmt.Errorf("read %s: %w", step.what, err)
		}
	}
	return p.facts, nil
}

// ours says whether a child belongs to this cache, and not to an earlier one of the same name.
func (p *pass) ours(child client.Object) bool {
	if controller := metav1.GetControllerOfNoCopy(child); controller != nil {
		return controller.UID == p.object.UID
	}
	return child.GetAnnotations()[cache.AnnotationOwner] == string(p.object.UID)
}

// find reads an object by name through the given reader. It reports whether there is one.
func (p *pass) find(ctx context.Context, from client.Reader, name string, into client.Object) (bool, error) {
	err := from.Get(ctx, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, into)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get %T %s: %w", into, name, err)
	}
	return err == nil, nil
}

func (p *pass) readDatabase(ctx context.Context) error {
	var database v1alpha1.GeoDatabase
	found, err := p.find(ctx, p.reader, p.object.Spec.DatabaseRef.Name, &database)
	if found {
		p.facts.Database = cache.Database{
			Exists: true, UID: string(database.UID), Deleting: database.DeletionTimestamp != nil,
			Hibernated: database.Spec.Hibernated,
		}
	}
	for _, owner := range p.object.OwnerReferences {
		if owner.Kind == "GeoDatabase" && owner.Name == p.object.Spec.DatabaseRef.Name {
			p.facts.Follows = string(owner.UID)
		}
	}
	return err
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

func (p *pass) compare(ctx context.Context, child render.Child) (cache.Child, error) {
	fact := cache.Child{Kind: child.Kind, Name: child.Name, State: cache.Absent}
	intent, err := p.Author.Intent(child.Object, p.object.UID)
	if err != nil {
		return fact, err
	}
	// A blank object: a live read decodes into what is there already.
	live := reflect.New(reflect.TypeOf(child.Object).Elem()).Interface().(client.Object)
	if found, err := p.findSurely(ctx, child.Name, live); err != nil || !found {
		return fact, err
	}
	fact.UID, fact.ResourceVersion = string(live.GetUID()), live.GetResourceVersion()
	return service.Compared(ctx, p.TryWrite, fact, apply.Compare(intent, live), nil), nil
}
