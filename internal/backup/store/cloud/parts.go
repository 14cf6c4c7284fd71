package cloud

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"meridian.dev/meridian/internal/backup/store"
)

// writer is how a driver writes: what fits into one part with one request, all else in parts.
type writer interface {
	Head(ctx context.Context, name string) (store.Object, error)
	// put writes an object if it is absent.
	put(ctx context.Context, name string, content []byte) error
	// begin begins one in parts.
	begin(ctx context.Context, name string) (upload, error)
}

// upload is an object that is being written. Both add and finish may be called again after they have failed, whatever
// came of it.
type upload interface {
	// add is called with parts of store.PartSize, of which the last may be shorter.
	add(ctx context.Context, content []byte) error
	// finish makes the object appear if it is absent. Again it may find what it did before: that it Exists, or that there
	// is no such upload.
	finish(ctx context.Context) error
	// abandon takes back what finish has not made an object.
	abandon(ctx context.Context)
}

// asksFirst is the size from which on it is asked whether an object is there before it is sent. The write has its
// condition all the same; but a server that refuses one may close the connection while the rest is being sent, and its
// answer is lost, each time that it is tried again.
const asksFirst = 64 << 10

// maxParts is what S3 accepts of one object.
const maxParts = 10000

// putIfAbsent holds one part in memory. Nothing appears before the reader has come to its end without an error.
func putIfAbsent(ctx context.Context, to writer, name string, content io.Reader) error {
	doing := "write " + name
	part, ended, err := readPart(content, nil)
	if err != nil {
		return &store.Error{Class: store.Away, Doing: doing, Err: err}
	}
	if ended {
		if len(part) > asksFirst {
			if _, err := to.Head(ctx, name); err == nil {
				return &store.Error{Class: store.Exists, Doing: doing}
			}
		}
		return to.put(ctx, name, part)
	}
	var parts upload
	err = again(ctx, func() (err error) { parts, err = to.begin(ctx, name); return err })
	if err != nil {
		return err
	}
	if err = inParts(ctx, parts, doing, content, part); err == nil {
		return nil
	}
	// Also when the caller's context is over: a part that is left costs money.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	parts.abandon(ctx)
	return err
}

func inParts(ctx context.Context, parts upload, doing string, content io.Reader, part []byte) error {
	ended := false
	for number := 1; len(part) > 0; number++ {
		if number > maxParts {
			return &store.Error{Class: store.Away, Doing: doing, Err: errors.New("it has more parts than S3 takes")}
		}
		if err := again(ctx, func() error { return parts.add(ctx, part) }); err != nil {
			return err
		}
		if ended {
			break
		}
		var err error
		if part, ended, err = readPart(content, part); err != nil {
			return &store.Error{Class: store.Away, Doing: doing, Err: err}
		}
	}
	return again(ctx, func() error { return parts.finish(ctx) })
}

// firstPause is that of again.
var firstPause = time.Second

// again does a step of an object in parts until it succeeds: hours of copying must not end with one answer of a server
// that is busy.
func again(ctx context.Context, do func() error) error {
	return store.Again(ctx, firstPause, passes, do)
}

// passes says whether a failure may pass by itself.
func passes(err error) bool {
	if !store.Is(err, store.Away) {
		return false
	}
	refused, answered := errors.AsType[*refusal](err)
	if !answered {
		return true
	}
	switch refused.Code { // Some come with a status that says something else.
	case "InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown":
		return true
	}
	return refused.Status >= 500 || refused.Status == http.StatusTooManyRequests ||
		refused.Status == http.StatusRequestTimeout
}

// readPart fills a part, and says whether the content has ended. The buffer grows with what there is: most of what is
// shipped are tails of a few kilobytes.
func readPart(content io.Reader, buffer []byte) (part []byte, ended bool, err error) {
	if cap(buffer) == 0 {
		buffer = make([]byte, 0, 32<<10)
	}
	part = buffer[:0]
	for len(part) < store.PartSize {
		if len(part) == cap(part) {
			grown := make([]byte, len(part), min(4*cap(part), store.PartSize))
			copy(grown, part)
			part = grown
		}
		count, err := content.Read(part[len(part):cap(part)])
		part = part[:len(part)+count]
		if errors.Is(err, io.EOF) {
			return part, true, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
	return part, false, nil
}
