//go:build !cluster

package controller_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/controller"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// world is a model of a pod and its volume. What is in volume and inside outlives the agent; the rest does not.
type world struct {
	t        *testing.T
	settings wire.Settings
	password string
	cert     string
	made     int // Data directories that were ever completed.
	// databases counts those that were ever made for the application.
	databases int
	// full says that nothing can be written to the volume.
	full bool
	// size and free are those of the volume, with what is held back; size is 0 for a volume without bounds.
	size, free, reserve uint64
	news                int // Incarnations that were ever drawn.
	// unreadable says that the volume cannot be read; standstill is closed when the disk moves again, nil if it does.
	unreadable bool
	standstill chan struct{}

	volume struct {
		record *postgres.Record
		data   postgres.Data
		files  map[string]string
	}
	content struct {
		role, database bool
		agents         bool
		password       string
		extensions     []string
	}
	installed string

	locked  bool
	running bool
	// mute says that the server does not answer; passed is how much time has.
	mute   bool
	hung   bool // Whether the probe finds that the server does not write.
	passed time.Duration
	starts int
	// restarted is the token that the server was started by.
	restarted string
	loaded    map[string]string // The files as the server has loaded them.
	// readOnly says that these let nobody write.
	readOnly bool

	// claim is what the API server says of the claim of the volume; copies makes copies of another server.
	// claimNow is what it says since a moment ago, if that is not known yet.
	claim, claimNow postgres.Claim
	copies          postgres.Copies

	// standing is what the instance is told to be, facts what it said last.
	standing tenure.Standing

	// crashAt is the number of the effect at which the agent dies, before it or after it.
	crashAt, effects int
	after            bool
	trace            []string
}

type crash struct{}

var errNoRoom = errors.New("no space left on device")

func newWorld(t *testing.T) *world {
	w := &world{t: t, password: "p1", cert: "c1", copies: copies{}}
	w.settings = wire.Settings{
		Version: 1, DatabaseUID: "u1", Database: "cities", Major: 17, Extensions: []string{"postgis"},
		Application: wire.Application{Database: "app", Owner: "app"},
	}.Canonical()
	w.volume.data = postgres.Data{Presence: postgres.DataAbsent}
	w.volume.files = map[string]string{}
	w.standing = tenure.Standing{Serial: 1, Role: tenure.RoleBegin, Term: 1, Incarnation: "first"}
	return w
}

// effect is one change of the world, where the agent may die before or after it.
func (w *world) effect(name string, do func()) error {
	w.effects++
	w.trace = append(w.trace, name)
	if w.effects == w.crashAt && !w.after {
		panic(crash{})
	}
	do()
	if w.effects == w.crashAt {
		panic(crash{})
	}
	return nil
}

// restart is what a new pod finds.
func (w *world) restart() {
	w.locked, w.running, w.loaded = false, false, nil
	w.installed = ""
}

func (w *world) loop() *controller.Loop {
	loop := controller.New(postgres.Ports{
		Clock: w, Mounts: w, Disk: w, Runner: process{w}, SQL: inside{w}, Copies: w.copies, Probe: probe{w},
		Claim:     func(string) postgres.Claim { return w.claim },
		ReadClaim: func(context.Context) (postgres.Claim, error) { return cmp.Or(w.claimNow, w.claim), nil },
		Go:        func(work func()) { work() },
	}, controller.Identity{
		Instance: "cities-1", Database: "cities", Runtime: "/run/meridian", Fresh: func() string {
			w.news++
			return fmt.Sprintf("i%d", w.news)
		},
	}, logr.Discard())
	loop.Authority = authority{w}
	loop.Obey(w.standing)
	return loop
}

// authority lets the instance do what it was told last.
type authority struct{ *world }

func (a authority) MayLead(serial uint64) error { return a.present(serial) }

func (a authority) Confirm(_ context.Context, serial uint64) error { return a.present(serial) }

