// Package storage decides about volumes: when claims are made, grow, are adopted from an earlier database, and go with
// a deleted one.
//
// Start reading at GrowClaims.
package storage
