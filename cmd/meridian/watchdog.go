package main

import (
	"fmt"
	"io"

	"meridian.dev/meridian/kit/watchdog"
)

// watchdogWord is the sub-command by which an agent starts the process that ends its server at a deadline. It is for
// agents alone and in no help text. It does not go through the root command: that process shall need nothing but
// itself.
const watchdogWord = "watchdog"

func runWatchdog(args []string, stderr io.Writer) int {
	program, err := watchdog.ParseArguments(args)
	if err == nil {
		err = watchdog.Serve(program)
	}
	if err != nil {
		_, _ = fmt.Fprintf(stderr, "meridian: %v\n", err)
		return 1
	}
	return 0
}