func (a authority) Exclude(serial uint64, act func() error) error {
	if err := a.present(serial); err != nil {
		return err
	}
	return act()
}

func (authority) Places() []tenure.Place { return nil }

func (a authority) present(serial uint64) error {
	if serial != a.standing.Serial {
		return errors.New("outdated")
	}
	return nil
}

// passes runs the loop, with new pods after crashes, until a pass does nothing, and returns what it reports then.
func (w *world) passes() controller.State {
	w.t.Helper()
	loop := w.loop()
	for range 60 {
		before := w.effects
		if died := w.pass(loop); died {
			w.restart()
			loop = w.loop()
			continue
		}
		state, _ := loop.State()
		if w.effects == before && !w.operate(loop) {
			return state
		}
	}
	w.t.Fatalf("no rest after 60 passes: %v", w.trace)
	return controller.State{}
}

// settle runs a loop until it has nothing more to do.
func (w *world) settle(loop *controller.Loop) *controller.Loop {
	w.t.Helper()
	for range 60 {
		before := w.effects
		w.pass(loop)
		if w.effects == before && !w.operate(loop) {
			return loop
		}
	}
	w.t.Fatalf("no rest after 60 passes: %v", w.trace)
	return nil
}

// operate is the part of the lease: the first data is told of, then the instance leads, then its gate is opened.
func (w *world) operate(loop *controller.Loop) (changed bool) {
	facts := loop.Facts()
	next := w.standing
	switch {
	case !w.standing.Initialised && facts.SystemIdentifier != "":
		next = tenure.Standing{
			Role: tenure.RoleLead, Term: 1, Timeline: 1, Initialised: true, SystemIdentifier: facts.SystemIdentifier,
			Members: []wire.Member{{Name: "cities-1", Incarnation: facts.Incarnation}},
		}
	case facts.Leading != nil && next.OpenStart != facts.Leading.Start:
		next.OpenStart = facts.Leading.Start
	default:
		return false
	}
	next.Serial++
	w.standing = next
	next.Serial = w.standing.Serial
	loop.Obey(next)
	return true
}

func (w *world) pass(loop *controller.Loop) (died bool) {
	defer func() {
		switch reason := recover().(type) {
		case nil:
		case crash:
			died = true
		default:
			panic(reason)
		}
	}()
	loop.Pass(context.Background(), false)
	return false
}

func (w *world) Now() time.Time { return time.Unix(1_800_000_000, 0).Add(w.passed) }

func (w *world) Settings() (wire.Settings, error) { return w.settings, nil }

func (w *world) Certificate() postgres.Certificate {
	return postgres.Certificate{Mounted: w.cert, Installed: w.installed}
}

func (w *world) InstallCertificate(identity string) error {
	return w.effect("install", func() { w.installed = identity })
}

func (w *world) Logins() (postgres.Logins, error) {
	return postgres.Logins{Present: postgres.Login{Name: "geo", Password: w.password}}, nil
}

func (w *world) Look(context.Context) (postgres.Volume, postgres.Data) {
	if w.unreadable {
		return postgres.Volume{Problem: "input/output error"}, postgres.Data{Presence: postgres.DataAbsent}
	}
	volume := postgres.Volume{Lock: postgres.LockFree}
	volume.Room = postgres.Room{Size: w.size, Free: w.free - min(w.free, w.reserve), Reserve: w.reserve}
	if w.locked {
		volume.Lock = postgres.LockOurs
	}
	if w.volume.record != nil {
		copied := *w.volume.record
		volume.Record = &copied
	}
	return volume, w.volume.data
}

func (w *world) Files(names []string) ([]postgres.File, error) {
	var files []postgres.File
	for _, name := range names {
		if text, found := w.volume.files[name]; found {
			files = append(files, postgres.File{Name: name, Hash: render.Hash(text), Ours: true})
		}
	}
	return files, nil
}

func (w *world) Lock() error { return w.effect("lock", func() { w.locked = true }) }

