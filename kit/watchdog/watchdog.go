//go:build linux

package watchdog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"meridian.dev/meridian/kit/supervise"
)

// ErrGone is returned when the watchdog does not live any more.
var ErrGone = errors.New("the watchdog is gone")

// Watchdog is a watchdog process, as the program that is watched sees it.
type Watchdog struct {
	process *supervise.Process
	input   *os.File // Where deadlines go.
	fired   func(at time.Duration)

	mutex  sync.Mutex
	number uint64
	news   chan struct{} // Closed when something was understood.
	last   message       // What was understood last.
}

// Start starts a watchdog: the command is a program that calls [Serve]. It gets [Arguments] behind its own. The
// function is called, if there is one, whenever the watchdog begins to kill because a deadline has passed.
func Start(
	supervisor *supervise.Supervisor, command supervise.Command, fired func(at time.Duration),
) (*Watchdog, error) {
	theirInput, input, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the watchdog: %w", err)
	}
	output, theirOutput, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the watchdog: %w", err), theirInput.Close(), input.Close())
	}
	command.Args = append(append([]string{}, command.Args...), Arguments()...)
	command.Files = []*os.File{theirInput, theirOutput}
	process, err := supervisor.Start(command)
	// Only the watchdog has its ends now, so that the death of one closes the pipes of the other.
	_, _ = theirInput.Close(), theirOutput.Close()
	if err != nil {
		return nil, errors.Join(err, input.Close(), output.Close())
	}
	w := &Watchdog{process: process, input: input, fired: fired, news: make(chan struct{})}
	go w.listen(output)
	return w, nil
}

func (w *Watchdog) listen(output *os.File) {
	defer func() { _ = output.Close() }()
	var buffer [messageSize]byte
	for {
		if _, err := io.ReadFull(output, buffer[:]); err != nil {
			return
		}
		said := decode(buffer[:])
		if said.number == 0 {
			if w.fired != nil {
				w.fired(said.moment)
			}
			continue
		}
		w.mutex.Lock()
		w.last = said
		close(w.news)
		w.news = make(chan struct{})
		w.mutex.Unlock()
	}
}

// Set tells the watchdog the deadline, and returns when it has understood. With 0 there is no deadline, because nothing
// may be there at all: what lives is killed at once, and later nothing is, until the next deadline.
func (w *Watchdog) Set(deadline, patience time.Duration) error {
	w.mutex.Lock()
	w.number++
	told := message{number: w.number, moment: deadline}
	w.mutex.Unlock()
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	// A watchdog that does not read must not keep the program from anything.
	_ = w.input.SetWriteDeadline(time.Now().Add(patience))
	if _, err := w.input.Write(told.encode()); err != nil {
		return fmt.Errorf("tell the watchdog: %w", err)
	}
	for {
		w.mutex.Lock()
		last, news := w.last, w.news
		w.mutex.Unlock()
		if last.number >= told.number {
			return nil
		}
		select {
		case <-news:
		case <-w.process.Done():
			return ErrGone
		case <-timeout.C:
			return fmt.Errorf("tell the watchdog: it has not understood within %s", patience)
		}
	}
}

// Deadline is what the watchdog has understood last, 0 if it knows of none.
func (w *Watchdog) Deadline() time.Duration {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.last.moment
}

// Done is closed when the watchdog has ended.
func (w *Watchdog) Done() <-chan struct{} { return w.process.Done() }

// PID is the number of its process.
func (w *Watchdog) PID() int { return w.process.PID() }

// Close lets the watchdog end, after it has killed whatever lives below this program.
func (w *Watchdog) Close() { _ = w.input.Close() }

// Abandon kills the watchdog itself: one that does not answer is worth nothing.
func (w *Watchdog) Abandon() {
	_ = w.process.Signal(syscall.SIGKILL)
	_ = w.input.Close()
}
