package controller_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/act"
	"meridian.dev/meridian/internal/redis/controller"
	"meridian.dev/meridian/internal/redis/observe"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// world is a model of a pod with a server in it. The server is strict: it complains of what would be the end of a real
// one, and remembers how often it was started.
type world struct {
	t        *testing.T
	settings wire.CacheSettings
	unusable error // Why the settings cannot be read.
	password string
	mounted  string
	limit    int64

	installed string
	process   redis.Process
	server    redis.Server
	values    map[string]string // Parameters in force, as the server shows them.
	said      map[string]string
	refused   map[string]string
	fixed     []string
	starts    int

	// immutable are parameters that the server takes at its start only, deadly those that it does not start with.
	immutable, deadly []string
	// fail is asked before each effect: its error is that of the effect.
	fail    func(effect string) error
	effects []string
	// standing is what the loop was told last, and admitted what replicas log in with.
	standing tenure.Standing
	track    *observe.Track
	admitted string
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, password: "p1", mounted: "c1", limit: wire.CacheLimit(64 << 20)}
	w.settings = wire.CacheSettings{
		CacheUID: "u1", Cache: "tiles", Engine: "redis", Memory: 64 << 20, EvictionPolicy: "allkeys-lru",
	}.Canonical()
	return w
}

func (w *world) loop() *controller.Loop {
	track := &observe.Track{}
	w.track = track
	return controller.New(&observe.Observer{
		Instance: "tiles-1", Cache: "tiles", Clock: w, Mounts: w, Room: w, Runner: runner{w}, Link: w, Track: track,
	}, &act.Actor{
		Mounts: w, Runner: runner{w}, Link: w, Clock: w, Memory: track, Authority: w, Names: w,
	}, logr.Discard())
}

// agree plays the loop of the lease of a cache with one instance. It reports whether it has said something new.
func (w *world) agree(loop *controller.Loop) bool {
	next, facts := w.standing, loop.Facts()
	switch {
	case !facts.Known:
		return false
	case w.standing.Role == "" || facts.Lost != "" && facts.Lost == w.standing.SystemIdentifier:
		next = tenure.Standing{
			Role: tenure.RoleBegin, Term: w.standing.Term + 1, Timeline: w.standing.Timeline + 1,
			Incarnation: fmt.Sprintf("i%d", w.standing.Term+1),
		}
	case w.standing.Role == tenure.RoleBegin && facts.SystemIdentifier == w.standing.Incarnation:
		next.Role, next.Initialised, next.SystemIdentifier = tenure.RoleLead, true, facts.SystemIdentifier
	case facts.Leading != nil && w.standing.Role == tenure.RoleLead:
		next.OpenStart = facts.Leading.Start
	}
	if reflect.DeepEqual(next, w.standing) {
		return false
	}
	next.Serial++
	w.standing = next
	loop.Obey(next)
	return true
}

func (w *world) MayLead(uint64) error                     { return nil }
func (w *world) Confirm(context.Context, uint64) error    { return nil }
func (w *world) Exclude(_ uint64, act func() error) error { return act() }
func (*world) Places() []tenure.Place                     { return nil }

func (w *world) Find(context.Context, string) (string, error) { return "10.0.0.1", nil }

func (w *world) Replication(context.Context) (redis.Replication, error) {
	if !w.server.Reachable {
		return redis.Replication{}, errOnPurpose
	}
	return w.server.Replication, nil
}

func (w *world) Follow(_ context.Context, upstream wire.Member, address, _ string) error {
	return w.effect("follow "+upstream.String(), func() {
		w.server.Replication = redis.Replication{Replica: true, Host: address, Knows: true, Offset: w.server.Offset}
	})
}

func (w *world) Detach(context.Context) error {
	return w.effect("detach", func() { w.server.Replica, w.server.Host, w.server.Up = true, "", false })
}

func (w *world) Promote(context.Context) error {
	return w.effect("promote", func() { w.server.Replication = redis.Replication{Offset: w.server.Offset} })
}

func (w *world) Admit(_ context.Context, _ string, logins redis.Logins) error {
	return w.effect("admit", func() { w.admitted = logins.Application[0] })
}

func (w *world) CloseDoor(context.Context) error {
	return w.effect("close", func() { w.server.Open = false })
}

func (w *world) Flush(context.Context) error { return w.effect("flush", func() {}) }

func (w *world) Far(_ wire.Member, _ string, _ redis.Logins, tell func(int64, error)) {
	tell(0, redis.ErrUnasked)
}

func (w *world) HearReplicas(context.Context) error {
	return w.effect("hear", func() {
		for at := range w.server.Sent {
			w.server.Sent[at].Offset = w.server.Offset
		}
	})
}

func (w *world) End(context.Context) error {
	return w.effect("end", func() { w.process.Running = false; w.server = redis.Server{} })
}

// rest runs passes until one does nothing, and returns what it shows.
func (w *world) rest(loop *controller.Loop) controller.State {
	w.t.Helper()
	for range 50 {
		before := len(w.effects)
		loop.Pass(context.Background(), false)
		if told := w.agree(loop); len(w.effects) == before && !told {
			state, _ := loop.State()
			return state
		}
	}
	w.t.Fatalf("no rest after 50 passes: %v", w.effects)
	return controller.State{}
}

