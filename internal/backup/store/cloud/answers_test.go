package cloud_test

import (
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/backup/store/cloud"
	"meridian.dev/meridian/internal/wire"
)

// answer is what a server says to every request of a method.
type answer struct {
	status int
	header string // Name: value.
	body   string
}

func (a answer) write(to http.ResponseWriter) {
	if name, value, found := strings.Cut(a.header, ": "); found {
		to.Header().Set(name, value)
	}
	to.WriteHeader(a.status)
	_, _ = io.WriteString(to, a.body)
}

// kinds open a driver against a server.
var kinds = map[string]func(t *testing.T, url, tokens string) cloud.Location{
	"s3": func(t *testing.T, url, _ string) cloud.Location {
		files := map[string]string{cloud.AccessKeyIDFile: "id", cloud.SecretAccessKeyFile: "s3cret"}
		return at(wire.Repository{S3: &wire.S3Bucket{Bucket: "b", Endpoint: url}}, folderOf(t, files))
	},
	"gcs": func(t *testing.T, url, tokens string) cloud.Location {
		files := map[string]string{cloud.ServiceAccountFile: serviceAccount(t, tokens)}
		return at(wire.Repository{GCS: &wire.GCSBucket{Bucket: "b", Endpoint: url}}, folderOf(t, files))
	},
	"azure": func(t *testing.T, url, _ string) cloud.Location {
		files := map[string]string{cloud.SignatureFile: "?sv=1&sig=s3cret"}
		repository := wire.Repository{Azure: &wire.AzureBucket{Account: "a", Container: "b", Endpoint: url}}
		return at(repository, folderOf(t, files))
	},
}

func at(repository wire.Repository, credentials string) cloud.Location {
	return cloud.Location{Repository: repository, Credentials: credentials}
}

func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	writeCredentials(t, folder, files)
	return folder
}

func open(t *testing.T, kind, url string) store.Store {
	t.Helper()
	opened, err := cloud.Open(kinds[kind](t, url, tokenServer(t)))
	must(t, err)
	return opened
}

const (
	uploadBegun = "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>"
	xmlError    = `<?xml version="1.0"?><Error><Code>%s</Code><Message>%s</Message></Error>`
	gcsError    = `{"error": {"code": 1, "message": "%[2]s", "errors": [{"reason": "%[1]s"}]}}`
)

