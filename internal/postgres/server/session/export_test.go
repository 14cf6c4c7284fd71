package session

// Matches is for the tests of this package.
var Matches = matches

// NewVerifier returns the text of a verifier with a new salt.
func NewVerifier(password string) (string, error) {
	made, err := newVerifier(password)
	return made.String(), err
}
