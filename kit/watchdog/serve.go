//go:build linux

package watchdog

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"meridian.dev/meridian/kit/supervise"
)

// The files that a watchdog is started with.
const (
	inputFile  = 3
	outputFile = 4
)

// Times of the watchdog.
const (
	// sweepPause is between two looks while there is something to kill.
	sweepPause = 5 * time.Millisecond
	// sweepPatience is how long the program waits for the end of a kill that it asked for.
	sweepPatience = 500 * time.Millisecond
	// memoryPause is between two looks at whose descendants the processes are. It is needed only where the program is not
	// the first process: the kernel ends all others with that one.
	memoryPause = 100 * time.Millisecond
)

// Serve is the life of the watchdog of the program with this process id, which has started it through [Start]. It
// returns when the program is gone and nothing of it is left.
func Serve(program int) error {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	hold()
	g := &guardian{self: os.Getpid(), table: newTable(), known: map[int]uint64{}}
	if err := g.open(program); err != nil {
		return err
	}
	for {
		gone, err := g.turn()
		if err != nil {
			// A watchdog that does not know what is to be done does the safe thing.
			g.bury()
			return err
		}
		if gone {
			g.bury()
			return nil
		}
	}
}

// hold keeps the process small, in memory and ahead of others, as far as it is allowed to.
func hold() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	debug.FreeOSMemory()
	_ = supervise.Shed()
	// Only what is there now: a limit on what comes later would end this process instead.
	_ = unix.Mlockall(unix.MCL_CURRENT | unix.MCL_ONFAULT)
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	// Where this is allowed at all, the kernel looks for memory elsewhere first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0o600)
}

// guardian is the state of a watchdog.
type guardian struct {
	self    int
	program entry
	table   *table
	known   map[int]uint64 // What has descended from the program, by number and start.

	alarm, clock int // Descriptors of the timers.
	wall         Wall
	lost         time.Duration // What the wall had lost at the last look.
	deadline     time.Duration // 0 if there is none.
	fired        bool          // The deadline has passed: kill until there is another one.
	number       uint64        // Of the last message.
	sweeping     bool          // The program has asked for an end of everything, and waits for it.
	since        time.Duration
}

func (g *guardian) open(program int) error {
	if err := g.table.read(); err != nil {
		return fmt.Errorf("read the process table: %w", err)
	}
	for _, e := range g.table.entries {
		if e.pid == program {
			g.program = e
		}
	}
	var errs [2]error
	g.alarm, errs[0] = unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	g.clock, errs[1] = unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err := errors.Join(errs[:]...); err != nil {
		return fmt.Errorf("make the timers: %w", err)
	}
	g.wall.Jumps()
	return errors.Join(g.listenForClock(), unix.SetNonblock(inputFile, true), unix.SetNonblock(outputFile, true))
}

// listenForClock asks to be told when somebody sets the wall clock: the timer itself is never due.
func (g *guardian) listenForClock() error {
	const never = 1 << 40
	err := unix.TimerfdSettime(g.clock, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET,
		&unix.ItimerSpec{Value: unix.Timespec{Sec: never}}, nil)
	if err != nil {
		return fmt.Errorf("ask to be told of a changed clock: %w", err)
	}
	return nil
}

// turn waits for the next thing to happen and does what it demands.
func (g *guardian) turn() (gone bool, err error) {
	files := []unix.PollFd{
		{Fd: inputFile, Events: unix.POLLIN}, {Fd: int32(g.alarm), Events: unix.POLLIN},
		{Fd: int32(g.clock), Events: unix.POLLIN},
	}
	if _, err := unix.Poll(files, g.patience()); err != nil && !errors.Is(err, unix.EINTR) {
		return false, fmt.Errorf("wait: %w", err)
	}
	gone, err = g.listen()
	if gone || err != nil {
		return gone, err
	}
	if files[2].Revents != 0 {
		if err := g.lookAtWall(); err != nil {
			return false, err
		}
	}
	if g.deadline != 0 && Now() >= g.deadline {
		g.fire()
	}
	switch {
	case g.fired || g.sweeping:
		g.sweep()
	case g.program.pid != 1:
		return false, g.remember()
	}
	return false, nil
}

func (g *guardian) patience() int {
	switch {
	case g.fired || g.sweeping:
		return int(sweepPause.Milliseconds())
	case g.program.pid != 1:
		return int(memoryPause.Milliseconds())
	}
	return -1
}

