package server

// Inner functions for the tests of this package.
var (
	Matches  = matches
	MajorOf  = majorOf
	Durable  = writeDurably
	InitArgs = initdbArguments
)

// Words is what is kept of these lines of one start.
func Words(lines ...string) (complaints []string, last string, reached bool) {
	var kept words
	for _, line := range lines {
		kept.add([]byte(line))
	}
	return kept.before(), kept.text(), kept.wasReached()
}

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
