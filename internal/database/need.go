package database

import "time"

// Need is what an instance lacks that a restore on trial may have: one takes as much CPU, memory and storage as an
// instance, and goes after it.
type Need struct {
	// Why says it in words, empty for no need.
	Why string `json:"why,omitempty"`
	// Within says that it is about the namespace, such as a quota; otherwise it is about nodes, which all share.
	Within bool `json:"within,omitempty"`
}

// NeedPatience is how long an instance may lack something that it usually gets in a moment, such as a pod after the one
// before has ended.
const NeedPatience = 30 * time.Second

// Crowd is what other databases leave to the restores on trial of one.
type Crowd struct {
	// Need says which of their instances lacks what a restore on trial may have, empty for none.
	Need string `json:"need,omitempty"`
	// Held says why none may begin, although one that runs may go on.
	Held string `json:"held,omitempty"`
	// Since is since when an instance of this database lacks something, zero for not.
	Since time.Time `json:"since,omitzero"`
}
