package cloud

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"meridian.dev/meridian/internal/backup/store"
)

// link is the way to one server. A request is done once.
type link struct {
	files files

	mutex     sync.Mutex
	client    *http.Client
	authority string // What the client was made with.
}

// stalled is how long no byte may move before a request is given up: a server behind a broken network never answers.
const stalled = time.Minute

// connection gives the client, anew when the certificates of authorities were exchanged.
func (l *link) connection() (*http.Client, error) {
	found, err := l.files.read(AuthorityFile)
	if err != nil {
		return nil, err
	}
	authority := found[AuthorityFile]
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.client != nil && l.authority == authority {
		return l.client, nil
	}
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM([]byte(authority)) {
			return nil, &store.Error{Class: store.CredentialsRefused, Doing: "read the credentials",
				Err: errors.New(AuthorityFile + " has no certificate")}
		}
	}
	if l.client != nil {
		l.client.CloseIdleConnections()
	}
	l.authority = authority
	l.client = &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: settings, ForceAttemptHTTP2: false,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 4, IdleConnTimeout: 90 * time.Second,
			DisableCompression: true, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10,
		},
		// Who answers with another place is not the store that was named, and a signature is for one place.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return l.client, nil
}

// call is one request.
type call struct {
	doing  string
	method string
	url    *url.URL
	header http.Header
	body   []byte
	// sign is called last, with the body, which it may not read from the request.
	sign func(*http.Request, []byte) error
}

// send does a request. The answer has a status below 300, and its body is closed by the caller; all else is an error
// that refuse has given a class.
func (l *link) send(ctx context.Context, call call, refuse func(*refusal) store.Class) (*http.Response, error) {
	away := func(err error) error { return &store.Error{Class: store.Away, Doing: call.doing, Err: plain(err)} }
	client, err := l.connection()
	if err != nil {
		return nil, err
	}
	ctx, watch := watched(ctx)
	request, err := http.NewRequestWithContext(ctx, call.method, call.url.String(), nil)
	if err != nil {
		watch.end()
		return nil, away(err)
	}
	for name, values := range call.header {
		request.Header[name] = values
	}
	if len(call.body) > 0 {
		// Without GetBody, so that nothing is sent again.
		request.Body = io.NopCloser(&watchedReader{from: bytes.NewReader(call.body), watch: watch})
		request.ContentLength = int64(len(call.body))
	}
	if err := call.sign(request, call.body); err != nil {
		watch.end()
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		watch.end()
		return nil, away(errors.Join(err, watch.cause(ctx)))
	}
	answer.Body = &body{ReadCloser: answer.Body, doing: call.doing, watch: watch, ctx: ctx}
	if answer.StatusCode < 300 {
		return answer, nil
	}
	refused := understand(answer)
	_ = answer.Body.Close()
	return nil, &store.Error{Class: refuse(refused), Doing: call.doing, Err: refused}
}

// plain takes the URL out of an error, because it may have a signature.
func plain(err error) error {
	if found, ok := errors.AsType[*url.Error](err); ok {
		return found.Err
	}
	return err
}

// refusal is an answer that is none.
type refusal struct {
	Status  int
	Code    string
	Message string
	Place   string // Where it was redirected to.
	// received is how much of an upload GCS has.
	received string
}

func (r *refusal) Error() string {
	text := fmt.Sprintf("the store answered %d", r.Status)
	for _, part := range []string{r.Code, r.Message} {
		if part != "" {
			text += ": " + part
		}
	}
	if r.Place != "" {
		text += ": it is at " + r.Place
	}
	return text
}

// maxAnswer bounds what is read of an answer that is not an object.
const maxAnswer = 16 << 20

// understand reads a refusal, which is XML at S3 and Azure and JSON at GCS.
func understand(answer *http.Response) *refusal {
	refused := &refusal{Status: answer.StatusCode, received: answer.Header.Get("Range")}
	if place, err := answer.Location(); err == nil {
		refused.Place = place.Host
	}
	content, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	var told struct {
		XMLName xml.Name `xml:"Error" json:"-"`
		Code    string   `xml:"Code" json:"-"`
		Message string   `xml:"Message" json:"-"`
		Region  string   `xml:"Region" json:"-"`
		Error   struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `xml:"-" json:"error"`
	}
	if xml.Unmarshal(content, &told) == nil {
		refused.Code, refused.Message = told.Code, told.Message
		if told.Region != "" {
			refused.Message += " (its region is " + told.Region + ")"
		}
	} else if json.Unmarshal(content, &told) == nil {
		refused.Message = told.Error.Message
		if len(told.Error.Errors) > 0 {
			refused.Code = told.Error.Errors[0].Reason
		}
	}
	if refused.Code == "" {
		refused.Code = answer.Header.Get("x-ms-error-code") // Azure's answers to HEAD have no body.
	}
	refused.Message, _, _ = strings.Cut(refused.Message, "\n")
	return refused
}

// decodeXML and decodeJSON read an answer as a whole: one that breaks off is none.
func decodeXML(answer *http.Response, into any) error { return decode(answer, into, xml.Unmarshal) }

func decodeJSON(answer *http.Response, into any) error { return decode(answer, into, json.Unmarshal) }

func decode(answer *http.Response, into any, unmarshal func([]byte, any) error) error {
	content, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	return unmarshal(content, into)
}

// discard ends a request whose answer has nothing to say. What it sends is read, so that the connection is kept.
func discard(answer *http.Response) {
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxAnswer))
	_ = answer.Body.Close()
}

// watch gives a request up when nothing moves.
type watch struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

var errStalled = fmt.Errorf("nothing was sent or received for %s", stalled)

func watched(ctx context.Context) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &watch{timer: time.AfterFunc(stalled, func() { cancel(errStalled) }), cancel: cancel}
}

func (w *watch) moved() { w.timer.Reset(stalled) }

func (w *watch) end() {
	w.timer.Stop()
	w.cancel(nil)
}

func (w *watch) cause(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errStalled) {
		return errStalled
	}
	return nil
}

type watchedReader struct {
	from  io.Reader
	watch *watch
}

func (r *watchedReader) Read(buffer []byte) (int, error) {
	r.watch.moved()
	return r.from.Read(buffer)
}

// body is that of an answer, whose errors have a class.
type body struct {
	io.ReadCloser
	doing string
	watch *watch
	ctx   context.Context
}

func (b *body) Read(buffer []byte) (int, error) {
	count, err := b.ReadCloser.Read(buffer)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &store.Error{Class: store.Away, Doing: b.doing, Err: errors.Join(plain(err), b.watch.cause(b.ctx))}
	}
	if err == nil {
		b.watch.moved()
	}
	return count, err
}

func (b *body) Close() error {
	b.watch.end()
	return b.ReadCloser.Close()
}

// escape writes a name as all three protocols want it in a path.
func escape(name string) string {
	const digits = "0123456789ABCDEF"
	var text strings.Builder
	for _, char := range []byte(name) {
		switch {
		case char >= 'A' && char <= 'Z', char >= 'a' && char <= 'z', char >= '0' && char <= '9',
			strings.IndexByte("-_.~/", char) >= 0:
			text.WriteByte(char)
		default:
			text.Write([]byte{'%', digits[char>>4], digits[char&15]})
		}
	}
	return text.String()
}

// below is the URL of a name below a place.
func below(place *url.URL, query url.Values, names ...string) *url.URL {
	result := *place
	for _, name := range names {
		result.RawPath = result.EscapedPath() + "/" + escape(name)
		result.Path += "/" + name
	}
	// As in a path: a blank is %20, because signatures are made of it.
	result.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	return &result
}
