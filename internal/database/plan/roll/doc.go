// Package roll decides when a running instance gets what the user has changed: in place if that can be, else by a
// restart, one instance at a time and the primary last.
//
// Start reading at Instances.
package roll
