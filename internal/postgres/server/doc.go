// Package server is the real world behind the interfaces of package postgres: a volume ([Disk]), mounted objects
// ([Mounts]), PostgreSQL's process ([Runner]) and SQL over its local socket ([Link]). It decides nothing.
//
// Every child process is started through one kit/supervise Supervisor, because the agent is process 1 of its
// container and reaps whatever ends there.
//
// Start reading at [Disk.Look].
package server

import "meridian.dev/meridian/internal/postgres"

// Each interface of the loop is met.
var (
	_ postgres.Disk   = (*Disk)(nil)
	_ postgres.Mounts = (*Mounts)(nil)
	_ postgres.Runner = (*Runner)(nil)
	_ postgres.SQL    = (*Link)(nil)
)
