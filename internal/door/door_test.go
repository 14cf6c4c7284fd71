package door_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/door"
)

// greet answers each line that comes to the address with a name and that line, and says goodbye at the end.
func greet(t *testing.T, address, name string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			caller, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = caller.Close() }()
				for lines := bufio.NewScanner(caller); lines.Scan(); {
					_, _ = fmt.Fprintf(caller, "%s: %s\n", name, lines.Text())
				}
				_, _ = fmt.Fprintln(caller, "goodbye")
			}()
		}
	}()
}

// TestDoor leads callers on, also somewhere else later, and loses nothing of what either side says.
func TestDoor(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	_ = free.Close()
	at := func(host string) string { return net.JoinHostPort(host, fmt.Sprint(port)) }
	greet(t, at("127.0.0.3"), "second")
	greet(t, at("127.0.0.4"), "third")
	ended := &door.Door{Life: t.Context(), Address: "127.0.0.2", Port: port, Log: logr.Discard()}

	talk := func(word, want string) {
		t.Helper()
		caller, err := net.DialTimeout("tcp", at("127.0.0.2"), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = caller.Close() }()
		_, _ = fmt.Fprintln(caller, word)
		_ = caller.(*net.TCPConn).CloseWrite()
		if heard, err := io.ReadAll(caller); err != nil || string(heard) != want {
			t.Fatalf("heard %q, %v, want %q", heard, err, want)
		}
	}
	if _, err := net.DialTimeout("tcp", at("127.0.0.2"), time.Second); err == nil {
		t.Fatal("somebody listens before anybody is to be led on")
	}
	ended.Usher("127.0.0.3")
	talk("hello", "second: hello\ngoodbye\n")
	ended.Usher("127.0.0.4")
	talk("hello", "third: hello\ngoodbye\n")
	ended.Usher("127.0.0.5") // Nobody is there: the caller is not kept waiting.
	caller, err := net.DialTimeout("tcp", at("127.0.0.2"), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = caller.Close() }()
	if heard, _ := io.ReadAll(caller); len(heard) > 0 {
		t.Fatalf("heard %q from nobody", heard)
	}
}

// TestDoorOccupied leaves a server alone that still listens.
func TestDoorOccupied(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	port := server.Addr().(*net.TCPAddr).Port
	ended := &door.Door{Life: t.Context(), Address: "127.0.0.2", Port: port, Log: logr.Discard()}
	ended.Usher("127.0.0.3")
	caller, err := net.DialTimeout("tcp", server.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_ = caller.Close()
	if own, err := server.Accept(); err != nil || own.RemoteAddr().String() != caller.LocalAddr().String() {
		t.Fatalf("%v, %v: not the caller", own, err)
	}
}
