// Command pause is the process that holds a pod's namespaces open. It does nothing but wait: it takes in the children
// of processes that ended before them, for pods that share one process namespace, and ends when it is told to.
package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	reap() // Children may have ended before the signal was asked for.
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap takes in every child that has ended. One signal may stand for many of them.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if pid <= 0 || err != nil {
			return
		}
	}
}
