package database

import "time"

// Fleet is what the other databases of this operator allow.
type Fleet struct {
	// Held says why no restart may begin, empty if one may.
	Held string `json:"held,omitempty"`
	// Waiting is how many databases wait to begin a restart, this one not counted.
	Waiting int `json:"waiting,omitempty"`
}

// How often a database looks whether its restart may begin.
const (
	shortestTurn, longestTurn = 3 * time.Second, 2 * time.Minute
	// turn is what each database that waits adds to it.
	turn = time.Second
)

// Recheck is when a database that waits for others looks again. All that wait look about once a second together,
// however many they are: one of them finds the room that there is, and urgent work is not kept waiting.
func (f Fleet) Recheck() time.Duration {
	return min(max(time.Duration(f.Waiting+1)*turn, shortestTurn), longestTurn)
}
