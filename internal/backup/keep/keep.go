// Package keep is the agent's loop of backups: it ships the log each second, makes base backups, reads the catalogue,
// removes what is not needed any more, and tells about all of it. What is done, and when, is decided by plan.Decide.
//
// The loop itself waits for nothing. Each part of the work is a goroutine of its own, at most one of each, so that a
// store or a disk that hangs holds up neither the other parts nor the other loops of the agent; nothing here takes a
// lock that those wait for. Start reading at Keeper.Turn.
package keep

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/base"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/ship"
	"meridian.dev/meridian/internal/wire"
)

// Copy is what the agent knows of its instance at a moment.
type Copy struct {
	// SystemIdentifier is that of the data, empty while there is none. Major is the version of PostgreSQL.
	SystemIdentifier string
	Major            int
	// Leads says that this is the primary of the term, by the lease and by the server.
	Leads bool
	Term  int64
	// Line is the timeline that the holder of the lease leads on.
	Line int
	// Timeline and Flushed are how far the log is safe on the disk; 0 while that is not known.
	Timeline int
	Flushed  backup.LSN
	// Running says that the server answers.
	Running bool
}

// Ports are everything that the loop needs of the world.
type Ports struct {
	Instance string
	Now      func() time.Time
	// Copy tells about the instance, at once.
	Copy func() Copy
	// Settings reads what is wanted now, nil for no backups.
	Settings func() (*wire.BackupSettings, error)
	// Application names the database of the application and its owner.
	Application func() (database, owner string)
	// Open opens the repository at a root with what is mounted now.
	Open func(settings wire.Repository, root string) (*repository.Repository, error)
	// Folder is the folder of the log.
	Folder string
	// Base says of a base backup how it is taken here, and with which settings. Progress is told how many bytes there are.
	Base func(ctx context.Context, request *base.Request, progress func(done, total int64)) error
	Log  logr.Logger
}

// Keeper is the loop.
type Keeper struct {
	Ports

	mutex    sync.Mutex
	settings *wire.BackupSettings
	problem  error // Why the settings cannot be read.
	works    map[part]*work
	shipping shipping
	reading  reading
	basing   basing
	reason   reason
	// asked is since when somebody waits to replace the copy here, and under which term.
	asked struct {
		term int64
		at   time.Time
	}

	// These belong to the goroutine that ships.
	shipper   *ship.Shipper
	shipsFor  string
	contacted string
}

// part is a part of the work.
type part string

const (
	partShip part = "ship"
	partRead part = "read"
	partBase part = "base"
)

// work is a part of the work that was begun at least once.
type work struct {
	plan.Work
	began  time.Time
	moved  time.Time // When it last got on.
	err    error     // Of the last try.
	cancel context.CancelFunc
}

// New makes the loop.
func New(ports Ports) *Keeper { return &Keeper{Ports: ports, works: map[part]*work{}} }

// every is how often the loop looks.
const every = 500 * time.Millisecond

// Run takes turns until the context ends, and gives up what it has begun then.
func (k *Keeper) Run(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		k.Turn(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Turn is one turn: observe, decide, begin. It waits for nothing but the mounted settings.
func (k *Keeper) Turn(ctx context.Context) {
	settings, err := k.Settings()
	now := k.Copy()
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if err != nil {
		// Those of before stay in force.
		k.problem = err
	} else {
		k.settings, k.problem = settings, nil
	}
	situation := k.observe(now)
	for _, duty := range plan.Decide(situation) {
		k.begin(ctx, duty, now)
	}
	k.judge(now)
}

// observe makes the situation. The mutex is held.
func (k *Keeper) observe(now Copy) plan.Situation {
	s := plan.Situation{
		Now: k.Now(), Instance: k.Instance, Wanted: k.settings != nil, Leads: now.Leads, Term: now.Term, Running: now.Running,
		Known:   now.SystemIdentifier != "" && now.Timeline > 0 && now.Flushed > 0,
		Flushed: now.Flushed, Ship: k.work(partShip), Read: k.work(partRead), Base: k.work(partBase),
	}
	s.Foreign = slices.ContainsFunc(k.shipping.holds, isForeign)
	office := plan.Office(now.Leads, now.Term)
	if k.shipping.office == office {
		s.Confirmed = k.shipping.confirmed
		s.Fills = !now.Leads && (!k.shipping.complete || k.shipping.newest < now.Line)
	}
	if now.Leads && k.reading.office == office {
		s.Stored = k.reading.stored
	}
	if k.settings != nil && k.settings.Base != nil {
		s.Wish = &plan.Wish{ID: k.settings.Base.ID, Instance: k.settings.Base.Instance}
	}
	k.shipping.note(s.Now, now)
	return s
}

func (k *Keeper) work(of part) plan.Work {
	if found := k.works[of]; found != nil {
		return found.Work
	}
	return plan.Work{}
}

// begin carries out a duty. The mutex is held.
func (k *Keeper) begin(ctx context.Context, duty plan.Duty, now Copy) {
	settings := wire.BackupSettings{} // A duty that needs them is not given without.
	if k.settings != nil {
		settings = *k.settings
	}
	switch duty := duty.(type) {
	case plan.GiveUp:
		for of, wanted := range map[part]bool{partShip: duty.Ship, partRead: duty.Read, partBase: duty.Base} {
			if found := k.works[of]; wanted && found != nil && found.Running {
				found.cancel()
			}
		}
	case plan.ShipLog:
		k.run(ctx, partShip, duty.For, shipPatience, func(ctx context.Context) error { return k.ship(ctx, settings, now) })
	case plan.ReadRepository:
		k.run(ctx, partRead, duty.For, readPatience, func(ctx context.Context) error {
			return k.read(ctx, settings, duty.For)
		})
	case plan.MakeBase:
		k.basing = basing{wish: duty.For, started: k.Now(), phase: wire.BaseCopying}
		k.Log.Info("beginning a base backup", "for", duty.For)
		k.run(ctx, partBase, duty.For, basePatience, func(ctx context.Context) error {
			return k.makeBase(ctx, settings, duty.For)
		})
	}
}

// Bounds of the works, so that a store that hangs is tried again some day.
const (
	shipPatience = 5 * time.Minute
	readPatience = 10 * time.Minute
	basePatience = 48 * time.Hour
)

// run begins a part of the work in a goroutine of its own. The mutex is held.
func (k *Keeper) run(
	ctx context.Context, of part, purpose string, limit time.Duration, do func(context.Context) error,
) {
	found := k.works[of]
	if found == nil {
		found = &work{}
		k.works[of] = found
	}
	if found.Running {
		return
	}
	if found.For != purpose {
		found.Failures = 0
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	found.Running, found.For, found.cancel = true, purpose, cancel
	found.began, found.moved = k.Now(), k.Now()
	go func() {
		defer cancel()
		err := do(ctx)
		k.mutex.Lock()
		defer k.mutex.Unlock()
		found.Running, found.Ended, found.err = false, k.Now(), err
		found.Failures++
		if err == nil {
			found.Failures = 0
		}
	}()
}

// move notes that a part of the work has got on.
func (k *Keeper) move(of part) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if found := k.works[of]; found != nil {
		found.moved = k.Now()
	}
}

// root is the folder of this database in its repository.
func root(settings wire.BackupSettings) string {
	return backup.Root(settings.Repository.Prefix(), settings.Namespace, settings.Database, settings.DatabaseUID)
}