// What the documents of the three say, and what proxies and broken servers say in their place.
func TestAnswersHaveTheirClass(t *testing.T) {
	for name, c := range map[string]struct {
		kind, call string
		answer     answer
		class      store.Class
		says       string
	}{
		"s3: it exists": {"s3", "put",
			answer{412, "", fmt.Sprintf(xmlError, "PreconditionFailed", "x")}, store.Exists, ""},
		"s3: somebody else writes it now": {"s3", "put",
			answer{409, "", fmt.Sprintf(xmlError, "ConditionalRequestConflict", "x")}, store.Away, "Conflict"},
		"s3: it knows no condition": {"s3", "put",
			answer{501, "", fmt.Sprintf(xmlError, "NotImplemented", "A header you provided")}, store.ConditionIgnored, ""},
		"s3: another region": {"s3", "put", answer{400, "",
			`<Error><Code>AuthorizationHeaderMalformed</Code><Message>no</Message><Region>eu-west-1</Region></Error>`},
			store.Away, "eu-west-1"},
		"s3: it is elsewhere": {"s3", "get",
			answer{301, "Location: https://elsewhere.test/x", ""}, store.Away, "elsewhere.test"},
		"s3: clocks that are apart": {"s3", "list",
			answer{403, "", fmt.Sprintf(xmlError, "RequestTimeTooSkewed", "x")}, store.CredentialsRefused, "Skewed"},
		"s3: a lock": {"s3", "delete", answer{403, "",
			fmt.Sprintf(xmlError, "AccessDenied", "Access Denied because object protected by object lock.")}, store.Locked, ""},
		"s3: a lock of MinIO": {"s3", "delete", answer{400, "", fmt.Sprintf(xmlError, "InvalidRequest",
			"Object is WORM protected and cannot be overwritten")}, store.Locked, ""},
		"s3: no right to delete in a bucket called block-worm": {"s3", "delete", answer{403, "", fmt.Sprintf(xmlError,
			"AccessDenied", "User: retention is not authorized to perform: s3:DeleteObject on block-worm/x")},
			store.CredentialsRefused, ""},
		"s3: no right to delete": {"s3", "delete",
			answer{403, "", fmt.Sprintf(xmlError, "AccessDenied", "Access Denied.")}, store.CredentialsRefused, ""},
		"s3: a bucket that is gone": {"s3", "get",
			answer{404, "", fmt.Sprintf(xmlError, "NoSuchBucket", "x")}, store.Away, "NoSuchBucket"},
		"s3: a listing that is none": {"s3", "list",
			answer{200, "", "<html><body>Welcome</body></html>"}, store.Away, ""},
		"s3: a listing without an end": {"s3", "list",
			answer{200, "", "<ListBucketResult><Name>b</Name></ListBucketResult>"}, store.Away, "no end"},
		"s3: a listing that breaks off": {"s3", "list",
			answer{200, "", "<ListBucketResult><IsTruncated>false</IsTruncated>"}, store.Away, ""},
		"s3: a listing that is not found": {"s3", "list", answer{404, "", "no such page"}, store.Away, "404"},
		"s3: an answer that breaks off": {"s3", "get",
			answer{200, "Content-Length: 10", "12345"}, store.Away, ""},
		"s3: a server that is overloaded": {"s3", "put", answer{503, "", ""}, store.Away, "503"},
		"gcs: it exists": {"gcs", "put",
			answer{412, "", fmt.Sprintf(gcsError, "conditionNotMet", "x")}, store.Exists, ""},
		"gcs: no right": {"gcs", "put",
			answer{403, "", fmt.Sprintf(gcsError, "forbidden", "x")}, store.CredentialsRefused, ""},
		"gcs: a token that is refused": {"gcs", "list", answer{401, "", ""}, store.CredentialsRefused, "401"},
		"gcs: a lock": {"gcs", "delete",
			answer{403, "", fmt.Sprintf(gcsError, "retentionPolicyNotMet", "x")}, store.Locked, ""},
		"gcs: a hold": {"gcs", "delete",
			answer{403, "", fmt.Sprintf(gcsError, "objectUnderActiveHold", "x")}, store.Locked, ""},
		"gcs: a bucket that is gone": {"gcs", "list",
			answer{404, "", fmt.Sprintf(gcsError, "notFound", "x")}, store.Away, ""},
		"gcs: a delete of a bucket's": {"gcs", "delete",
			answer{404, "", fmt.Sprintf(gcsError, "notFound", "x")}, store.Away, ""},
		"gcs: a listing that is none": {"gcs", "list", answer{200, "", "{}"}, store.Away, "no listing"},
		"azure: it exists": {"azure", "put",
			answer{409, "", fmt.Sprintf(xmlError, "BlobAlreadyExists", "x")}, store.Exists, ""},
		"azure: the condition is not met": {"azure", "put", answer{412, "", ""}, store.Exists, ""},
		"azure: a container that goes": {"azure", "put",
			answer{409, "", fmt.Sprintf(xmlError, "ContainerBeingDeleted", "x")}, store.Away, ""},
		"azure: a signature that ended": {"azure", "put",
			answer{403, "", fmt.Sprintf(xmlError, "AuthenticationFailed", "x")}, store.CredentialsRefused, ""},
		"azure: a policy": {"azure", "delete",
			answer{409, "", fmt.Sprintf(xmlError, "BlobImmutableDueToPolicy", "x")}, store.Locked, ""},
		"azure: a container that is gone": {"azure", "get",
			answer{404, "", fmt.Sprintf(xmlError, "ContainerNotFound", "x")}, store.Away, ""},
		"azure: a listing that is none": {"azure", "list",
			answer{200, "", "<EnumerationResults></EnumerationResults>"}, store.Away, "not even none"},
		"azure: a listing that breaks off": {"azure", "list",
			answer{200, "", "<EnumerationResults><Blobs>"}, store.Away, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
				// Whether it is absent or locked is asked too.
				if c.call != "delete" || request.Method != http.MethodGet && request.Method != http.MethodHead {
					requests.Add(1)
				}
				c.answer.write(writer)
			}))
			defer server.Close()
			err := try(t.Context(), open(t, c.kind, server.URL), c.call)
			if !store.Is(err, c.class) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("it ended with %v", err)
			}
			if strings.Contains(fmt.Sprint(err), "s3cret") {
				t.Errorf("it told the secret: %v", err)
			}
			// A request that is done again may find what the first one did.
			if requests.Load() != 1 {
				t.Errorf("%d requests", requests.Load())
			}
		})
	}
}

// Who refuses to delete in words of its own tells of a lock in the headers of the object, if there is one.
func TestALockIsSeenAtTheObject(t *testing.T) {
	for name, c := range map[string]struct {
		header string
		class  store.Class
	}{
		"until tomorrow":  {"Retain-Until-Date: " + time.Now().Add(24*time.Hour).UTC().Format(time.RFC3339), store.Locked},
		"until yesterday": {"Retain-Until-Date: 2020-01-01T00:00:00.000Z", store.CredentialsRefused},
		"a hold":          {"Legal-Hold: ON", store.Locked},
		"no hold":         {"Legal-Hold: OFF", store.CredentialsRefused},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
				if request.Method == http.MethodHead {
					answer{200, "X-Amz-Object-Lock-" + c.header, ""}.write(writer)
					return
				}
				answer{403, "", fmt.Sprintf(xmlError, "AccessDenied", "Access Denied.")}.write(writer)
			}))
			defer server.Close()
			if err := open(t, "s3", server.URL).Delete(t.Context(), "x"); !store.Is(err, c.class) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

