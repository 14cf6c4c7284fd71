package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// Secret is the password of the agent, made anew for each start of the server. It is in the memory of the two and
// nowhere else.
type Secret struct {
	mutex    sync.Mutex
	password string
}

// Renew makes another password and returns its hash.
func (s *Secret) Renew() (string, error) {
	random := make([]byte, 32)
	if _, err := rand.Read(random); err != nil {
		return "", err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.password = hex.EncodeToString(random)
	return hashOf(s.password), nil
}

// Password is the present one.
func (s *Secret) Password() string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.password
}

// hashOf is the form in which a server keeps and shows passwords.
func hashOf(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}
