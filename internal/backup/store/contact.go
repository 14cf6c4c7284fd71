package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// largeProbe is more than drivers send in one request, because a store may honour the condition of a plain write and
// ignore that of a write in parts.
const largeProbe = PartSize + 1

// PartSize is how much of an object a driver holds in memory. Stores of the S3 family take no smaller parts.
const PartSize = 5 << 20

// Contact tries whether a store honours put-if-absent (K1): once with a small object and once with one that is written
// in parts. Probe is a name below which nothing else is kept, and which no contact has used before.
func Contact(ctx context.Context, store Store, probe string) error {
	for name, size := range map[string]int{probe + "-small": 16, probe + "-large": largeProbe} {
		if err := tryCondition(ctx, store, name, size); err != nil {
			return err
		}
	}
	return nil
}

func tryCondition(ctx context.Context, store Store, name string, size int) (err error) {
	if err := store.PutIfAbsent(ctx, name, filled('1', size)); err != nil {
		return fmt.Errorf("try the condition of the store: %w", err)
	}
	defer func() {
		// An object lock keeps the probe, which does no harm.
		if problem := store.Delete(ctx, name); problem != nil && !Is(problem, Locked) {
			err = errors.Join(err, problem)
		}
	}()
	doing := "write " + name + " a second time"
	switch err := store.PutIfAbsent(ctx, name, filled('2', size)); {
	case err == nil:
		return &Error{Class: ConditionIgnored, Doing: doing,
			Err: errors.New("the store accepted it, although it was to write only what is absent (If-None-Match: *)")}
	case !Is(err, Exists):
		return fmt.Errorf("try the condition of the store: %w", err)
	}
	reader, err := store.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("try the condition of the store: %w", err)
	}
	defer func() { _ = reader.Close() }()
	first := make([]byte, 1)
	if _, err := io.ReadFull(reader, first); err != nil {
		return fmt.Errorf("try the condition of the store: %w", err)
	}
	if first[0] != '1' {
		return &Error{Class: ConditionIgnored, Doing: doing, Err: errors.New("the store refused it, and did it all the same")}
	}
	return nil
}

func filled(content byte, size int) io.Reader {
	return bytes.NewReader(bytes.Repeat([]byte{content}, size))
}
