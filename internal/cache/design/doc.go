// Package design decides what the children of a cache are rendered from: Of is a function from a Snapshot to a Design
// and nothing else. It joins what the spec asks for with what the world has already fixed: which instances there are
// and by which lease they agree. It changes none of that; what changes, and when, is decided in plan.
//
// The stage that observes needs the same answers as the planner, to compare what is there with what is wanted: that is
// why they are not in plan. What the objects of a Design look like is decided in render.
//
// Start reading at Of.
package design
