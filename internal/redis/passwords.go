package redis

import (
	"slices"

	"meridian.dev/meridian/internal/wire"
)

// Passwords are those that are mounted into the pod. They come to the pods one after the other.
type Passwords struct {
	// Present is the one that applications are told, and Former was until not long ago; empty if there was no other.
	Present, Former string
	// Next is the one that a rotation makes ready, and Previous the one that applications were told before it. Both stay
	// until the next rotation. Rotation counts the rotations.
	Next, Previous string
	Rotation       int64
	// Own is the password of replication, which no application is ever told, and OwnFormer was until not long ago. Both
	// are empty in a cache of a version that had none.
	Own, OwnFormer string
}

// Logins are who can log in to a server, as the settings want it.
type Logins struct {
	// Application are the passwords that applications log in with, and NoScripts refuses scripts to them.
	Application []string
	NoScripts   bool
	// Replication are the passwords that replicas log in with. The first is the one that they try first.
	Replication []string
}

// Logins are who can log in. An instance of a version that has no password of replication knows one that is made from
// that of the application. It counts until the settings say that no such instance is left, and until then it is tried
// first: whoever knows the other one accepts both.
func (p Passwords) Logins(settings *wire.CacheSettings) Logins {
	alone := settings != nil && settings.ReplicationAlone && p.Own != ""
	logins := Logins{NoScripts: settings != nil && settings.NoScripts}
	add := func(list *[]string, passwords ...string) {
		for _, password := range passwords {
			if password != "" && !slices.Contains(*list, password) {
				*list = append(*list, password)
			}
		}
	}
	add(&logins.Application, p.Present, p.Next, p.Previous)
	if !alone {
		add(&logins.Replication, derived(p.Present), derived(p.Former))
	}
	add(&logins.Replication, p.Own, p.OwnFormer)
	return logins
}

func derived(application string) string {
	if application == "" {
		return ""
	}
	return wire.DerivedReplicationPassword(application)
}
