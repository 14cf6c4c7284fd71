// Package session is what the agent says to PostgreSQL in SQL, and what it is told: over the local socket ([Link]), and
// on a line of its own that finds out whether the server still answers ([Probe]). It decides nothing.
//
// Start reading at [Link.Server].
package session
