package service

// Route is where the write address leads.
type Route struct {
	// Family is that of the addresses of the write Service, empty while there is no such Service.
	Family string `json:"family,omitempty"`
	// Target is the instance behind the address, empty if there is none; Term is that of the holder who wrote so.
	Target string `json:"target,omitempty"`
	Term   int64  `json:"term,omitempty"`
}