func (w *world) WriteRecord(record postgres.Record) error {
	if _, err := record.Encode(); err != nil {
		return err
	}
	if w.noRoom() {
		return errNoRoom
	}
	return w.effect("record", func() { w.volume.record = &record })
}

func (w *world) Initialise(_ context.Context, how postgres.Initialise) error {
	if w.volume.data.Presence != postgres.DataAbsent || w.running || !w.locked {
		w.t.Errorf("initdb on %+v, running %t, locked %t", w.volume.data, w.running, w.locked)
	}
	_ = w.effect("draft", func() { w.volume.data.Draft = true })
	return w.effect("initdb", func() {
		w.made++
		w.volume.data = postgres.Data{
			Presence: postgres.DataPresent, Private: true, Major: how.Major, State: "shut down", Timeline: 1,
			SystemIdentifier: fmt.Sprintf("74%02d", w.made),
		}
	})
}

func (w *world) WriteFile(file postgres.Content) error {
	if w.noRoom() {
		return errNoRoom
	}
	return w.effect("write "+file.Name, func() { w.volume.files[file.Name] = file.Text })
}

func (w *world) noRoom() bool { return w.full || w.size > 0 && w.free <= w.reserve }

func (w *world) TightenMode() error {
	return w.effect("chmod", func() { w.volume.data.Private = true })
}

func (w *world) RemovePIDFile() error {
	return w.effect("remove pid", func() { w.volume.data.PIDFile = false })
}

func (w *world) Programs(context.Context) postgres.Programs {
	return postgres.Programs{Major: 17, User: "postgres"}
}

func (w *world) LendKey(string) error { return nil }

func (w *world) TakeKeysBack() error { return nil }

func (w *world) Received(tenure.Position) {}

func (w *world) Position(uint64) (tenure.Position, error) {
	if w.standstill != nil {
		<-w.standstill
	}
	return tenure.Position{Timeline: 1, LSN: 1}, nil
}

func (w *world) Upstream(text string) error {
	return w.WriteFile(postgres.Content{Name: render.UpstreamFile, Text: text})
}

func (w *world) Standby(replica bool) error {
	w.volume.data.Standby = replica
	return nil
}

func (w *world) Reserve(int) error { return errors.New("nobody asked for it") }

func (w *world) SpendReserve() error { return w.effect("spend", func() { w.reserve = 0 }) }

func (w *world) KeepReserve() error {
	return w.effect("reserve", func() { w.reserve = postgres.ReserveSize })
}

func (w *world) Withdraw(int) error { return nil }

func (w *world) History(int) (postgres.History, error) { return postgres.History{{Timeline: 1}}, nil }

func (w *world) Marked() (*postgres.Record, bool, error) {
	return w.volume.record, w.volume.data.Standby, nil
}

// copies are not made in this model: there is nobody else.
type copies struct{ postgres.Copies }

// probe finds everything well, unless a test says otherwise.
type probe struct{ *world }

func (probe) Watch(string) {}

func (p probe) Hung() bool { return p.hung }

// process is the process of the model.
type process struct{ *world }

func (w process) Look() postgres.Process {
	return postgres.Process{Running: w.running, Start: fmt.Sprintf("s%d", w.starts), Restart: w.restarted}
}

func (w process) Promote() error { return errors.New("nobody asked for it") }

func (w process) EndEntering(context.Context) error { return nil }

func (w process) EndReceiver(context.Context) error { return nil }

func (w process) Kill() error {
	w.world.running = false
	return nil
}

func (w process) Start(_, restart string) error {
	if w.volume.record == nil || w.volume.record.InProgress != "" || w.volume.data.PIDFile || w.installed == "" {
		w.t.Errorf("a start with record %+v, data %+v, certificate %q", w.volume.record, w.volume.data, w.installed)
	}
	return w.effect("start", func() {
		w.world.running, w.volume.data.PIDFile, w.volume.data.State = true, true, "in production"
		w.world.starts++
		w.world.restarted = restart
		w.load()
	})
}

