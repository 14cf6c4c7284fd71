// Package server is the real world behind the interfaces of package redis: mounted objects ([Mounts]), the process of a
// Redis or Valkey server ([Runner]), its own protocol over its local socket ([Link]) and the container around it
// ([Room]). It decides nothing.
//
// Every child process is started through one kit/supervise Supervisor, because the agent is process 1 of its
// container and reaps whatever ends there.
//
// Start reading at [Link.Server].
package server

import "meridian.dev/meridian/internal/redis"

// Each interface of the loop is met.
var (
	_ redis.Mounts = (*Mounts)(nil)
	_ redis.Runner = (*Runner)(nil)
	_ redis.Link   = (*Link)(nil)
	_ redis.Room   = (*Room)(nil)
)
