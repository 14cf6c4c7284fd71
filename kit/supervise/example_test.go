//go:build linux

package supervise_test

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"meridian.dev/meridian/kit/supervise"
)

// A server is started, and stopped with a ladder of signals: first a polite one, then one that it cannot ignore.
func Example() {
	supervisor, err := supervise.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer supervisor.Close()

	ready := make(chan struct{})
	server, err := supervisor.Start(supervise.Command{
		Path: "/bin/sh",
		Args: []string{"-c", `trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done`},
		Lines: func(line []byte) {
			fmt.Printf("it says %q\n", line)
			close(ready)
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-ready
	exit, err := server.Stop(context.Background(),
		supervise.Step{Signal: syscall.SIGTERM, For: 10 * time.Second},
		supervise.Step{Signal: syscall.SIGQUIT, For: time.Second})
	fmt.Println(exit, err)
	// Output:
	// it says "ready"
	// exit code 0 <nil>
}
