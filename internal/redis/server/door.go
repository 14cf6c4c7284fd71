package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	client "github.com/redis/go-redis/v9"

	"meridian.dev/meridian/internal/wire"
)

// applicationRules are what an application may do: everything with the data, and nothing with the server. Of what the
// server calls dangerous, what concerns only the data of the application itself is given back.
var applicationRules = strings.Fields("~* &* +@all -@admin -@dangerous" +
	" +flushall +flushdb +info +keys +role +sort +sort_ro")

// door tells whether somebody can log in, and whether it is with these passwords and no others.
func (l *Link) door(ctx context.Context, user string, passwords ...string) (open, matches bool, err error) {
	answer, err := l.open().Do(ctx, "acl", "getuser", user).Slice()
	switch {
	case errors.Is(err, client.Nil):
		return false, false, nil
	case err != nil:
		return false, false, err
	}
	var hashes []string
	for i := 0; i+1 < len(answer); i += 2 {
		switch answer[i] {
		case "flags":
			open = slices.Contains(texts(answer[i+1]), "on")
		case "passwords":
			hashes = texts(answer[i+1])
		}
	}
	wanted := make([]string, 0, len(passwords))
	for _, password := range passwords {
		wanted = append(wanted, hashOf(password))
	}
	slices.Sort(wanted)
	slices.Sort(hashes)
	return open, open && slices.Equal(hashes, wanted), nil
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

// OpenDoor implements redis.Link. Who is connected stays connected. The server gets to see the hash alone, which its
// errors could repeat.
func (l *Link) OpenDoor(ctx context.Context, password string) error {
	words := []any{"acl", "setuser", wire.CacheUser, "reset", "on", "#" + hashOf(password)}
	for _, rule := range applicationRules {
		words = append(words, rule)
	}
	if err := l.open().Do(ctx, words...).Err(); err != nil {
		return fmt.Errorf("let the application in: %w", err)
	}
	return nil
}
