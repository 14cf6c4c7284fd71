package server

// Inner functions for the tests of this package.
var (
	Matches  = matches
	MajorOf  = majorOf
	Durable  = writeDurably
	InitArgs = initdbArguments
)

// NewVerifier returns the text of a verifier with a new salt.
func NewVerifier(password string) (string, error) {
	made, err := newVerifier(password)
	return made.String(), err
}

// ParseControl returns identifier, timeline and state.
func ParseControl(output []byte) (identifier string, timeline int, state string, err error) {
	read, err := parseControl(output)
	return read.systemIdentifier, read.timeline, read.state, err
}
