// Package conform says what a store must answer, so that the drivers and the model can be compared: all of them give
// the same answers to the same script. It is for tests.
package conform

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"meridian.dev/meridian/internal/backup/store"
)

// script writes down the answers of a store.
type script struct {
	ctx     context.Context
	store   store.Store
	answers []string
}

// Answers runs the script against a store that is empty below the prefix, and tells the answers, one a line, without
// the prefix.
func Answers(ctx context.Context, under store.Store, prefix string) []string {
	s := &script{ctx: ctx, store: under}
	one, two := prefix+"a/one", prefix+"a/two"
	s.say("list of nothing", s.list(prefix))
	s.say("put", class(under.PutIfAbsent(ctx, one, strings.NewReader("first"))))
	s.say("put again", class(under.PutIfAbsent(ctx, one, strings.NewReader("second"))))
	s.say("get", s.get(one))
	s.say("head", s.head(one))
	s.say("get of what is not there", s.get(two))
	s.say("head of what is not there", s.head(two))
	s.say("get of a folder", s.get(prefix+"a"))
	s.say("absent", s.absent(two))
	s.say("absent, but a longer name is there", s.absent(prefix+"a/on"))
	s.say("absent, but it is there", s.absent(one))
	s.say("put of a broken reader", class(under.PutIfAbsent(ctx, two, io.MultiReader(strings.NewReader("x"), broken{}))))
	s.say("absent after a broken reader", s.absent(two))
	large := bytes.Repeat([]byte("large"), store.PartSize/5+1)
	s.say("put of a large one", class(under.PutIfAbsent(ctx, two, bytes.NewReader(large))))
	s.say("put of a large one again", class(under.PutIfAbsent(ctx, two, bytes.NewReader(large[5:]))))
	s.say("head of a large one", s.head(two))
	broke := io.MultiReader(bytes.NewReader(large), bytes.NewReader(large), broken{})
	s.say("put of a large broken reader", class(under.PutIfAbsent(ctx, prefix+"a/three", broke)))
	s.say("absent after a large broken reader", s.absent(prefix+"a/three"))
	for _, name := range []string{"b/1", "b/2/x", "b/10", "bb"} {
		s.say("put "+name, class(under.PutIfAbsent(ctx, prefix+name, strings.NewReader(name))))
	}
	s.say("put of nothing", class(under.PutIfAbsent(ctx, prefix+"empty", strings.NewReader(""))))
	s.say("get of nothing", s.get(prefix+"empty"))
	s.say("list", s.list(prefix))
	s.say("list a folder", s.list(prefix+"b/"))
	s.say("list by the begin of a name", s.list(prefix+"b/1"))
	s.say("delete", class(under.Delete(ctx, one)))
	s.say("delete again", class(under.Delete(ctx, one)))
	s.say("absent after delete", s.absent(one))
	s.say("put after delete", class(under.PutIfAbsent(ctx, one, strings.NewReader("third"))))
	s.say("get after delete", s.get(one))
	s.say("contact", class(store.Contact(ctx, under, prefix+"contact/1")))
	s.say("list after contact", s.list(prefix+"contact/"))
	for index, answer := range s.answers {
		s.answers[index] = strings.ReplaceAll(answer, prefix, "")
	}
	return s.answers
}

func (s *script) say(what, answer string) { s.answers = append(s.answers, what+": "+answer) }

func class(err error) string {
	if err == nil {
		return "ok"
	}
	var found *store.Error
	if errors.As(err, &found) {
		return string(found.Class)
	}
	return "an error without a class: " + err.Error()
}

func (s *script) get(name string) string {
	reader, err := s.store.Get(s.ctx, name)
	if err != nil {
		return class(err)
	}
	content, err := io.ReadAll(reader)
	if err := errors.Join(err, reader.Close()); err != nil {
		return class(err)
	}
	return fmt.Sprintf("%q", content)
}

func (s *script) head(name string) string {
	object, err := s.store.Head(s.ctx, name)
	if err != nil {
		return class(err)
	}
	return fmt.Sprintf("%s, %d bytes, has a time: %t", object.Name, object.Size, !object.At.IsZero())
}

func (s *script) absent(name string) string {
	absent, err := store.IsAbsent(s.ctx, s.store, name)
	if err != nil {
		return class(err)
	}
	return fmt.Sprint(absent)
}

func (s *script) list(prefix string) string {
	var names []string
	err := store.ListAll(s.ctx, s.store, prefix, func(object store.Object) error {
		names = append(names, fmt.Sprintf("%s(%d)", object.Name, object.Size))
		return nil
	})
	return class(err) + " " + strings.Join(names, " ")
}

// broken is a reader that ends before its end.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the reader broke") }
