package cloud

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// s3 is a bucket. Its signatures are in s3sign.go.
type s3 struct {
	*link
	place  *url.URL // Of the bucket.
	bucket string
	region string
	page   int
}

var _ store.Store = (*s3)(nil)

func openS3(settings wire.S3Bucket, link *link) (store.Store, error) {
	opened := &s3{link: link, bucket: settings.Bucket, region: settings.Region, page: 1000}
	if opened.region == "" {
		opened.region = "us-east-1"
	}
	host := "s3." + opened.region + ".amazonaws.com"
	// A name with dots has no certificate at Amazon.
	if settings.Endpoint == "" && !settings.PathStyle && !strings.Contains(settings.Bucket, ".") {
		opened.place = &url.URL{Scheme: "https", Host: settings.Bucket + "." + host}
		return opened, nil
	}
	place, err := endpoint(settings.Endpoint, "https://"+host)
	if err != nil {
		return nil, err
	}
	opened.place = below(place, nil, settings.Bucket)
	return opened, nil
}

// class says what an answer of S3 means. Some answers are the same for different causes, so the method is asked too.
func (s *s3) class(method string) func(*refusal) store.Class {
	return func(refused *refusal) store.Class {
		switch {
		case refused.Status == http.StatusPreconditionFailed && method != http.MethodGet:
			return store.Exists
		case method == http.MethodDelete && saysLocked(refused.Message):
			return store.Locked
		case refused.Code == "NoSuchBucket":
			return store.Away
		case refused.Status == http.StatusNotFound && (method == http.MethodGet || method == http.MethodHead):
			return store.NotFound
		case refused.Status == http.StatusUnauthorized, refused.Status == http.StatusForbidden:
			return store.CredentialsRefused
		case refused.Status == http.StatusNotImplemented && (method == http.MethodPut || method == http.MethodPost):
			return store.ConditionIgnored
		}
		return store.Away
	}
}

// saysLocked knows the sentences of Amazon and MinIO, whose codes say less. Both have blanks: a message may also name
// the bucket, the object and who has asked, and none of those has one.
func saysLocked(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "protected by object lock") || strings.Contains(message, "is worm protected")
}

type s3Request struct {
	method, doing, name string
	query               url.Values
	header              http.Header
	body                []byte
}

func (s *s3) do(ctx context.Context, request s3Request) (*http.Response, error) {
	place := s.place
	if request.name != "" {
		place = below(s.place, request.query, request.name)
	} else {
		place = below(place, request.query)
		place.Path, place.RawPath = place.Path+"/", place.EscapedPath()+"/"
	}
	return s.send(ctx, call{
		doing: request.doing, method: request.method, url: place, header: request.header, body: request.body, sign: s.sign,
	}, s.class(request.method))
}

// absent is the condition of every write (K1).
func absent() http.Header { return http.Header{"If-None-Match": {"*"}} }

// PutIfAbsent implements store.Store.
func (s *s3) PutIfAbsent(ctx context.Context, name string, content io.Reader) error {
	return putIfAbsent(ctx, s, name, content)
}

func (s *s3) put(ctx context.Context, name string, content []byte) error {
	header := absent()
	// A bucket with an object lock takes nothing without a checksum.
	header.Set(checksumHeader, checksum(content))
	answer, err := s.do(ctx, s3Request{
		method: http.MethodPut, doing: "write " + name, name: name, header: header, body: content,
	})
	if err != nil {
		return err
	}
	discard(answer)
	return nil
}

// checksumHeader is the checksum of what is written, in base64.
const checksumHeader = "X-Amz-Checksum-Sha256"

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// s3Upload is an object in parts.
type s3Upload struct {
	*s3
	name, id string
	parts    []s3Part
}

type s3Part struct {
	Number   int    `xml:"PartNumber"`
	ETag     string `xml:"ETag"`
	Checksum string `xml:"ChecksumSHA256"`
}

func (s *s3) begin(ctx context.Context, name string) (upload, error) {
	doing := "write " + name
	answer, err := s.do(ctx, s3Request{ //nolint:bodyclose // decode does.
		method: http.MethodPost, doing: doing, name: name, query: url.Values{"uploads": {""}},
		header: http.Header{"X-Amz-Checksum-Algorithm": {"SHA256"}},
	})
	if err != nil {
		return nil, err
	}
	var begun struct {
		XMLName xml.Name `xml:"InitiateMultipartUploadResult"`
		ID      string   `xml:"UploadId"`
	}
	if err := decodeXML(answer, &begun); err != nil || begun.ID == "" {
		return nil, &store.Error{Class: store.Away, Doing: doing, Err: errors.Join(errors.New("it began no upload"), err)}
	}
	return &s3Upload{s3: s, name: name, id: begun.ID}, nil
}

func (u *s3Upload) add(ctx context.Context, content []byte) error {
	number := len(u.parts) + 1
	sum := checksum(content)
	answer, err := u.do(ctx, s3Request{
		method: http.MethodPut, doing: fmt.Sprintf("write part %d of %s", number, u.name), name: u.name,
		query:  url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {u.id}},
		header: http.Header{checksumHeader: {sum}}, body: content,
	})
	if err != nil {
		return err
	}
	discard(answer)
	u.parts = append(u.parts, s3Part{Number: number, ETag: answer.Header.Get("ETag"), Checksum: sum})
	return nil
}

