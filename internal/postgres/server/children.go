package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"meridian.dev/meridian/internal/postgres/server/session"
)

// EndReceiver implements postgres.Runner. The server must have been told to follow nobody, and the key must have been
// taken back before: a receiver that is begun later is not let in. One that was begun earlier is in the first look, as
// itself or as a child that has no title yet. So there is none when each of those has ended, or has turned out to be
// something else; how many connect meanwhile does not matter.
func (r *Runner) EndReceiver(ctx context.Context) error {
	err := r.end(ctx, kindReceiver)
	if err != nil {
		return fmt.Errorf("end the receiver: %w", err)
	}
	return nil
}

// EndEntering implements postgres.Runner. Each session goes by the rules of access that the server had when it was
// forked, so those that come after the first look go by the present ones.
func (r *Runner) EndEntering(ctx context.Context) error {
	if err := r.end(ctx, kindEntering); err != nil {
		return fmt.Errorf("end sessions that are about to be let in: %w", err)
	}
	return nil
}

// end ends the children of a kind that are there now, and those without a title that turn out to be of it. It returns
// nil only when none of them lives.
func (r *Runner) end(ctx context.Context, unwanted kind) error {
	process := r.current(false)
	if process == nil {
		return nil
	}
	var suspects map[child]bool
	for {
		if _, ended := process.Exit(); ended {
			left, err := process.Group()
			if err == nil && len(left) > 0 {
				err = errors.New("processes of a server that has ended still live")
			}
			return err
		}
		found, err := familyOf(process.PID())
		if err != nil {
			return err
		}
		if suspects = found.remaining(suspects, unwanted); len(suspects) == 0 {
			return nil
		}
		for suspect, proven := range suspects {
			if proven {
				// It may have ended since; whether it did shows on the next look.
				_ = syscall.Kill(suspect.pid, syscall.SIGTERM)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d processes cannot be proven to be gone: %w", len(suspects), ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// remaining are the suspects of before that live and did not turn out to be something else, with whether they are
// proven to be what is looked for. At the first look, before is nil.
func (f family) remaining(before map[child]bool, unwanted kind) map[child]bool {
	left := map[child]bool{}
	for found, is := range f.children {
		proven, suspected := before[found]
		// A session may be let in between two looks.
		entered := suspected && unwanted == kindEntering && is == kindOther && f.connected(found.pid)
		switch {
		case before != nil && !suspected:
		case proven || entered || is == unwanted:
			left[found] = true
		case is == kindUntitled:
			left[found] = false
		}
	}
	return left
}

// child is a process of the server. A number is used again in time; together with the start it is not.
type child struct {
	pid   int
	start string // In ticks since the machine began.
}

// kind is what a child is, as far as can be told from outside.
type kind int

const (
	// kindOther has set its title, and is none of the following.
	kindOther kind = iota
	// kindUntitled still has its parent's title and no connection of its own: it may become anything, also a receiver.
	kindUntitled
	// kindReceiver is the WAL receiver.
	kindReceiver
	// kindEntering is a session that is not let in yet. One that has said nothing has its parent's title until
	// authentication_timeout.
	kindEntering
)

// enteringTitle is the title of a session before its role is known to be who it says.
var enteringTitle = regexp.MustCompile(`^postgres: .*\b(?:authentication|initializing)[ \x00]*$`)

// receiverTitle is the title of a receiver, after the name of the server. Names of roles and databases come later.
var receiverTitle = regexp.MustCompile(`^postgres: (?:[^ ]+: )?walreceiver(?:[ \x00]|$)`)

// family is the first process of a server and its children.
type family struct {
	title    []byte          // Of the first process.
	sockets  map[string]bool // That it has.
	children map[child]kind
}

// familyOf looks through the whole process table, which has every process that was there before the look began.
//
// PostgreSQL's first process forks all others, one at a time, and each has its title until it sets its own. It accepts
// a connection, forks the session that serves it and closes its own end before it does anything else. So one without a
// title that has a socket which its parent lacks is a session: a receiver inherits none but those that its parent
// listens on, and connects only after it has its title.
func familyOf(parent int) (family, error) {
	title, err := titleOf(parent)
	if err != nil {
		return family{}, err
	}
	sockets, err := socketsOf(parent)
	if err != nil {
		return family{}, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return family{}, err
	}
	found := family{title: title, sockets: sockets, children: map[child]kind{}}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		start, ok := startOf(pid, parent)
		if !ok {
			continue
		}
		if is, lives := found.kindOf(pid); lives {
			found.children[child{pid, start}] = is
		}
	}
	return found, nil
}

// kindOf reads the title again after the sockets: a receiver that has one by then has its title too. Lives is false for
// a process that has ended.
func (f family) kindOf(pid int) (is kind, lives bool) {
	connected := false
	title, err := titleOf(pid)
	if err == nil && bytes.Equal(title, f.title) {
		connected = f.connected(pid)
		title, err = titleOf(pid)
	}
	switch {
	case err != nil || len(title) == 0:
		return kindOther, false
	case receiverTitle.Match(title):
		return kindReceiver, true
	case enteringTitle.Match(title):
		return kindEntering, true
	case !bytes.Equal(title, f.title):
		return kindOther, true
	case connected:
		return kindEntering, true
	}
	return kindUntitled, true
}

// connected says that a child has a socket that its parent lacks. What cannot be read proves nothing.
func (f family) connected(pid int) bool {
	sockets, err := socketsOf(pid)
	if err != nil {
		return false
	}
	for socket := range sockets {
		if !f.sockets[socket] {
			return true
		}
	}
	return false
}

func titleOf(pid int) ([]byte, error) { return os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) }

// socketsOf names the sockets that a process has open.
func socketsOf(pid int) (map[string]bool, error) {
	folder := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, entry := range entries {
		target, err := os.Readlink(folder + "/" + entry.Name())
		if errors.Is(err, fs.ErrNotExist) {
			continue // It was closed since.
		}
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(target, "socket:") {
			found[target] = true
		}
	}
	return found, nil
}

// startOf reads when a child was begun. It is not ok if it has ended, or has another parent.
func startOf(pid, parent int) (start string, ok bool) {
	fields := session.StatusOf(pid)
	if len(fields) < 20 || string(fields[1]) != strconv.Itoa(parent) {
		return "", false
	}
	return string(fields[19]), true
}