func try(ctx context.Context, under store.Store, call string) error {
	switch call {
	case "put":
		return under.PutIfAbsent(ctx, "x", strings.NewReader("1"))
	case "list":
		_, err := under.List(ctx, "x", "")
		return err
	case "delete":
		return under.Delete(ctx, "x")
	}
	reader, err := under.Get(ctx, "x")
	if err == nil {
		_, err = io.ReadAll(reader)
		err = errors.Join(err, reader.Close())
	}
	return err
}

// A connection that breaks is away, and its error has no address with a signature in it.
func TestABrokenConnection(t *testing.T) {
	for kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				panic(http.ErrAbortHandler)
			}))
			defer server.Close()
			under := open(t, kind, server.URL)
			for _, call := range []string{"put", "list", "get", "delete"} {
				err := try(t.Context(), under, call)
				if !store.Is(err, store.Away) || strings.Contains(fmt.Sprint(err), "s3cret") {
					t.Errorf("%s ended with %v", call, err)
				}
			}
		})
	}
}

// A server that overwrites is refused at the first contact, and so is one that does so only in parts.
func TestAServerThatIgnoresTheCondition(t *testing.T) {
	for name, honours := range map[string]bool{"always": false, "in parts": true} {
		t.Run(name, func(t *testing.T) {
			objects := map[string][]byte{}
			server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
				path, query := request.URL.Path, request.URL.Query()
				content, _ := io.ReadAll(request.Body)
				switch {
				case query.Has("uploads"):
					_, _ = io.WriteString(answer, uploadBegun)
				case query.Has("partNumber"):
					objects["part"] = content
				case query.Has("uploadId"):
					objects[path] = objects["part"]
					_, _ = io.WriteString(answer, "<CompleteMultipartUploadResult/>")
				case request.Method == http.MethodPut:
					if honours && objects[path] != nil {
						answer.WriteHeader(http.StatusPreconditionFailed)
						return
					}
					objects[path] = content
				case request.Method == http.MethodDelete:
					delete(objects, path)
					answer.WriteHeader(http.StatusNoContent)
				default:
					_, _ = answer.Write(objects[path])
				}
			}))
			defer server.Close()
			err := store.Contact(t.Context(), open(t, "s3", server.URL), "contact/1")
			if !store.Is(err, store.ConditionIgnored) {
				t.Errorf("the contact ended with %v", err)
			}
		})
	}
}

// A completion may answer 200 and fail in its body.
func TestACompletionThatFailsLate(t *testing.T) {
	for code, class := range map[string]store.Class{"PreconditionFailed": store.Exists, "InternalError": store.Away} {
		server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
			_, _ = io.Copy(io.Discard, request.Body)
			switch query := request.URL.Query(); {
			case query.Has("uploads"):
				_, _ = io.WriteString(answer, uploadBegun)
			case request.Method == http.MethodPost:
				_, _ = fmt.Fprintf(answer, xmlError, code, "late")
			}
		}))
		content := strings.NewReader(strings.Repeat("x", store.PartSize+1))
		if err := open(t, "s3", server.URL).PutIfAbsent(t.Context(), "x", content); !store.Is(err, class) {
			t.Errorf("%s ended with %v", code, err)
		}
		server.Close()
	}
}

// The token server refuses an account, and what it is asked with is signed by the account's key.
func TestTokensAreSignedAndRefused(t *testing.T) {
	status := http.StatusOK
	var key *rsa.PublicKey
	tokens := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		parts := strings.Split(request.PostFormValue("assertion"), ".")
		signature, err := base64.RawURLEncoding.DecodeString(parts[len(parts)-1])
		must(t, err)
		sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
		must(t, verify(key, sum, signature))
		answer.WriteHeader(status)
		_, _ = io.WriteString(answer, `{"access_token": "good", "expires_in": 3600}`)
	}))
	defer tokens.Close()
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		asked = request.Header.Get("Authorization")
	}))
	defer server.Close()
	location := kinds["gcs"](t, server.URL, tokens.URL)
	key = publicKey(t, location.Credentials)
	under, err := cloud.Open(location)
	must(t, err)
	must(t, try(t.Context(), under, "put"))
	if asked != "Bearer good" {
		t.Errorf("it came with %q", asked)
	}
	status = http.StatusBadRequest
	under, err = cloud.Open(location)
	must(t, err)
	if err := try(t.Context(), under, "put"); !store.Is(err, store.CredentialsRefused) {
		t.Errorf("a refused account ended with %v", err)
	}
}

func TestLocationsThatAreNone(t *testing.T) {
	for name, location := range map[string]cloud.Location{
		"nothing":        {},
		"two":            {Repository: wire.Repository{Claim: &wire.ClaimFolder{}, S3: &wire.S3Bucket{Bucket: "b"}}},
		"no bucket":      {Repository: wire.Repository{S3: &wire.S3Bucket{}}},
		"no container":   {Repository: wire.Repository{Azure: &wire.AzureBucket{Account: "a"}}},
		"no host":        {Repository: wire.Repository{S3: &wire.S3Bucket{Bucket: "b", Endpoint: "https://"}}},
		"another scheme": {Repository: wire.Repository{GCS: &wire.GCSBucket{Bucket: "b", Endpoint: "ftp://x"}}},
	} {
		if _, err := cloud.Open(location); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