func (u *s3Upload) finish(ctx context.Context) error {
	doing := "write " + u.name
	content, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Parts   []s3Part `xml:"Part"`
	}{Parts: u.parts})
	if err != nil {
		return &store.Error{Class: store.Away, Doing: doing, Err: err}
	}
	answer, err := u.do(ctx, s3Request{ //nolint:bodyclose // decode does.
		method: http.MethodPost, doing: doing, name: u.name, query: url.Values{"uploadId": {u.id}},
		header: absent(), body: content,
	})
	if err != nil {
		return err
	}
	// It may answer 200 before it knows, and say in the body that it failed.
	var done struct {
		XMLName xml.Name
		ETag    string `xml:"ETag"`
		Code    string `xml:"Code"`
		Message string `xml:"Message"`
	}
	err = decodeXML(answer, &done)
	if err == nil && done.XMLName.Local == "CompleteMultipartUploadResult" {
		return nil
	}
	refused := &refusal{Status: answer.StatusCode, Code: done.Code, Message: done.Message}
	if done.Code == "PreconditionFailed" {
		return &store.Error{Class: store.Exists, Doing: doing, Err: refused}
	}
	return &store.Error{Class: store.Away, Doing: doing, Err: errors.Join(refused, err)}
}

func (u *s3Upload) abandon(ctx context.Context) {
	answer, err := u.do(ctx, s3Request{
		method: http.MethodDelete, doing: "take back " + u.name, name: u.name, query: url.Values{"uploadId": {u.id}},
	})
	if err == nil {
		discard(answer)
	}
}

// Get implements store.Store.
func (s *s3) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	answer, err := s.do(ctx, s3Request{method: http.MethodGet, doing: "read " + name, name: name})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Head implements store.Store.
func (s *s3) Head(ctx context.Context, name string) (store.Object, error) {
	answer, err := s.do(ctx, s3Request{method: http.MethodHead, doing: "look at " + name, name: name})
	if err != nil {
		return store.Object{}, err
	}
	discard(answer)
	return headOf(name, answer)
}

// headOf is what the headers of S3 and Azure say.
func headOf(name string, answer *http.Response) (store.Object, error) {
	at, err := http.ParseTime(answer.Header.Get("Last-Modified"))
	if err != nil {
		return store.Object{}, &store.Error{Class: store.Away, Doing: "look at " + name, Err: err}
	}
	return store.Object{Name: name, Size: answer.ContentLength, At: at.UTC()}, nil
}

// List implements store.Store. The token is the last name of the page before.
func (s *s3) List(ctx context.Context, prefix, token string) (store.Page, error) {
	doing := "list " + prefix
	query := url.Values{"list-type": {"2"}, "prefix": {prefix}, "max-keys": {strconv.Itoa(s.page)}}
	if token != "" {
		query.Set("start-after", token)
	}
	answer, err := s.do(ctx, s3Request{ //nolint:bodyclose // decode does.
		method: http.MethodGet, doing: doing, query: query,
	})
	if store.Is(err, store.NotFound) {
		// A listing is never of what is not there: it was not answered by the bucket.
		err = &store.Error{Class: store.Away, Doing: doing, Err: errors.Unwrap(err)}
	}
	if err != nil {
		return store.Page{}, err
	}
	var listed struct {
		XMLName   xml.Name `xml:"ListBucketResult"`
		Truncated *bool    `xml:"IsTruncated"`
		Contents  []struct {
			Key  string    `xml:"Key"`
			Size int64     `xml:"Size"`
			At   time.Time `xml:"LastModified"`
		} `xml:"Contents"`
	}
	if err := decodeXML(answer, &listed); err != nil {
		return store.Page{}, &store.Error{Class: store.Away, Doing: doing, Err: err}
	}
	var page store.Page
	for _, found := range listed.Contents {
		page.Objects = append(page.Objects, store.Object{Name: found.Key, Size: found.Size, At: found.At.UTC()})
	}
	last := len(page.Objects) - 1
	switch {
	case listed.Truncated == nil, *listed.Truncated && last < 0:
		return store.Page{}, &store.Error{Class: store.Away, Doing: doing, Err: errors.New("the listing has no end")}
	case *listed.Truncated:
		page.Next = page.Objects[last].Name
	}
	return page, nil
}

// Delete implements store.Store.
func (s *s3) Delete(ctx context.Context, name string) error {
	answer, err := s.do(ctx, s3Request{method: http.MethodDelete, doing: "delete " + name, name: name})
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok && refused.Code == "NoSuchKey":
		return nil
	case ok && (refused.Code == "AccessDenied" || refused.Code == "InvalidRequest") && s.isLocked(ctx, name):
		return &store.Error{Class: store.Locked, Doing: "delete " + name, Err: refused}
	case err != nil:
		return err
	}
	discard(answer)
	return nil
}

// isLocked asks for the lock of an object, as far as we may know of it.
func (s *s3) isLocked(ctx context.Context, name string) bool {
	answer, err := s.do(ctx, s3Request{method: http.MethodHead, doing: "look at " + name, name: name})
	if err != nil {
		return false
	}
	discard(answer)
	until, err := time.Parse(time.RFC3339, answer.Header.Get("X-Amz-Object-Lock-Retain-Until-Date"))
	now, unknown := http.ParseTime(answer.Header.Get("Date"))
	if unknown != nil {
		now = time.Now()
	}
	return answer.Header.Get("X-Amz-Object-Lock-Legal-Hold") == "ON" || err == nil && until.After(now)
}
