// Package redis holds the nouns of the loop that runs in the agent beside one Redis or Valkey server: what was observed
// ([Snapshot]), what shall be done about it ([Plan] of [Action] and [Hold]) and what came of it ([Outcome]).
//
// The stages are the packages below: observe reads, plan decides, render makes the configuration file, act writes,
// status makes the report, controller runs them in turn. What they need of the world (the process, the server's own
// protocol, what is mounted, the container) is in ports.go as small interfaces; package server implements them with a
// real server, a test with a model.
//
// Nothing here outlives the pod: a cache that starts is empty. A server is born closed. It lets applications in (its
// door is opened) only when its memory and its settings are in force, and from then on it is changed live, never
// stopped, until the pod ends.
//
// Start reading at [Snapshot], then plan/rules.go.
package redis
