// Package postgres holds the nouns of the loop that runs in the agent beside one PostgreSQL server: what was observed
// ([Snapshot]), what shall be done about it ([Plan] of [Action] and [Hold]) and what came of it ([Outcome]).
//
// The stages are the packages below: observe reads, plan decides, render makes the configuration files, act writes,
// status makes the report, controller runs them in turn. What they need of the world (the volume, the process, SQL)
// is in ports.go as small interfaces; package server implements them with a real PostgreSQL, a simulator with a
// model.
//
// What must outlive the agent is in the [Record] on the volume, written there, file and folder, before the act that it
// describes.
//
// Start reading at [Snapshot], then plan/rules.go.
package postgres
