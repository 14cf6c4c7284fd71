package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// gcs is a bucket of Google Cloud Storage, by its JSON API. Its tokens are in token.go.
type gcs struct {
	*link
	place  *url.URL
	bucket string
	page   int
	tokens tokens
}

var _ store.Store = (*gcs)(nil)

func openGCS(settings wire.GCSBucket, link *link) (store.Store, error) {
	place, err := endpoint(settings.Endpoint, "https://storage.googleapis.com")
	if err != nil {
		return nil, err
	}
	return &gcs{link: link, place: place, bucket: settings.Bucket, page: 1000}, nil
}

// class says what an answer of GCS means. It says notFound of a bucket and of an object in the same words.
func gcsClass(method string) func(*refusal) store.Class {
	return func(refused *refusal) store.Class {
		switch {
		case refused.Status == http.StatusPreconditionFailed:
			return store.Exists
		case method == http.MethodDelete && (refused.Code == "retentionPolicyNotMet" ||
			refused.Code == "objectUnderActiveHold"):
			return store.Locked
		case refused.Status == http.StatusNotFound && (method == http.MethodGet || method == http.MethodDelete):
			return store.NotFound
		case refused.Status == http.StatusUnauthorized, refused.Status == http.StatusForbidden:
			return store.CredentialsRefused
		}
		return store.Away
	}
}

