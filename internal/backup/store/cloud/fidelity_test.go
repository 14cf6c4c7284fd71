//go:build cluster

package cloud_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/backup/store/model"
)

var (
	operations = flag.Int("operations", 400, "how many random operations the model and the server are given")
	seed       = flag.Uint64("seed", 1, "of the random operations")
)

// The model that simulations use and a real server answer the same random operations alike.
func TestTheModelIsTrueToARealServer(t *testing.T) {
	s := newServer(t)
	s.Start()
	now := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	pretended := &model.Store{PageSize: 2, Now: func() time.Time { now = now.Add(time.Second); return now }}
	actual := s.open("backups", s.credentials())
	choose := rand.New(rand.NewPCG(*seed, 1))
	refused := 0
	for step := range *operations {
		call := []string{"put", "put", "get", "head", "list", "delete", "absent"}[choose.IntN(7)]
		name := []string{"a", "a/b", "a/b/c", "ab", "b/1", "b/10", "b/2"}[choose.IntN(7)]
		if name == "a" || name == "a/b" {
			name += "-x" // A server over a folder cannot have a file and a folder of one name.
		}
		size := choose.IntN(300)
		if choose.IntN(20) == 0 {
			size = store.PartSize + choose.IntN(3) - 1
		}
		at := [2]int{size, step}
		want, got := do(t, pretended, call, name, at), do(t, actual, call, name, at)
		if want != got {
			t.Fatalf("seed %d, step %d: %s %s of %d bytes: the server says %s, the model %s",
				*seed, step, call, name, size, got, want)
		}
		if strings.Contains(want, string(store.Exists)) {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no write met an object that exists")
	}
}

func do(t *testing.T, under store.Store, call, name string, at [2]int) string {
	t.Helper()
	size, step := at[0], at[1]
	ctx := t.Context()
	said := func(err error) string {
		if found, ok := errors.AsType[*store.Error](err); ok {
			if found.Class == store.Away {
				t.Logf("it is away: %v", err)
			}
			return string(found.Class)
		}
		return fmt.Sprint(err)
	}
	switch call {
	case "put":
		return said(under.PutIfAbsent(ctx, name, bytes.NewReader(bytes.Repeat([]byte{byte(step)}, size))))
	case "get":
		reader, err := under.Get(ctx, name)
		if err != nil {
			return said(err)
		}
		content, err := io.ReadAll(reader)
		return fmt.Sprint(len(content), bytes.Count(content, content[:min(1, len(content))]), err, reader.Close())
	case "head":
		found, err := under.Head(ctx, name)
		return fmt.Sprint(found.Name, found.Size, said(err))
	case "delete":
		return said(under.Delete(ctx, name))
	case "absent":
		absent, err := store.IsAbsent(ctx, under, name)
		return fmt.Sprint(absent, said(err))
	}
	var names []string
	err := store.ListAll(ctx, under, name[:1], func(object store.Object) error {
		names = append(names, fmt.Sprint(object.Name, object.Size))
		return nil
	})
	return fmt.Sprint(names, said(err))
}
