// Package caches is what the simulator of the lease has of a cache: the loop of a Redis server as it is in production
// (internal/redis), on a model of the server and of its pod, and the truth about what a cache promises.
//
// The model has what matters to who leads: data lives and dies with its process; a server has an id and an offset of
// its writes, and goes on from there or takes all of the data anew; a replica that has lost its primary notices at once
// when that process ends, and after seconds when a machine or a cable is gone; it answers nobody then. A primary
// acknowledges alone. Nothing of it is as slow as the real one, or as large.
//
// It may not be imported by production code. Start reading at [Group], then at truth.go.
package caches