func (w process) load() {
	w.world.loaded = map[string]string{}
	for name, text := range w.volume.files {
		w.world.loaded[name] = text
	}
}

func (w process) Stop(context.Context, time.Duration) error {
	return w.effect("stop", func() { w.world.running, w.volume.data.PIDFile = false, false })
}

func (w process) KillLeftover() error { return nil }

func (w process) Reload() error { return w.effect("reload", w.load) }

// inside is the inside of the model.
type inside struct{ *world }

func (w inside) Server(context.Context) postgres.Server {
	if w.mute {
		return postgres.Server{}
	}
	server := postgres.Server{Reachable: true, Version: "17.6", Timeline: 1}
	w.readOnly = false
	server.Replication.Roles = w.content.agents
	for _, text := range w.loaded {
		for _, line := range lines(text) {
			switch name, value, _ := strings.Cut(line, " = "); name {
			case render.MarkParameter:
				server.Loaded = strings.Trim(value, "'")
			case render.SettingsParameter:
				server.Settings = strings.Trim(value, "'")
			case render.GateParameter:
				server.Open = value == "'open'"
			case render.RoomParameter:
				server.Full = true
			case "default_transaction_read_only":
				w.readOnly = value == "'on'"
			}
		}
	}
	server.Proven = server.Loaded
	return server
}

func lines(text string) []string {
	var all []string
	for start := 0; start < len(text); {
		end := start
		for end < len(text) && text[end] != '\n' {
			end++
		}
		all = append(all, text[start:end])
		start = end + 1
	}
	return all
}

func (w inside) Application(_ context.Context, wanted wire.Settings, logins postgres.Logins) postgres.Application {
	application := postgres.Application{
		Known: true, Role: w.content.role, Login: w.content.role,
		PasswordMatches: w.content.password == logins.Present.Password,
		Database:        w.content.database, Owner: wanted.Application.Owner,
	}
	for _, name := range wanted.Extensions {
		extension := postgres.Extension{Name: name, Available: "1"}
		if slices.Contains(w.content.extensions, name) {
			extension.Installed = "1"
		}
		application.Extensions = append(application.Extensions, extension)
	}
	return application
}

func (w inside) CreateRole(_ context.Context, login postgres.Login) error {
	if w.content.role {
		return errors.New("there is such a role")
	}
	return w.effect("role", func() { w.content.role, w.content.password = true, login.Password })
}

func (w inside) SetLogin(_ context.Context, login postgres.Login, _ string) error {
	if !w.content.role {
		return errors.New("there is no such role")
	}
	return w.effect("password", func() { w.content.password = login.Password })
}

func (w inside) CreateDatabase(context.Context, string, string) error {
	if !w.content.role {
		return errors.New("there is no such role")
	}
	return w.effect("database", func() { w.content.database = true; w.databases++ })
}

func (w inside) CreateExtension(_ context.Context, _, name string) error {
	return w.effect("extension", func() { w.content.extensions = append(w.content.extensions, name) })
}

func (w inside) UpdateExtension(context.Context, string, string, string) error { return nil }

func (w inside) GrantExtension(context.Context, string, string) error { return nil }

func (w inside) NoteLibraries(context.Context, string, string) error { return nil }

func (w inside) CreateAgents(context.Context) error {
	return w.effect("agents", func() { w.content.agents = true })
}

func (w inside) KeepPlaces(context.Context, postgres.KeepPlaces) error { return nil }

func (w inside) EndSessions(context.Context) error { return nil }

func (w inside) Drain(context.Context) (uint64, error) { return 0, nil }

func (w inside) EndSenders(context.Context, []int) error { return nil }

func (w inside) LeaveSegment(context.Context) error { return nil }

func (w inside) Checkpoint(context.Context) error { return w.effect("checkpoint", func() {}) }