func (w *world) effect(name string, do func()) error {
	w.effects = append(w.effects, name)
	if w.fail != nil {
		if err := w.fail(name); err != nil {
			return err
		}
	}
	do()
	return nil
}

// die ends the server without being asked.
func (w *world) die() {
	w.process.Running, w.process.Exit = false, "ended by signal killed"
	w.process.Failures++
	w.server = redis.Server{}
}

func (w *world) Now() time.Time { return time.Unix(1_800_000_000, 0) }
func (w *world) Limit() int64   { return w.limit }
func (w *world) Passwords() (redis.Passwords, error) {
	return redis.Passwords{Present: w.password}, nil
}
func (w *world) Settings() (wire.CacheSettings, error) { return w.settings, w.unusable }
func (w *world) Presented(context.Context) (string, error) {
	return "leaf of " + w.server.Loaded, nil
}

func (w *world) Certificate() redis.Certificate {
	return redis.Certificate{Mounted: w.mounted, Installed: w.installed, Leaf: "leaf of " + w.installed}
}

func (w *world) InstallCertificate(identity string) error {
	return w.effect("install", func() { w.installed = identity })
}

// runner tells the methods of a Runner from those of the rest.
type runner struct{ *world }

func (r runner) Look() redis.Process { return r.process }

func (r runner) Start(how redis.StartServer) error {
	return r.effect("start", func() {
		w := r.world
		if w.process.Running || how.Memory <= 0 || wire.CacheLimit(how.Memory) > w.limit {
			w.t.Errorf("started with %+v in a container of %d, running %t", how, w.limit, w.process.Running)
		}
		w.starts++
		w.values, w.said, w.refused = map[string]string{}, map[string]string{}, map[string]string{}
		w.process = redis.Process{
			Running: true, Incarnation: cmp.Or(how.Incarnation, fmt.Sprintf("r%d", w.starts)), Fixed: how.Fixed,
			Unfit: w.process.Unfit,
		}
		for _, parameter := range how.Fixed {
			if slices.Contains(w.deadly, parameter.Name) {
				w.process.Running, w.process.Exit, w.process.Failures = false, "exit code 1", 1
				w.process.Unfit = append(w.process.Unfit, how.Fixed...)
				return
			}
		}
		w.server = redis.Server{
			Reachable: true, MaxMemory: how.Memory, Policy: how.Policy, Loaded: how.Certificate,
		}
	})
}

func (r runner) Stop(context.Context) error {
	return r.effect("stop", func() {
		r.process = redis.Process{
			Exit: "exit code 0", Incarnation: r.process.Incarnation, Fixed: r.process.Fixed, Unfit: r.process.Unfit,
		}
		r.server = redis.Server{}
	})
}

func (r runner) Kill() error { return r.Stop(context.Background()) }

func (r runner) KillLeftover() error { return r.effect("kill", func() { r.process.Leftover = 0 }) }

func (w *world) Server(_ context.Context, names []string, logins redis.Logins) redis.Server {
	password := logins.Application[0]
	facts := w.server
	facts.Matches, facts.Admits = facts.Open && w.said["password"] == password, w.admitted == password
	for name := range w.said {
		if name != "password" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		facts.Parameters = append(facts.Parameters, redis.Parameter{
			Name: name, Set: w.said[name], InForce: w.said[name] != "" && w.values[name] == "="+w.said[name],
			Tried: w.refused[name], Refused: w.refused[name],
		})
	}
	return facts
}

func (w *world) Fixed() []string { return w.fixed }

func (w *world) LoadCertificate(_ context.Context, identity string) error {
	return w.effect("load", func() { w.server.Loaded = identity })
}

func (w *world) SetWaiting(_ context.Context, bytes int64) error {
	return w.effect("waiting", func() { w.server.Waiting = bytes })
}

func (w *world) SetMemory(_ context.Context, bytes int64) error {
	return w.effect("memory", func() {
		if bytes <= 0 || wire.CacheLimit(bytes) > w.limit {
			w.t.Errorf("%d bytes in a container of %d", bytes, w.limit)
		}
		w.server.MaxMemory = bytes
	})
}

func (w *world) SetPolicy(_ context.Context, policy string) error {
	return w.effect("policy", func() { w.server.Policy = policy })
}

func (w *world) SetParameter(_ context.Context, parameter wire.Parameter) error {
	return w.effect("set "+parameter.Name, func() {
		switch {
		case slices.Contains(w.immutable, parameter.Name):
			w.fixed = append(w.fixed, parameter.Name)
		case parameter.Value == "nonsense":
			w.refused[parameter.Name] = parameter.Value
		default:
			w.said[parameter.Name], w.values[parameter.Name] = parameter.Value, "="+parameter.Value
		}
	})
}

func (w *world) ResetParameter(_ context.Context, name string) error {
	return w.effect("reset "+name, func() { delete(w.said, name); delete(w.values, name) })
}

func (w *world) OpenDoor(_ context.Context, logins redis.Logins) error {
	return w.effect("open", func() {
		if w.server.MaxMemory <= 0 || w.server.Policy == "" {
			w.t.Error("let in before the memory is bounded")
		}
		w.server.Open, w.said["password"] = true, logins.Application[0]
	})
}

func (w *world) ReturnMemory(context.Context) error { return w.effect("return", func() {}) }

var errOnPurpose = errors.New("on purpose")
