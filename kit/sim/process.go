package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ErrCrashed is what a process that has crashed gets from every call. None of its calls has any effect any more.
var ErrCrashed = errors.New("this process has crashed")

// Verdict is what becomes of one call.
type Verdict int

const (
	// Done lets the call through.
	Done Verdict = iota
	// Refused answers with a timeout; nothing was done.
	Refused
	// Applied is refused-but-applied: the call was carried out, and the answer is the same timeout as for Refused,
	// because a client cannot tell the two apart.
	Applied
	// Conflicted answers an update, a patch or a delete with a conflict; nothing was done. It is Refused for other calls.
	Conflicted
	// CrashBefore ends the process before the call is carried out.
	CrashBefore
	// CrashAfter ends the process after the call was carried out, before it gets the answer.
	CrashAfter
)

func (v Verdict) String() string {
	switch v {
	case Done:
		return "done"
	case Refused:
		return "refused"
	case Applied:
		return "refused but applied"
	case Conflicted:
		return "conflict"
	case CrashBefore:
		return "crash before"
	case CrashAfter:
		return "crash after"
	default:
		return fmt.Sprintf("verdict %d", int(v))
	}
}

// Verb is what a call does.
type Verb string

// The verbs, in the words of the API server.
const (
	Get              Verb = "get"
	List             Verb = "list"
	Create           Verb = "create"
	Update           Verb = "update"
	Patch            Verb = "patch"
	Delete           Verb = "delete"
	DeleteCollection Verb = "deletecollection"
)

// Writes reports whether the verb can change anything.
func (v Verb) Writes() bool { return v != Get && v != List }

// Call is one request of a process to the server.
type Call struct {
	Process string
	// Number counts the calls of this life of the process from 1.
	Number      int
	Verb        Verb
	Kind        schema.GroupVersionKind
	Key         types.NamespacedName
	Subresource string
	DryRun      bool
	// UID and ResourceVersion are what a write is conditional on: it is refused for an object that has others. Empty means
	// any.
	UID             types.UID
	ResourceVersion string
}

func (c Call) String() string {
	resource := c.Kind.Kind
	if c.Subresource != "" {
		resource += "/" + c.Subresource
	}
	return fmt.Sprintf("%s %d: %s %s %s", c.Process, c.Number, c.Verb, resource, c.Key)
}

// Hook decides about each call, before it is carried out. It is called without any lock: a call is delayed past other
// actors by letting them act in the hook.
type Hook func(Call) Verdict

// Life says how a process starts.
type Life struct {
	// Name is that of the process, for calls and stories.
	Name string
	// Hook may be nil, and lets every call through then.
	Hook Hook
	// Cache is what the process reads from.
	Cache CacheOptions
	// Crashing is called when a verdict ends the process. It may be nil: then the call returns ErrCrashed, as do all
	// after it. A scheduler that runs a pass in a goroutine of its own can call runtime.Goexit here, which no recover of
	// the code under test stops.
	Crashing func()
}

// Process is one life of a program that talks to the server: from a start with empty memory to a crash. Who restarts it
// makes a new one.
type Process struct {
	server *Server
	life   Life
	cache  *Cache

	mu      sync.Mutex // A program may have several loops.
	calls   int
	crashed bool
}

// Start begins a life.
func (s *Server) Start(life Life) (*Process, error) {
	cache, err := newCache(s, life.Cache)
	if err != nil {
		return nil, err
	}
	return &Process{server: s, life: life, cache: cache}, nil
}

// Fork returns this process as it is now in a server that was forked from its own: its caches stand where they do here,
// and its calls are counted on. What its program remembers is for the program to copy.
func (p *Process) Fork(server *Server, hook Hook) *Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	forked := &Process{server: server, life: p.life, cache: p.cache.fork(server), calls: p.calls, crashed: p.crashed}
	forked.life.Hook = hook
	return forked
}

// Client returns a client that reads from the cache and writes to the server, as that of a manager does.
func (p *Process) Client() client.Client { return &apiClient{process: p, cached: true} }

// Live returns a client that reads from the server too, as the API reader of a manager does.
func (p *Process) Live() client.Client { return &apiClient{process: p} }

// Cache returns what the process reads from.
func (p *Process) Cache() *Cache { return p.cache }

// Crashed reports whether the life is over.
func (p *Process) Crashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashed
}

// Calls returns how many calls there were.
func (p *Process) Calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Crash ends the life from outside, between two calls.
func (p *Process) Crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crashed = true
}

// act carries out a call at the server. It returns what hands the answer to the caller, nil if there is nothing to hand
// over: an answer that is lost on the way must not show in the caller's objects.
type act func() (deliver func() error, err error)

// do asks for the verdict of a call and carries it out.
func (p *Process) do(ctx context.Context, call Call, carryOut act) error {
	if p.Crashed() {
		return ErrCrashed
	}
	// A deadline is of the real clock: on a slow machine it would end what takes no virtual time at all.
	if err := ctx.Err(); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	p.mu.Lock()
	p.calls++
	call.Process, call.Number = p.life.Name, p.calls
	p.mu.Unlock()
	verdict := Done
	if p.life.Hook != nil {
		verdict = p.life.Hook(call)
	}
	if p.Crashed() { // by the hook, or by an actor that it let act
		return p.crash()
	}
	switch verdict {
	case Done:
		deliver, err := carryOut()
		if err != nil || deliver == nil {
			return err
		}
		return deliver()
	case Applied:
		_, _ = carryOut() // The answer is lost, whatever it was.
		return timeout(call)
	case Conflicted:
		if call.Verb == Update || call.Verb == Patch || call.Verb == Delete {
			return apierrors.NewConflict(p.server.resource(call.Kind), call.Key.Name, errors.New("the object has been modified"))
		}
		return timeout(call)
	case CrashBefore:
		return p.crash()
	case CrashAfter:
		_, _ = carryOut() // Nobody is there any more to hear the answer.
		return p.crash()
	case Refused:
		return timeout(call)
	default:
		return fmt.Errorf("call %s: unknown %s", call, verdict)
	}
}

func (p *Process) crash() error {
	p.Crash()
	if p.life.Crashing != nil {
		p.life.Crashing()
	}
	return ErrCrashed
}

func timeout(call Call) error {
	return apierrors.NewTimeoutError(fmt.Sprintf("%s %s: request did not complete", call.Verb, call.Key), 0)
}

func (s *Server) resource(kind schema.GroupVersionKind) schema.GroupResource {
	if found, ok := s.byKind[kind]; ok {
		return found.kind.resource()
	}
	return schema.GroupResource{Group: kind.Group, Resource: kind.Kind}
}
