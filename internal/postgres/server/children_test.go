package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/postgres/server"
	"meridian.dev/meridian/internal/postgres/server/session"
	"meridian.dev/meridian/kit/watchdog"
)

// A shell that forks without a new program has children with its own title, as PostgreSQL has. One is connected, as a
// session that has said nothing, and one is not, as a receiver that was forked a moment ago: only that one is in doubt.
func TestUntitledChildren(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	const script = `exec 4<&0
(exec 3<>/dev/tcp/127.0.0.1/$0; echo connected $BASHPID; read -u 4 line) &
(echo bare $BASHPID; read -u 4 line) &
wait`
	command := exec.Command("bash", "-c", script, port)
	output, failed := command.StdoutPipe()
	input, err := command.StdinPipe()
	if err := errors.Join(failed, err); err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Skipf("there is no bash: %v", err)
	}
	defer func() {
		_ = input.Close() // Ends all three.
		_ = command.Wait()
	}()
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	want := map[int]string{}
	lines := bufio.NewScanner(output)
	for len(want) < 2 && lines.Scan() {
		var word string
		var pid int
		if _, err := fmt.Sscan(lines.Text(), &word, &pid); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		want[pid] = "entering"
		if word == "bare" {
			want[pid] = "untitled"
		}
	}
	got, err := server.Kinds(command.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}

// Each look is the kinds of the children by their numbers. Whom the first look did not see is nobody's concern.
func TestSuspectsThatRemain(t *testing.T) {
	for name, test := range map[string]struct {
		unwanted string
		looks    []map[int]string
		want     map[int]bool
	}{
		"nobody": {"receiver", []map[int]string{{1: "other", 2: "entering"}}, map[int]bool{}},
		"a receiver": {
			"receiver", []map[int]string{{1: "receiver", 2: "other", 3: "entering"}}, map[int]bool{1: true},
		},
		"one that may become a receiver": {"receiver", []map[int]string{{1: "untitled"}}, map[int]bool{1: false}},
		"it became one": {
			"receiver", []map[int]string{{1: "untitled"}, {1: "receiver"}}, map[int]bool{1: true},
		},
		"it became a session": {"receiver", []map[int]string{{1: "untitled"}, {1: "entering"}}, map[int]bool{}},
		"it ended":            {"receiver", []map[int]string{{1: "untitled"}, {2: "untitled"}}, map[int]bool{}},
		"a receiver that was begun later": {
			"receiver", []map[int]string{{1: "receiver"}, {1: "receiver", 2: "receiver"}}, map[int]bool{1: true},
		},
		"a session that is entering": {
			"entering", []map[int]string{{1: "entering", 2: "receiver"}}, map[int]bool{1: true},
		},
		"it was let in before it ended": {"entering", []map[int]string{{1: "entering"}, {1: "other"}}, map[int]bool{1: true}},
		"a storm of sessions": {
			"entering", []map[int]string{{1: "entering"}, {2: "entering"}, {3: "untitled"}}, map[int]bool{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, server.Remaining(test.unwanted, test.looks...)); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

// When a process was begun is told by the clock that nobody can set.
func TestBegunAt(t *testing.T) {
	before := watchdog.Now()
	command := exec.Command("sleep", "60")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = command.Process.Kill(); _ = command.Wait() }()
	begun, after := time.Duration(session.BegunAt(command.Process.Pid)), watchdog.Now()
	if begun < before-10*time.Millisecond || begun > after {
		t.Errorf("begun at %s, between %s and %s", begun, before, after)
	}
	if begun := session.BegunAt(1 << 30); begun != 0 {
		t.Errorf("a process that does not exist was begun at %s", begun)
	}
}
