// Package monitoring tests the alert rules with the query engine and the store of a real Prometheus: each alert is seen
// to fire exactly once in a simulated fault, not before it, and not after it was mended. It is a module of its own, so
// that nobody who uses Meridian downloads Prometheus.
//
// Start reading at faults.
package monitoring