func (g *gcs) do(ctx context.Context, call call) (*http.Response, error) {
	token, err := g.tokens.get(ctx, g.link)
	if err != nil {
		return nil, err
	}
	call.sign = func(request *http.Request, _ []byte) error {
		request.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	answer, err := g.send(ctx, call, gcsClass(call.method))
	if store.Is(err, store.CredentialsRefused) {
		g.tokens.forget(token) // It may have been revoked before its time.
	}
	return answer, err
}

// object is the URL of an object; a slash in its name is no folder here.
func (g *gcs) object(name string, query url.Values) *url.URL {
	place := below(g.place, query, "storage/v1/b", g.bucket, "o")
	place.RawPath = place.EscapedPath() + "/" + url.PathEscape(name)
	place.Path += "/" + name
	return place
}

// PutIfAbsent implements store.Store.
func (g *gcs) PutIfAbsent(ctx context.Context, name string, content io.Reader) error {
	return putIfAbsent(ctx, g, name, content)
}

func (g *gcs) upload(name, kind string) *url.URL {
	// There is no generation yet of what is absent (K1).
	query := url.Values{"uploadType": {kind}, "name": {name}, "ifGenerationMatch": {"0"}}
	return below(g.place, query, "upload/storage/v1/b", g.bucket, "o")
}

func (g *gcs) put(ctx context.Context, name string, content []byte) error {
	answer, err := g.do(ctx, call{
		doing: "write " + name, method: http.MethodPost, url: g.upload(name, "media"), body: content,
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	if err != nil {
		return err
	}
	discard(answer)
	return nil
}

// gcsUpload sends one part after the other to a session. The last one is known only when there is no other.
type gcsUpload struct {
	*gcs
	name    string
	session *url.URL
	sent    int    // What it is known to have.
	unsure  bool   // It may have more.
	pending []byte // Not sent yet.
}

func (g *gcs) begin(ctx context.Context, name string) (upload, error) {
	doing := "write " + name
	answer, err := g.do(ctx, call{
		doing: doing, method: http.MethodPost, url: g.upload(name, "resumable"),
		header: http.Header{"X-Upload-Content-Type": {"application/octet-stream"}},
	})
	if err != nil {
		return nil, err
	}
	discard(answer)
	session, err := answer.Location()
	if err != nil {
		return nil, &store.Error{Class: store.Away, Doing: doing, Err: err}
	}
	// The token goes to the server that was named, and to no other.
	if session.Host != g.place.Host || session.Scheme != g.place.Scheme {
		return nil, &store.Error{Class: store.Away, Doing: doing, Err: fmt.Errorf("the upload is at %s", session.Host)}
	}
	return &gcsUpload{gcs: g, name: name, session: session}, nil
}

func (u *gcsUpload) add(ctx context.Context, content []byte) error {
	if len(content) < store.PartSize {
		u.pending = content
		return nil
	}
	return u.send(ctx, content, "*")
}

func (u *gcsUpload) finish(ctx context.Context) error {
	return u.send(ctx, u.pending, strconv.Itoa(u.sent+len(u.pending)))
}

// send sends what follows; the total is known only of the last. After a failure it asks first how much has arrived.
func (u *gcsUpload) send(ctx context.Context, content []byte, total string) (err error) {
	has, end, done := u.sent, u.sent+len(content), false
	if u.unsure || len(content) == 0 {
		has, done, err = u.request(ctx, nil, "bytes */"+total)
	}
	u.unsure = true
	for err == nil && !done && has >= u.sent && has < end {
		before := has
		has, done, err = u.request(ctx, content[has-u.sent:], fmt.Sprintf("bytes %d-%d/%s", has, end-1, total))
		if err == nil && !done && has <= before {
			break
		}
	}
	if err != nil {
		return err
	}
	if last := total != "*"; done != last || !last && has != end {
		return &store.Error{Class: store.Away, Doing: "write " + u.name, Err: fmt.Errorf("it has %d of %d bytes", has, end)}
	}
	u.sent, u.unsure = end, false
	return nil
}

// request tells how much of the object has arrived, or that it is there.
func (u *gcsUpload) request(ctx context.Context, content []byte, span string) (has int, done bool, err error) {
	answer, err := u.do(ctx, call{
		doing: "write " + u.name, method: http.MethodPut, url: u.session, body: content,
		header: http.Header{"Content-Range": {span}},
	})
	// It asks for more with 308, which is no redirection.
	if refused, ok := errors.AsType[*refusal](err); ok && refused.Status == http.StatusPermanentRedirect {
		if _, err := fmt.Sscanf(refused.received, "bytes=0-%d", &has); err == nil {
			has++
		}
		return has, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	discard(answer)
	return 0, true, nil
}

func (u *gcsUpload) abandon(ctx context.Context) {
	answer, err := u.do(ctx, call{doing: "take back " + u.name, method: http.MethodDelete, url: u.session})
	if err == nil {
		discard(answer)
	}
}

// gcsObject is what the API tells of an object. Numbers are text in it.
type gcsObject struct {
	Name string    `json:"name"`
	Size string    `json:"size"`
	At   time.Time `json:"timeCreated"`
}

func (o gcsObject) object() (store.Object, error) {
	size, err := strconv.ParseInt(o.Size, 10, 64)
	if err != nil || o.At.IsZero() {
		return store.Object{}, fmt.Errorf("%s has a size of %q and was made at %s", o.Name, o.Size, o.At)
	}
	return store.Object{Name: o.Name, Size: size, At: o.At.UTC()}, nil
}

// Get implements store.Store.
func (g *gcs) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	answer, err := g.do(ctx, call{
		doing: "read " + name, method: http.MethodGet, url: g.object(name, url.Values{"alt": {"media"}}),
	})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Head implements store.Store.
func (g *gcs) Head(ctx context.Context, name string) (store.Object, error) {
	doing := "look at " + name
	answer, err := g.do(ctx, call{ //nolint:bodyclose // decode does.
		doing: doing, method: http.MethodGet, url: g.object(name, nil),
	})
	if err != nil {
		return store.Object{}, err
	}
	var told gcsObject
	if err := decodeJSON(answer, &told); err != nil {
		return store.Object{}, &store.Error{Class: store.Away, Doing: doing, Err: err}
	}
	found, err := told.object()
	if err == nil && found.Name != name {
		err = fmt.Errorf("it told of %q", told.Name)
	}
	if err != nil {
		return store.Object{}, &store.Error{Class: store.Away, Doing: doing, Err: err}
	}
	return found, nil
}

// List implements store.Store.
func (g *gcs) List(ctx context.Context, prefix, token string) (store.Page, error) {
	doing := "list " + prefix
	query := url.Values{"prefix": {prefix}, "maxResults": {strconv.Itoa(g.page)}}
	if token != "" {
		query.Set("pageToken", token)
	}
	answer, err := g.do(ctx, call{ //nolint:bodyclose // decode does.
		doing: doing, method: http.MethodGet, url: below(g.place, query, "storage/v1/b", g.bucket, "o"),
	})
	if store.Is(err, store.NotFound) {
		err = &store.Error{Class: store.Away, Doing: doing, Err: errors.Unwrap(err)}
	}
	if err != nil {
		return store.Page{}, err
	}
	var listed struct {
		Kind  string      `json:"kind"`
		Next  string      `json:"nextPageToken"`
		Items []gcsObject `json:"items"`
	}
	err = decodeJSON(answer, &listed)
	if err == nil && listed.Kind != "storage#objects" {
		err = fmt.Errorf("the answer is no listing but %q", listed.Kind)
	}
	page := store.Page{Next: listed.Next}
	for _, told := range listed.Items {
		found, problem := told.object()
		page.Objects, err = append(page.Objects, found), errors.Join(err, problem)
	}
	if err != nil {
		return store.Page{}, &store.Error{Class: store.Away, Doing: doing, Err: err}
	}
	return page, nil
}

// Delete implements store.Store.
func (g *gcs) Delete(ctx context.Context, name string) error {
	answer, err := g.do(ctx, call{doing: "delete " + name, method: http.MethodDelete, url: g.object(name, nil)})
	if store.Is(err, store.NotFound) {
		// The bucket may be what is not there.
		absent, problem := store.IsAbsent(ctx, g, name)
		if problem == nil && !absent {
			return &store.Error{Class: store.Away, Doing: "delete " + name, Err: err}
		}
		return problem
	}
	if err != nil {
		return err
	}
	discard(answer)
	return nil
}
