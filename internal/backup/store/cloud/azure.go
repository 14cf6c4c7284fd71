package cloud

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// azure is a container of Azure Blob Storage. Its signatures are in azuresign.go.
type azure struct {
	*link
	account string
	place   *url.URL // Of the container.
	page    int
}

var _ store.Store = (*azure)(nil)

func openAzure(settings wire.AzureBucket, link *link) (store.Store, error) {
	place, err := endpoint(settings.Endpoint, "https://"+settings.Account+".blob.core.windows.net")
	if err != nil {
		return nil, err
	}
	return &azure{link: link, account: settings.Account, place: below(place, nil, settings.Container), page: 1000}, nil
}

// azureClass says what an answer means.
func azureClass(method string) func(*refusal) store.Class {
	return func(refused *refusal) store.Class {
		switch {
		case refused.Code == "BlobAlreadyExists", refused.Status == http.StatusPreconditionFailed &&
			method == http.MethodPut:
			return store.Exists
		case method == http.MethodDelete && (strings.HasPrefix(refused.Code, "BlobImmutable") ||
			strings.HasPrefix(refused.Code, "LeaseIdMissing")):
			return store.Locked
		case refused.Code == "BlobNotFound":
			return store.NotFound
		case refused.Code == "" && refused.Status == http.StatusNotFound && method == http.MethodHead:
			return store.NotFound
		case refused.Status == http.StatusUnauthorized, refused.Status == http.StatusForbidden:
			return store.CredentialsRefused
		}
		return store.Away
	}
}

type azureRequest struct {
	method, doing, name string
	query               url.Values
	header              http.Header
	body                []byte
}

func (a *azure) do(ctx context.Context, request azureRequest) (*http.Response, error) {
	place := below(a.place, request.query)
	if request.name != "" {
		place = below(a.place, request.query, request.name)
	}
	return a.send(ctx, call{
		doing: request.doing, method: request.method, url: place, header: request.header, body: request.body, sign: a.sign,
	}, azureClass(request.method))
}

// PutIfAbsent implements store.Store.
func (a *azure) PutIfAbsent(ctx context.Context, name string, content io.Reader) error {
	return putIfAbsent(ctx, a, name, content)
}

func (a *azure) put(ctx context.Context, name string, content []byte) error {
	header := absent()
	header.Set("X-Ms-Blob-Type", "BlockBlob")
	answer, err := a.do(ctx, azureRequest{
		method: http.MethodPut, doing: "write " + name, name: name, header: header, body: content,
	})
	if err != nil {
		return err
	}
	discard(answer)
	return nil
}

// azureUpload is an object in blocks. Blocks of all writers of a name lie together until one of them makes a list of
// its own the object, so their names are random.
type azureUpload struct {
	*azure
	name, series string
	blocks       []string
}

func (a *azure) begin(_ context.Context, name string) (upload, error) {
	return &azureUpload{azure: a, name: name, series: rand.Text()}, nil
}

func (u *azureUpload) add(ctx context.Context, content []byte) error {
	id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%05d", u.series, len(u.blocks)+1))
	answer, err := u.do(ctx, azureRequest{
		method: http.MethodPut, doing: fmt.Sprintf("write part %d of %s", len(u.blocks)+1, u.name), name: u.name,
		query: url.Values{"comp": {"block"}, "blockid": {id}}, body: content,
	})
	if err != nil {
		return err
	}
	discard(answer)
	u.blocks = append(u.blocks, id)
	return nil
}

func (u *azureUpload) finish(ctx context.Context) error {
	content, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"BlockList"`
		Blocks  []string `xml:"Uncommitted"`
	}{Blocks: u.blocks})
	if err != nil {
		return &store.Error{Class: store.Away, Doing: "write " + u.name, Err: err}
	}
	answer, err := u.do(ctx, azureRequest{
		method: http.MethodPut, doing: "write " + u.name, name: u.name, query: url.Values{"comp": {"blocklist"}},
		header: absent(), body: content,
	})
	if err != nil {
		return err
	}
	discard(answer)
	return nil
}

// abandon leaves the blocks to Azure, which drops them after a week.
func (u *azureUpload) abandon(context.Context) {}

// Get implements store.Store.
func (a *azure) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	answer, err := a.do(ctx, azureRequest{method: http.MethodGet, doing: "read " + name, name: name})
	if err != nil {
		return nil, err
	}
	return answer.Body, nil
}

// Head implements store.Store.
func (a *azure) Head(ctx context.Context, name string) (store.Object, error) {
	answer, err := a.do(ctx, azureRequest{method: http.MethodHead, doing: "look at " + name, name: name})
	if err != nil {
		return store.Object{}, err
	}
	discard(answer)
	return headOf(name, answer)
}

// List implements store.Store.
func (a *azure) List(ctx context.Context, prefix, token string) (store.Page, error) {
	doing := "list " + prefix
	query := url.Values{
		"restype": {"container"}, "comp": {"list"}, "prefix": {prefix}, "maxresults": {strconv.Itoa(a.page)},
	}
	if token != "" {
		query.Set("marker", token)
	}
	answer, err := a.do(ctx, azureRequest{ //nolint:bodyclose // decode does.
		method: http.MethodGet, doing: doing, query: query,
	})
	if err != nil {
		return store.Page{}, err
	}
	var listed struct {
		XMLName xml.Name `xml:"EnumerationResults"`
		Blobs   *struct {
			Blob []struct {
				Name string `xml:"Name"`
				At   string `xml:"Properties>Last-Modified"`
				Size int64  `xml:"Properties>Content-Length"`
			} `xml:"Blob"`
		} `xml:"Blobs"`
		Next string `xml:"NextMarker"`
	}
	err = decodeXML(answer, &listed)
	if err == nil && listed.Blobs == nil {
		err = errors.New("the listing has no blobs, not even none")
	}
	if err != nil {
		return store.Page{}, &store.Error{Class: store.Away, Doing: doing, Err: err}
	}
	page := store.Page{Next: listed.Next}
	for _, found := range listed.Blobs.Blob {
		at, err := http.ParseTime(found.At)
		if err != nil {
			return store.Page{}, &store.Error{Class: store.Away, Doing: doing, Err: err}
		}
		page.Objects = append(page.Objects, store.Object{Name: found.Name, Size: found.Size, At: at.UTC()})
	}
	return page, nil
}

// Delete implements store.Store.
func (a *azure) Delete(ctx context.Context, name string) error {
	answer, err := a.do(ctx, azureRequest{method: http.MethodDelete, doing: "delete " + name, name: name})
	if store.Is(err, store.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	discard(answer)
	return nil
}
