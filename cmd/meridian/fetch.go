package main

import (
	"fmt"
	"io"

	"meridian.dev/meridian/internal/backup/restore"
)

// runFetch is what PostgreSQL runs for each file of the log while a database is restored. It does not go through the
// root command: every end but two is a recovery that is given up.
func runFetch(args []string, stderr io.Writer) int {
	if len(args) != 3 {
		_, _ = fmt.Fprintln(stderr, "meridian: a socket, the name of a file and a path are needed")
		return restore.ExitAbort
	}
	return restore.Fetch(args[0], args[1], args[2])
}
