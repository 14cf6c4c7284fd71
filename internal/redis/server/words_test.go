package server_test

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"meridian.dev/meridian/internal/redis/render"
	"meridian.dev/meridian/internal/redis/server"
)

// listener is a server that notes what it hears. It answers with OK, or nothing at all.
type listener struct {
	silent bool
	on     func(words string)

	mutex sync.Mutex
	heard []string
}

func (l *listener) start(t *testing.T) *server.Link {
	t.Helper()
	folder := t.TempDir()
	socket, err := net.Listen("unix", filepath.Join(folder, render.SocketFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	go func() {
		for {
			connection, err := socket.Accept()
			if err != nil {
				return
			}
			go l.listen(connection)
		}
	}()
	link := &server.Link{Runtime: folder, Secret: &server.Secret{}}
	t.Cleanup(link.Close)
	return link
}

func (l *listener) listen(connection net.Conn) {
	reader := bufio.NewReader(connection)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		count, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		words := make([]string, count)
		for i := range words {
			_, _ = reader.ReadString('\n')
			word, _ := reader.ReadString('\n')
			words[i] = strings.TrimSpace(word)
		}
		text := strings.Join(words, " ")
		l.mutex.Lock()
		l.heard = append(l.heard, text)
		l.mutex.Unlock()
		if l.on != nil {
			l.on(text)
		}
		answer := "+OK\r\n"
		if strings.HasPrefix(text, "hello") {
			answer = "-ERR unknown command\r\n" // As old servers say, and clients understand.
		}
		if !l.silent {
			_, _ = connection.Write([]byte(answer))
		}
	}
}

func (l *listener) hears(words string) bool {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return slices.ContainsFunc(l.heard, func(text string) bool { return strings.HasPrefix(text, words) })
}

// TestDoorIsClosedForAll has the pass end while the door is being closed: those who are in are put out all the same.
func TestDoorIsClosedForAll(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	listening := &listener{on: func(words string) {
		if strings.HasPrefix(words, "acl setuser") {
			cancel()
		}
	}}
	link := listening.start(t)
	_ = link.CloseDoor(ctx) // What it returns then does not matter.
	for deadline := time.Now().Add(10 * time.Second); !listening.hears("client kill user"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the server has heard %q", listening.heard)
		}
	}
}

// TestWordsHaveABound: a server that says nothing keeps nobody for longer than he can wait.
func TestWordsHaveABound(t *testing.T) {
	link := (&listener{silent: true}).start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if err := link.Promote(ctx); err == nil {
		t.Error("there was an answer")
	}
	// Without the bound of the context it is that of the client, which is five seconds.
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("it took %s", took)
	}
}
