package database

// Outcome is what became of a plan: one result for each action, in the order of the plan.
type Outcome struct {
	Results []Result `json:"results,omitempty"`
}

// Result is what became of one action.
type Result struct {
	Action Action `json:"action"`
	// Done says that the world is now as the action wanted, by this write or by an earlier one that nobody remembers.
	Done bool `json:"done,omitempty"`
	// Wrote says that this pass has written.
	Wrote bool `json:"wrote,omitempty"`
	// Problem is why it was not done, empty if it was.
	Problem string `json:"problem,omitempty"`
	// Refused is why an agent will not do what it was asked, empty if it will.
	Refused string `json:"refused,omitempty"`
	// Unheld are wanted fields that the API server did not take over, although it accepted the write.
	Unheld []string `json:"unheld,omitempty"`
}
