package quorum_test

import (
	"fmt"

	"meridian.dev/meridian/kit/quorum"
)

// A writer "a" gets a second copy. The record and the writer's setting change in turn, never both at once.
func ExampleNext() {
	facts := quorum.Facts{
		Self:    "a",
		Record:  quorum.Record{Members: []string{"a"}, W: 1},
		InForce: &quorum.Setting{},
		Copies:  []quorum.Copy{{ID: "b", Near: true, Flushed: 100}},
	}
	wish := quorum.Wish{Members: []string{"a", "b"}, W: quorum.Majority}
	for range 10 {
		step := quorum.Next(facts, wish)
		switch {
		case step.Record != nil:
			fmt.Println("record", step.Record.Members, "W", step.Record.W)
			facts.Record = *step.Record
		case step.Setting != nil:
			fmt.Println("wait for", step.Setting.K, "of", step.Setting.Names)
			facts.InForce = step.Setting
		default:
			fmt.Println("done; an election needs", facts.Record.Answers())
			return
		}
	}
	// Output:
	// record [a b] W 1
	// wait for 1 of [b]
	// record [a b] W 2
	// done; an election needs 1
}
