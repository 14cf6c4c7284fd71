package server

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// scramIterations is PostgreSQL's own default.
const scramIterations = 4096

// verifier is what a server needs to check a password: it does not give the password away. The form is that of
// PostgreSQL's pg_authid, "SCRAM-SHA-256$<iterations>:<salt>$<stored key>:<server key>".
type verifier struct {
	iterations        int
	salt              []byte
	stored, serverKey []byte
}

// newVerifier makes one with a new salt.
func newVerifier(password string) (verifier, error) {
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return verifier{}, fmt.Errorf("make a salt: %w", err)
	}
	return deriveVerifier(password, salt, scramIterations)
}

func deriveVerifier(password string, salt []byte, iterations int) (verifier, error) {
	salted, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return verifier{}, fmt.Errorf("derive a verifier: %w", err)
	}
	stored := sha256.Sum256(keyed(salted, "Client Key"))
	return verifier{iterations: iterations, salt: salt, stored: stored[:], serverKey: keyed(salted, "Server Key")}, nil
}

func keyed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

func (v verifier) String() string {
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", v.iterations, encode(v.salt), encode(v.stored), encode(v.serverKey))
}

func parseVerifier(text string) (verifier, bool) {
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == '$' || r == ':' })
	if len(parts) != 5 || parts[0] != "SCRAM-SHA-256" {
		return verifier{}, false
	}
	iterations, err := strconv.Atoi(parts[1])
	if err != nil || iterations < 1 {
		return verifier{}, false
	}
	var keys [3][]byte
	for index := range keys {
		if keys[index], err = base64.StdEncoding.DecodeString(parts[2+index]); err != nil {
			return verifier{}, false
		}
	}
	return verifier{iterations: iterations, salt: keys[0], stored: keys[1], serverKey: keys[2]}, true
}

// matches tells whether a stored verifier is one of this password, so that an unchanged password causes no write. One
// in another form is none.
func matches(stored, password string) bool {
	known, ok := parseVerifier(stored)
	// A verifier with a cost beyond all measure must not stop the agent.
	if !ok || known.iterations > 100*scramIterations {
		return false
	}
	derived, err := deriveVerifier(password, known.salt, known.iterations)
	return err == nil && subtle.ConstantTimeCompare(derived.stored, known.stored) == 1 &&
		subtle.ConstantTimeCompare(derived.serverKey, known.serverKey) == 1
}
