package agent

import (
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/kit/supervise"
	"meridian.dev/meridian/kit/watchdog"
)

// guard keeps a watchdog alive. It implements tenure.Watchdog.
type guard struct {
	supervisor *supervise.Supervisor
	command    supervise.Command
	log        logr.Logger
	// changed is called when the watchdog has died or has begun to kill.
	changed func()

	mutex  sync.Mutex
	dog    *watchdog.Watchdog // nil while there is none.
	silent int                // How often in a row it has not understood.
	ended  bool
}

const (
	// understanding is how long the watchdog may take to understand: it may first have to end a server. On a machine with
	// too much to do it may miss that once; the deadline that it knows is still in force.
	understanding = time.Second
	mostSilent    = 2
	// revival is before a watchdog is started in the place of one that died.
	revival = 100 * time.Millisecond
)

// keep starts a watchdog, and another one whenever it dies, until close.
func (g *guard) keep() error {
	dog, err := g.start()
	if err != nil {
		return err
	}
	go func() {
		for {
			<-dog.Done()
			g.set(nil)
			g.changed()
			for {
				time.Sleep(revival)
				if g.over() {
					return
				}
				if dog, err = g.start(); err == nil {
					break
				}
				g.log.Error(err, "starting the watchdog again")
			}
			g.changed()
		}
	}()
	return nil
}

func (g *guard) start() (*watchdog.Watchdog, error) {
	dog, err := watchdog.Start(g.supervisor, g.command, func(at time.Duration) {
		g.log.Info("ending the server at the deadline", "at", at.String())
		g.changed()
	})
	if err != nil {
		return nil, err
	}
	g.set(dog)
	return dog, nil
}

func (g *guard) set(dog *watchdog.Watchdog) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.dog, g.silent = dog, 0
}

// missed counts the times in a row that the watchdog has not understood.
func (g *guard) missed(once bool) int {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.silent++; !once {
		g.silent = 0
	}
	return g.silent
}

func (g *guard) over() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.ended
}

func (g *guard) close() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.ended = true
	if g.dog != nil {
		g.dog.Close()
	}
}

func (g *guard) current() *watchdog.Watchdog {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.dog
}

// Look implements tenure.Watchdog.
func (g *guard) Look() tenure.Guard {
	dog := g.current()
	if dog == nil {
		return tenure.Guard{}
	}
	return tenure.Guard{Alive: true, Until: tenure.Instant(dog.Deadline())}
}

// Arm implements tenure.Watchdog. A watchdog that does not understand again and again is as good as dead, and is
// replaced.
func (g *guard) Arm(until tenure.Instant) error {
	dog := g.current()
	if dog == nil {
		return watchdog.ErrGone
	}
	err := dog.Set(time.Duration(until), understanding)
	if g.missed(err != nil) >= mostSilent && !errors.Is(err, watchdog.ErrGone) {
		dog.Abandon()
		g.set(nil)
		g.changed()
	}
	return err
}

// bootClock implements tenure.Clock.
type bootClock struct {
	boot string
	wall watchdog.Wall
}

func newBootClock() (*bootClock, error) {
	boot, err := watchdog.BootID()
	if err != nil {
		return nil, err
	}
	clock := &bootClock{boot: boot}
	clock.wall.Jumps()
	return clock, nil
}

func (*bootClock) Now() tenure.Instant { return tenure.Instant(watchdog.Now()) }

func (c *bootClock) Boot() string { return c.boot }

func (c *bootClock) Jumps() tenure.Jumps {
	var jumps tenure.Jumps
	for _, jump := range c.wall.Jumps() {
		jumps = append(jumps, tenure.Jump{At: tenure.Instant(jump.At), By: jump.By})
	}
	return jumps
}

// ageClock tells how old something is: it goes on while the machine sleeps, and when the machine was stopped in a way
// that only the wall clock has noticed. The clock that Go measures by does neither, and a copy would look young.
type ageClock struct {
	begun time.Time
	since time.Duration
	wall  watchdog.Wall
}

func newAgeClock() *ageClock { return &ageClock{begun: time.Now().Round(0), since: watchdog.Now()} }

func (c *ageClock) Now() time.Time { return c.begun.Add(watchdog.Now() - c.since + c.wall.Lost()) }
