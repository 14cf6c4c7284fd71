package search

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/sim"
)

// Scenario is a world, what happens in it, and what must hold.
type Scenario struct {
	// Name goes into files and messages.
	Name string
	// Scheme and Kinds are those of the server.
	Scheme *runtime.Scheme
	Kinds  []sim.Kind
	// From is where the story begins, nil for an empty world. See Settle.
	From *Settled
	// Setup makes what is there from the beginning. It may be nil.
	Setup func(ctx context.Context, cluster client.Client) error
	// Programs are what is tested.
	Programs []Program
	// Actors are what is modelled of the cluster: kubelets, controllers of workloads.
	Actors []Actor
	// Script is what users do, in this order, each when the world has come to rest or earlier.
	Script []Step
	// Chance are kinds whose content comes from outside of the simulation and differs from run to run, such as keys that
	// are made by a library. Only the names of their objects count when runs are compared.
	Chance []schema.GroupVersionKind
	// Always is asked after every write of anybody, and Finally when nothing is left to do. Either may be nil.
	Always, Finally func(State) error
	// Calls is asked about every write of a program right before it is carried out, with the world as it is then. It may
	// be nil. What is not carried out, because its verdict says so, is not asked about.
	Calls func(State, sim.Call) error
}

// Program is one program under test. It is run by one process at a time, except while one is overtaken by another.
type Program struct {
	Name string
	// Start begins a life with empty memory.
	Start func(Birth) (reconcile.Reconciler, error)
	// Fork returns a copy of what Start or Fork has returned, with the same memory, for another world in which everything
	// is the same up to now. It may be nil. If all programs have it, schedules that begin in the same way share their
	// beginning, which makes a search about twice as fast.
	Fork func(Birth, reconcile.Reconciler) (reconcile.Reconciler, error)
	// Memory tells all that a program remembers and that can make a difference to what it does: two programs that tell
	// the same, and see the same in their caches, do the same. It may be nil. If all programs have it, runs of a
	// search that come to the same state are carried on once.
	Memory func(reconcile.Reconciler) string
	// Watches say what leads to a pass. A kind that is read from the cache without one is followed from then on.
	Watches []Watch
	// Namespace restricts the cache, empty for all. Uncached are kinds that are read live.
	Namespace string
	Uncached  []schema.GroupVersionKind
}

// watched are the kinds of the watches.
func (p *Program) watched() []schema.GroupVersionKind {
	kinds := make([]schema.GroupVersionKind, 0, len(p.Watches))
	for _, watch := range p.Watches {
		kinds = append(kinds, watch.Kind)
	}
	return kinds
}

// Birth is what a new process has.
type Birth struct {
	// Process has the clients: Client reads from the cache, Live does not.
	Process *sim.Process
	// Now is the virtual clock.
	Now func() time.Time
	// Leads asks the API server whether this process still leads, as a live read of the lease of a leader election does.
	// It is a conflict if another one has taken over.
	Leads func(context.Context) error
	// Cluster is for what is modelled of others that the program talks to without the API server.
	Cluster client.Client
}

// Watch is a kind in the cache of a program, and the requests that an event of it leads to.
type Watch struct {
	Kind schema.GroupVersionKind
	Map  func(*unstructured.Unstructured) []reconcile.Request
	// News says which changes lead to requests, as a predicate does; all if nil. Neither object may be changed.
	News func(before, after *unstructured.Unstructured) bool
}

// Itself watches a kind, and asks for a pass over the object itself.
func Itself(kind schema.GroupVersionKind) Watch {
	return Watch{Kind: kind, Map: func(object *unstructured.Unstructured) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(object)}}
	}}
}

// Owned watches a kind, and asks for a pass over the controller of the object, if it is of the kind of the owner.
func Owned(kind, owner schema.GroupVersionKind) Watch {
	return Watch{Kind: kind, Map: func(object *unstructured.Unstructured) []reconcile.Request {
		for _, reference := range object.GetOwnerReferences() {
			if reference.Controller != nil && *reference.Controller && reference.Kind == owner.Kind &&
				reference.APIVersion == owner.GroupVersion().String() {
				key := types.NamespacedName{Namespace: object.GetNamespace(), Name: reference.Name}
				return []reconcile.Request{{NamespacedName: key}}
			}
		}
		return nil
	}}
}

// Actor is a part of the cluster that is modelled.
type Actor struct {
	Name string
	// Step does one thing, if there is one to do, and tells whether it did. After it had nothing to do, it is asked again
	// when something was written.
	Step func(ctx context.Context, cluster client.Client) (bool, error)
	// Timed actors are also asked again when time has passed.
	Timed bool
}

// Step is one thing that a user does.
type Step struct {
	Name string
	// Do may be nil.
	Do func(ctx context.Context, cluster client.Client) error
	// Wait lets time pass after that.
	Wait time.Duration
	// Restarts are programs that begin a new life then, as they do for another version.
	Restarts []string
}

// clockKey is the key of the virtual clock in the context of steps and actors.
type clockKey struct{}

// Now is the virtual time, for steps and actors.
func Now(ctx context.Context) time.Time {
	if now, ok := ctx.Value(clockKey{}).(func() time.Time); ok {
		return now()
	}
	return new(sim.Clock).Now()
}

// State is the world right after one write.
type State struct {
	// Reader shows everything as it was then.
	client.Reader
	// Events are all writes up to then.
	Events []sim.Event
	// Version is that of the last of them, Now the time.
	Version uint64
	Now     time.Time
	// At shows everything as it was at another version, such as the one before.
	At func(version uint64) client.Reader
}

// Violation is a rule that was broken.
type Violation struct {
	// Rule is Always, Finally, or one of the rules of this package: Rest, Panic, World, Same.
	Rule   string `json:"rule"`
	Detail string `json:"detail"`
}

func (v Violation) String() string { return v.Rule + ": " + v.Detail }

func (s *Scenario) check() error {
	var problems []error
	if s.Scheme == nil {
		problems = append(problems, errors.New("it has no scheme"))
	}
	if len(s.Programs) == 0 {
		problems = append(problems, errors.New("it has no program"))
	}
	seen := map[string]bool{}
	for _, program := range s.Programs {
		if program.Start == nil || program.Name == "" || seen[program.Name] {
			problems = append(problems, fmt.Errorf("the program %q needs a name of its own and a start", program.Name))
		}
		seen[program.Name] = true
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("check the scenario %q: %w", s.Name, err)
	}
	return nil
}
