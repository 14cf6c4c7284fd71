package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	client "github.com/redis/go-redis/v9"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/wire"
)

// applicationRules are what an application may do: everything with the data, and nothing with the server. Of what the
// server calls dangerous, what concerns only the data of the application itself is given back.
var applicationRules = strings.Fields("~* &* +@all -@admin -@dangerous" +
	" +flushall +flushdb +info +keys +role +sort +sort_ro")

// scriptRule is the last of the rules of an application that may not run scripts.
const scriptRule = "-@scripting"

// door is what a server says of one who can log in.
type door struct {
	open   bool
	hashes []string
	// rules are those of commands, in the words of the server, which are those that it was told.
	rules []string
}

// matches says that one can log in with these passwords and no others.
func (d door) matches(passwords []string) bool {
	wanted := make([]string, 0, len(passwords))
	for _, password := range passwords {
		wanted = append(wanted, hashOf(password))
	}
	slices.Sort(wanted)
	return d.open && slices.Equal(d.hashes, wanted)
}

// door looks at a user. One that there is not is a closed door.
func (l *Link) door(ctx context.Context, user string) (door, error) {
	var found door
	answer, err := l.open().Do(ctx, "acl", "getuser", user).Slice()
	switch {
	case errors.Is(err, client.Nil):
		return found, nil
	case err != nil:
		return found, err
	}
	for i := 0; i+1 < len(answer); i += 2 {
		switch answer[i] {
		case "flags":
			found.open = slices.Contains(texts(answer[i+1]), "on")
		case "passwords":
			found.hashes = texts(answer[i+1])
			slices.Sort(found.hashes)
		case "commands":
			rules, _ := answer[i+1].(string)
			found.rules = strings.Fields(rules)
		}
	}
	return found, nil
}

func texts(list any) []string {
	items, _ := list.([]any)
	var found []string
	for _, item := range items {
		if text, ok := item.(string); ok {
			found = append(found, text)
		}
	}
	return found
}

// OpenDoor implements redis.Link. Who is connected stays connected. The server gets to see hashes alone, which its
// errors could repeat.
func (l *Link) OpenDoor(ctx context.Context, logins redis.Logins) error {
	words := []any{"acl", "setuser", wire.CacheUser, "reset", "on"}
	for _, password := range logins.Application {
		words = append(words, "#"+hashOf(password))
	}
	for _, rule := range applicationRules {
		words = append(words, rule)
	}
	if logins.NoScripts {
		words = append(words, scriptRule)
	}
	if err := l.open().Do(ctx, words...).Err(); err != nil {
		return fmt.Errorf("let the application in: %w", err)
	}
	return nil
}
