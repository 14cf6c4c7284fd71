package session_test

import (
	"strings"
	"testing"

	"meridian.dev/meridian/internal/postgres/server/session"
)

// The first verifier was made by PostgreSQL 15 itself for the password "pencil".
func TestVerifier(t *testing.T) {
	const known = "SCRAM-SHA-256$4096:OhQlFy/kcnS2+ijr8PZCxA==" +
		"$23B9WUPMQbPV9JEHEX6MX3Z3mFMWQD0Qm/vMRB0A0iE=:bvyKfTGFaJ/r/A8o1bTG7rvgUJQ5nRiVvjzBQ0gG+qs="
	made, err := session.NewVerifier("pencil")
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		stored, password string
		want             bool
	}{
		"PostgreSQL's own":           {known, "pencil", true},
		"PostgreSQL's own, other":    {known, "Pencil", false},
		"ours":                       {made, "pencil", true},
		"ours, other password":       {made, "pencil ", false},
		"none":                       {"", "pencil", false},
		"another method":             {"md5ef5b5a4e6ae4e4d5b4b2b2e5c3fbd9e0", "pencil", false},
		"cut":                        {made[:len(made)-30], "pencil", false},
		"a cost beyond all measure":  {strings.Replace(made, "$4096:", "$999999999:", 1), "pencil", false},
		"a cost that is not a count": {strings.Replace(made, "$4096:", "$-1:", 1), "pencil", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := session.Matches(test.stored, test.password); got != test.want {
				t.Errorf("matches %t, want %t", got, test.want)
			}
		})
	}
	if again, _ := session.NewVerifier("pencil"); again == made {
		t.Error("two verifiers have the same salt")
	}
}