// listen takes what the program has said. Only the last of several messages counts.
func (g *guardian) listen() (gone bool, err error) {
	var buffer [64 * messageSize]byte
	for {
		size, err := unix.Read(inputFile, buffer[:])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, fmt.Errorf("listen: %w", err)
		case size == 0:
			return true, nil
		case size%messageSize != 0:
			return false, fmt.Errorf("listen: %d bytes are no message", size)
		}
		if err := g.obey(decode(buffer[size-messageSize : size])); err != nil {
			return false, err
		}
	}
}

// obey takes a deadline. Without one, the server must not be there at all: the answer comes when it is gone.
func (g *guardian) obey(told message) error {
	g.number, g.deadline, g.fired = told.number, told.moment, false
	g.sweeping, g.since = told.moment == 0, Now()
	if err := g.setAlarm(told.moment); err != nil {
		return err
	}
	if !g.sweeping {
		g.say(told)
		// What the kill will need is in memory when it is needed: the disk may be what has failed by then.
		return g.remember()
	}
	return nil
}

// setAlarm sets the timer, or stops it with the moment 0.
func (g *guardian) setAlarm(moment time.Duration) error {
	err := unix.TimerfdSettime(g.alarm, unix.TFD_TIMER_ABSTIME,
		&unix.ItimerSpec{Value: unix.NsecToTimespec(moment.Nanoseconds())}, nil)
	if err != nil {
		return fmt.Errorf("set the alarm: %w", err)
	}
	return nil
}

// lookAtWall takes a wall clock that has jumped forward for a machine that has stood still for as long: the deadline is
// that much nearer.
func (g *guardian) lookAtWall() error {
	var expirations [8]byte
	_, _ = unix.Read(g.clock, expirations[:]) // It fails with the news itself.
	lost := g.wall.Lost()
	if jump := lost - g.lost; jump > 0 && g.deadline != 0 && !g.fired {
		g.deadline = nearer(g.deadline, jump)
		if err := g.setAlarm(g.deadline); err != nil {
			return err
		}
	}
	g.lost = lost
	return g.listenForClock()
}

// nearer is a deadline when the machine may have stood still. It stays one: 0 would be none.
func nearer(deadline, jump time.Duration) time.Duration { return max(deadline-jump, 1) }

func (g *guardian) fire() {
	if g.fired {
		return
	}
	g.fired = true
	// The alarm has done its work; it would only keep the wait from waiting.
	_ = g.setAlarm(0)
	g.say(message{moment: Now()})
}

// say writes to the program, which may be stopped: it is not waited for.
func (g *guardian) say(m message) { _, _ = unix.Write(outputFile, m.encode()) }

// sweep kills what is left once.
func (g *guardian) sweep() {
	left := g.kill(syscall.SIGKILL)
	if g.sweeping && (left == 0 || Now()-g.since > sweepPatience) {
		g.sweeping = false
		g.say(message{number: g.number})
	}
}

// kill sends the signal to every member that lives, and returns how many there were.
func (g *guardian) kill(signal syscall.Signal) int {
	if err := g.remember(); err != nil {
		return -1
	}
	count := 0
	for _, e := range g.table.entries {
		if e.member && !e.ended {
			count++
			_ = syscall.Kill(e.pid, signal)
		}
	}
	return count
}

// remember notes who descends from the program, for the time after it.
func (g *guardian) remember() error {
	if err := g.table.read(); err != nil {
		return fmt.Errorf("read the process table: %w", err)
	}
	g.table.mark(g.program, g.self, g.known)
	clear(g.known)
	for _, e := range g.table.entries {
		if e.member {
			g.known[e.pid] = e.started
		}
	}
	return nil
}

// bury kills what the program has left. Its children have another parent now, so they are stopped first: what is
// stopped starts no process that nobody would know.
func (g *guardian) bury() {
	for before := -1; ; {
		count := g.kill(syscall.SIGSTOP)
		if count == before {
			break
		}
		before = count
	}
	for g.kill(syscall.SIGKILL) != 0 {
		time.Sleep(sweepPause)
	}
}

// Arguments returns what to give a program of this process so that it knows whom to watch; ParseArguments reads it.
func Arguments() []string { return []string{strconv.Itoa(os.Getpid())} }

// ParseArguments returns the process id that Serve wants.
func ParseArguments(args []string) (int, error) {
	if len(args) != 1 {
		return 0, errors.New("watch: name one process id")
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil || pid < 1 || pid == os.Getpid() {
		return 0, fmt.Errorf("watch: %q is no process to watch", args[0])
	}
	return pid, nil
}
