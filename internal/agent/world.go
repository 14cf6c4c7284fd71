package agent

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/backup/keep"
	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/names"
	"meridian.dev/meridian/kit/supervise"
)

// world is both loops and everything real that they stand on.
type world struct {
	*tenancy
	real     *server.World
	instance *controller.Loop
	keeper   *keep.Keeper
}

func connect(
	life context.Context, options Options, supervisor *supervise.Supervisor, lines func([]byte), log logr.Logger,
) (*world, error) {
	w := &world{}
	// Nothing of the pod's environment reaches PostgreSQL by chance.
	env := []string{"PATH=" + options.Path, "LC_ALL=C.UTF-8", "TZ=UTC", "HOME=/tmp"}
	w.real = server.New(server.Place{
		Volume: options.Volume, Log: options.LogVolume, Runtime: options.Runtime, Settings: options.Settings,
		App: options.App, TLS: options.TLS, Host: hostOf(options.Database, options.Instance, options.Namespace),
		Supervisor: supervisor, Env: env, Lines: lines, Fast: options.Fast, Immediate: options.Immediate,
	})
	ports := w.real.Ports()
	api, err := options.API.server()
	if err != nil {
		return nil, err
	}
	own := newClaims(api, options, log)
	ports.Claim, ports.ReadClaim, ports.Repository = own.look, own.readNow, w.repository
	ports.Restores = w.newRestores(options, supervisor, env, log)
	w.instance = controller.New(ports, controller.Identity{
		Instance: options.Instance, Database: options.Database, Runtime: options.Runtime, Listen: options.Listen,
		Fresh: newID,
	}, log)
	own.changed = w.instance.Wake
	go own.learn(life)
	w.tenancy, err = newTenancy(life, seat{
		Options: options, owner: options.Database, route: child(options.Database, "rw"), supervisor: supervisor,
		port:     wire.PortPostgres,
		material: w.real.Mounts.Material, wishes: &wishes{read: w.real.Mounts.Settings}, body: w.instance,
		looked: func() (time.Duration, bool) { state, ok := w.instance.State(); return time.Since(state.At), ok },
	}, log)
	if err != nil {
		return nil, err
	}
	w.instance.Authority = w.tenure
	w.instance.Instant = w.clock.Now
	w.instance.Yield = func(token string) {
		// The loop of the lease decides. Whoever asks does not wait for it, and asks again if nothing comes of it.
		go w.tell(tenure.SwitchoverAsked{Switchover: wire.Switchover{ID: "restart-" + token}})
	}
	w.keeper = w.newKeeper(options, supervisor, env, log)
	go w.keeper.Run(life)
	return w, w.guard.keep()
}

// newID makes a random id of a copy. It is short, because PostgreSQL cuts the name of a replica, which is that of the
// instance and this, at 63 bytes; of 50 random bits no two copies of one database are the same.
func newID() string { return strings.ToLower(rand.Text()[:10]) }

// child names an object of the database as the operator does.
func child(database, role string) string { return names.LetterLabel().Within(52).Child(database, role) }

func (w *world) servers(log logr.Logger) *servers {
	return &servers{
		state: w.instance.State, now: time.Now, log: log, peers: w.peers,
		tenure: w.shown, backup: w.keeper.Report,
	}
}

func (w *world) close() {
	w.guard.close()
	w.real.Close()
}

// Environment reads from the pod what the operator has not said.
func (o *Options) Environment(get func(string) string) {
	o.Database, o.Instance = get(wire.EnvDatabase), get(wire.EnvInstance)
	o.Namespace, o.Pod, o.PodUID = get(wire.EnvPodNamespace), get(wire.EnvPodName), get(wire.EnvPodUID)
	o.Address = get(wire.EnvPodIP)
	o.Path, o.LogVolume = get("PATH"), get(wire.EnvLogVolume)
	o.API = APIOptions{
		Host: get("KUBERNETES_SERVICE_HOST"), Port: get("KUBERNETES_SERVICE_PORT"),
		Folder: "/var/run/secrets/kubernetes.io/serviceaccount",
	}
}
